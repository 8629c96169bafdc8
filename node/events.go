package node

import (
	"context"
	"sync"

	"github.com/quorumcron/quorumcron/scheduler"
)

// watchBuffer is how many events a slow reader may lag before some are dropped and counted.
const watchBuffer = 1024

// broadcast hands run events to those who watch. Publishing never blocks: a reader that is slow
// loses events, and is told how many; the member loses nothing. Safe for concurrent use.
type broadcast struct {
	mu      sync.Mutex // guards readers and what they point to
	readers map[*reader]struct{}
}

type reader struct {
	events chan scheduler.RunEvent // size watchBuffer
	missed int64
}

func newBroadcast() *broadcast { return &broadcast{readers: map[*reader]struct{}{}} }

func (b *broadcast) publish(e scheduler.RunEvent) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for r := range b.readers {
		e.Missed = r.missed
		select {
		case r.events <- e:
			r.missed = 0
		default:
			r.missed++
		}
	}
}

func (b *broadcast) join() *reader {
	r := &reader{events: make(chan scheduler.RunEvent, watchBuffer)}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.readers[r] = struct{}{}
	return r
}

func (b *broadcast) leave(r *reader) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.readers, r)
}

// WatchRuns calls deliver for every attempt that starts or ends on this member, until ctx ends or
// deliver fails, and returns why. A slow deliver costs events (RunEvent.Missed), never the member.
func (n *Node) WatchRuns(ctx context.Context, deliver func(scheduler.RunEvent) error) error {
	r := n.runEvents.join()
	defer n.runEvents.leave(r)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e := <-r.events:
			if err := deliver(e); err != nil {
				return err
			}
		}
	}
}
