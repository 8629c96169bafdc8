package sim

import (
	"slices"
	"time"

	"github.com/quorumcron/quorumcron/scheduler"
)

// This file is what a member looks after beside the firing path: locks that nobody holds (rule 3), watch
// events that were lost, the dispatcher's duties, and the way out.

// watchLocks looks for forgotten locks each TTL while anything is held.
func (m *member) watchLocks() {
	if len(m.held) > 0 {
		m.closeForgotten()
	}
}

// closeForgotten closes the locks of this process that nothing holds. The listing comes first and is
// compared with what is held when it arrives: a lock that was taken since is not in it, and one whose
// Begin is on its way is held.
func (m *member) closeForgotten() {
	if m.world.without == CutOrphans {
		return
	}
	before := map[string]bool{}
	for nonce := range m.held {
		before[nonce] = true
	}
	for _, s := range m.sessions {
		if s.phase >= retired {
			continue
		}
		call(m, "list", nil, func() []*lock { return m.world.etcd.locksOf(s.lease) }, func(list []*lock, known bool) {
			if !known {
				return
			}
			for _, l := range list {
				held := m.held[l.nonce] != nil
				if m.world.without == CutListFirst {
					held = before[l.nonce]
				}
				if !held {
					m.closeLock(l)
				}
			}
		})
	}
}

// closeLock ends the attempt of a lock that nothing holds, if that is still so when its entry is read.
func (m *member) closeLock(l *lock) {
	read := func() *scheduler.Entry {
		for _, x := range l.rec.filled.Entries {
			if x.Token == l.created && l.rec.lock(l.firing) == l {
				return &x
			}
		}
		return nil // it has ended meanwhile
	}
	call(m, "read", l.rec.job, read, func(x *scheduler.Entry, known bool) {
		if !known || x == nil || m.held[l.nonce] != nil && m.world.without != CutListFirst {
			return
		}
		m.world.tell(m.name, "closes the lock of %s #%d, which nothing here holds", m.world.trace.short(l.firing), l.attempt)
		m.world.count("closed orphan")
		run := &scheduler.Run{
			Job: l.rec.def.Name, Firing: l.firing, Generation: x.Generation, Slot: l.slot,
			Attempts: append(slices.Clone(x.Past), scheduler.Attempt{
				Number: l.attempt, Token: l.created, Member: l.member, Granted: x.Granted,
				Verdict: scheduler.Lost, Reason: scheduler.ReasonNeverStarted, Finished: m.reading().Wall,
			}),
		}
		call(m, "finish", l.rec.job, func() bool { return m.world.etcd.finish(l.rec, run, false) }, func(recorded, _ bool) {
			if recorded { // or nobody here would look at it again before something else is due
				m.recordSeen(l.rec, *x, run)
			}
		})
	})
}

const (
	// marksEvery is how often lost watch events are looked for.
	marksEvery = time.Minute
	// eventLost is how long an event may be missing before its shard is read anew.
	eventLost = 5 * time.Second
)

// watchMarks looks for lost watch events.
func (m *member) watchMarks() {
	if m.world.without != CutMarks {
		m.lookAtMarks()
	}
}

// lookAtMarks reads what the newest changes are, and a few seconds later reads anew what has still not
// been heard of.
func (m *member) lookAtMarks() {
	type marks struct {
		shards [scheduler.ShardCount]int64
		rules  rules
	}
	etcd, life := m.world.etcd, m.life
	call(m, "read", nil, func() marks { return marks{etcd.marks, etcd.rules} }, func(read marks, known bool) {
		if !known {
			return
		}
		m.world.after(eventLost, func() {
			m.awake(life, func() {
				if read.rules.rev > m.rules.rev {
					m.world.tell(m.name, "has missed an event, reads the rules again")
					m.world.count("found lost event")
					m.takeRules(read.rules)
				}
				for _, j := range m.world.jobs {
					if m.mine[j.shard] {
						m.compareMark(j, read.shards[j.shard])
					}
				}
			})
		})
	})
}

// compareMark reads a job anew if a change of it has not been heard of.
func (m *member) compareMark(j *job, mark int64) {
	t := m.at(j)
	switch {
	case t == nil && j.rec != nil && max(j.rec.defRev, j.rec.triggerRev()) <= mark:
		m.gain(j)
	case t != nil && !t.busy && t.stateRev != 0 && (j.rec != t.rec || t.defRev != t.rec.defRev || len(t.triggers) != len(t.rec.triggers)) &&
		t.shownRev < mark:
		m.reload(t)
	default:
		return
	}
	m.world.tell(m.name, "has missed an event, reads %s again", j.name.Name)
	m.world.count("found lost event")
}

func (r *record) triggerRev() (rev int64) {
	for _, t := range r.triggers {
		rev = max(rev, t.Revision)
	}
	return rev
}

// takeMembers takes in who lives.
func (m *member) takeMembers(list []memberKey, rev int64) {
	if rev < m.liveRev {
		return
	}
	m.liveRev = rev
	m.live = m.live[:0:0]
	for _, k := range list {
		m.live = append(m.live, k.member)
	}
	m.lookAround()
}

// lookAround has the dispatcher look at what is there, once for all that is told at one moment.
func (m *member) lookAround() {
	life := m.life
	m.world.after(0, func() { m.awake(life, m.dispatch) })
}

// dispatch does the dispatcher's duty, if this member is it: the one whose key is the oldest. It
// publishes the assignment that the live members call for, if that is not in force.
func (m *member) dispatch() {
	if len(m.live) == 0 || m.incarnation == 0 || m.live[0].Incarnation != m.incarnation || m.publishes {
		return
	}
	prev := m.rules.assignment
	list := m.live
	if m.world.without == CutIncarnation {
		list = slices.Clone(list)
		for i := range list {
			list[i].Incarnation = 0
		}
	}
	next := scheduler.Assign(&prev, list, scheduler.Pool{ID: scheduler.PoolAll})
	if next.Owners == prev.Owners && slices.Equal(next.Members, prev.Members) {
		return
	}
	m.publishes = true
	incarnation, rev := m.incarnation, m.rules.rev
	call(m, "publish", nil, func() bool { return m.world.etcd.publish(incarnation, rev, next) }, func(published, known bool) {
		life := m.life
		m.world.after(publishPause, func() { // the watch catches up meanwhile
			m.awake(life, func() {
				m.publishes = false
				m.dispatch()
			})
		})
	})
}

// publishPause spaces publications: each refuses the claims that are on their way everywhere.
const publishPause = 200 * time.Millisecond

const (
	// handOver is how long a draining member goes on claiming for shards that nobody has taken yet.
	handOver = 2 * time.Second
	// drainLimit is how long its attempts may go on then.
	drainLimit = 30 * time.Second
	lookAgain  = 10 * time.Millisecond
)

// drain is the way out: the member hands its shards over, stops claiming, lets its attempts end within
// the limit, and leaves. What does not end is ended.
func (m *member) drain() {
	if !m.up || m.draining {
		return
	}
	m.world.tell(m.name, "drains")
	m.world.count("drain")
	m.draining = true
	incarnation := m.incarnation
	call(m, "drain", nil, func() bool { return m.world.etcd.drain(incarnation) }, func(bool, bool) {})
	until := m.world.now + handOver
	others := slices.ContainsFunc(m.live, func(o scheduler.Member) bool { return o.Name != m.name && !o.Draining })
	if !others {
		until = m.world.now
	}
	m.until(func() bool { return m.world.now >= until || m.mine == [scheduler.ShardCount]bool{} }, func() {
		m.stopped = true
		m.leave(m.world.now + drainLimit)
	})
}

// leave waits for the attempts, ends those that take too long, and ends the process.
func (m *member) leave(limit time.Duration) {
	m.until(func() bool { return len(m.held) == 0 || m.world.now >= limit }, func() {
		for _, a := range m.running() {
			m.ended(a, scheduler.Failed, scheduler.ReasonStopping)
		}
		last := m.world.now + 8*time.Second
		m.until(func() bool { return len(m.held) == 0 || m.world.now >= last }, func() {
			leases := []*lease{m.memberLease}
			for _, s := range m.sessions {
				leases = append(leases, s.lease)
			}
			m.world.tell(m.name, "leaves")
			for _, l := range leases {
				if l != nil {
					call(m, "revoke", nil, func() bool { m.world.etcd.revoke(l); return true }, func(bool, bool) {})
				}
			}
			m.end()
			m.folder = nil
		})
	})
}

// until does something as soon as a condition holds, looking again and again.
func (m *member) until(holds func() bool, do func()) {
	if holds() {
		do()
		return
	}
	life := m.life
	m.world.after(lookAgain, func() { m.awake(life, func() { m.until(holds, do) }) })
}
