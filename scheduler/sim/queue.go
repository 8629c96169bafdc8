package sim

import "time"

// event is something that happens at a moment: a member's turn, or what happen does. Of two at one moment
// the one that was made first comes first.
type event struct {
	at     time.Duration
	order  int
	turn   *member
	happen func()
}

func (e event) before(o event) bool {
	return e.at < o.at || e.at == o.at && e.order < o.order
}

// queue is a heap of what is to come. It is written out here because it is the inner loop of a history:
// through container/heap each event would be boxed twice.
type queue []event

func (q *queue) push(e event) {
	h := append(*q, e)
	i := len(h) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !e.before(h[up]) {
			break
		}
		h[i] = h[up]
		i = up
	}
	h[i] = e
	*q = h
}

func (q *queue) pop() event {
	h := *q
	first, last := h[0], h[len(h)-1]
	h[len(h)-1] = event{}
	h = h[:len(h)-1]
	*q = h
	if len(h) == 0 {
		return first
	}
	i := 0
	for {
		down := 2*i + 1
		if down >= len(h) {
			break
		}
		if down+1 < len(h) && h[down+1].before(h[down]) {
			down++
		}
		if !h[down].before(last) {
			break
		}
		h[i] = h[down]
		i = down
	}
	h[i] = last
	return first
}
