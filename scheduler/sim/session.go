package sim

import (
	"slices"
	"time"

	"github.com/quorumcron/quorumcron/scheduler"
)

// session is a lease that locks go under, as the member sees it.
//
//	open ──K + 2/3 TTL without an answer──▶ doubted ──answered──▶ open
//	                                          └─ nothing held ──▶ retired (being revoked)
//	any ──etcd says that it is gone──▶ lost
type session struct {
	lease *lease
	life  scheduler.LockLife
	phase phase
	held  int // attempts under it, from before their Begin is sent
}

type phase int

const (
	open phase = iota
	doubted
	retired
	lost
)

// joinAgain makes the process a member. Locks are opened once it is one.
func (m *member) joinAgain() {
	call(m, "grant", nil, func() *lease { return m.world.etcd.grantLease(m, "member") }, func(l *lease, known bool) {
		if !known {
			m.joinAgain()
			return
		}
		m.memberLease = l
		m.folder = append(m.folder, l)
		m.keep(l, func(time.Duration) {}, func() {
			m.world.tell(m.name, "learns that its member lease is gone")
			m.world.count("lost session")
			m.dropFolder(l)
			m.memberLease = nil
			m.joinAgain()
		})
		m.enter(l)
	})
}

// enter puts the member key until it is known to be there. The member then goes by another ID, and owns
// nothing until an assignment names that (rule 12).
func (m *member) enter(l *lease) {
	call(m, "join", nil, func() joining { return m.world.etcd.join(m, l) }, func(j joining, known bool) {
		switch {
		case l.dead && known && j.leaseGone: // keep joins again
		case !known || j.incarnation == 0: // or another process has the name; its lease ends soon
			life := m.life
			m.world.after(time.Second, func() { m.awake(life, func() { m.enter(l) }) })
		default:
			m.incarnation = j.incarnation
			m.takeRules(m.rules)
			m.openLocks()
		}
	})
}

func (m *member) dropFolder(l *lease) {
	m.folder = slices.DeleteFunc(m.folder, func(o *lease) bool { return o == l })
}

// revoke ends a lease, as often as it takes.
func (m *member) revoke(l *lease) {
	revoke := func() bool {
		m.world.etcd.revoke(l)
		return true
	}
	call(m, "revoke", nil, revoke, func(_, known bool) {
		if !known {
			m.revoke(l)
		}
	})
}

// openLocks opens a session for locks if none may take any.
func (m *member) openLocks() {
	if m.opening || slices.ContainsFunc(m.sessions, func(s *session) bool { return s.phase <= doubted }) {
		return
	}
	m.opening = true
	sent := m.reading().Elapsed
	call(m, "grant", nil, func() *lease { return m.world.etcd.grantLease(m, "lock") }, func(l *lease, known bool) {
		m.opening = false
		if !known {
			m.openLocks()
			return
		}
		s := &session{lease: l, life: scheduler.LockLife{Sent: sent, TTL: m.world.ttl, Grace: m.world.grace}}
		m.sessions = append(m.sessions, s)
		m.folder = append(m.folder, l)
		m.keep(l, func(sent time.Duration) { m.renewed(s, sent) }, func() { m.sessionLost(s) })
		m.supervise(s)
		m.roomMade(m.capacity)
	})
}

// usable is the session that new locks go under, or nil.
func (m *member) usable(now scheduler.Reading) *session {
	for _, s := range m.sessions {
		if s.phase == open && now.Elapsed < s.life.ClaimUntil() {
			return s
		}
	}
	return nil
}

// renewed notes an answered keep-alive: it counts from when it was sent.
func (m *member) renewed(s *session, sent time.Duration) {
	s.life.Sent = max(s.life.Sent, sent)
	if s.phase != doubted || m.reading().Elapsed >= s.life.ClaimUntil() {
		return
	}
	s.phase = open
	m.closeForgotten()
	m.roomMade(m.capacity)
}

// doubtSessions doubts those that were not answered for too long: nothing is claimed under them, and
// what was granted and not started is dropped (rule 11).
func (m *member) doubtSessions(now scheduler.Reading) {
	for _, s := range m.sessions {
		if s.phase == open && now.Elapsed >= s.life.ClaimUntil() {
			m.world.tell(m.name, "doubts its lock session")
			m.world.count("doubted session")
			s.phase = doubted
			m.retire(s)
		}
	}
}

// retire gives up a doubted session under which nothing is held, so that what may still be on its way
// under it cannot commit, and opens another.
func (m *member) retire(s *session) {
	if s.phase != doubted || s.held > 0 {
		return
	}
	s.phase = retired
	m.dropFolder(s.lease)
	m.revoke(s.lease)
	m.dropSessions()
	m.openLocks()
}

// sessionLost notes that etcd says that a session is gone. Attempts under it run on until their
// deadlines; their entries are settled as anybody's whose lock is gone.
func (m *member) sessionLost(s *session) {
	if s.phase == retired {
		return
	}
	m.world.tell(m.name, "learns that its lock session is gone")
	m.world.count("lost session")
	s.phase = lost
	m.dropFolder(s.lease)
	now := m.reading()
	for _, a := range m.attempts() {
		t := m.at(a.rec.job)
		if a.session != s || t == nil || t.rec != a.rec {
			continue
		}
		if x, in := t.entry(a.firing); in && x.Nonce == a.nonce {
			t.learn(x, 0, nil, now)
			m.soon(t)
		}
	}
	m.dropSessions()
	m.openLocks()
}

// dropSessions forgets what is over and counted on by nobody.
func (m *member) dropSessions() {
	m.sessions = slices.DeleteFunc(m.sessions, func(s *session) bool { return s.phase >= retired && s.held == 0 })
}

// keep keeps a lease alive by requests each a quarter of its TTL, until it is gone. They do not wait
// for one another's answers.
func (m *member) keep(l *lease, answered func(sent time.Duration), gone func()) {
	over := false
	ask := func() {
		sent := m.reading().Elapsed
		call(m, "keep-alive", nil, func() bool { return m.world.etcd.keepAlive(l) }, func(alive, known bool) {
			switch {
			case over || !known:
			case alive:
				answered(sent)
			default:
				over = true
				gone()
			}
		})
	}
	life := m.life
	var tick func()
	again := func() {
		if !over {
			ask()
			tick()
		}
	}
	tick = func() { m.world.after(m.world.ttl/4, func() { m.awake(life, again) }) }
	tick()
}

// supervise is the supervisor's part: it ends the attempts of a session at the deadlines that only
// answered keep-alives push on. First it asks them to (TERM), then it kills.
func (m *member) supervise(s *session) {
	w, life := m.world, m.life
	now := m.reading().Elapsed
	wait := s.life.TermAt() - now
	if wait <= 0 {
		wait = s.life.KillAt() - now
	}
	if wait <= 0 {
		wait = time.Second
	}
	w.after(wait, func() {
		if m.life != life || w.without == CutKill {
			return
		}
		m.supervised(func() {
			if m.life != life {
				return
			}
			m.enforce(s)
			if s.phase <= doubted || s.held > 0 {
				m.supervise(s)
			}
		})
	})
}

func (m *member) enforce(s *session) {
	now := m.reading().Elapsed
	term, kill := now >= s.life.TermAt(), now >= s.life.KillAt()
	if !term {
		return
	}
	for _, a := range m.running() {
		if a.session == s && (kill || !a.run.stubborn) {
			m.world.count("kill")
			m.ended(a, scheduler.Failed, scheduler.ReasonLockLost)
		}
	}
}
