package node

import (
	"context"
	"fmt"
	"time"

	"github.com/quorumcron/quorumcron/executor"
	"github.com/quorumcron/quorumcron/scheduler"
)

// handOver is how long a draining member goes on claiming for shards that nobody has taken yet (G9).
const handOver = 2 * time.Second

// Drain publishes that this member wants to own nothing: not ready at once, and the dispatcher moves
// its shards to the others. It goes on claiming for a shard until another member owns it, so that no
// instant is late because of it. What runs here goes on. It reports whether the wish had been
// published before.
func (n *Node) Drain(ctx context.Context) (already bool, err error) {
	n.mu.Lock()
	sessions := n.sessions
	n.mu.Unlock()
	if sessions == nil {
		return false, fmt.Errorf("%w: this member has not started yet", scheduler.ErrUnavailable)
	}
	already = n.draining.Swap(true)
	err = sessions.UpdateMember(ctx, func(m *scheduler.Member) { m.Draining = true })
	return already, err
}

// drain is the way out of a node that has been told to stop: it hands its shards over, stops
// claiming, and lets attempts end within the drain limit; those that do not are told to end as
// FAILED(node stopping). It returns when nothing is held any more, or time is up, or the node was
// told a second time.
func (n *Node) drain(ctx context.Context) {
	n.log.Info("draining", "limit", n.cfg.DrainTimeout)
	wait, done := context.WithTimeout(ctx, n.cfg.DrainTimeout) // the hand-over counts towards it
	defer done()

	n.draining.Store(true)
	if !n.alone() { // else there is nobody to hand over to: stop at once
		ask, done := context.WithTimeout(ctx, handOver)
		if _, err := n.Drain(ask); err != nil {
			n.log.Warn("drain not published", "err", err)
		}
		n.until(ask, func() bool { return n.shardsOwned.Load() == 0 })
		done()
	}
	n.stoppedClaiming.Store(true)
	n.turned(wait)

	n.until(wait, n.idle)
	if left := n.held.all(); len(left) > 0 {
		n.log.Warn("attempts told to end", "attempts", len(left))
		for _, h := range left {
			h.cancel(executor.ErrStopping)
		}
		// Their verdicts still have to be written: as long as killing takes, and a few tries at etcd.
		last, done := context.WithTimeout(ctx, lastWords)
		n.until(last, n.idle)
		done()
	}
}

// turned waits until the loop has begun another turn: what it was planning before, it has sent.
func (n *Node) turned(ctx context.Context) {
	begun := make(chan struct{})
	n.inbox.post(func(scheduler.Reading) { close(begun) })
	select {
	case <-begun:
	case <-ctx.Done():
	}
}

// lastWords is how long attempts that were told to end at the drain limit have for their verdicts.
const lastWords = 8 * time.Second

// idle says whether no attempt is held, from before its Begin is sent until its end is recorded.
func (n *Node) idle() bool { return n.held.none() }

// alone says whether no other live member could take this one's shards.
func (n *Node) alone() bool {
	members, known := n.dispatching.liveMembers()
	if !known {
		return true
	}
	for _, m := range members {
		if m.Name != n.cfg.Name && !m.Draining {
			return false
		}
	}
	return true
}

// until waits for a condition that changes with the node's events, looking again each time.
func (n *Node) until(ctx context.Context, reached func() bool) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !reached() {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
