package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/quorumcron/quorumcron/scheduler"
	"github.com/quorumcron/quorumcron/scheduler/cron"
)

// etcd is the one truth: keys with revisions, and leases. Each method is one transaction, with the
// guards of the rules of the design; what it is asked to write comes from a member that may be behind.
type etcd struct {
	world   *world
	rev     int64
	names   []scheduler.JobName // in order
	jobs    map[scheduler.JobName]*record
	locks   map[scheduler.Firing]lock
	leases  map[int64]*lease
	members map[string]memberKey
	rules   []rules // every version; the last is in force
}

// record is what is stored of one job.
type record struct {
	job      scheduler.Job
	jobRev   int64
	table    *cron.Timetable
	state    scheduler.State
	stateRev int64
	triggers []scheduler.Trigger
	ring     map[int]slot
}

type slot struct {
	run scheduler.Run
	rev int64
}

type lock struct {
	created int64
	lease   int64
	nonce   string
	job     scheduler.JobName
}

type lease struct{ ends time.Duration }

type memberKey struct {
	member scheduler.Member
	lease  int64
}

// rules is a version of what lies under rules/.
type rules struct {
	rev        int64
	assignment scheduler.Assignment
}

func newEtcd(w *world) *etcd {
	return &etcd{
		world: w, rev: 1, jobs: map[scheduler.JobName]*record{}, locks: map[scheduler.Firing]lock{},
		leases: map[int64]*lease{}, members: map[string]memberKey{}, rules: []rules{{rev: 1}},
	}
}

func (e *etcd) head() rules { return e.rules[len(e.rules)-1] }

// put writes a job's state: nothing planned on the old value can commit any more.
func (e *etcd) put(r *record, s scheduler.State, why string) {
	e.world.ledger.write(r, s, why)
	r.state, r.stateRev = s, e.rev
}

// claim is a Begin, Skip or Miss on its way.
type claim struct {
	decision scheduler.Decision
	jobRev   int64
	stateRev int64
	rulesRev int64
	lease    int64
	nonce    string
	by       string
	clock    time.Time // what the member's wall clock read when it planned this
}

// outcome is the answer to a write of a state: committed or refused, it shows what is there now.
type outcome struct {
	committed  bool
	rulesMoved bool
	now        snapshot
}

// snapshot is what one read shows of a job.
type snapshot struct {
	job      scheduler.Job
	table    *cron.Timetable
	jobRev   int64
	state    scheduler.State
	stateRev int64
	triggers []scheduler.Trigger
	entries  map[scheduler.Firing]entryFact
	rev      int64 // of etcd, when it was read
}

// entryFact is what lock and slot of an entry show.
type entryFact struct {
	attempt int
	lock    int64
	record  *scheduler.Run
}

func (e *etcd) read(name scheduler.JobName) snapshot {
	r := e.jobs[name]
	s := snapshot{
		job: r.job, table: r.table, jobRev: r.jobRev, state: scheduler.Fill(r.state, r.stateRev), stateRev: r.stateRev,
		triggers: slices.Clone(r.triggers), entries: map[scheduler.Firing]entryFact{}, rev: e.rev,
	}
	for _, x := range s.state.Entries {
		f := entryFact{attempt: x.Attempt, lock: e.locks[x.Firing].created}
		if held := r.ring[x.Slot]; held.rev > x.Token {
			run := held.run
			f.record = &run
		}
		s.entries[x.Firing] = f
	}
	return s
}

// claim commits a Begin, Skip or Miss if everything it was planned on still holds.
func (e *etcd) claim(c claim) outcome {
	d, cut := c.decision, e.world.cfg.Cut
	r := e.jobs[d.Job]
	refused := outcome{now: e.read(d.Job)}
	switch {
	case c.rulesRev != e.head().rev && cut != CutRulesGuard:
		refused.rulesMoved = true
		return refused
	case r.stateRev != c.stateRev && cut != CutStateCompare, r.jobRev != c.jobRev && cut != CutJobCompare:
		return refused
	case d.Trigger != "" && !slices.ContainsFunc(r.triggers, func(t scheduler.Trigger) bool { return t.ID == d.Trigger && t.Revision == d.TriggerRevision }):
		return refused
	}
	for _, b := range d.Blame {
		if !e.blamed(r, b) {
			return refused
		}
	}
	if d.Kind == scheduler.KindBegin {
		if e.leases[c.lease] == nil {
			return refused
		}
		if _, taken := e.locks[d.Firing]; taken {
			return refused
		}
	}
	e.rev++
	e.world.say("%s: %s", c.by, d)
	e.world.count(string(d.Kind))
	e.world.ledger.claimed(r, c, e.head().assignment)
	if d.Trigger != "" {
		r.triggers = slices.DeleteFunc(slices.Clone(r.triggers), func(t scheduler.Trigger) bool { return t.ID == d.Trigger })
		e.world.ledger.consumed(r.job.UID)
	}
	if d.Kind == scheduler.KindBegin {
		e.world.ledger.granted(r, c)
		e.locks[d.Firing] = lock{e.rev, c.lease, c.nonce, d.Job}
	}
	e.put(r, d.Next, d.String())
	return outcome{committed: true, now: e.read(d.Job)}
}

// blamed says whether what a skip is blamed on is still so.
func (e *etcd) blamed(r *record, b scheduler.Blame) bool {
	switch held, alive := e.locks[b.Firing]; {
	case b.Token == 0: // an owed retry: it is in the state, or follows from it
		return true
	case b.Lock != 0:
		return held.created == b.Lock
	default:
		return !alive && r.ring[b.Slot].rev < b.Token
	}
}

// resolve settles an unknown Begin (rule 2): it fences the state if nothing was written since, else it
// reads. granted is the token, or 0.
func (e *etcd) resolve(c claim) (granted int64, now snapshot) {
	r := e.jobs[c.decision.Job]
	if r.stateRev == c.stateRev {
		filled := scheduler.Fill(r.state, r.stateRev)
		e.rev++
		e.put(r, filled, "fence")
	} else if held := e.locks[c.decision.Firing]; held.nonce == c.nonce {
		granted = held.created
	}
	return granted, e.read(c.decision.Job)
}

// settle commits a Lose or Fold.
func (e *etcd) settle(d scheduler.Decision, stateRev int64, by string) outcome {
	r, cut := e.jobs[d.Job], e.world.cfg.Cut
	refused := outcome{now: e.read(d.Job)}
	if r.stateRev != stateRev && cut != CutStateCompare {
		return refused
	}
	if d.Kind == scheduler.KindLose {
		_, alive := e.locks[d.Firing]
		if alive || r.ring[d.Slot].rev >= d.SlotBelow {
			return refused
		}
	}
	e.rev++
	e.world.say("%s: %s", by, d)
	e.world.count(string(d.Kind))
	if d.Kind == scheduler.KindLose {
		e.record(r, *d.Record)
	}
	e.put(r, d.Next, d.String())
	return outcome{committed: true, now: e.read(d.Job)}
}

// finish ends an attempt whose lock is still there (rule 4). recorded says whether this verdict is in
// the slot now, by this request or by an earlier copy of it.
func (e *etcd) finish(name scheduler.JobName, run scheduler.Run) (recorded bool) {
	r, token := e.jobs[name], run.Last().Token
	if e.locks[run.Firing].created != token && e.world.cfg.Cut != CutFinish {
		held := r.ring[run.Slot].run
		return held.Firing == run.Firing && held.Last().Token == token && held.Last().Verdict == run.Last().Verdict
	}
	e.rev++
	delete(e.locks, run.Firing)
	e.world.say("finish %s attempt %d %s(%s)", run.Firing, run.Last().Number, run.Last().Verdict, run.Last().Reason)
	e.record(r, run)
	e.lockGone(name)
	return true
}

// late writes the result of an attempt that lost its lock, if nobody has called it lost (rule 6). The
// caller read the state at stateRev.
func (e *etcd) late(name scheduler.JobName, run scheduler.Run, stateRev int64) bool {
	r, token := e.jobs[name], run.Last().Token
	s := scheduler.Fill(r.state, r.stateRev)
	i := slices.IndexFunc(s.Entries, func(x scheduler.Entry) bool { return x.Firing == run.Firing && x.Token == token })
	if _, alive := e.locks[run.Firing]; alive || i < 0 || r.stateRev != stateRev || r.ring[run.Slot].rev >= token {
		return false
	}
	e.rev++
	e.world.say("late result %s attempt %d %s", run.Firing, run.Last().Number, run.Last().Verdict)
	e.world.count("late result")
	e.record(r, run)
	e.put(r, scheduler.ApplyEnd(s, r.job, run, run.Firing), "late result")
	return true
}

// record puts a run into its slot.
func (e *etcd) record(r *record, run scheduler.Run) {
	e.world.ledger.recorded(r, run)
	r.ring[run.Slot] = slot{run, e.rev}
}

// --- leases and members --------------------------------------------------------------------------

func (e *etcd) grantLease(ttl time.Duration) int64 {
	e.rev++
	id := e.rev
	e.leases[id] = &lease{ends: e.world.now + ttl}
	e.watchLease(id)
	return id
}

// keepAlive pushes the end of a lease on; false means that it is gone.
func (e *etcd) keepAlive(id int64, ttl time.Duration) bool {
	l := e.leases[id]
	if l != nil {
		l.ends = e.world.now + ttl
	}
	return l != nil
}

func (e *etcd) watchLease(id int64) {
	l := e.leases[id]
	if l == nil {
		return
	}
	if wait := l.ends - e.world.now; wait > 0 {
		e.world.after(wait, func() { e.watchLease(id) })
		return
	}
	e.revoke(id)
}

// revoke ends a lease, and everything under it.
func (e *etcd) revoke(id int64) {
	if e.leases[id] == nil {
		return
	}
	delete(e.leases, id)
	e.rev++
	var gone []scheduler.Firing
	for f, l := range e.locks {
		if l.lease == id {
			gone = append(gone, f)
		}
	}
	slices.SortFunc(gone, func(a, b scheduler.Firing) int { return int(e.locks[a].created - e.locks[b].created) })
	for _, f := range gone {
		l := e.locks[f]
		delete(e.locks, f)
		e.world.say("the lock of %s is gone with its lease", f)
		e.world.count("lost lock")
		e.lockGone(l.job)
	}
	for _, m := range e.world.members {
		if e.members[m.name].lease == id {
			delete(e.members, m.name)
			e.world.say("%s is no member any more", m.name)
			e.membersChanged()
		}
	}
}

// join puts a member key under a lease and answers with its create revision, the member's incarnation;
// 0 means that the lease is gone. Asked again, it answers the same.
func (e *etcd) join(name string, lease int64) int64 {
	if e.leases[lease] == nil {
		return 0
	}
	if k, here := e.members[name]; here && k.lease == lease {
		return k.member.CreateRevision
	}
	e.rev++
	m := scheduler.Member{Name: name, Incarnation: e.rev, CreateRevision: e.rev}
	e.members[name] = memberKey{m, lease}
	e.world.say("%s joins", m.ID())
	e.membersChanged()
	return e.rev
}

// membersChanged has the dispatcher publish a new assignment after a while: it has its own election,
// and may be the very member that died.
func (e *etcd) membersChanged() {
	e.world.after(e.world.within(200*time.Millisecond, 2*time.Second), e.dispatch)
}

func (e *etcd) dispatch() {
	var live []scheduler.Member
	for _, m := range e.world.members {
		if k, here := e.members[m.name]; here {
			live = append(live, k.member)
		}
	}
	prev := e.head().assignment
	next := scheduler.Assign(&prev, live, scheduler.Pool{ID: scheduler.PoolAll})
	if prev.Owners == next.Owners && slices.Equal(prev.Members, next.Members) {
		return
	}
	e.rev++
	e.rules = append(e.rules, rules{e.rev, next})
	e.world.say("assignment to %v", next.Members)
	for _, m := range e.world.members {
		m.hear(m.follow)
	}
}

// --- what users do, and what watches tell --------------------------------------------------------

// apply stores a new job.
func (e *etcd) apply(j scheduler.Job) {
	e.rev++
	table, err := cron.Compile(j.Schedule.Spec())
	if err != nil {
		panic(fmt.Sprintf("the simulation wrote a schedule that is refused: %v", err))
	}
	e.names = append(e.names, j.Name)
	e.jobs[j.Name] = &record{
		job: j, jobRev: e.rev, table: table, state: scheduler.NewState(j, e.world.wall()), stateRev: e.rev, ring: map[int]slot{},
	}
}

// edit stores a changed definition, and with a reason closes the books of the old one (rule 9).
func (e *etcd) edit(r *record, reason scheduler.Reason, change func(*scheduler.Job)) {
	next := r.job
	change(&next)
	if reason == scheduler.ReasonEdited && !scheduler.ClosesBooks(r.job, next) {
		return
	}
	next.Generation++
	table, err := cron.Compile(next.Schedule.Spec())
	if err != nil {
		panic(fmt.Sprintf("the simulation wrote a schedule that is refused: %v", err))
	}
	e.rev++
	e.world.say("user: %s generation %d paused %v %s", next.Name, next.Generation, next.Paused, reason)
	e.world.count("edit")
	if reason != "" {
		v := scheduler.View{Job: r.job, Timetable: r.table, State: r.state, StateRevision: r.stateRev}
		e.put(r, scheduler.CloseBooks(v, scheduler.Reading{Wall: e.world.wall()}, reason), "edit")
	}
	r.job, r.jobRev, r.table = next, e.rev, table
	e.changed(r.job.Name)
}

func (e *etcd) trigger(r *record) {
	e.rev++
	t := scheduler.Trigger{ID: fmt.Sprint("t", e.rev), Revision: e.rev, Requested: e.world.wall()}
	r.triggers = append(slices.Clone(r.triggers), t)
	e.world.say("user: triggers %s", scheduler.Triggered(r.job.UID, t.ID))
	e.world.count("trigger")
	e.changed(r.job.Name)
}

// changed tells the members that a definition or a trigger changed; lockGone, that a lock went.
func (e *etcd) changed(name scheduler.JobName) {
	for _, m := range e.world.members {
		m.hear(func() { m.load(name) })
	}
}

func (e *etcd) lockGone(name scheduler.JobName) {
	for _, m := range e.world.members {
		m.hear(func() { m.load(name) })
	}
}
