package sim

import (
	"slices"
	"time"
)

// requestTimeout is when a member gives up waiting for an answer. What it sent may still commit.
const requestTimeout = 3 * time.Second

// link is the way between a member and etcd.
type link struct {
	requests, replies bool          // which direction is cut; watches go with the replies
	slow              time.Duration // added to each message
	deaf              bool          // watches of rules, definitions and triggers lose what they should tell
	missed            bool          // something was not heard while the link was cut
	orders            []order
}

// order is what a script wants to happen to the next request of a kind, once.
type order struct {
	kind  string // begin, skip, miss, lose, fold, sweep, resolve, finish, late, read, keep-alive; "" is any
	job   *job   // nil is any
	lose  string // request or reply; "" neither
	delay time.Duration
}

// fate takes what a script has ordered for this request.
func (l *link) fate(kind string, j *job) order {
	for i, o := range l.orders {
		if (o.kind == "" || o.kind == kind) && (o.job == nil || o.job == j) {
			l.orders = slices.Delete(l.orders, i, i+1)
			return o
		}
	}
	return order{}
}

// lagOf is how long a message about a job (nil: none) travels between the member and etcd.
func (w *world) lagOf(m *member, j *job) time.Duration {
	if w.lagFrom >= w.lagTo {
		return w.lagFrom
	}
	i := 0
	if j != nil {
		i = j.index + 1
	}
	for i >= len(m.lags) {
		about := ""
		if n := len(m.lags); n > 0 {
			about = w.jobs[n-1].name.Name
		}
		m.lags = append(m.lags, chanceOf(w.seed, "lag of "+m.name+" about "+about))
	}
	return m.lags[i].within(w.lagFrom, w.lagTo)
}

// call sends a request to etcd and hands the answer on, once. Between a member and etcd a request can
// get lost, be on its way for longer than anybody waits for it, or commit with its answer lost: then
// known is false. Nothing reaches a process that has crashed since; what it sent may commit all the same.
func call[A any](m *member, kind string, j *job, ask func() A, answer func(a A, known bool)) {
	w := m.world
	r := &sent[A]{member: m, life: m.life, kind: kind, job: j, at: w.now, ask: ask, answer: answer}
	if len(m.link.orders) > 0 {
		if r.fate = m.link.fate(kind, j); r.fate.lose != "" || r.fate.delay > 0 {
			w.count("ordered loss")
			w.trouble(requestTimeout + r.fate.delay)
		}
	}
	if r.fate.lose == "request" || m.link.requests || w.etcd.down {
		r.giveUp()
		return
	}
	travel := w.lagOf(m, j) + m.link.slow + r.fate.delay
	if travel >= requestTimeout {
		r.giveUp()
	}
	w.after(travel, r.arrive)
}

// sent is a request on its way.
type sent[A any] struct {
	member *member
	life   int
	kind   string
	job    *job
	at     time.Duration
	fate   order
	gaveUp bool
	got    A
	ask    func() A
	answer func(a A, known bool)
}

// arrive is when the request is at etcd. One that is delayed waits inside: it commits whatever becomes
// of its sender.
func (r *sent[A]) arrive() {
	m := r.member
	w := m.world
	if w.etcd.down || m.link.requests && r.fate.delay == 0 {
		r.giveUp()
		return
	}
	r.got = r.ask()
	back := w.lagOf(m, r.job) + m.link.slow
	if r.fate.lose == "reply" || m.link.replies || w.now+back-r.at >= requestTimeout {
		r.giveUp()
		return
	}
	w.after(back, r.back)
}

// back is when the answer is at the member.
func (r *sent[A]) back() {
	m := r.member
	switch {
	case m.link.replies:
		r.giveUp()
	case m.life != r.life:
	case m.stalled > m.world.now:
		m.waiting = append(m.waiting, r.back)
	default:
		if len(m.silence) > 0 {
			delete(m.silence, silence{r.kind, r.job})
		}
		r.answer(r.got, true)
	}
}

// giveUp has the member know, when it has waited long enough, that it does not know.
func (r *sent[A]) giveUp() {
	if r.gaveUp {
		return
	}
	r.gaveUp = true
	m := r.member
	m.world.after(r.at+requestTimeout-m.world.now, func() {
		m.world.count("unknown outcome")
		m.awake(r.life, func() {
			m.unanswered(r.kind, r.job)
			var none A
			r.answer(none, false)
		})
	})
}

// silence is a kind of request that etcd does not answer.
type silence struct {
	kind string
	job  *job
}

// unanswered says that there was no answer, once until there is one.
func (m *member) unanswered(kind string, j *job) {
	s := silence{kind, j}
	if j == nil || kind == "read" || kind == "look" || m.silence[s] {
		return
	}
	if m.silence == nil {
		m.silence = map[silence]bool{}
	}
	m.silence[s] = true
	m.world.tell(m.name, "has no answer to its %s of %s", kind, j.name.Name)
}

// hear is how a watch tells a member something, a while later. What it misses while its link is cut it
// reads when that is healed.
func (m *member) hear(j *job, tell func()) {
	if !m.up {
		return
	}
	life := m.life
	m.world.after(m.world.lagOf(m, j)+m.link.slow, func() {
		if m.link.replies {
			m.link.missed = true
			return
		}
		m.awake(life, tell)
	})
}

// watch is hear for what a deaf member loses for good, until it looks for it (marks).
func (m *member) watch(j *job, tell func()) {
	if !m.link.deaf {
		m.hear(j, tell)
	}
}

// awake lets something happen in a process now, or as soon as it is no longer stalled.
func (m *member) awake(life int, happen func()) {
	if m.life != life {
		return
	}
	if m.stalled > m.world.now {
		m.waiting = append(m.waiting, happen)
		return
	}
	happen()
}
