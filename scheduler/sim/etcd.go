package sim

import (
	"slices"

	"github.com/quorumcron/quorumcron/scheduler"
	"github.com/quorumcron/quorumcron/scheduler/cron"
)

// etcd is the one truth: keys with revisions, and leases. Each method that changes something is one
// transaction with the guards of the rules in docs/architecture.md; what it is asked to write comes from a member
// that may be behind. Values in it are never changed, only replaced, so that whoever read one keeps it.
type etcd struct {
	world   *world
	rev     int64
	down    bool // it has no leader: nothing is answered, no lease ends
	leases  []*lease
	members []memberKey // by create revision
	rules   rules
	cancels []cancelKey
	marks   [scheduler.ShardCount]int64 // newest change of a definition or trigger in the shard
	drawn   int                         // trigger ids given out
}

// record is what is stored of one uid.
type record struct {
	job      *job
	def      *scheduler.Job
	defRev   int64
	table    *cron.Timetable  // of def; nil under a tombstone
	state    *scheduler.State // as it was written: the newest grant has token 0
	filled   *scheduler.State // the same as its readers see it
	stateRev int64
	triggers []scheduler.Trigger
	ring     []slot
	locks    []*lock
	account  *account // the oracle's
}

type slot struct {
	run *scheduler.Run
	rev int64
}

type lock struct {
	rec     *record
	firing  scheduler.Firing
	attempt int
	slot    int
	created int64
	member  string
	nonce   string
	lease   *lease
	follow  []func() // to be told when it goes
}

// rules is what lies under rules/.
type rules struct {
	rev        int64
	version    int64
	assignment scheduler.Assignment
	calendars  map[scheduler.CalendarName]scheduler.Calendar // replaced, never changed
}

// cancelKey asks a member to end an attempt (rule 13).
type cancelKey struct {
	member string
	rec    *record
	firing scheduler.Firing
	token  int64
}

func newEtcd(w *world) *etcd { return &etcd{world: w, rev: 1, rules: rules{rev: 1}} }

// putState writes the state of a job: nothing planned on the old value can commit any more.
func (e *etcd) putState(r *record, s *scheduler.State) {
	filled := *s
	if slices.ContainsFunc(s.Entries, func(x scheduler.Entry) bool { return x.Token == 0 }) {
		filled.Entries = slices.Clone(s.Entries)
		for i := range filled.Entries {
			if filled.Entries[i].Token == 0 {
				filled.Entries[i].Token = e.rev
			}
		}
	}
	r.state, r.filled, r.stateRev = s, &filled, e.rev
}

func (r *record) lock(f scheduler.Firing) *lock {
	for _, l := range r.locks {
		if l.firing == f {
			return l
		}
	}
	return nil
}

// slotRev is when the slot was last written; 0 is never.
func (r *record) slotRev(i int) int64 {
	if i >= len(r.ring) {
		return 0
	}
	return r.ring[i].rev
}

func (r *record) run(i int) *scheduler.Run {
	if i >= len(r.ring) {
		return nil
	}
	return r.ring[i].run
}

// fact is what lock and slot of an entry show.
type fact struct {
	firing  scheduler.Firing
	attempt int
	token   int64
	lock    int64
	record  *scheduler.Run
}

func (r *record) fact(x scheduler.Entry) fact {
	f := fact{firing: x.Firing, attempt: x.Attempt, token: x.Token}
	if l := r.lock(x.Firing); l != nil && l.created == x.Token {
		f.lock = l.created
	}
	if r.slotRev(x.Slot) < x.Token {
		return f
	}
	if run := r.run(x.Slot); run.Firing == x.Firing && run.Last().Number == x.Attempt {
		f.record = run
	}
	return f
}

// settled is the state as every reader is shown it: without the attempts whose records are there.
func (r *record) settled() scheduler.State {
	s := *r.filled
	for _, x := range r.filled.Entries {
		if f := r.fact(x); f.record != nil {
			s = scheduler.ApplyEnd(s, *r.def, *f.record, x.Firing)
		}
	}
	return s
}

// claim is a planned write of a state on its way: of a claim (Begin, Skip, Miss) or of an end.
type claim struct {
	job      *job
	uid      string
	decision *scheduler.Decision
	defRev   int64
	stateRev int64
	rulesRev int64
	session  *session
	nonce    string
	by       *member
	byID     string            // what it called itself when it planned this
	now      scheduler.Reading // what its clocks read then
}

// outcome is the definite answer to a write of a state. Committed or refused, it brings what is there.
type outcome struct {
	committed  bool
	rulesMoved bool
	leaseGone  bool
	rev        int64 // token of a grant
	rules      int64
	state      *scheduler.State // nil if it was not read, or is gone
	stateRev   int64
	defRev     int64
	facts      []fact
}

// refused says why nothing was written, and what is there.
func (e *etcd) refused(c *claim, why string) outcome {
	e.world.count("refused write")
	e.world.tell(c.by.name, "%s refused: %s", e.world.trace.attempted(c.decision), why)
	o := outcome{rev: e.rev}
	r := c.job.rec
	if r == nil {
		return o
	}
	o.state, o.stateRev, o.defRev = r.filled, r.stateRev, r.defRev
	for _, b := range c.decision.Blame {
		for _, x := range r.filled.Entries {
			if b.Token != 0 && x.Firing == b.Firing {
				o.facts = append(o.facts, r.fact(x))
			}
		}
	}
	if c.decision.Kind == scheduler.KindLose {
		for _, x := range r.filled.Entries {
			if x.Firing == c.decision.Firing {
				o.facts = append(o.facts, r.fact(x))
			}
		}
	}
	return o
}

func (e *etcd) committed(c *claim) outcome {
	r := c.job.rec
	return outcome{committed: true, rev: e.rev, state: r.filled, stateRev: e.rev, defRev: r.defRev}
}

// moved says which of the revisions that a write was planned on has moved: "" is none.
func (e *etcd) moved(c *claim, compareDef bool) string {
	r, cut := c.job.rec, e.world.without
	switch {
	case r == nil:
		return "the job is gone"
	case r.stateRev != c.stateRev && (cut != CutStateCompare || r.def.UID != c.uid):
		return "the state has moved"
	case compareDef && r.defRev != c.defRev && cut != CutJobCompare:
		return "the definition has moved"
	}
	return ""
}

// claim commits a Begin, Skip or Miss if everything it was planned on still holds (rules 1, 8, 10).
func (e *etcd) claim(c *claim) outcome {
	d, r, cut := c.decision, c.job.rec, e.world.without
	if c.rulesRev != e.rules.rev && cut != CutRulesGuard {
		e.world.count("fenced claim")
		e.world.tell(c.by.name, "%s refused: the rules have moved", e.world.trace.attempted(d))
		return outcome{rulesMoved: true, rules: e.rules.rev, rev: e.rev}
	}
	if why := e.moved(c, true); why != "" {
		return e.refused(c, why)
	}
	i := slices.IndexFunc(r.triggers, func(t scheduler.Trigger) bool { return t.ID == d.Trigger && t.Revision == d.TriggerRevision })
	if d.Trigger != "" && i < 0 && cut != CutTriggerCompare {
		return e.refused(c, "the trigger is gone")
	}
	for _, b := range d.Blame {
		if !r.blamed(b) && cut != CutBlame {
			return e.refused(c, "what it blames has ended")
		}
	}
	if d.Kind == scheduler.KindBegin {
		if c.session.lease.dead && cut != CutLockLease {
			e.world.tell(c.by.name, "%s refused: the lock lease is gone", e.world.trace.attempted(d))
			return outcome{leaseGone: true, rev: e.rev}
		}
		if r.lock(d.Firing) != nil {
			return e.refused(c, "its lock is taken")
		}
	}
	e.rev++
	e.world.trace.add(line{at: e.world.now, verb: commits, who: c.by.name, decision: d, number: e.rev})
	e.world.count(string(d.Kind))
	if d.Reason == scheduler.ReasonExcluded {
		e.world.count("pass")
	}
	e.world.oracle.claimed(r, c)
	if i >= 0 && cut != CutTriggerDelete {
		r.triggers = slices.Delete(slices.Clone(r.triggers), i, i+1)
		e.changed(r)
	}
	if d.Kind == scheduler.KindBegin {
		l := &lock{rec: r, firing: d.Firing, attempt: d.Attempt, slot: d.Slot, created: e.rev, member: c.by.name, nonce: c.nonce, lease: c.session.lease}
		r.locks = append(r.locks, l)
		if cut != CutLockLease {
			l.lease.locks = append(l.lease.locks, l)
		}
	}
	e.putState(r, &d.Next)
	return e.committed(c)
}

// blamed says whether what a skip is blamed on is still so.
func (r *record) blamed(b scheduler.Blame) bool {
	switch l := r.lock(b.Firing); {
	case b.Token == 0: // an owed retry: it follows from the state
		return true
	case b.Lock != 0:
		return l != nil && l.created == b.Lock
	default:
		return l == nil && r.slotRev(b.Slot) < b.Token
	}
}

// resolve settles an unknown Begin, Skip or Miss (rule 2): it fences the state if nothing was written
// since, else it reads lock and state.
func (e *etcd) resolve(c *claim) outcome {
	r := c.job.rec
	if r == nil {
		return outcome{rev: e.rev}
	}
	if r.stateRev == c.stateRev {
		e.rev++
		e.world.tell(c.by.name, "fence %s: %s was not granted, and never will be", c.job.name.Name, e.world.trace.subject(c.decision))
		e.world.count("fence")
		next := r.filled
		if e.world.without == CutFill {
			next = r.state
		}
		e.world.oracle.wrote(r, next, "fence")
		e.putState(r, next)
		return outcome{rev: e.rev, state: r.filled, stateRev: e.rev, defRev: r.defRev}
	}
	o := outcome{rev: e.rev, state: r.filled, stateRev: r.stateRev, defRev: r.defRev}
	if c.decision.Kind != scheduler.KindBegin {
		return o
	}
	if l := r.lock(c.decision.Firing); l != nil && (l.nonce == c.nonce || e.world.without == CutNonce) {
		o.committed, o.rev = true, l.created
		e.world.tell(c.by.name, "finds that %s was granted: token %d", e.world.trace.subject(c.decision), l.created)
		e.world.count("found grant")
	}
	if e.world.without == CutResolvedState {
		o.state, o.stateRev = nil, 0
	}
	return o
}

// settle commits a Lose, Fold or Sweep (rules 5, 7, 9).
func (e *etcd) settle(c *claim) outcome {
	d, r := c.decision, c.job.rec
	if why := e.moved(c, d.Kind == scheduler.KindSweep); why != "" {
		return e.refused(c, why)
	}
	if d.Kind == scheduler.KindLose {
		switch {
		case r.lock(d.Firing) != nil:
			return e.refused(c, "its lock is there")
		case r.slotRev(d.Slot) >= d.SlotBelow:
			return e.refused(c, "its record is there")
		}
	}
	e.rev++
	e.world.trace.add(line{at: e.world.now, verb: commits, who: c.by.name, decision: d, number: e.rev})
	e.world.count(string(d.Kind))
	if d.Kind == scheduler.KindSweep {
		e.world.oracle.swept(r)
		c.job.rec = nil
		e.changed(r)
		return outcome{committed: true, rev: e.rev}
	}
	if d.Kind == scheduler.KindLose {
		e.putRecord(r, d.Record)
	}
	e.world.oracle.wrote(r, &d.Next, string(d.Kind))
	e.putState(r, &d.Next)
	return e.committed(c)
}

// finish ends an attempt whose lock is there (rule 4). It says whether this verdict is in the slot now,
// by this request or by an earlier copy of it.
func (e *etcd) finish(r *record, run *scheduler.Run, canceled bool) (recorded bool) {
	last := run.Last()
	l := r.lock(run.Firing)
	if (l == nil || l.created != last.Token) && e.world.without != CutFinishLock {
		return r.holds(run)
	}
	e.rev++
	e.world.trace.add(line{
		at: e.world.now, verb: records, who: last.Member, firing: run.Firing, attempt: last.Number,
		number: int64(run.Slot), verdict: last.Verdict, reason: last.Reason,
	})
	e.putRecord(r, run)
	if l != nil {
		e.unlock(l)
	}
	if canceled {
		e.dropCancel(last.Member, run.Firing)
	}
	return true
}

// holds says whether the slot holds this attempt's verdict, be it in the record of a later attempt.
func (r *record) holds(run *scheduler.Run) bool {
	held, mine := r.run(run.Slot), run.Last()
	if held == nil || held.Firing != run.Firing {
		return false
	}
	return slices.ContainsFunc(held.Attempts, func(a scheduler.Attempt) bool {
		return a.Number == mine.Number && a.Token == mine.Token && a.Verdict == mine.Verdict
	})
}

// lateRead is what a late result is judged by: state, lock and slot in one transaction.
type lateRead struct {
	held, recorded bool
	dropped        string // why it is; "" is not
	stateRev       int64
	slotRev        int64
}

func (e *etcd) readLate(r *record, run *scheduler.Run) lateRead {
	token := run.Last().Token
	i := slices.IndexFunc(r.filled.Entries, func(x scheduler.Entry) bool { return x.Firing == run.Firing && x.Token == token })
	read := lateRead{stateRev: r.stateRev, slotRev: r.slotRev(run.Slot)}
	switch l := r.lock(run.Firing); {
	case l != nil && l.created == token:
		read.held = true
	case r.holds(run):
		read.recorded = true
	case e.world.without == CutLateCompare:
	case read.slotRev >= token:
		read.dropped = "its slot holds another end"
	case r.job.rec != r:
		read.dropped = "its job is gone"
	case i < 0:
		read.dropped = "it is not in flight any more"
	}
	return read
}

// late writes the result of an attempt that lost its lock, if state and slot are as they were read
// (rule 6).
func (e *etcd) late(r *record, run *scheduler.Run, read lateRead) (written bool) {
	if e.world.without != CutLateCompare &&
		(r.job.rec != r || r.stateRev != read.stateRev || r.slotRev(run.Slot) != read.slotRev || r.lock(run.Firing) != nil) {
		return false
	}
	last := run.Last()
	e.rev++
	e.world.count("late result")
	e.world.tell(last.Member, "late result of %s #%d in time: %s, slot %d, counted", e.world.trace.short(run.Firing), last.Number,
		outcomeText(last.Verdict, last.Reason), run.Slot)
	e.putRecord(r, run)
	next := scheduler.ApplyEnd(*r.filled, *r.def, *run, run.Firing)
	e.world.oracle.wrote(r, &next, "late result")
	e.putState(r, &next)
	return true
}

func (e *etcd) putRecord(r *record, run *scheduler.Run) {
	e.world.oracle.recorded(r, run)
	for run.Slot >= len(r.ring) {
		r.ring = append(r.ring, slot{})
	}
	r.ring[run.Slot] = slot{run, e.rev}
}

// unlock takes a lock away, and tells who follows it.
func (e *etcd) unlock(l *lock) {
	same := func(o *lock) bool { return o == l }
	l.rec.locks = slices.DeleteFunc(l.rec.locks, same)
	l.lease.locks = slices.DeleteFunc(l.lease.locks, same)
	for _, tell := range l.follow {
		tell()
	}
	l.follow = nil
}
