package node

import (
	"context"

	"github.com/quorumcron/quorumcron/election"
	"github.com/quorumcron/quorumcron/scheduler"
)

// takeSession takes in a change of what this process may do. Events are hints: no right follows from
// one, and every right is proved by a guard in the transaction that uses it.
func (n *Node) takeSession(ctx context.Context, e election.Event, now scheduler.Reading) {
	switch e := e.(type) {
	case election.Joined:
		n.joined(ctx, e)
	case election.MemberLost:
		// The dispatcher will give our shards to others; its assignment moves the rules, and nothing of
		// ours commits after it. Until then the claims of this process are as good as ever.
	case election.TermBegan:
		n.beginTerm(ctx, e.Guard)
	case election.TermEnded:
		n.endDispatch()
	case election.LockLeaseOpened:
		n.view.room.leaseless = false
	case election.LockLeaseRenewed:
		n.held.trust(e.ID)
		n.lockCheck.Store(true)
		n.followers.Go(func() { n.closeForgotten(ctx) })
		n.view.room.leaseless = false
	case election.LockLeaseDoubted:
		if e.Held == 0 {
			n.sessions.Retire(e.ID)
			return
		}
		n.held.doubt(e.ID) // grants not yet started are dropped (rule 11)
	case election.LockLeaseLost:
		n.lockLeaseLost(e.ID, now)
	}
}

// joined drops what a former ID owned, which is nobody's, and has the member own what assignments give to
// the new one (rule 12) as soon as it is known that this version can live with the format in force: while it
// was no member the others may have agreed on a higher one.
func (n *Node) joined(ctx context.Context, e election.Joined) {
	n.named(ctx, "")
	n.joinedAs = e.Member.ID()
	n.followers.Go(func() { n.admit(ctx, e.Member.ID()) })
	if n.draining.Load() && !e.Member.Draining {
		n.followers.Go(func() { _, _ = n.Drain(ctx) })
	}
}

// admit reads the format in force, until etcd answers, and has the member own what its ID is given.
func (n *Node) admit(ctx context.Context, id string) {
	for {
		meta, err := n.store.Initialise(ctx)
		if err == nil {
			if err = n.takeMeta(meta); err != nil {
				n.fail(err)
				return
			}
			n.inbox.post(func(scheduler.Reading) {
				if n.joinedAs == id { // else it has joined again since
					n.named(ctx, id)
				}
			})
			return
		}
		if !sleep(ctx, refusalPause) {
			return
		}
	}
}

// named notes under which ID assignments name this process, "" for none, and what it owns by that.
func (n *Node) named(ctx context.Context, id string) {
	n.memberID = id
	if r := n.rules.Load(); r != nil {
		n.own(ctx, *r)
	}
}

// lockLeaseLost notes that the locks under a lease are gone. What runs under it goes on until its
// deadlines; the entries are settled as anybody's whose lock is gone.
func (n *Node) lockLeaseLost(lease int64, now scheduler.Reading) {
	if !n.held.under(lease) {
		n.held.trust(lease)
		return
	}
	n.held.doubt(lease)
	for _, h := range n.held.all() {
		t := n.view.jobs[h.job]
		if h.lease != lease || t == nil {
			continue
		}
		if e, inFlight := t.entry(h.firing); inFlight && e.Nonce == h.nonce {
			t.learn(e, 0, nil, now)
			n.view.agenda.Soon(h.job)
		}
	}
}

// beginTerm starts the dispatcher's duties. A former term has ended before a new one begins.
func (n *Node) beginTerm(ctx context.Context, guard scheduler.Guard) {
	n.endDispatch()
	term, end := context.WithCancel(ctx)
	n.endTerm = end
	n.metrics.isDispatcher.Set(1)
	n.followers.Go(func() {
		defer end()
		n.dispatch(term, guard)
	})
}

func (n *Node) endDispatch() {
	if n.endTerm != nil {
		n.endTerm()
		n.endTerm = nil
	}
	n.metrics.isDispatcher.Set(0)
}
