package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/quorumcron/quorumcron/scheduler"
)

// member is one machine with one process of the program on it, and that one's supervisor. The process
// may end and come again; its names below are those of package node. It knows only what it was told.
type member struct {
	world    *world
	name     string
	capacity int
	skew     time.Duration // of its wall clock against the true time
	boot     time.Duration // of its elapsed clock against the true time
	stepped  time.Duration // when its wall clock last jumped, true time
	link     link
	lags     []chance         // of its messages: about no job, and about each
	silence  map[silence]bool // requests whose like was not answered last time
	crashes  []string         // jobs whose next grant is forgotten by a panic

	full    time.Duration // when it last had no room, true time
	began   time.Duration // when its process did, true time
	life    int           // raised by every start and end: what belongs to a former process is not heard
	up      bool          // there is a process
	stalled time.Duration
	waiting []func()      // what happens when it is no longer stalled
	frozen  time.Duration // until when the machine stands, supervisor and attempts included
	thawing []func()
	folder  []*lease // the leases that its data folder knows of

	process
}

// process is what a process forgets when it ends.
type process struct {
	incarnation int64
	memberLease *lease
	sessions    []*session // lock sessions, the newest last; those that are lost and unused are dropped
	opening     bool
	draining    bool
	stopped     bool // claims nothing any more

	rules     rules
	calendars *scheduler.Calendars // compiled from the rules
	live      []scheduler.Member   // as it was last told
	liveRev   int64
	publishes bool // an assignment of its own is on its way
	mine      [scheduler.ShardCount]bool
	jobs      []*tracked // by job.index; nil: not its own
	fenced    []*tracked
	agenda    *scheduler.Agenda
	guard     scheduler.StepGuard
	clock     scheduler.ClockVerdict
	clockAt   time.Duration // elapsed clock, when clock was judged
	wakes     time.Duration // when its next turn is, true time; negative: none
	held      map[string]*attempt
	hungry    []*tracked // could begin something, had it room
	nonces    int
	kept      map[*job]*tracked // without reload: what it had of jobs that it lost
}

func newMember(w *world, name string) *member {
	boot := chanceOf(w.seed, "boot of "+name)
	return &member{
		world: w, name: name, capacity: defaultCapacity, stepped: -time.Hour, full: -time.Hour,
		boot: boot.within(time.Hour, 1000*time.Hour).Truncate(time.Millisecond),
	}
}

// defaultCapacity is how many attempts a member runs at once.
const defaultCapacity = 256

// maxSleep bounds the sleep between two turns: a wall clock that is set must be noticed.
const maxSleep = time.Second

func (m *member) id() string { return memberID(m.name, m.incarnation) }

func memberID(name string, incarnation int64) string {
	return scheduler.Member{Name: name, Incarnation: incarnation}.ID()
}

func (m *member) reading() scheduler.Reading {
	return scheduler.Reading{Wall: m.world.epoch.Add(m.world.now + m.skew), Elapsed: m.world.now + m.boot}
}

// beyond is the latest instant that a change served here may move a cursor to.
func (m *member) beyond(now scheduler.Reading) time.Time {
	if m.clock.NotBeyond.IsZero() {
		return now.Wall
	}
	return m.clock.NotBeyond.Add(now.Elapsed - m.clockAt)
}

// serves says whether a user's request is answered here.
func (m *member) serves() bool {
	return m.up && !m.link.requests && !m.link.replies && m.stalled <= m.world.now && !m.world.etcd.down
}

// ailing says whether something is wrong with the member or its link.
func (m *member) ailing() bool {
	w := m.world
	switch {
	case !m.up:
		return !m.draining // one that was drained has left in good order
	case m.link.requests, m.link.replies, m.link.slow > 0, m.link.deaf, m.stalled > w.now, m.frozen > w.now:
		return true
	}
	return w.now-m.stepped < scheduler.StepTrial+2*maxSleep
}

// start begins a new process.
func (m *member) start() {
	if m.up {
		return
	}
	m.up, m.stalled, m.waiting = true, 0, nil
	m.life++
	m.process = process{
		agenda: scheduler.NewAgenda(), jobs: make([]*tracked, len(m.world.jobs)), held: map[string]*attempt{}, wakes: -1,
		kept: map[*job]*tracked{},
	}
	m.link.missed, m.began = false, m.world.now
	m.world.tell(m.name, "starts")
	m.world.trouble(0)
	for _, l := range m.folder { // a proof of death: this process holds the data folder
		m.revoke(l)
	}
	m.folder = nil
	m.joinAgain()
	m.readRules()
	m.every(m.world.ttl, m.watchLocks)
	m.every(marksEvery, m.watchMarks)
	m.turn()
}

// every lets the process do something again and again.
func (m *member) every(d time.Duration, do func()) {
	life := m.life
	m.world.after(d, func() {
		m.awake(life, func() {
			do()
			m.every(d, do)
		})
	})
}

// crash kills the process; its supervisor, which sees the pipe close, kills the attempts. With keep the
// data folder is there when it starts again.
func (m *member) crash(keep bool) {
	if !m.up {
		return
	}
	m.world.tell(m.name, "crashes")
	m.world.count("crash")
	m.frozen, m.thawing = 0, nil // a machine that stood is switched off
	m.draining = false
	m.end()
	if !keep {
		m.folder = nil
	}
}

// end is the end of the process, however it came.
func (m *member) end() {
	m.up = false
	m.life++
	for _, a := range m.running() {
		m.world.oracle.stopped(a.run, "", "")
	}
	m.waiting = nil
}

// supervised lets the supervisor do something now, or as soon as the machine goes on.
func (m *member) supervised(do func()) {
	if m.frozen > m.world.now {
		m.thawing = append(m.thawing, do)
		return
	}
	do()
}

// stall stops the process for a while, not its supervisor.
func (m *member) stall(d time.Duration) {
	w := m.world
	w.trouble(d)
	if !m.up {
		return
	}
	w.tell(m.name, "stalls for %s", d)
	w.count("stall")
	m.stalled = max(m.stalled, w.now+d)
	life := m.life
	w.after(d, func() {
		if m.life == life && m.stalled <= w.now {
			m.goOn()
		}
	})
}

func (m *member) goOn() {
	list, life := m.waiting, m.life
	m.waiting = nil
	for _, happen := range list {
		m.awake(life, happen)
	}
}

// freeze stops the whole machine for a while: process, supervisor and attempts. Its clocks go on.
func (m *member) freeze(d time.Duration) {
	w := m.world
	w.trouble(d)
	w.tell(m.name, "is frozen for %s", d)
	w.count("freeze")
	more := w.now + d - max(m.frozen, w.now)
	m.frozen = max(m.frozen, w.now+d)
	for _, a := range m.running() {
		a.run.frozen = true
		a.run.paused += max(more, 0)
		a.run.thaw = m.frozen
	}
	if m.up {
		m.stalled = max(m.stalled, w.now+d)
	}
	w.after(d, func() {
		if m.frozen > w.now {
			return
		}
		list := m.thawing
		m.thawing = nil
		for _, do := range list { // the supervisor's deadlines come first: it sleeps on them
			do()
		}
		if m.up && m.stalled <= w.now {
			m.goOn()
		}
	})
}

// step moves the wall clock.
func (m *member) step(d time.Duration) {
	m.world.tell(m.name, "has its clock stepped by %s", d)
	m.world.count("stepped clock")
	m.skew += d
	if d.Abs() > scheduler.StepLimit {
		m.stepped = m.world.now
	}
	m.world.trouble(scheduler.StepTrial + 2*maxSleep)
}

// cut severs a direction of the link; heal mends everything about it.
func (m *member) cut(requests, replies bool) {
	m.world.tell(m.name, "is cut off%s", map[bool]string{true: "", false: " in one direction"}[requests && replies])
	m.world.count("cut link")
	m.link.requests = m.link.requests || requests
	m.link.replies = m.link.replies || replies
}

func (m *member) heal() {
	if !m.link.requests && !m.link.replies && m.link.slow == 0 && !m.link.deaf {
		return
	}
	m.world.tell(m.name, "is connected again")
	missed, wasDeaf := m.link.missed || m.link.replies, m.link.deaf
	m.link = link{orders: m.link.orders}
	m.world.trouble(map[bool]time.Duration{true: marksEvery + eventLost}[wasDeaf])
	if missed && m.up {
		m.awake(m.life, m.resync)
	}
}

// resync reads what watches missed while the link was cut.
func (m *member) resync() {
	m.readRules()
	list, rev := m.world.etcd.members, m.world.etcd.rev
	m.hear(nil, func() { m.takeMembers(list, rev) })
	for _, t := range m.jobs {
		if t != nil {
			m.reload(t)
			for _, f := range t.follows {
				m.look(t, f)
			}
		}
	}
	for _, key := range m.world.etcd.cancels {
		if key.member == m.name {
			m.hear(key.rec.job, func() { m.takeCancel(key) })
		}
	}
}

// attempts are all that the process holds, in the order in which their Begins were sent.
func (m *member) attempts() []*attempt {
	list := make([]*attempt, 0, len(m.held))
	for _, a := range m.held {
		list = append(list, a)
	}
	slices.SortFunc(list, func(a, b *attempt) int { return a.serial - b.serial })
	return list
}

// running are the attempts whose process runs.
func (m *member) running() []*attempt {
	return slices.DeleteFunc(m.attempts(), func(a *attempt) bool { return a.run == nil || a.run.over })
}

func (m *member) nonce() string {
	m.nonces++
	return fmt.Sprintf("%s/%d/%d", m.name, m.life, m.nonces)
}
