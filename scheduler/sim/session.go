package sim

import (
	"time"

	"github.com/quorumcron/quorumcron/scheduler"
)

// session is a lease that locks go under, as the member sees it.
type session struct {
	id   int64
	life scheduler.LockLife
	lost bool
}

// join makes the process a member, again if its lease was lost.
func (m *member) join() {
	call(m, func() int64 { return m.world.etcd.grantLease(ttl) }, func(id int64, known bool) {
		if !known {
			m.join()
			return
		}
		m.keep(id, func(time.Duration) {}, m.join)
		m.enter(id)
	})
}

// enter puts the member key until it is known to be there. The member then goes by another ID, and owns
// nothing until an assignment names that.
func (m *member) enter(lease int64) {
	call(m, func() int64 { return m.world.etcd.join(m.name, lease) }, func(incarnation int64, known bool) {
		switch {
		case !known:
			m.enter(lease)
		case incarnation != 0: // else the lease is gone, and keep joins again
			m.incarnation = incarnation
			m.own()
		}
	})
}

// openLocks opens a session for locks.
func (m *member) openLocks() {
	sent := m.reading().Elapsed
	call(m, func() int64 { return m.world.etcd.grantLease(ttl) }, func(id int64, known bool) {
		if !known {
			m.openLocks()
			return
		}
		s := &session{id: id, life: scheduler.LockLife{Sent: sent, TTL: ttl, Grace: grace}}
		m.locks = s
		m.sessions = append(m.sessions, s)
		m.keep(id, func(sent time.Duration) {
			refreshed := m.reading().Elapsed >= s.life.ClaimUntil()
			s.life.Sent = sent
			if refreshed {
				m.soonAll()
			}
		}, func() { m.lostLocks(s) })
		m.supervise(s)
		m.soonAll()
	})
}

// lostLocks ends a session that etcd says is gone. Attempts under it run on until their deadline.
func (m *member) lostLocks(s *session) {
	m.world.say("%s lost lock session %d", m, s.id)
	m.world.count("lost session")
	s.lost = true
	if m.locks == s {
		m.locks = nil
	}
	m.openLocks()
}

// keep keeps a lease alive by requests each a quarter of its TTL, until it is gone.
func (m *member) keep(id int64, answered func(sent time.Duration), gone func()) {
	life := m.life
	send := func() {
		sent := m.reading().Elapsed
		call(m, func() bool { return m.world.etcd.keepAlive(id, ttl) }, func(alive, known bool) {
			if known && !alive {
				gone()
				return
			}
			if known {
				answered(sent)
			}
			m.keep(id, answered, gone)
		})
	}
	m.world.after(ttl/4, func() {
		if m.life == life {
			m.awake(send)
		}
	})
}

// supervise kills the attempts of a session at the deadline that only answered keep-alives push on. It
// goes on while the session lives: a keep-alive that travelled for long can have kept the lease, so that
// the session is used again.
func (m *member) supervise(s *session) {
	life, wait := m.life, s.life.KillAt()-m.reading().Elapsed
	if wait <= 0 {
		wait = time.Second
	}
	m.world.after(wait, func() {
		if m.life != life || m.world.cfg.Cut == CutKill {
			return
		}
		dead := s.life.KillAt() <= m.reading().Elapsed
		for _, a := range m.running() {
			if dead && a.session == s {
				m.world.say("%s kills %s", m, a.firing)
				m.world.count("kill")
				m.end(a, scheduler.Failed, scheduler.ReasonLockLost)
			}
		}
		if !dead || !s.lost {
			m.supervise(s)
		}
	})
}
