package store

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorumcron/quorumcron/proto/quorumcron/stored/v1"
	"github.com/quorumcron/quorumcron/scheduler"
)

// Claim is a planned write of a job's state with what it was planned on. Begin, Skip and Miss go to
// Store.Claim; Lose, Fold and Sweep to Store.Settle.
type Claim struct {
	// Decision says what to write. In the Next of a Begin, the new entry has its member, nonce and
	// hold filled in, and Token 0.
	Decision scheduler.Decision
	Shard    scheduler.Shard
	UID      string
	// JobRevision and StateRevision are the mod revisions of the definition and of the state that
	// were planned on. Neither is 0.
	JobRevision, StateRevision int64
	// RulesRevision is the revision of the rules that were planned under. Claims need it; ends, and
	// resolving a claim, do not.
	RulesRevision int64
	// Lease is the lock lease of a Begin.
	Lease int64
	// Nonce tells this Begin from every other one, of this process or another.
	Nonce string
	// Refused, if set, is called whenever etcd answers a try with an error of its own making, such as
	// "no space": nothing is decided by it, but etcd is there, and says why it does not go on.
	Refused func(error)
}

// refused reports the error of a try if etcd has answered it.
func (c Claim) refused(err error) {
	var known rpctypes.EtcdError
	if c.Refused == nil || !errors.As(err, &known) {
		return
	}
	if is(known, rpctypes.ErrNoSpace) || classify(err) == endRefused {
		c.Refused(known)
	}
}

// Outcome is the definite outcome of a write of a state.
type Outcome struct {
	// Committed says that it was written: now, or by an earlier copy that Resolve found.
	Committed bool
	// Revision is the mod revision of what was written; for a Begin it is the token. When nothing was
	// written it is etcd's revision at the refusal.
	Revision int64
	// State is the newest value of the state, tokens filled in, and StateRevision its mod revision:
	// what was written, or what refused it. StateRevision is 0 if it was not read (RulesMoved,
	// LeaseGone), or there is no state any more.
	State         scheduler.State
	StateRevision int64
	// JobRevision is the mod revision of the definition that was read with a refusal; 0 if it is gone.
	JobRevision int64
	// Facts are what a refusal read of the locks and records that the write compared.
	Facts []EntryFact
	// LeaseGone: nothing was written because the lock lease is gone.
	LeaseGone bool
	// RulesMoved: nothing was written because the rules are no longer at RulesRevision, but at Rules.
	RulesMoved bool
	Rules      int64
	// Unreadable is set when there is a newer state that cannot be read.
	Unreadable error
}

// EntryFact is what was read of an attempt's lock and slot in one transaction.
type EntryFact struct {
	Firing  scheduler.Firing
	Attempt int
	Token   int64
	// Lock is the create revision of the attempt's lock, 0 if it is gone.
	Lock int64
	// Record is the record that holds the attempt's end, nil if there is none.
	Record *scheduler.Run
	// Revision is etcd's revision of the reading.
	Revision int64
	// Unreadable is set when the slot holds the proof that the attempt ended, but not how: Record is
	// then one that says FAILED(error), so that the job does not hang on a damaged record.
	Unreadable error
}

// blamed bounds the comparisons of one skip: what it is blamed on must be true of each, and more
// than this would not fit into a transaction beside others.
const blamed = 16

// Claim commits a Begin, Skip or Miss. An error that wraps ErrUnknown must be resolved (Resolve) if
// it was a Begin; with any other error nothing was written. Rules 1, 8 and 10.
func (s *Store) Claim(ctx context.Context, c Claim) (Outcome, error) {
	if c.RulesRevision <= 0 {
		return Outcome{}, fmt.Errorf("%w: claim of %s without a rules revision", scheduler.ErrInvalid, c.Decision.Job)
	}
	w, err := s.writeState(c)
	if err != nil {
		return Outcome{}, err
	}
	w.op.rules = c.RulesRevision
	switch c.Decision.Kind {
	case scheduler.KindBegin:
		err = s.begin(c, w)
	case scheduler.KindSkip, scheduler.KindMiss:
		err = s.skip(c, w)
	default:
		err = fmt.Errorf("%w: %s is no claim", scheduler.ErrInvalid, c.Decision.Kind)
	}
	if err != nil {
		return Outcome{}, err
	}
	out, err := s.outcome(c, w, s.packer.do(ctx, w.op))
	c.refused(err)
	return out, err
}

// write is a planned write of a state on its way: the operation and what the state will be.
type write struct {
	op       *op
	stateKey string
	value    *storedv1.State
	carried  bool              // it carries fields of a newer member
	facts    []scheduler.Blame // whose locks and slots a refusal reads, after state and job
}

// writeState starts the operation that every write of a state has in common.
func (s *Store) writeState(c Claim) (*write, error) {
	d := c.Decision
	if c.StateRevision <= 0 || c.JobRevision <= 0 || c.UID == "" || d.Next.UID != c.UID {
		return nil, fmt.Errorf("%w: %s of %s: planned on state %d and definition %d of uid %q, for uid %q",
			scheduler.ErrInvalid, d.Kind, d.Job, c.StateRevision, c.JobRevision, c.UID, d.Next.UID)
	}
	value, err := encodeState(d.Next)
	if err != nil {
		return nil, fmt.Errorf("%w: state of %s: %w", scheduler.ErrInvalid, d.Job, err)
	}
	if cutLockOnly && d.Kind == scheduler.KindBegin {
		value.Entries = nil
	}
	key := s.keys.state(c.Shard, d.Job)
	carried := s.kept.carry(key, c.StateRevision, value)
	bytes, err := marshal(value)
	if err != nil {
		return nil, fmt.Errorf("%w: state of %s: %w", scheduler.ErrInvalid, d.Job, err)
	}
	o := &op{
		uid: c.UID, writesState: true,
		then: []clientv3.Op{clientv3.OpPut(key, bytes)},
		els: []clientv3.Op{
			clientv3.OpGet(key),
			clientv3.OpGet(s.keys.job(c.Shard, d.Job), clientv3.WithKeysOnly()),
		},
	}
	if !cutStateCompare {
		// Guard of every planned write: the state is the one it was planned on. Without it two claims
		// of one instant both commit.
		o.cmps = append(o.cmps, unchanged(key, c.StateRevision))
	}
	return &write{stateKey: key, value: value, carried: carried, op: o}, nil
}

// begin adds what grants an attempt.
func (s *Store) begin(c Claim, w *write) error {
	d := c.Decision
	entry, ok := grantIn(d)
	if !ok || c.Lease == 0 || c.Nonce == "" || entry.Nonce != c.Nonce || entry.Token != 0 || entry.Hold <= 0 || entry.Member == "" {
		return fmt.Errorf("%w: begin of %s: needs a lease, a nonce, and an entry with member, nonce and hold", scheduler.ErrInvalid, d.Firing)
	}
	lock, err := marshal(&storedv1.Lock{
		Member: entry.Member, Nonce: c.Nonce, Attempt: int32(d.Attempt), Slot: int32(d.Slot),
		Namespace: d.Job.Namespace, Name: d.Job.Name,
	})
	if err != nil {
		return fmt.Errorf("%w: lock of %s: %w", scheduler.ErrInvalid, d.Firing, err)
	}
	key := s.keys.lock(d.Firing, 0)
	o := w.op
	o.lease = c.Lease
	if !cutJobCompare {
		// The definition is the one it was planned under: nothing is granted after an acknowledged
		// edit, pause or delete.
		o.cmps = append(o.cmps, unchanged(s.keys.job(c.Shard, d.Job), c.JobRevision))
	}
	// No attempt of this firing holds its lock.
	o.cmps = append(o.cmps, absent(key))
	lease := clientv3.LeaseID(c.Lease)
	if cutLockLease {
		lease = clientv3.NoLease
	}
	o.then = append(o.then, clientv3.OpPut(key, lock, clientv3.WithLease(lease)))
	return s.consume(c, o)
}

// grantIn is the entry that a Begin adds.
func grantIn(d scheduler.Decision) (scheduler.Entry, bool) {
	for _, e := range d.Next.Entries {
		if e.Firing == d.Firing && e.Attempt == d.Attempt {
			return e, true
		}
	}
	return scheduler.Entry{}, false
}

// consume takes the trigger of a decision: it is as it was seen, and goes in the same transaction. A
// trigger that is not compared starts a firing twice, one that is not deleted starts it again.
func (s *Store) consume(c Claim, o *op) error {
	d := c.Decision
	first := d.Kind == scheduler.KindBegin && d.Attempt == 1 && d.Firing.Manual()
	if d.Trigger == "" && !first {
		return nil
	}
	if d.TriggerRevision <= 0 || first && d.Trigger != d.Firing.Trigger {
		return fmt.Errorf("%w: %s of %s: consumes trigger %q at revision %d", scheduler.ErrInvalid, d.Kind, d.Firing, d.Trigger, d.TriggerRevision)
	}
	key := s.keys.trigger(c.Shard, d.Job, d.Trigger)
	if !cutTriggerCompare {
		o.cmps = append(o.cmps, unchanged(key, d.TriggerRevision))
	}
	if !cutTriggerDelete {
		o.then = append(o.then, clientv3.OpDelete(key))
	}
	return nil
}

// skip adds what decides instants or a trigger without granting.
func (s *Store) skip(c Claim, w *write) error {
	o := w.op
	if !cutSkipJobCompare {
		// The definition is the one it was planned under, as for a Begin.
		o.cmps = append(o.cmps, unchanged(s.keys.job(c.Shard, c.Decision.Job), c.JobRevision))
	}
	if err := s.consume(c, o); err != nil {
		return err
	}
	for _, b := range c.Decision.Blame {
		if b.Token == 0 && b.Lock == 0 {
			continue // A pending retry: it is in the state, which is compared.
		}
		if len(w.facts) == blamed {
			break
		}
		lock, slot := s.keys.lock(b.Firing, b.Part), s.keys.run(b.Firing.UID, b.Slot)
		switch {
		case b.Lock == 0:
			// It has no lock, and has not ended either: not yet surely dead.
			o.cmps = append(o.cmps, absent(lock))
			if !cutSkipSlot {
				o.cmps = append(o.cmps, olderThan(slot, b.Token))
			}
		case !cutSkipLock:
			// The attempt that is in the way is alive: a lock that vanished since excuses nothing.
			o.cmps = append(o.cmps, createdAt(lock, b.Lock))
		}
		s.watchFacts(w, b)
	}
	return nil
}

// watchFacts has a refusal read the lock and slot of b.
func (s *Store) watchFacts(w *write, b scheduler.Blame) {
	w.facts = append(w.facts, b)
	w.op.els = append(w.op.els,
		clientv3.OpGet(s.keys.lock(b.Firing, b.Part)),
		clientv3.OpGet(s.keys.run(b.Firing.UID, b.Slot)))
}

// outcome reads what etcd said to a planned write.
func (s *Store) outcome(c Claim, w *write, r opResult) (Outcome, error) {
	d := c.Decision
	switch {
	case r.err != nil:
		return Outcome{}, fmt.Errorf("%s %s: %w", d.Kind, d.Job, r.err)
	case r.leaseGone:
		return Outcome{LeaseGone: true}, nil
	case r.rulesMoved:
		return Outcome{RulesMoved: true, Rules: r.head, Revision: r.revision}, nil
	case r.applied:
		s.kept.wrote(w.stateKey, r.revision, w.value, w.carried)
		return Outcome{
			Committed: true, Revision: r.revision,
			State: scheduler.Fill(d.Next, r.revision), StateRevision: r.revision, JobRevision: c.JobRevision,
		}, nil
	}
	out := Outcome{Revision: r.revision, JobRevision: revisionOf(found(r.replies, 1))}
	if kv := found(r.replies, 0); kv != nil {
		out.StateRevision = kv.ModRevision
		out.State, out.Unreadable = s.stateOf(kv)
	}
	for i, b := range w.facts {
		for _, e := range out.State.Entries {
			if e.Firing == b.Firing {
				out.Facts = append(out.Facts, factOf(e, found(r.replies, 2+2*i), found(r.replies, 3+2*i), r.revision))
			}
		}
	}
	return out, nil
}
