package node

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumcron/quorumcron/scheduler"
)

// pulse is how the watchdog knows that the engine lives: the loop turns, and planned transactions
// are answered. It is safe for concurrent use.
type pulse struct {
	turn atomic.Int64 // elapsed clock at the loop's last turn
	// trouble is why etcd refuses claims, nil while it takes them.
	trouble atomic.Pointer[string]

	mu     sync.Mutex // guards sent and answer
	sent   map[*time.Duration]struct{}
	answer time.Duration // elapsed clock at the last answer
}

func newPulse() *pulse { return &pulse{sent: map[*time.Duration]struct{}{}} }

func (p *pulse) turned(now scheduler.Reading) { p.turn.Store(int64(now.Elapsed)) }

// asked notes that a transaction was sent; calling the result notes that it was answered. A refusal
// is an answer.
func (p *pulse) asked(now scheduler.Reading) (answered func(scheduler.Reading)) {
	at := now.Elapsed
	p.mu.Lock()
	p.sent[&at] = struct{}{}
	p.mu.Unlock()
	return func(now scheduler.Reading) {
		p.mu.Lock()
		delete(p.sent, &at)
		p.answer = max(p.answer, now.Elapsed)
		p.mu.Unlock()
	}
}

// refused notes why etcd does not take claims; served, that it has decided one.
func (p *pulse) refused(why error) {
	text := why.Error()
	p.trouble.Store(&text)
}

func (p *pulse) served() { p.trouble.Store(nil) }

// waiting is how long the oldest transaction has been without an answer, and how long there has been
// no answer to any while it waited: in a herd the oldest waits for its turn while others are answered.
func (p *pulse) waiting(now scheduler.Reading) (oldest, silence time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for at := range p.sent {
		oldest = max(oldest, now.Elapsed-*at)
	}
	return oldest, min(oldest, now.Elapsed-p.answer)
}

// stuckAlone is how long one transaction may wait while others are answered.
const stuckAlone = 2 * time.Minute

// watchdog lets the sessions die while the engine is stuck, so that other members take over as if
// this process were dead: a dead engine must not look alive. Stuck is: the loop
// has not turned for TTL/2, or no planned transaction has had an answer for TTL (or one of them for
// stuckAlone) while linearizable reads have been answered for as long. One read is not enough: when
// etcd comes back it may be answered before the first transaction is.
func (n *Node) watchdog(ctx context.Context) {
	tick := time.NewTicker(n.cfg.SessionTTL / 4)
	defer tick.Stop()
	last := n.cfg.Clock().Elapsed
	var answers time.Duration // since when reads are answered and transactions are not; 0 when that is not so
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := n.cfg.Clock()
		// A process that was frozen finds the loop's turn old and its own tick late. The loop has had no
		// chance yet; it gets one tick.
		frozen := now.Elapsed-last > n.cfg.SessionTTL/2
		last = now.Elapsed
		if frozen {
			continue
		}
		switch since := now.Elapsed - time.Duration(n.pulse.turn.Load()); {
		case since > n.cfg.SessionTTL/2:
			n.sessions.Orphan(fmt.Sprintf("the loop has not turned for %s", since.Round(time.Millisecond)))
		case !n.readsAlone(ctx, now):
			answers = 0
			n.sessions.Recover()
		case answers == 0:
			answers = now.Elapsed
		case now.Elapsed-answers > n.cfg.SessionTTL:
			n.sessions.Orphan(fmt.Sprintf("no transaction has had an answer for %s while reads are answered", (now.Elapsed - answers).Round(time.Millisecond)))
		}
	}
}

// readsAlone says whether etcd answers a read, while it has answered no transaction for too long.
func (n *Node) readsAlone(ctx context.Context, now scheduler.Reading) bool {
	oldest, silence := n.pulse.waiting(now)
	if silence <= n.cfg.SessionTTL && oldest <= max(10*n.cfg.SessionTTL, stuckAlone) {
		return false
	}
	ask, cancel := context.WithTimeout(ctx, n.cfg.SessionTTL/4)
	defer cancel()
	_, err := n.cfg.Client.Get(ask, n.cfg.Prefix+"meta")
	return err == nil // else etcd is away: that is not ours to die of
}
