package store

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorumcron/quorumcron/scheduler"
)

// Finish is the end of a granted attempt, with its record.
type Finish struct {
	Lock  scheduler.Lock
	Shard scheduler.Shard
	Job   scheduler.JobName
	// Run is the record: a line per attempt, the last one of which is this attempt's.
	Run  scheduler.Run
	Slot int
	// Canceled says that a cancel was delivered for the attempt: its key goes with the record.
	Canceled bool
}

// Finish writes the record of an attempt and frees its lock, in one transaction whose only guard is
// that the lock is this attempt's. Unknown outcomes are repeated as they are until ctx ends, and then
// the error wraps ErrUnknown. It returns false if the attempt no longer has its lock and its slot
// does not hold this verdict: the result is late (FinishLate). Rule 4.
func (s *Store) Finish(ctx context.Context, f Finish) (recorded bool, err error) {
	record, err := s.endRecord(f)
	if err != nil {
		return false, err
	}
	var pause backoff
	for {
		r := s.packer.do(ctx, s.finishing(f, record))
		switch {
		case r.err == nil && r.applied:
			return true, nil
		case r.err == nil:
			// Refused: the lock is not ours any more. Either a copy of this request had committed, or
			// somebody else ended the attempt.
			return f.heldBy(found(r.replies, 1)), nil
		case errors.Is(r.err, scheduler.ErrExhausted): // It will not fit however often it is sent.
			return false, fmt.Errorf("finish %s: %w", f.Lock.Firing, r.err)
		case errors.Is(r.err, errStopped): // An earlier copy may have been committed.
			return false, fmt.Errorf("finish %s: %w: %w", f.Lock.Firing, scheduler.ErrUnknown, r.err)
		}
		s.log.Debug("finish not answered yet", "firing", f.Lock.Firing.String(), "err", r.err)
		if waited := pause.wait(ctx); waited != nil {
			return false, fmt.Errorf("finish %s: %w: %w", f.Lock.Firing, scheduler.ErrUnknown, r.err)
		}
	}
}

func (s *Store) finishing(f Finish, record string) *op {
	lock, slot := s.keys.lock(f.Lock.Firing, f.Lock.Part), s.keys.run(f.Lock.Firing.UID, f.Slot)
	o := &op{
		uid:  f.Lock.Firing.UID,
		then: []clientv3.Op{clientv3.OpDelete(lock), clientv3.OpPut(slot, record)},
		els:  []clientv3.Op{clientv3.OpGet(lock), clientv3.OpGet(slot)},
	}
	if !cutFinishCompare {
		// Guard of every end: the lock is the one this attempt was granted. Without it a second verdict
		// is written for one firing.
		o.cmps = append(o.cmps, createdAt(lock, f.Lock.Token))
	}
	if f.Canceled {
		o.then = append(o.then, clientv3.OpDelete(s.keys.cancel(f.Run.Last().Member, f.Lock.Firing)))
	}
	return o
}

// endRecord is the value of the run, after a check that it is the record of this attempt.
func (s *Store) endRecord(f Finish) (string, error) {
	last := f.Run.Last()
	if f.Lock.Token <= 0 || f.Run.Firing != f.Lock.Firing || last.Token != f.Lock.Token || last.Verdict == "" {
		return "", fmt.Errorf("%w: finish of %s with token %d: the record is of %s, token %d, verdict %q",
			scheduler.ErrInvalid, f.Lock.Firing, f.Lock.Token, f.Run.Firing, last.Token, last.Verdict)
	}
	return s.recordOf(f.Run)
}

// entry is the entry that the attempt has in the state, as far as a reading of lock and slot needs it.
func (f Finish) entry() scheduler.Entry {
	return scheduler.Entry{Firing: f.Lock.Firing, Attempt: f.Run.Last().Number, Slot: f.Slot, Token: f.Lock.Token}
}

// heldBy says whether a slot holds this attempt's verdict, be it in the record of a later attempt.
func (f Finish) heldBy(slot *mvccpb.KeyValue) bool {
	if slot == nil {
		return false
	}
	r, err := readRun(f.Lock.Firing.UID, f.Slot, slot)
	if err != nil || r.Firing != f.Lock.Firing {
		return false
	}
	mine := f.Run.Last()
	for _, a := range r.Attempts {
		if a.Number == mine.Number && a.Token == mine.Token {
			return a.Verdict == mine.Verdict
		}
	}
	return false
}

// LateOutcome is what became of a late result.
type LateOutcome struct {
	// Recorded: the slot holds this verdict, written now or by an earlier copy.
	Recorded bool
	// Held: the attempt has its lock after all; Finish is the way.
	Held bool
	// Dropped says why the result is not in the history: the attempt was called LOST, or its own
	// earlier Finish was folded and its slot used again.
	Dropped string
	// State and StateRevision are the state that was written with it, if it was.
	State         scheduler.State
	StateRevision int64
}

// FinishLate writes the result of an attempt whose lock is gone, if its entry is still in flight and
// nothing was recorded for it: the verdict is counted in the same transaction. Otherwise the result
// is dropped, for a recorded verdict is never corrected. It repeats until etcd answers or ctx ends.
// Rule 6.
func (s *Store) FinishLate(ctx context.Context, f Finish) (LateOutcome, error) {
	record, err := s.endRecord(f)
	if err != nil {
		return LateOutcome{}, err
	}
	var pause backoff
	for {
		out, done, err := s.finishLateOnce(ctx, f, record)
		if done {
			return out, nil
		}
		if waited := pause.wait(ctx); waited != nil {
			return LateOutcome{}, fmt.Errorf("late finish of %s: %w: %w", f.Lock.Firing, scheduler.ErrUnknown, errors.Join(err, waited))
		}
	}
}

// finishLateOnce is done when it has an answer. Not done without an error means that the state has
// moved meanwhile.
func (s *Store) finishLateOnce(ctx context.Context, f Finish, record string) (out LateOutcome, done bool, err error) {
	firing := f.Lock.Firing
	stateKey, jobKey := s.keys.state(f.Shard, f.Job), s.keys.job(f.Shard, f.Job)
	lockKey, slotKey := s.keys.lock(firing, f.Lock.Part), s.keys.run(firing.UID, f.Slot)
	read, err := s.read(ctx, clientv3.OpGet(stateKey), clientv3.OpGet(lockKey), clientv3.OpGet(slotKey), clientv3.OpGet(jobKey))
	if err != nil {
		return LateOutcome{}, false, err
	}
	stateKV, lockKV, slotKV, jobKV := found(read.Responses, 0), found(read.Responses, 1), found(read.Responses, 2), found(read.Responses, 3)
	fact := factOf(f.entry(), lockKV, slotKV, read.Header.GetRevision())
	switch {
	case fact.Lock != 0:
		return LateOutcome{Held: true}, true, nil
	case f.heldBy(slotKV):
		return LateOutcome{Recorded: true}, true, nil
	case revisionOf(slotKV) >= f.Lock.Token && !cutLateOverLost:
		return LateOutcome{Dropped: "its slot holds another end: it was called LOST, or its own Finish was folded and the slot used again"}, true, nil
	case stateKV == nil || jobKV == nil:
		return LateOutcome{Dropped: "its job is gone"}, true, nil
	}
	state, err := s.stateOf(stateKV)
	if err != nil {
		return LateOutcome{Dropped: "the state of its job cannot be read: " + err.Error()}, true, nil
	}
	if i := entryOf(state, firing); !cutLateOverLost && (i < 0 || state.Entries[i].Token != f.Lock.Token) {
		return LateOutcome{Dropped: "it is not in flight any more: it was called LOST, or its own Finish was folded"}, true, nil
	}
	job, err := s.jobOf(jobKV)
	if err != nil {
		return LateOutcome{Dropped: "the definition of its job cannot be read: " + err.Error()}, true, nil
	}
	value, err := encodeState(scheduler.ApplyEnd(state, job, f.Run, firing))
	if err != nil {
		return LateOutcome{}, false, err
	}
	carried := s.kept.carry(stateKey, stateKV.ModRevision, value)
	bytes, err := marshal(value)
	if err != nil {
		return LateOutcome{}, false, err
	}
	cmps := []clientv3.Cmp{absent(lockKey)} // Nobody holds the lock.
	if !cutLateCompare {
		// The entry is in flight (state as read), nothing was recorded (slot as read).
		cmps = append(cmps, unchanged(stateKey, stateKV.ModRevision), unchanged(slotKey, revisionOf(slotKV)))
	}
	resp, err := s.commit(ctx, cmps, []clientv3.Op{clientv3.OpPut(stateKey, bytes), clientv3.OpPut(slotKey, record)}, nil)
	if err != nil || !resp.Succeeded {
		return LateOutcome{}, false, err
	}
	revision := resp.Header.GetRevision()
	s.kept.wrote(stateKey, revision, value, carried)
	out = LateOutcome{Recorded: true, StateRevision: revision}
	out.State, err = decodeState(value)
	return out, true, err
}

// entryOf is the place of the firing's entry in the state, or -1.
func entryOf(state scheduler.State, f scheduler.Firing) int {
	for i, e := range state.Entries {
		if e.Firing == f {
			return i
		}
	}
	return -1
}
