package sim

import (
	"slices"
	"strings"
	"time"

	"github.com/quorumcron/quorumcron/scheduler"
)

// attempt is an attempt of this process, from before its Begin is sent until its end is recorded.
type attempt struct {
	serial   int
	rec      *record
	def      *scheduler.Job // it was granted under
	firing   scheduler.Firing
	nonce    string
	entry    scheduler.Entry
	session  *session
	sent     time.Duration // when its Begin was sent, elapsed clock
	token    int64         // 0 until it is granted
	canceled int64         // the token of the attempt that somebody wants to end
	run      *execution    // nil until it is started
}

// execution is the operating system's process of an attempt.
type execution struct {
	rec      *record
	firing   scheduler.Firing
	attempt  int
	token    int64
	by       *member
	since    time.Duration
	sent     time.Duration // when its Begin was sent, true time
	paused   time.Duration // how long its machine stood while it ran
	frozen   bool          // its machine has stood since it was granted
	stubborn bool          // it does not end when it is asked to
	over     bool
	lasts    time.Duration     // how long it runs if nothing ends it
	verdict  scheduler.Verdict // how it ended; "" when it was killed with its member
	thaw     time.Duration     // when its machine goes on, or went on
	unlocked time.Duration     // when its lock went without its end; 0: it did not
}

// begin sends a Begin and deals with its answer, however it comes (rules 1 and 2). The attempt is held
// from before that, so that the listing of locks never takes it for forgotten.
func (m *member) begin(t *tracked, c *claim, s *session) {
	c.nonce, c.session = m.nonce(), s
	hold := s.life.TTL + s.life.Grace
	if m.world.without == CutHold {
		hold = -scheduler.LoseMargin
	}
	*c.decision = c.decision.Grant(m.name, c.nonce, hold)
	entry, _ := c.decision.Entry()
	a := &attempt{
		serial: m.nonces, rec: t.rec, def: t.def, firing: entry.Firing, nonce: c.nonce, entry: entry,
		session: s, sent: c.now.Elapsed,
	}
	m.held[c.nonce] = a
	s.held++
	etcd := m.world.etcd
	call(m, "begin", t.job, func() outcome { return etcd.claim(c) }, func(o outcome, known bool) {
		switch {
		case known:
			m.claimed(t, c, a, o)
		case m.world.without == CutFence:
			m.claimed(t, c, a, outcome{})
		case m.world.without == CutUnknownGranted:
			m.claimed(t, c, a, outcome{committed: true, rev: c.stateRev + 1})
		default:
			m.resolve(c, func(o outcome) { m.claimed(t, c, a, o) })
		}
	})
}

// claimed takes in what became of a Begin: the attempt is started, closed, or was never granted.
func (m *member) claimed(t *tracked, c *claim, a *attempt, o outcome) {
	m.answered(t, c, o, true)
	if !o.committed {
		m.letGo(a)
		return
	}
	if m.panics(t.job) {
		m.world.tell(m.name, "panics and forgets that %s was granted", m.world.trace.subject(c.decision))
		m.world.count("panic")
		m.letGo(a)
		m.closeForgotten()
		return
	}
	a.token, a.entry.Token = o.rev, o.rev
	if !m.mayStart(a) {
		m.world.tell(m.name, "does not start %s: the grant is too old, or its session is doubted", m.world.trace.subject(c.decision))
		m.world.count("never started")
		m.record(a, scheduler.Lost, scheduler.ReasonNeverStarted)
		return
	}
	m.startRun(a)
}

// panics takes a panic that a script has ordered.
func (m *member) panics(j *job) bool {
	i := slices.Index(m.crashes, j.name.Name)
	if i < 0 {
		i = slices.Index(m.crashes, "")
	}
	if i < 0 {
		return false
	}
	m.crashes = slices.Delete(m.crashes, i, i+1)
	return true
}

// mayStart says whether a grant is young and sure enough to be acted on.
func (m *member) mayStart(a *attempt) bool {
	if m.world.without == CutAge {
		return true
	}
	return a.session.phase == open && a.session.life.MayStart(a.sent, m.reading().Elapsed)
}

// startRun starts the process of an attempt. How long it takes and how it ends lies in the definition it
// was granted under (see behaviour).
func (m *member) startRun(a *attempt) {
	w := m.world
	b := w.behaviour(a.def.Run.Handler.Payload)
	draw := chanceOf(w.seed, a.firing.UID, a.firing.Scheduled, int64(hashText(a.firing.Trigger)), int64(a.entry.Attempt))
	a.run = &execution{
		rec: a.rec, firing: a.firing, attempt: a.entry.Attempt, token: a.token, by: m, since: w.now,
		sent: a.sent - m.boot, stubborn: b.stubborn,
	}
	w.trace.add(line{at: w.now, verb: starts, who: m.name, firing: a.firing, attempt: a.entry.Attempt})
	w.oracle.started(a.run)
	takes, verdict := draw.within(b.from, b.to), b.verdict(&draw)
	reason := map[scheduler.Verdict]scheduler.Reason{scheduler.Failed: scheduler.ReasonExitCode}[verdict]
	if limit := a.def.Policy.Timeout; limit > 0 && takes > limit {
		takes, verdict, reason = limit, scheduler.TimedOut, ""
	}
	a.run.lasts = takes
	m.runFor(a, takes, verdict, reason)
	if a.canceled == a.token {
		m.ended(a, scheduler.Canceled, "")
	}
}

// runFor ends the attempt after a while, in which the time that its machine stands does not count.
func (m *member) runFor(a *attempt, d time.Duration, v scheduler.Verdict, why scheduler.Reason) {
	paused := a.run.paused
	m.world.after(d, func() {
		switch {
		case a.run.over:
		case a.run.paused > paused:
			m.runFor(a, a.run.paused-paused, v, why)
		default:
			m.ended(a, v, why)
		}
	})
}

// ended is the end of an attempt's process. Its Finish goes on its way as soon as the member's process
// sees to it.
func (m *member) ended(a *attempt, v scheduler.Verdict, why scheduler.Reason) {
	w := m.world
	if a.run.over {
		return
	}
	w.trace.add(line{at: w.now, verb: ends, who: m.name, firing: a.firing, attempt: a.entry.Attempt, verdict: v, reason: why})
	w.oracle.stopped(a.run, v, why)
	m.awake(m.life, func() {
		if t := m.at(a.rec.job); t != nil && t.rec == a.rec {
			if f, ok := t.facts[a.firing]; ok && f.Attempt == a.entry.Attempt && f.Record == nil {
				f.Ending, f.EndingSince = true, m.reading().Elapsed
				t.facts[a.firing] = f
			}
		}
		m.record(a, v, why)
	})
}

// record writes the end of an attempt: Finish while the lock is there, else as a late result.
func (m *member) record(a *attempt, v scheduler.Verdict, why scheduler.Reason) {
	line := scheduler.Attempt{
		Number: a.entry.Attempt, Token: a.token, Member: m.name, Granted: a.entry.Granted, Verdict: v, Reason: why,
		Finished: m.reading().Wall,
	}
	run := &scheduler.Run{
		Job: a.def.Name, Firing: a.firing, Generation: a.entry.Generation, Slot: a.entry.Slot,
		Attempts: append(slices.Clone(a.entry.Past), line),
	}
	if m.world.without == CutFoldUnseen {
		m.recordSeen(a.rec, a.entry, run)
	}
	m.finish(a, run)
}

// finish records the end, as often as it takes (rule 4).
func (m *member) finish(a *attempt, run *scheduler.Run) {
	canceled := run.Last().Verdict == scheduler.Canceled
	call(m, "finish", a.rec.job, func() bool { return m.world.etcd.finish(a.rec, run, canceled) }, func(recorded, known bool) {
		switch {
		case !known:
			m.finish(a, run)
		case recorded:
			m.recordSeen(a.rec, a.entry, run)
			m.letGo(a)
		default:
			m.late(a, run)
		}
	})
}

func (m *member) recordSeen(rec *record, e scheduler.Entry, run *scheduler.Run) {
	t := m.at(rec.job)
	if t == nil || t.rec != rec {
		return
	}
	later := func(x scheduler.Entry) bool { return x.Firing == e.Firing && x.Attempt > e.Attempt }
	if t.state != nil && slices.ContainsFunc(t.state.Entries, later) {
		return // what is known of the later attempt must stay
	}
	t.learn(e, 0, run, m.reading())
	m.soon(t)
}

// late is for the end of an attempt whose lock is gone (rule 6): it is read how things are, and written
// if they are still so.
func (m *member) late(a *attempt, run *scheduler.Run) {
	etcd := m.world.etcd
	again := func() { m.late(a, run) }
	call(m, "late", a.rec.job, func() lateRead { return etcd.readLate(a.rec, run) }, func(read lateRead, known bool) {
		switch {
		case !known:
			again()
		case read.held:
			m.finish(a, run)
		case read.recorded:
			m.letGo(a)
		case read.dropped != "":
			m.world.count("dropped result")
			m.world.tell(m.name, "drops the result of %s #%d, %s: %s", m.world.trace.short(a.firing), a.entry.Attempt,
				outcomeText(run.Last().Verdict, run.Last().Reason), read.dropped)
			m.letGo(a)
		default:
			call(m, "late", a.rec.job, func() bool { return etcd.late(a.rec, run, read) }, func(written, known bool) {
				if !known || !written {
					again()
					return
				}
				if t := m.at(a.rec.job); t != nil && t.rec == a.rec {
					m.reload(t)
				}
				m.letGo(a)
			})
		}
	})
}

// letGo gives back what an attempt held, and wakes what waited for the room.
func (m *member) letGo(a *attempt) {
	delete(m.held, a.nonce)
	a.session.held--
	m.retire(a.session)
	m.dropSessions()
	m.roomMade(1)
}

// takeCancel ends an attempt that somebody wants to end (rule 13). A cancel that concerns nothing held
// here came too late: it is removed.
func (m *member) takeCancel(key cancelKey) {
	for _, a := range m.attempts() {
		if a.firing != key.firing {
			continue
		}
		switch {
		case a.token == 0:
			a.canceled = key.token
			return
		case a.token == key.token:
			if a.run != nil && !a.run.over {
				m.ended(a, scheduler.Canceled, "")
			}
			return
		}
	}
	call(m, "cancel", key.rec.job, func() bool { m.world.etcd.dropCancel(m.name, key.firing); return true }, func(_, known bool) {
		if !known {
			m.takeCancel(key)
		}
	})
}

// behaviour is what the attempts of a job do. It travels in the payload of the job's handler, as a part
// of the definition, so that an edit can change it and an attempt keeps that of its grant.
type behaviour struct {
	from, to time.Duration // how long it runs
	ends     string        // ok, fail, or mixed: each third fails
	stubborn bool          // it does not end when it is asked to, only when it is killed
}

const defaultRuns = 10 * time.Second

// behaviour reads a payload, whose form was checked when the script was read.
func (w *world) behaviour(payload string) behaviour {
	b, known := w.behaviours[payload]
	if known {
		return b
	}
	b = behaviour{from: defaultRuns, to: defaultRuns}
	for word := range strings.FieldsSeq(payload) {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "runs":
			b.from, b.to, _ = parseRange(value)
		case "ends":
			b.ends = value
		case "stubborn":
			b.stubborn = true
		}
	}
	w.behaviours[payload] = b
	return b
}

func (b behaviour) verdict(c *chance) scheduler.Verdict {
	if b.ends == "fail" || b.ends == "mixed" && c.below(3) == 0 {
		return scheduler.Failed
	}
	return scheduler.Succeeded
}
