package node

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/quorumcron/quorumcron/scheduler"
	"github.com/quorumcron/quorumcron/store"
)

// publishPause spaces publications: each of them refuses the claims that are under way everywhere
// for one round trip, so that a rolling restart must not become a stream of them.
const publishPause = 200 * time.Millisecond

// housekeeping is how often the dispatcher sweeps what is no longer needed.
const housekeeping = time.Minute

// dispatcher is what the duties are decided from: the newest rules, members and pools. Followers set
// them from their goroutines; the term's goroutine reads them. Safe for concurrent use.
type dispatcher struct {
	changed chan struct{} // size 1: one token says "look again"

	mu      sync.Mutex // guards what follows; nil means not read yet
	rules   *store.Rules
	members *[]scheduler.Member
	pools   *store.Pools
	listed  int64 // etcd's revision of members
}

func newDispatcher() *dispatcher { return &dispatcher{changed: make(chan struct{}, 1)} }

// note sets one of the fields and has the term look again.
func (d *dispatcher) note(set func()) {
	d.mu.Lock()
	set()
	d.mu.Unlock()
	d.look()
}

func (d *dispatcher) look() {
	select {
	case d.changed <- struct{}{}:
	default:
	}
}

func (d *dispatcher) noteRules(r store.Rules) { d.note(func() { d.rules = &r }) }

// notePools and noteMembers are told by a watch and by a look beside it: the newer reading counts.
func (d *dispatcher) notePools(p *store.Pools) {
	d.note(func() {
		if p == nil || d.pools == nil || p.Revision >= d.pools.Revision {
			d.pools = p
		}
	})
}

func (d *dispatcher) noteMembers(m []scheduler.Member, revision int64) {
	d.note(func() {
		if revision >= d.listed {
			d.members, d.listed = &m, revision
		}
	})
}

// known returns all three, or false before all have been read.
func (d *dispatcher) known() (store.Rules, []scheduler.Member, store.Pools, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.rules == nil || d.members == nil || d.pools == nil {
		return store.Rules{}, nil, store.Pools{}, false
	}
	return *d.rules, *d.members, *d.pools, true
}

// liveMembers returns the members as last delivered; false before the first delivery.
func (d *dispatcher) liveMembers() ([]scheduler.Member, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.members == nil {
		return nil, false
	}
	return *d.members, true
}

// dispatch is one term: it publishes an assignment for each pool whenever members or pools call for
// another one, and keeps house. Every write compares the term's guard, so that a dispatcher that has
// been deposed without noticing changes nothing. It ends with its context.
func (n *Node) dispatch(ctx context.Context, guard scheduler.Guard) {
	n.log.Info("dispatcher elected")
	defer n.log.Info("dispatcher term ended")
	n.dispatching.notePools(nil) // those of a former term are too old
	pools, stop := context.WithCancel(ctx)
	var followers sync.WaitGroup
	followers.Go(func() { _ = n.store.FollowPools(pools, func(p store.Pools) { n.dispatching.notePools(&p) }) })
	defer followers.Wait()
	defer stop()
	var house chores
	sweep := time.NewTicker(housekeeping)
	defer sweep.Stop()
	for {
		sent, deposed := n.publish(ctx, guard)
		if deposed || sent && !sleep(ctx, publishPause) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-n.dispatching.changed:
		case <-sweep.C:
			n.keepHouse(ctx, guard, &house)
		}
	}
}

// publish writes the assignments that differ from those in force. It reports whether anything was sent,
// and whether the term turned out to be over.
func (n *Node) publish(ctx context.Context, guard scheduler.Guard) (sent, deposed bool) {
	rules, members, pools, known := n.dispatching.known()
	if !known {
		return false, false
	}
	var changes []scheduler.Assignment
	for _, pool := range pools.Pools {
		var prev *scheduler.Assignment
		if a, ok := rules.Assignments[pool.ID]; ok {
			prev = &a
		}
		next := scheduler.Assign(prev, members, pool)
		if prev == nil || !sameAssignment(*prev, next) {
			changes = append(changes, next)
		}
	}
	if len(changes) == 0 && rules.Revision != 0 { // 0: rules/head is gone, and nothing else puts it
		return false, false
	}
	_, err := n.store.Publish(ctx, guard, rules.Revision, changes)
	switch {
	case err == nil:
		n.metrics.publications.Inc()
		for _, c := range changes {
			n.log.Info("assignment published", "pool", c.Pool, "members", c.Members)
		}
	case errors.Is(err, store.ErrDeposed):
		return true, true
	case errors.Is(err, store.ErrMoved): // by a publication that was not heard of
		n.wantMarks()
		fallthrough
	default: // or etcd is away: look again at what is there then
		n.log.Debug("assignment not published", "err", err)
		n.dispatching.look()
	}
	return true, false
}

// chores is what the dispatcher does beside its duties, and when it last did.
type chores struct {
	requests, pools time.Duration // elapsed clock; 0 is never
	// agreed is since when every live member supports a higher format than the one in force.
	agreed time.Duration
	// revision is etcd's at noted, on the elapsed clock: what the next compaction goes by. 0 is none.
	revision int64
	noted    time.Duration
}

const (
	sweepRequestsEvery = 10 * time.Minute
	sweepPoolsEvery    = 24 * time.Hour
	// formatAgreed is how long all live members must support a format before it is put in force.
	formatAgreed = 10 * time.Minute
)

// keepHouse removes request ids past their day, pools that no job uses, and old history if it is told to,
// and puts a higher stored format in force once every live member has supported it for a while.
func (n *Node) keepHouse(ctx context.Context, guard scheduler.Guard, c *chores) {
	now := n.cfg.Clock()
	report := func(what string, err error) {
		if err != nil && ctx.Err() == nil {
			n.log.Debug(what, "err", err)
		}
	}
	if now.Elapsed-c.requests > sweepRequestsEvery {
		c.requests = now.Elapsed
		_, err := n.store.SweepRequests(ctx, guard, n.moment())
		report("requests not swept", err)
	}
	report("history not compacted", n.compact(ctx, c, now))
	report("members and pools not read", n.lookAgain(ctx))
	rules, members, _, known := n.dispatching.known()
	if !known {
		return
	}
	switch {
	case c.pools == 0:
		c.pools = now.Elapsed // a new dispatcher waits a day: its predecessor may just have done it
	case now.Elapsed-c.pools > sweepPoolsEvery:
		c.pools = now.Elapsed
		_, err := n.store.SweepPools(ctx, guard, rules.Revision)
		report("pools not swept", err)
	}
	report("format not raised", n.raiseFormat(ctx, guard, c, members, now))
}

// lookAgain reads members and pools beside their watches, which may have lost an event: the shards of a
// member whose end was not heard of, and of a pool that was not heard of at all, would be nobody's.
func (n *Node) lookAgain(ctx context.Context) error {
	members, revision, err := n.sessions.Members(ctx)
	if err != nil {
		return err
	}
	n.dispatching.noteMembers(members, revision)
	pools, err := n.store.ReadPools(ctx)
	if err != nil {
		return err
	}
	n.dispatching.notePools(&pools)
	return nil
}

func (n *Node) raiseFormat(ctx context.Context, guard scheduler.Guard, c *chores, members []scheduler.Member, now scheduler.Reading) error {
	common := int64(store.FormatMax)
	for _, m := range members {
		common = min(common, m.FormatMax)
	}
	meta := n.meta.Load()
	if meta == nil || common <= meta.Format {
		c.agreed = 0
		return nil
	}
	if c.agreed == 0 {
		c.agreed = now.Elapsed
	}
	if now.Elapsed-c.agreed < formatAgreed {
		return nil
	}
	raised, err := n.store.RaiseFormat(ctx, guard, *meta, common)
	if err == nil {
		n.meta.Store(&raised)
		n.log.Info("stored format raised", "format", common)
	}
	return err
}

func sameAssignment(a, b scheduler.Assignment) bool {
	return a.Pool == b.Pool && a.Owners == b.Owners && slices.Equal(a.Members, b.Members)
}
