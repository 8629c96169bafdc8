package sim

import (
	"slices"
	"time"

	"github.com/quorumcron/quorumcron/scheduler"
)

// attempt is an attempt of this process, from before its Begin is sent until its end is recorded.
type attempt struct {
	serial  int
	job     scheduler.JobName
	firing  scheduler.Firing
	entry   scheduler.Entry
	token   int64
	session *session
	sent    time.Duration // when its Begin was sent, elapsed clock
	process *process
	ended   bool
}

// begin sends a Begin and deals with its answer, however it comes (rules 1 and 2).
func (m *member) begin(name scheduler.JobName, t *tracked, c claim, now scheduler.Reading) {
	c.nonce, c.lease = m.nonce(), m.locks.id
	c.decision = c.decision.Grant(m.name, c.nonce, m.locks.life.TTL+m.locks.life.Grace)
	entry, _ := c.decision.Entry()
	if m.world.cfg.Cut == CutHold {
		c.decision = c.decision.Grant(m.name, c.nonce, -scheduler.LoseMargin)
	}
	a := &attempt{serial: m.nonces, job: name, firing: c.decision.Firing, entry: entry, session: m.locks, sent: now.Elapsed}
	m.attempts[c.nonce] = a
	etcd := m.world.etcd
	call(m, func() outcome { return etcd.claim(c) }, func(o outcome, known bool) {
		switch {
		case !known && m.world.cfg.Cut != CutFence:
			m.resolve(name, t, c, a)
			return
		case known && o.committed:
			m.granted(a, o.now.stateRev)
		default:
			delete(m.attempts, c.nonce)
		}
		m.answered(name, t, o, known)
	})
}

// resolve asks until it knows what became of a Begin.
func (m *member) resolve(name scheduler.JobName, t *tracked, c claim, a *attempt) {
	type resolved struct {
		token int64
		now   snapshot
	}
	ask := func() resolved {
		token, now := m.world.etcd.resolve(c)
		return resolved{token, now}
	}
	call(m, ask, func(r resolved, known bool) {
		if !known {
			m.resolve(name, t, c, a)
			return
		}
		m.world.count("resolved claim")
		if r.token != 0 {
			m.granted(a, r.token)
		} else {
			delete(m.attempts, c.nonce)
		}
		m.answered(name, t, outcome{committed: r.token != 0, now: r.now}, true)
	})
}

// granted starts an attempt, if it is young enough and its session is not doubted.
func (m *member) granted(a *attempt, token int64) {
	a.token = token
	if a.session.lost || !a.session.life.MayStart(a.sent, m.reading().Elapsed) {
		m.world.say("%s does not start %s", m, a.firing)
		m.world.count("never started")
		m.end(a, scheduler.Lost, scheduler.ReasonNeverStarted)
		return
	}
	a.process = &process{firing: a.firing, attempt: a.entry.Attempt, member: m.String()}
	m.world.say("%s starts %s attempt %d", m, a.firing, a.entry.Attempt)
	m.world.ledger.started(a.process)
	life := m.life
	m.world.after(m.world.runtime(), func() {
		if m.life == life && !a.ended {
			m.end(a, pick(m.world, scheduler.Succeeded, scheduler.Succeeded, scheduler.Failed), "")
		}
	})
}

// runtime is how long a run takes: mostly seconds, sometimes minutes.
func (w *world) runtime() time.Duration {
	switch n := w.rng.IntN(20); {
	case n < 14:
		return w.within(100*time.Millisecond, 10*time.Second)
	case n < 19:
		return w.within(10*time.Second, 90*time.Second)
	}
	return w.within(90*time.Second, 4*time.Minute)
}

// end ends an attempt here; its Finish goes on its way.
func (m *member) end(a *attempt, v scheduler.Verdict, why scheduler.Reason) {
	a.ended = true
	if a.process != nil {
		m.world.ledger.stopped(a.process)
	}
	if v == scheduler.Failed && why == "" {
		why = scheduler.ReasonError
	}
	line := scheduler.Attempt{
		Number: a.entry.Attempt, Token: a.token, Member: m.name, Granted: a.entry.Granted, Verdict: v, Reason: why,
	}
	run := scheduler.Run{
		Job: a.job, Firing: a.firing, Generation: a.entry.Generation, Slot: a.entry.Slot,
		Attempts: append(slices.Clone(a.entry.Past), line),
	}
	if t := m.jobs[a.job]; t != nil {
		if f, known := t.facts[a.firing]; known && f.Attempt == a.entry.Attempt && f.Record == nil {
			f.Ending, f.EndingSince = true, m.reading().Elapsed
			t.facts[a.firing] = f
		}
	}
	m.awake(func() { m.finish(a, run) })
}

// finish records the end, as often as it takes (rule 4).
func (m *member) finish(a *attempt, run scheduler.Run) {
	call(m, func() bool { return m.world.etcd.finish(a.job, run) }, func(recorded, known bool) {
		switch {
		case !known:
			m.finish(a, run)
		case recorded:
			m.forget(a)
		default:
			m.late(a, run)
		}
	})
}

// late is for the end of an attempt whose lock is gone (rule 6).
func (m *member) late(a *attempt, run scheduler.Run) {
	etcd := m.world.etcd
	call(m, func() snapshot { return etcd.read(a.job) }, func(s snapshot, known bool) {
		f, inFlight := s.entries[a.firing]
		switch {
		case !known:
			m.late(a, run)
		case !inFlight || f.attempt != run.Last().Number || f.record != nil || f.lock != 0:
			m.world.count("dropped result")
			m.forget(a)
		default:
			call(m, func() bool { return etcd.late(a.job, run, s.stateRev) }, func(written, known bool) {
				if known && written {
					m.forget(a)
					return
				}
				m.late(a, run)
			})
		}
	})
}

func (m *member) forget(a *attempt) {
	delete(m.attempts, a.entry.Nonce)
	m.soonAll() // there is room
}
