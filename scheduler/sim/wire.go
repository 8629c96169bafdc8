package sim

import "time"

// requestTimeout is when a member gives up waiting for an answer. What it sent may still commit.
const requestTimeout = 3 * time.Second

// call sends a transaction to etcd and hands the answer on, once. Between a member and etcd a request
// can get lost, travel for longer than anybody waits for it, or commit with its answer lost: then
// known is false. Nothing reaches a process that has crashed since.
func call[A any](m *member, ask func() A, answer func(a A, known bool)) {
	w, life, done := m.world, m.life, false
	reply := func(a A, known bool) {
		if !done && m.life == life {
			done = true
			answer(a, known)
		}
	}
	w.after(requestTimeout, func() {
		var none A
		if !done {
			w.count("unknown outcome")
		}
		m.awake(func() { reply(none, false) })
	})
	travel := w.lag()
	switch {
	case m.cut && w.chance(50):
		return
	case m.cut, w.noisy() && w.rng.IntN(500) == 0:
		travel += w.within(0, 20*time.Second)
	}
	w.after(travel, func() {
		a := ask()
		if m.cut || w.noisy() && w.rng.IntN(200) == 0 {
			return
		}
		w.after(w.lag(), func() { m.awake(func() { reply(a, true) }) })
	})
}

// noisy says whether the network has faults at all.
func (w *world) noisy() bool { return w.cfg.FaultEvery > 0 && !w.quiet }

// hear is how a watch tells a member something: a while later, and not at all if it is down or cut off
// then. What it misses it reads when it is repaired.
func (m *member) hear(tell func()) {
	life := m.life
	m.world.after(m.world.lag(), func() {
		if m.up && !m.cut && m.life == life {
			m.awake(tell)
		}
	})
}

// awake lets something happen in the process now, or when it is no longer stalled.
func (m *member) awake(happen func()) {
	life := m.life
	if wait := m.stalled - m.world.now; wait > 0 {
		m.world.after(wait, func() {
			if m.life == life {
				m.awake(happen)
			}
		})
		return
	}
	happen()
}
