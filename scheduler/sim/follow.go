package sim

import (
	"slices"
	"time"

	"github.com/quorumcron/quorumcron/scheduler"
)

// This file is how facts come in.

// readRules reads the rules as they are.
func (m *member) readRules() {
	call(m, "read", nil, func() rules { return m.world.etcd.rules }, func(r rules, known bool) {
		if !known {
			m.readRules()
			return
		}
		m.takeRules(r)
	})
}

// takeRules takes in the rules after a change: which shards are this member's, and under which revision
// claims are planned. A shard that is gained is read anew, for a former owner may have written its states
// until then (rule 12); so is one that may have been somebody else's in a version that was not seen.
func (m *member) takeRules(r rules) {
	if r.rev < m.rules.rev {
		return
	}
	missed := r.version > m.rules.version+1
	m.rules = r
	m.takeCalendars()
	was := m.mine
	for s := range m.mine {
		m.mine[s] = (m.incarnation != 0 || m.world.without == CutIncarnation) && m.isMe(r.assignment.Owner(scheduler.Shard(s)))
	}
	for _, j := range m.world.jobs {
		t := m.at(j)
		switch {
		case !m.mine[j.shard]:
			m.untrack(j)
		case t == nil && m.keeps(j):
		case missed || !was[j.shard] || t == nil:
			m.untrack(j)
			m.gain(j)
		}
	}
	fenced := m.fenced
	m.fenced = nil
	for _, t := range fenced {
		if m.at(t.job) == t {
			m.soon(t)
		}
	}
	m.lookAround()
}

// keeps takes up a job from the copy of an earlier time: what rule 12 forbids.
func (m *member) keeps(j *job) bool {
	t := m.kept[j]
	if m.world.without != CutReload || t == nil || t.rec != j.rec {
		return false
	}
	m.track(j, t)
	m.soon(t)
	return true
}

func (m *member) isMe(id string) bool {
	if m.world.without == CutIncarnation {
		return id == memberID(m.name, 0)
	}
	return id == m.id()
}

// gain begins to track a job: it is read, if it exists.
func (m *member) gain(j *job) {
	if j.rec == nil {
		return // the listing does not show it; the watch does once it is created
	}
	t := &tracked{rec: j.rec, job: j, facts: map[scheduler.Firing]scheduler.Fact{}, gained: true}
	m.track(j, t)
	m.reload(t)
}

// reload reads definition, state and triggers of one job again. The job is busy meanwhile.
func (m *member) reload(t *tracked) {
	t.busy = true
	wait := time.Duration(0)
	if now := m.reading().Elapsed; t.reloaded != 0 && now-t.reloaded < refusalPause {
		wait = refusalPause
	}
	life := m.life
	read := func() {
		call(m, "read", t.job, func() shown { return m.world.etcd.read(t.job) }, func(s shown, known bool) {
			if m.at(t.job) != t {
				return
			}
			if !known {
				m.reload(t)
				return
			}
			t.busy, t.reloaded = false, m.reading().Elapsed
			m.takeShown(s, t.job)
			if m.at(t.job) == t {
				m.soon(t)
			}
		})
	}
	if wait == 0 {
		read()
		return
	}
	m.world.after(wait, func() { m.awake(life, read) })
}

// takeShown takes in what a watch, a listing or a read tells of a job, as far as it is news.
func (m *member) takeShown(s shown, j *job) {
	t := m.at(j)
	switch {
	case !m.mine[j.shard], t != nil && s.rev < t.shownRev && s.state == nil:
		return
	case s.gone:
		if t == nil || s.rec == nil || s.rec == t.rec {
			m.untrack(j)
		}
		return
	case t == nil || t.rec != s.rec:
		if t != nil && s.rev < t.shownRev {
			return
		}
		// It is new, or the name was deleted and applied again. What is on its way for the former job
		// ends there.
		m.untrack(j)
		m.gain(j)
		return
	}
	if s.rev >= t.shownRev {
		t.shownRev, t.def, t.defRev, t.table, t.triggers = s.rev, s.def, s.defRev, s.table, s.triggers
	}
	if s.state != nil {
		t.settle(s.state, s.stateRev)
	}
	m.followEntries(t)
	m.soon(t)
}

// learn takes in what was seen of the entry's attempt: the create revision of its lock (0: none), and
// the record in its slot if it holds the attempt's end. What is known only ever grows: a lock that was
// seen gone never comes back, and looking again never restarts a hold.
func (t *tracked) learn(x scheduler.Entry, lock int64, record *scheduler.Run, now scheduler.Reading) {
	old := t.facts[x.Firing]
	known := old.Attempt == x.Attempt
	f := scheduler.Fact{Attempt: x.Attempt, Lock: lock, Record: record}
	switch {
	case known && old.Record != nil:
		return
	case record != nil:
		f.RecordedSince = now.Elapsed
	case known && old.Lock == 0:
		return
	case lock == 0:
		f.GoneSince = now.Elapsed
	case known:
		f.Ending, f.EndingSince = old.Ending, old.EndingSince
	}
	t.facts[x.Firing] = f
}

// learnFact takes in what was read of an attempt's lock and slot. It says whether it was news.
func (m *member) learnFact(t *tracked, f fact) bool {
	x, in := t.entry(f.firing)
	if !in || x.Attempt != f.attempt || x.Token != f.token {
		return false
	}
	before, known := t.facts[f.firing]
	t.learn(x, f.lock, f.record, m.reading())
	after := t.facts[f.firing]
	return !known || before.Lock != after.Lock || (before.Record == nil) != (after.Record == nil)
}

// followEntries follows each attempt in flight of which more can be learnt (rule 12). Not one that runs
// here under a lease that is not doubted, for its end is told here.
func (m *member) followEntries(t *tracked) {
	if t.state == nil {
		return
	}
	for _, x := range t.state.Entries {
		f := t.facts[x.Firing]
		following := slices.ContainsFunc(t.follows, func(o *follow) bool { return o.entry.Firing == x.Firing })
		if following || f.Record != nil {
			continue
		}
		if f.Attempt == x.Attempt && m.sound(x.Nonce) {
			continue
		}
		o := &follow{x}
		t.follows = append(t.follows, o)
		m.look(t, o)
	}
}

// sound says whether an attempt is held here, under a session that is not doubted.
func (m *member) sound(nonce string) bool {
	a := m.held[nonce]
	return a != nil && a.session.phase == open
}

// look reads lock and slot of an attempt that is followed, and again when its lock goes.
func (m *member) look(t *tracked, o *follow) {
	life := m.life
	again := func() {
		m.hear(t.job, func() {
			if m.life == life && slices.Contains(t.follows, o) {
				m.look(t, o)
			}
		})
	}
	call(m, "look", t.job, func() fact { return m.world.etcd.look(t.rec, o.entry, again) }, func(f fact, known bool) {
		switch {
		case !slices.Contains(t.follows, o) || m.at(t.job) != t:
		case !known:
			m.look(t, o)
		case m.learnFact(t, f):
			m.soon(t)
		}
	})
}
