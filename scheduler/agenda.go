package scheduler

import (
	"container/heap"
	"time"
)

// Agenda says which jobs to plan now: a heap of jobs by the moment at which each is to be planned
// again. There are two orders in it, for a job may wait on the wall clock, on the elapsed clock, or on
// both; the first to come takes it out. It is not safe for concurrent use: one loop owns it.
//
// An elapsed wake is kept as it is and not turned into wall time, so that a wall clock that is set
// back holds up no wait for a dead attempt.
type Agenda struct {
	items   map[JobName]*agendaItem
	wall    agendaHeap
	elapsed agendaHeap
}

// NewAgenda is an agenda with nothing on it.
func NewAgenda() *Agenda {
	return &Agenda{
		items:   map[JobName]*agendaItem{},
		wall:    agendaHeap{side: 0},
		elapsed: agendaHeap{side: 1},
	}
}

// Set plans the job again at wake by the wall clock or at elapsed by the other, whichever comes first.
// The zero value of either is never; both zero take the job off the agenda. What was set before is
// forgotten.
func (a *Agenda) Set(job JobName, wake time.Time, elapsed time.Duration) {
	a.Remove(job)
	if wake.IsZero() && elapsed == 0 {
		return
	}
	it := &agendaItem{job: job, place: [2]int{-1, -1}}
	a.items[job] = it
	if !wake.IsZero() {
		it.key[0] = wake.UnixNano()
		heap.Push(&a.wall, it)
	}
	if elapsed != 0 {
		it.key[1] = int64(elapsed)
		heap.Push(&a.elapsed, it)
	}
}

// Soon plans the job at the next Due, before all that have a wake.
func (a *Agenda) Soon(job JobName) {
	a.Remove(job)
	it := &agendaItem{job: job, place: [2]int{-1, -1}}
	it.key[1] = 1 // every reading of the elapsed clock is later
	a.items[job] = it
	heap.Push(&a.elapsed, it)
}

// Remove takes the job off the agenda.
func (a *Agenda) Remove(job JobName) {
	it := a.items[job]
	if it == nil {
		return
	}
	delete(a.items, job)
	for _, h := range []*agendaHeap{&a.wall, &a.elapsed} {
		if i := it.place[h.side]; i >= 0 {
			heap.Remove(h, i)
		}
	}
}

// Len is how many jobs are on the agenda.
func (a *Agenda) Len() int { return len(a.items) }

// Due takes off the agenda all jobs whose moment has come, and returns them: those that waited on the
// elapsed clock first, then by wake, then by name.
func (a *Agenda) Due(now Reading) []JobName {
	var due []JobName
	take := func(h *agendaHeap, limit int64) {
		for len(h.items) > 0 && h.items[0].key[h.side] <= limit {
			job := h.items[0].job
			a.Remove(job)
			due = append(due, job)
		}
	}
	take(&a.elapsed, max(int64(now.Elapsed), 1))
	take(&a.wall, now.Wall.UnixNano())
	return due
}

// Wait is how long it is from now until the next job is due, at least 0. It is false if none ever is.
func (a *Agenda) Wait(now Reading) (time.Duration, bool) {
	wait, some := time.Duration(0), false
	look := func(h *agendaHeap, present int64) {
		if len(h.items) == 0 {
			return
		}
		if d := time.Duration(h.items[0].key[h.side] - present); !some || d < wait {
			wait, some = d, true
		}
	}
	look(&a.elapsed, int64(now.Elapsed))
	look(&a.wall, now.Wall.UnixNano())
	return max(wait, 0), some
}

// agendaItem is one job: its keys in the two orders, and where it lies in each heap (-1: not in it).
type agendaItem struct {
	job   JobName
	key   [2]int64
	place [2]int
}

// agendaHeap orders items by one of their two keys, then by name.
type agendaHeap struct {
	side  int
	items []*agendaItem
}

// Len, Less, Swap, Push and Pop make agendaHeap a heap.Interface.
func (h *agendaHeap) Len() int { return len(h.items) }

func (h *agendaHeap) Less(i, k int) bool {
	a, b := h.items[i], h.items[k]
	if a.key[h.side] != b.key[h.side] {
		return a.key[h.side] < b.key[h.side]
	}
	return a.job.Before(b.job)
}

func (h *agendaHeap) Swap(i, k int) {
	h.items[i], h.items[k] = h.items[k], h.items[i]
	h.items[i].place[h.side], h.items[k].place[h.side] = i, k
}

func (h *agendaHeap) Push(x any) {
	it := x.(*agendaItem)
	it.place[h.side] = len(h.items)
	h.items = append(h.items, it)
}

func (h *agendaHeap) Pop() any {
	last := len(h.items) - 1
	it := h.items[last]
	h.items[last] = nil
	h.items = h.items[:last]
	it.place[h.side] = -1
	return it
}
