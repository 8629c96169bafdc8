package store

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorumcron/quorumcron/scheduler"
)

// Settle commits a Lose, a Fold or a Sweep. They are ends: no rules revision is compared and no lease is
// needed, so that an owner settles what it has even while the rules move. After ErrUnknown the owner
// reads the state again (ReadState) and plans again: a copy that commits later does so on the
// revision it was planned on, or not at all. Rules 5 and 7.
func (s *Store) Settle(ctx context.Context, c Claim) (Outcome, error) {
	if c.Decision.Kind == scheduler.KindSweep {
		return s.Sweep(ctx, c)
	}
	w, err := s.writeState(c)
	if err != nil {
		return Outcome{}, err
	}
	switch c.Decision.Kind {
	case scheduler.KindLose:
		err = s.lose(c, w)
	case scheduler.KindFold:
		// An entry that a fold takes out had its record in a slot that stays promised until this
		// write: comparing the state is enough.
	default:
		err = fmt.Errorf("%w: %s is no end", scheduler.ErrInvalid, c.Decision.Kind)
	}
	if err != nil {
		return Outcome{}, err
	}
	return s.outcome(c, w, s.packer.do(ctx, w.op))
}

// lose adds what calls an attempt lost.
func (s *Store) lose(c Claim, w *write) error {
	d := c.Decision
	if d.Record == nil || d.SlotBelow <= 0 || d.Record.Firing != d.Firing {
		return fmt.Errorf("%w: lose of %s: needs its record and the token of its entry", scheduler.ErrInvalid, d.Firing)
	}
	record, err := s.recordOf(*d.Record)
	if err != nil {
		return err
	}
	lock, slot := s.keys.lock(d.Firing, 0), s.keys.run(c.UID, d.Slot)
	if !cutLoseLock {
		// No lock: the attempt is not alive, as far as etcd knows. That it is surely dead is the
		// planner's part: the hold has passed.
		w.op.cmps = append(w.op.cmps, absent(lock))
	}
	if !cutLoseSlot {
		// No record of this attempt: a verdict that was written is never overwritten.
		w.op.cmps = append(w.op.cmps, olderThan(slot, d.SlotBelow))
	}
	w.op.then = append(w.op.then, clientv3.OpPut(slot, record))
	if member := d.Record.Last().Member; member != "" {
		// What asked the lost member to end the attempt: that member may never come back to remove it, and
		// another attempt is not concerned.
		w.op.then = append(w.op.then, clientv3.OpDelete(s.keys.cancel(member, d.Firing)))
	}
	s.watchFacts(w, scheduler.Blame{Firing: d.Firing, Slot: d.Slot, Token: d.SlotBelow})
	return nil
}

// Sweep removes a settled tombstone with its state, runs and what else lies below its name, in one
// transaction. It has the guards of a claim on state and definition, and goes alone: a range delete
// must not share a transaction with other people's keys. Rule 9.
func (s *Store) Sweep(ctx context.Context, c Claim) (Outcome, error) {
	name := c.Decision.Job
	if c.StateRevision <= 0 || c.JobRevision <= 0 || c.UID == "" || c.Decision.Kind != scheduler.KindSweep {
		return Outcome{}, fmt.Errorf("%w: sweep of %s: planned on state %d and definition %d", scheduler.ErrInvalid, name, c.StateRevision, c.JobRevision)
	}
	job, state := s.keys.job(c.Shard, name), s.keys.state(c.Shard, name)
	var cmps []clientv3.Cmp
	if !cutSweepCompare {
		// The name was not applied again, and nothing is in flight.
		cmps = append(cmps, unchanged(job, c.JobRevision), unchanged(state, c.StateRevision))
	}
	resp, err := s.commit(ctx, cmps,
		[]clientv3.Op{
			clientv3.OpDelete(job), clientv3.OpDelete(state), clientv3.OpPut(s.keys.mark(c.Shard), ""),
			clientv3.OpDelete(s.keys.runs(c.UID), clientv3.WithPrefix()),
			clientv3.OpDelete(s.keys.triggers(c.Shard, name), clientv3.WithPrefix()),
		},
		[]clientv3.Op{clientv3.OpGet(state), clientv3.OpGet(job, clientv3.WithKeysOnly())})
	if err != nil {
		return Outcome{}, fmt.Errorf("sweep %s: %w", name, err)
	}
	out := Outcome{Committed: resp.Succeeded, Revision: resp.Header.GetRevision()}
	if resp.Succeeded {
		s.kept.forget(state)
		return out, nil
	}
	out.JobRevision = revisionOf(found(resp.Responses, 1))
	if kv := found(resp.Responses, 0); kv != nil {
		out.StateRevision = kv.ModRevision
		out.State, out.Unreadable = s.stateOf(kv)
	}
	return out, nil
}
