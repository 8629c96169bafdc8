package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/quorumcron/quorumcron/scheduler"
)

// The times of a member's leases, as the program's defaults.
const (
	ttl      = 10 * time.Second
	grace    = 5 * time.Second
	maxSleep = time.Second
	capacity = 40
)

// member is one process that may come back after a crash. It knows only what it was told.
type member struct {
	world       *world
	name        string
	incarnation int64 // create revision of its key; 0 until it is known
	life        int   // raised by each start and crash: what belongs to a former life is not heard
	up, cut     bool
	stalled     time.Duration // until then the process does nothing; its supervisor does
	skew        time.Duration // of its wall clock against the true time
	boot        time.Duration // of its elapsed clock against the true time

	locks    *session // what new locks go under; nil while there is none
	sessions []*session
	rulesAt  int // index of the newest rules it has heard of
	jobs     map[scheduler.JobName]*tracked
	agenda   *scheduler.Agenda
	guard    scheduler.StepGuard
	clock    scheduler.ClockVerdict
	attempts map[string]*attempt // by nonce
	nonces   int
	turns    int
}

// tracked is a job that the member plans.
type tracked struct {
	snapshot
	loaded bool
	facts  map[scheduler.Firing]scheduler.Fact
	busy   bool // a write of the state is on its way
}

func newMember(w *world, name string) *member {
	return &member{
		world: w, name: name,
		skew: w.within(-200*time.Millisecond, 200*time.Millisecond), boot: w.within(time.Hour, 1000*time.Hour),
	}
}

// String is the member's ID.
func (m *member) String() string { return m.id() }

func (m *member) id() string { return scheduler.Member{Name: m.name, Incarnation: m.incarnation}.ID() }

func (m *member) reading() scheduler.Reading {
	return scheduler.Reading{Wall: epoch.Add(m.world.now + m.skew), Elapsed: m.world.now + m.boot}
}

// start begins a new process.
func (m *member) start() {
	m.up, m.cut, m.stalled = true, false, 0
	m.life++
	m.incarnation = 0
	m.locks, m.sessions = nil, nil
	m.jobs = map[scheduler.JobName]*tracked{}
	m.agenda, m.guard, m.clock = scheduler.NewAgenda(), scheduler.StepGuard{}, scheduler.ClockVerdict{}
	m.attempts = map[string]*attempt{}
	m.rulesAt = len(m.world.etcd.rules) - 1
	m.world.say("%s starts", m)
	m.join()
	m.openLocks()
	m.turn()
}

// crash kills the process and, with it, its attempts.
func (m *member) crash() {
	m.world.say("%s crashes", m)
	m.world.count("crash")
	m.up = false
	m.life++
	for _, a := range m.running() {
		m.world.ledger.stopped(a.process)
	}
	if m.world.chance(30) { // a proof of death: its successor finds the data folder
		for _, s := range m.sessions {
			m.world.after(m.world.within(0, 5*time.Second), func() { m.world.etcd.revoke(s.id) })
		}
	}
}

// repair starts what is down and connects what is cut off.
func (m *member) repair() {
	if !m.up {
		m.start()
		return
	}
	if m.cut {
		m.world.say("%s is connected again", m)
		m.cut = false
		m.follow()
		for _, name := range m.world.etcd.names {
			m.load(name)
		}
	}
}

// follow takes in the rules that it has not heard of, one version after another: a shard that was lost
// and won again in between is another one.
func (m *member) follow() {
	for m.rulesAt < len(m.world.etcd.rules)-1 {
		m.rulesAt++
		m.own()
	}
}

// own takes up the jobs that the newest rules it has heard of give it, and lets go of others.
func (m *member) own() {
	a := m.world.etcd.rules[m.rulesAt].assignment
	for _, name := range m.world.etcd.names {
		mine := a.Owner(scheduler.ShardOf(name)) == m.id()
		switch t := m.jobs[name]; {
		case mine && t == nil:
			m.jobs[name] = &tracked{facts: map[scheduler.Firing]scheduler.Fact{}}
			m.load(name)
		case !mine && t != nil:
			delete(m.jobs, name)
			m.agenda.Remove(name)
		case mine:
			m.soon(name) // what was refused because the rules had moved
		}
	}
}

// load reads all there is about a job that it owns.
func (m *member) load(name scheduler.JobName) {
	t := m.jobs[name]
	if t == nil {
		return
	}
	call(m, func() snapshot { return m.world.etcd.read(name) }, func(s snapshot, known bool) {
		switch {
		case m.jobs[name] != t:
		case known:
			m.take(name, t, s)
		default:
			m.load(name)
		}
	})
}

// take takes in what a read or an answer shows, unless something newer is known.
func (m *member) take(name scheduler.JobName, t *tracked, s snapshot) {
	if t.loaded && s.rev < t.rev {
		return
	}
	t.snapshot, t.loaded = s, true
	now := m.reading()
	facts := map[scheduler.Firing]scheduler.Fact{}
	for f, seen := range s.entries {
		facts[f] = learn(t.facts[f], seen, now)
	}
	t.facts = facts
	m.soon(name)
}

// learn is what a fact becomes by another look: a lock that is gone stays gone since it was first seen
// so, or a hold would never pass.
func learn(old scheduler.Fact, seen entryFact, now scheduler.Reading) scheduler.Fact {
	f := scheduler.Fact{Attempt: seen.attempt, Lock: seen.lock, Record: seen.record}
	same := old.Attempt == seen.attempt
	switch {
	case f.Record != nil && same && old.Record != nil:
		f.RecordedSince = old.RecordedSince
	case f.Record != nil:
		f.RecordedSince = now.Elapsed
	case f.Lock != 0 && same:
		f.Ending, f.EndingSince = old.Ending, old.EndingSince
	case f.Lock == 0 && same && old.Lock == 0:
		f.GoneSince = old.GoneSince
	case f.Lock == 0:
		f.GoneSince = now.Elapsed
	}
	return f
}

func (m *member) soon(name scheduler.JobName) {
	m.agenda.Soon(name)
	m.wakeIn(0)
}

func (m *member) soonAll() {
	for _, name := range m.world.etcd.names {
		if m.jobs[name] != nil {
			m.soon(name)
		}
	}
}

func (m *member) wakeIn(d time.Duration) {
	m.turns++
	turn, life := m.turns, m.life
	m.world.after(d, func() {
		m.awake(func() {
			if m.turns == turn && m.life == life {
				m.turn()
			}
		})
	})
}

// turn plans what is due and sleeps.
func (m *member) turn() {
	now := m.reading()
	verdict := m.guard.Observe(now)
	if verdict.Event != "" {
		m.world.say("%s: %s", m, verdict.Event)
	}
	if verdict.Trusted && !m.clock.Trusted {
		for name := range m.jobs {
			m.agenda.Soon(name)
		}
	}
	m.clock = verdict
	for _, name := range m.agenda.Due(now) {
		m.plan(name, now)
	}
	sleep := maxSleep
	if wait, ok := m.agenda.Wait(now); ok {
		sleep = min(sleep, wait)
	}
	m.wakeIn(sleep)
}

func (m *member) plan(name scheduler.JobName, now scheduler.Reading) {
	t := m.jobs[name]
	if t == nil || !t.loaded || t.busy {
		return
	}
	p := scheduler.PlanJob(m.view(t, now), now)
	if p.Decision == nil {
		m.agenda.Set(name, p.Wake, p.WakeElapsed)
		return
	}
	t.busy = true
	m.send(name, t, *p.Decision, now)
}

func (m *member) view(t *tracked, now scheduler.Reading) scheduler.View {
	room := m.locks != nil && now.Elapsed < m.locks.life.ClaimUntil() && len(m.attempts) < capacity
	return scheduler.View{
		Job: t.job, Timetable: t.table, State: t.state, StateRevision: t.stateRev,
		Triggers: t.triggers, Facts: t.facts, Room: room, EndsOnly: !m.clock.Trusted, NotBeyond: m.clock.NotBeyond,
	}
}

// send carries out a decision.
func (m *member) send(name scheduler.JobName, t *tracked, d scheduler.Decision, now scheduler.Reading) {
	c := claim{
		decision: d, jobRev: t.jobRev, stateRev: t.stateRev, rulesRev: m.world.etcd.rules[m.rulesAt].rev,
		by: m.String(), clock: now.Wall,
	}
	etcd := m.world.etcd
	switch d.Kind {
	case scheduler.KindBegin:
		m.begin(name, t, c, now)
	case scheduler.KindSkip, scheduler.KindMiss:
		call(m, func() outcome { return etcd.claim(c) }, func(o outcome, known bool) { m.answered(name, t, o, known) })
	default:
		call(m, func() outcome { return etcd.settle(d, c.stateRev, c.by) }, func(o outcome, known bool) { m.answered(name, t, o, known) })
	}
}

// answered takes in the answer to a write of a state. An unknown one may still commit; it was planned
// on a revision, so that what is read and planned now is refused or refuses it.
func (m *member) answered(name scheduler.JobName, t *tracked, o outcome, known bool) {
	t.busy = false
	switch {
	case m.jobs[name] != t:
	case !known:
		m.load(name)
	case o.rulesMoved:
		m.world.count("fenced claim") // planned again when the watch has caught up
	default:
		if !o.committed {
			m.world.count("refused write")
		}
		m.take(name, t, o.now)
	}
}

// running are the attempts whose process runs, in order.
func (m *member) running() []*attempt {
	var list []*attempt
	for _, a := range m.attempts {
		if a.process != nil && !a.ended {
			list = append(list, a)
		}
	}
	slices.SortFunc(list, func(a, b *attempt) int { return a.serial - b.serial })
	return list
}

func (m *member) nonce() string {
	m.nonces++
	return fmt.Sprint(m.name, "/", m.nonces)
}
