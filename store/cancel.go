package store

import (
	"cmp"
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorumcron/quorumcron/proto/quorumcron/stored/v1"
	"github.com/quorumcron/quorumcron/scheduler"
)

// CancelReceipt says what a cancel did.
type CancelReceipt struct {
	// Member runs the attempt and was told to end it; its record will say CANCELED, or how it ended
	// before that.
	Member string
	// Dropped: a waiting trigger, or a retry that was owed or would have been, was taken out; the
	// firing has ended.
	Dropped bool
}

// Cancel ends a firing. A running attempt is cancelled by its member, which is told through its
// queue; a waiting trigger or an owed retry is taken out of the state, also a retry that the fold of an
// ended attempt is still to make. One that has ended is an ErrEnded. Rule 13.
func (s *Store) Cancel(ctx context.Context, name scheduler.JobName, f scheduler.Firing, caller string, now scheduler.Reading) (CancelReceipt, error) {
	for range mostTries {
		receipt, done, err := s.cancelOnce(ctx, name, f, caller, now)
		if err != nil {
			return CancelReceipt{}, fmt.Errorf("cancel %s of job %s: %w", f, name, err)
		}
		if done {
			return receipt, nil
		}
	}
	return CancelReceipt{}, fmt.Errorf("%w: job %s changed %d times while the cancel was being committed; try again", scheduler.ErrConflict, name, mostTries)
}

func (s *Store) cancelOnce(ctx context.Context, name scheduler.JobName, f scheduler.Firing, caller string, now scheduler.Reading) (CancelReceipt, bool, error) {
	p, err := s.present(ctx, name)
	switch {
	case err != nil:
		return CancelReceipt{}, false, err
	case p.stateErr != nil:
		return CancelReceipt{}, false, fmt.Errorf("%w: its state: %w", scheduler.ErrConflict, p.stateErr)
	case p.state == nil || p.state.UID != f.UID:
		return CancelReceipt{}, false, fmt.Errorf("%w: `run list --job %s` shows its firings", scheduler.ErrNotFound, argument(name))
	}
	if i := entryOf(*p.state, f); i >= 0 {
		return s.cancelRunning(ctx, name, p, p.state.Entries[i], caller, now)
	}
	shard := scheduler.ShardOf(name)
	var c change
	if state, owed := scheduler.CancelRetry(*p.state, f); owed {
		if err := c.putState(s, shard, p, name, state); err != nil {
			return CancelReceipt{}, false, err
		}
	}
	for _, t := range p.triggers {
		if t.ID != f.Trigger { // "" for an instant
			continue
		}
		if err := c.putState(s, shard, p, name, scheduler.CancelTrigger(*p.state, t)); err != nil {
			return CancelReceipt{}, false, err
		}
		key := s.keys.trigger(shard, name, t.ID)
		c.cmps = append(c.cmps, unchanged(key, t.Revision)) // Nobody has consumed it.
		c.then = append(c.then, clientv3.OpDelete(key))
	}
	if len(c.then) == 0 {
		run, err := s.runIn(ctx, name, p, f)
		if err != nil {
			return CancelReceipt{}, false, err
		}
		if last := run.Last(); last.Verdict != "" {
			return CancelReceipt{}, false, fmt.Errorf("%w: %s", scheduler.ErrEnded, last.Outcome())
		}
		return CancelReceipt{}, false, fmt.Errorf("%w: it waits for the catch-up policy; pause the job to drop its backlog", scheduler.ErrConflict)
	}
	resp, err := s.commit(ctx, c.cmps, c.then, nil)
	if err != nil || !resp.Succeeded {
		return CancelReceipt{}, false, err
	}
	return CancelReceipt{Dropped: true}, true, nil
}

// cancelRunning tells the member named in the lock. If the attempt has ended it sees to it that no other
// follows.
func (s *Store) cancelRunning(ctx context.Context, name scheduler.JobName, p present, e scheduler.Entry, caller string, now scheduler.Reading) (CancelReceipt, bool, error) {
	lockKey := s.keys.lock(e.Firing, 0)
	resp, err := s.read(ctx, clientv3.OpGet(lockKey), clientv3.OpGet(s.keys.run(e.Firing.UID, e.Slot)))
	if err != nil {
		return CancelReceipt{}, false, err
	}
	lock := found(resp.Responses, 0)
	fact := factOf(e, lock, found(resp.Responses, 1), resp.Header.GetRevision())
	switch {
	case fact.Record != nil:
		return s.cancelEnded(ctx, name, p, *fact.Record)
	case fact.Lock == 0:
		return CancelReceipt{}, false, fmt.Errorf("%w: its member %s has lost its lock; it ends, or is called LOST, within %s", scheduler.ErrConflict, e.Member, e.Hold+scheduler.LoseMargin)
	}
	var held storedv1.Lock
	if err := unmarshal(lock.Value, &held); err != nil {
		return CancelReceipt{}, false, fmt.Errorf("%w: its lock: %w", scheduler.ErrConflict, err)
	}
	value, err := marshal(&storedv1.Cancel{
		Namespace: name.Namespace, Name: name.Name, Token: fact.Lock, Caller: caller, Requested: encodeTime(now.Wall),
	})
	if err != nil {
		return CancelReceipt{}, false, fmt.Errorf("%w: %w", scheduler.ErrInvalid, err)
	}
	done, err := s.commit(ctx,
		// The attempt still has its lock, so that its Finish is still to come and removes this key.
		[]clientv3.Cmp{createdAt(lockKey, fact.Lock)},
		[]clientv3.Op{clientv3.OpPut(s.keys.cancel(held.GetMember(), e.Firing), value)}, nil)
	if err != nil || !done.Succeeded {
		return CancelReceipt{}, false, err
	}
	return CancelReceipt{Member: held.GetMember()}, true, nil
}

// cancelEnded folds an attempt that has ended without the retry that would follow it.
func (s *Store) cancelEnded(ctx context.Context, name scheduler.JobName, p present, run scheduler.Run) (CancelReceipt, bool, error) {
	if p.job == nil {
		return CancelReceipt{}, false, fmt.Errorf("%w: the definition, which says whether another attempt follows: %w", scheduler.ErrConflict, cmp.Or(p.jobErr, scheduler.ErrNotFound))
	}
	state, owed := scheduler.CancelEnded(*p.state, *p.job, run)
	if !owed {
		return CancelReceipt{}, false, fmt.Errorf("%w: %s", scheduler.ErrEnded, run.Last().Outcome())
	}
	// The state is the one that was read, which has the entry: it was not folded, and its slot holds
	// its record.
	var c change
	if err := c.putState(s, scheduler.ShardOf(name), p, name, state); err != nil {
		return CancelReceipt{}, false, err
	}
	resp, err := s.commit(ctx, c.cmps, c.then, nil)
	if err != nil || !resp.Succeeded {
		return CancelReceipt{}, false, err
	}
	return CancelReceipt{Dropped: true}, true, nil
}
