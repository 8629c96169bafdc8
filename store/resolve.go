package store

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorumcron/quorumcron/proto/quorumcron/stored/v1"
	"github.com/quorumcron/quorumcron/scheduler"
)

// Resolve finds out what became of a claim whose outcome was unknown, and makes it final. It repeats
// until etcd answers or ctx ends.
//
// A read that does not show the grant proves nothing: the request may be applied afterwards. So if
// the state still has the revision that was planned on, Resolve writes it again: a fence. After it no
// copy of the request can commit, and the claim was not granted. If the state has moved on, the lock
// decides: with the claim's nonce it was granted (Outcome.Committed, and Revision is the token), with
// anything else it was not, for ever. In both cases Outcome.State becomes the owner's copy, for it
// may show an entry that the owner does not know. Rule 2.
func (s *Store) Resolve(ctx context.Context, c Claim) (Outcome, error) {
	var pause backoff
	for {
		out, err := s.resolveOnce(ctx, c)
		switch {
		case err == nil:
			return out, nil
		case errors.Is(err, errStopped): // Nobody commits any more.
			return Outcome{}, fmt.Errorf("resolve %s of %s: %w: %w", c.Decision.Kind, c.Decision.Job, scheduler.ErrUnknown, err)
		}
		c.refused(err)
		s.log.Debug("claim not resolved yet", "job", c.Decision.Job.String(), "err", err)
		if waited := pause.wait(ctx); waited != nil {
			return Outcome{}, fmt.Errorf("resolve %s of %s: %w: %w", c.Decision.Kind, c.Decision.Job, scheduler.ErrUnknown, err)
		}
	}
}

func (s *Store) resolveOnce(ctx context.Context, c Claim) (Outcome, error) {
	state, lock := s.keys.state(c.Shard, c.Decision.Job), s.keys.lock(c.Decision.Firing, 0)
	gets := []clientv3.Op{clientv3.OpGet(state), clientv3.OpGet(lock)}
	resp, err := s.read(ctx, gets...)
	if err != nil {
		return Outcome{}, err
	}
	now := found(resp.Responses, 0)
	if revisionOf(now) != c.StateRevision || cutFence {
		return s.judge(c, now, found(resp.Responses, 1), resp.Header.GetRevision()), nil
	}
	bytes, value, carried, err := s.fenced(state, now)
	if err != nil {
		return Outcome{}, err
	}
	fence := &op{uid: c.UID, writesState: true, then: []clientv3.Op{clientv3.OpPut(state, bytes)}, els: gets}
	if !cutFenceGuard {
		// Guard of the fence: the state is still the one that was planned on. Then this write takes
		// the revision away from every copy of the claim.
		fence.cmps = append(fence.cmps, unchanged(state, c.StateRevision))
	}
	r := s.packer.do(ctx, fence)
	switch {
	case r.err != nil:
		return Outcome{}, r.err
	case !r.applied:
		return s.judge(c, found(r.replies, 0), found(r.replies, 1), r.revision), nil
	}
	out := Outcome{Revision: r.revision, StateRevision: r.revision}
	if value == nil {
		out.Unreadable = unreadable("state of %s", c.Decision.Job)
		return out, nil
	}
	s.kept.wrote(state, r.revision, value, carried)
	out.State, out.Unreadable = decodeState(value)
	return out, nil
}

// fenced is the value that a fence writes: the same state, its tokens filled in, for it gets another
// revision. An unreadable value is written as it is.
func (s *Store) fenced(key string, kv *mvccpb.KeyValue) (bytes string, value *storedv1.State, carried bool, err error) {
	state, err := s.stateOf(kv)
	if err != nil {
		return string(kv.Value), nil, false, nil
	}
	if value, err = encodeState(state); err != nil {
		return "", nil, false, fmt.Errorf("%w: %w", scheduler.ErrInvalid, err)
	}
	carried = s.kept.carry(key, kv.ModRevision, value)
	bytes, err = marshal(value)
	return bytes, value, carried, err
}

// judge tells from state and lock, read at one revision after the planned one was gone, whether the
// claim was granted.
func (s *Store) judge(c Claim, state, lock *mvccpb.KeyValue, revision int64) Outcome {
	out := Outcome{Revision: revision}
	if state != nil && !cutResolutionState {
		out.StateRevision = state.ModRevision
		out.State, out.Unreadable = s.stateOf(state)
	}
	if lock == nil || c.Decision.Kind != scheduler.KindBegin {
		return out
	}
	var held storedv1.Lock
	if err := unmarshal(lock.Value, &held); err == nil && (held.GetNonce() == c.Nonce || cutNonce) {
		out.Committed, out.Revision = true, lock.CreateRevision
	}
	return out
}
