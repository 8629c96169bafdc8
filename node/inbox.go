package node

import (
	"sync"

	"github.com/quorumcron/quorumcron/scheduler"
)

// event is something the loop takes in, with the reading of the turn that takes it.
type event func(now scheduler.Reading)

// inbox hands events to the loop. Posting never blocks, so that neither a follower nor a firing can
// be held up by a loop that is planning a burst; what is posted is bounded by the number of
// followers and firings, each of which waits for its own events or posts few. It is safe for
// concurrent use; only the loop takes.
type inbox struct {
	wake chan struct{} // size 1: one token says "something is there"

	mu     sync.Mutex // guards events
	events []event
}

func newInbox() *inbox { return &inbox{wake: make(chan struct{}, 1)} }

// post hands the loop a function to call in its own goroutine.
func (b *inbox) post(e event) {
	b.mu.Lock()
	b.events = append(b.events, e)
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// take returns everything posted so far, oldest first.
func (b *inbox) take() []event {
	b.mu.Lock()
	defer b.mu.Unlock()
	events := b.events
	b.events = nil
	return events
}
