package sim

import (
	"slices"
	"time"

	"github.com/quorumcron/quorumcron/scheduler"
	"github.com/quorumcron/quorumcron/scheduler/cron"
)

// tracked is what a member knows of one job it owns.
type tracked struct {
	rec      *record // which uid it is about
	job      *job
	def      *scheduler.Job
	defRev   int64
	table    *cron.Timetable
	triggers []scheduler.Trigger
	shownRev int64 // etcd's revision when they were shown

	state    *scheduler.State
	stateRev int64 // 0: not known yet, nothing is planned
	facts    map[scheduler.Firing]scheduler.Fact
	follows  []*follow

	busy     bool // a write of the state is on its way; there is at most one
	hungry   bool
	gained   bool          // it has not planned since it was gained
	reloaded time.Duration // elapsed clock; 0 is never
}

// follow is the watch of the lock of an attempt that somebody else runs, or that is doubted.
type follow struct{ entry scheduler.Entry }

// at is what is tracked of a job, or nil.
func (m *member) at(j *job) *tracked {
	if j.index >= len(m.jobs) {
		return nil
	}
	return m.jobs[j.index]
}

func (m *member) track(j *job, t *tracked) {
	for j.index >= len(m.jobs) {
		m.jobs = append(m.jobs, nil)
	}
	m.jobs[j.index] = t
}

// untrack forgets a job: it is gone, or somebody else's.
func (m *member) untrack(j *job) {
	if t := m.at(j); t != nil {
		m.jobs[j.index] = nil
		m.agenda.Remove(j.name)
		t.follows = nil
		if m.world.without == CutReload {
			m.kept[j] = t
			return
		}
		t.state, t.stateRev = nil, 0
	}
}

// soon plans the job in a turn that begins now.
func (m *member) soon(t *tracked) {
	m.agenda.Soon(t.job.name)
	m.wake(0)
}

// wake begins a turn in a while, unless one begins earlier anyway.
func (m *member) wake(d time.Duration) {
	at := m.world.now + max(d, 0)
	if m.wakes >= 0 && m.wakes <= at {
		return
	}
	m.wakes = at
	w := m.world
	w.made++
	w.events.push(event{at: at, order: w.made, turn: m})
}

// woken begins the turn that was to begin now, unless it has been put forward.
func (m *member) woken(at time.Duration) {
	switch {
	case m.wakes != at || !m.up:
	case m.stalled > m.world.now:
		m.waiting = append(m.waiting, func() { m.woken(at) })
	default:
		m.turn()
	}
}

// turn plans what is due and says when the next turn is.
func (m *member) turn() {
	m.wakes = -1
	now := m.reading()
	m.doubtSessions(now)
	m.observe(now)
	for _, name := range m.agenda.Due(now) {
		if t := m.at(m.world.byName[name]); t != nil {
			m.plan(t, now)
		}
	}
	sleep := maxSleep
	if wait, ok := m.agenda.Wait(now); ok {
		sleep = min(sleep, wait)
	}
	m.wake(sleep)
}

// observe asks the step guard whether this reading may be planned by.
func (m *member) observe(now scheduler.Reading) {
	verdict := m.guard.Observe(now)
	if verdict.Event != "" {
		m.world.tell(m.name, "%s", verdict.Event)
	}
	if m.world.without == CutClock {
		verdict = scheduler.ClockVerdict{Trusted: true, NotBeyond: now.Wall}
	}
	if verdict.Trusted && !m.clock.Trusted { // what waited for the clock is due now
		for _, t := range m.jobs {
			if t != nil {
				m.agenda.Soon(t.job.name)
			}
		}
	}
	m.clock, m.clockAt = verdict, now.Elapsed
}

// plan asks for the next write of one job and sends it on its way.
func (m *member) plan(t *tracked, now scheduler.Reading) {
	if t.busy || t.stateRev == 0 {
		return // an event brings it back
	}
	var excluded *scheduler.Exclusion
	if !t.def.Tombstone() {
		var err error
		if excluded, err = m.calendars.Of(*t.def); err != nil {
			return // the rules are behind, and bring it back
		}
	}
	s := m.usable(now)
	if t.gained && m.world.without == CutCatchUp && t.state.Cursor.Before(now.Wall) {
		ahead := *t.state
		ahead.Cursor = now.Wall.Truncate(time.Second)
		t.state = &ahead
	}
	t.gained = false
	view := scheduler.View{
		Job: *t.def, Timetable: t.table, Excluded: excluded, State: *t.state, StateRevision: t.stateRev,
		Triggers: t.triggers, Facts: t.facts, Room: s != nil && len(m.held) < m.capacity,
		EndsOnly: !m.clock.Trusted || m.stopped, NotBeyond: m.clock.NotBeyond,
	}
	p := scheduler.PlanJob(view, now)
	if len(m.held) >= m.capacity {
		m.full = m.world.now
	}
	if !view.Room && !t.hungry {
		t.hungry = true
		m.hungry = append(m.hungry, t)
	}
	if p.Decision == nil {
		m.agenda.Set(t.job.name, p.Wake, p.WakeElapsed)
		return
	}
	m.send(t, p.Decision, s, now)
}

// roomMade plans again as many jobs that wait for room as there is room for, first come, first served.
func (m *member) roomMade(pieces int) {
	for ; pieces > 0 && len(m.hungry) > 0; pieces-- {
		t := m.hungry[0]
		m.hungry = m.hungry[1:]
		t.hungry = false
		if m.at(t.job) != t {
			pieces++
			continue
		}
		m.soon(t)
	}
}

// send carries out a decision.
func (m *member) send(t *tracked, d *scheduler.Decision, s *session, now scheduler.Reading) {
	t.busy = true
	c := &claim{
		job: t.job, uid: t.def.UID, decision: d, defRev: t.defRev, stateRev: t.stateRev, rulesRev: m.rules.rev,
		by: m, byID: m.id(), now: now,
	}
	etcd := m.world.etcd
	switch d.Kind {
	case scheduler.KindBegin:
		m.begin(t, c, s)
	case scheduler.KindSkip, scheduler.KindMiss:
		m.claim(t, c)
	default:
		call(m, string(d.Kind), t.job, func() outcome { return etcd.settle(c) }, func(o outcome, known bool) {
			m.answered(t, c, o, known)
		})
	}
}

// claim sends a Skip or Miss; an unknown answer is settled by rule 2.
func (m *member) claim(t *tracked, c *claim) {
	etcd := m.world.etcd
	call(m, string(c.decision.Kind), t.job, func() outcome { return etcd.claim(c) }, func(o outcome, known bool) {
		if known || m.world.without == CutFence {
			m.answered(t, c, o, known)
			return
		}
		m.resolve(c, func(o outcome) { m.answered(t, c, o, true) })
	})
}

// resolve asks until it is known what became of a claim (rule 2).
func (m *member) resolve(c *claim, settled func(outcome)) {
	call(m, "resolve", c.job, func() outcome { return m.world.etcd.resolve(c) }, func(o outcome, known bool) {
		if !known {
			m.resolve(c, settled)
			return
		}
		m.world.count("resolved claim")
		settled(o)
	})
}

// refusalPause spaces the tries after a refusal that brought no news.
const refusalPause = 100 * time.Millisecond

// answered takes in the answer to a write of a job's state. Committed or refused, it brings what is
// there now.
func (m *member) answered(of *tracked, c *claim, o outcome, known bool) {
	of.busy = false
	t, now := m.at(c.job), m.reading()
	if t == nil || t.rec.def.UID != c.uid {
		return
	}
	news := o.state != nil && t.settle(o.state, o.stateRev)
	for _, f := range o.facts {
		news = m.learnFact(t, f) || news
	}
	d := c.decision
	switch {
	case !known:
		m.reload(t)
		return
	case o.committed && d.Kind == scheduler.KindSweep:
		m.untrack(c.job)
		return
	case o.committed:
		t.removeTrigger(d.Trigger)
		if x, in := t.entry(d.Firing); in && c.nonce != "" && x.Nonce == c.nonce {
			t.learn(x, x.Token, nil, now)
		}
	case t != of:
		// The shard was given up and is ours again: another write may be on its way, whose answer counts.
	case o.rulesMoved:
		if m.rules.rev < o.rules {
			m.fenced = append(m.fenced, t) // planned again when the watch has caught up
			m.lookAtMarks()
			return
		}
	case o.leaseGone:
		m.agenda.Set(c.job.name, now.Wall.Add(refusalPause), now.Elapsed+refusalPause)
		m.wake(refusalPause)
		return
	case !news || o.defRev != t.defRev:
		// Refused, and nothing newer is known that says why: everything is read again.
		m.reload(t)
		return
	}
	m.followEntries(t)
	m.soon(t)
}

// settle takes in a state value, unless a newer one is known. It says whether it was news.
func (t *tracked) settle(state *scheduler.State, rev int64) bool {
	if rev <= t.stateRev {
		return false
	}
	t.state, t.stateRev = state, rev
	t.follows = slices.DeleteFunc(t.follows, func(f *follow) bool { return !t.inFlight(f.entry.Firing) })
	for f := range t.facts {
		if !t.inFlight(f) {
			delete(t.facts, f)
		}
	}
	return true
}

func (t *tracked) entry(f scheduler.Firing) (scheduler.Entry, bool) {
	if t.state != nil {
		for _, x := range t.state.Entries {
			if x.Firing == f {
				return x, true
			}
		}
	}
	return scheduler.Entry{}, false
}

func (t *tracked) inFlight(f scheduler.Firing) bool {
	_, in := t.entry(f)
	return in
}

func (t *tracked) removeTrigger(id string) {
	if id != "" {
		t.triggers = slices.DeleteFunc(slices.Clone(t.triggers), func(o scheduler.Trigger) bool { return o.ID == id })
	}
}
