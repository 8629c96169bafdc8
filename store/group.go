package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorumcron/quorumcron/scheduler"
)

// Bounds of a group. etcd counts the operations of the outer transaction plus those of the largest
// nested one; 128 is its default limit. It refuses requests over 1.5 MiB.
const (
	mostOperations = 128
	fewOperations  = 8
	mostBytes      = 1 << 20
	// mostLooked bounds the search for operations that fit into the same group.
	mostLooked = 4096
)

// packer commits operations of many callers in groups. Each lane has its workers, and a worker takes
// whatever has gathered in its lane while all of them were busy: there is no timer.
//
//	caller ── do ──▶ lane's queue ── take ──▶ group ── send ──▶ one transaction of etcd
//	   ▲                                                             │
//	   └──────────────── op.done, each with its own result ◀─────────┘
//
// What makes a group safe is kept by take, and proved by a property test: at most one operation per
// job, at most one state-writing operation per job on its way, no key written twice, no guard on a
// key that another operation of the group writes, one lease, one rules revision, count and size.
type packer struct {
	client  clientv3.KV
	head    string // key of rules/head: the outer guard of claims
	history *history
	timeout time.Duration

	// mu guards everything below, and the packer's part of each op.
	mu      sync.Mutex
	change  *sync.Cond
	lanes   [2]lane
	busy    map[string]bool // jobs with a state-writing operation on its way
	limit   int             // operations that one transaction may count
	stopped bool
	counts  Stats
}

// lane holds operations that may share a group. Ends have their own, so that no claim holds one up.
type lane struct{ queue []*op }

const (
	claims = iota
	ends
)

// op is one guarded operation on its way through the packer.
type op struct {
	uid         string // the job
	writesState bool
	rules       int64 // the rules revision a claim was planned under; 0 for an end
	cmps        []clientv3.Cmp
	then, els   []clientv3.Op

	// Found by seal.
	guards, writes []string
	lease          int64
	weight         int // what it counts beside the outer operations
	bytes          int

	phase  phase
	result opResult
	done   chan struct{}
}

type phase int

const (
	queued phase = iota
	sent
	answered
	withdrawn
)

// opResult is what etcd said to one operation. One of err, rulesMoved and leaseGone may be set; else
// replies answer then or els, as applied says.
type opResult struct {
	err        error
	rulesMoved bool // the whole group was refused: rules/head is at head
	head       int64
	leaseGone  bool // nothing was applied: the lease it puts under is gone
	applied    bool
	replies    []*etcdserverpb.ResponseOp
	revision   int64 // of etcd after it; the mod revision of what it wrote
}

func newPacker(client clientv3.KV, head string, timeout time.Duration) *packer {
	p := &packer{client: client, head: head, history: &history{}, timeout: timeout, busy: map[string]bool{}, limit: mostOperations}
	p.change = sync.NewCond(&p.mu)
	return p
}

// run commits groups with window workers per lane until ctx ends, and waits for what was sent.
func (p *packer) run(ctx context.Context, window int) error {
	stop := context.AfterFunc(ctx, p.stop)
	defer stop()
	var workers sync.WaitGroup
	for l := range p.lanes {
		for range window {
			workers.Go(func() {
				for group := p.next(l); group != nil; group = p.next(l) {
					p.send(ctx, group)
				}
			})
		}
	}
	workers.Wait()
	return nil
}

// stop refuses what is queued and lets the workers end.
func (p *packer) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	for i := range p.lanes {
		for _, o := range p.lanes[i].queue {
			p.answer(o, opResult{err: errStopped})
		}
		p.lanes[i].queue = nil
	}
	p.change.Broadcast()
}

var errStopped = fmt.Errorf("%w: the store has stopped", scheduler.ErrUnavailable)

// do has the operation committed with others and returns its own result. If ctx ends first, an
// operation that waits is withdrawn, which is definite; one on its way goes on alone, and what
// becomes of it is unknown.
func (p *packer) do(ctx context.Context, o *op) opResult {
	o.seal()
	l := ends
	if o.rules > 0 {
		l = claims
	}
	p.mu.Lock()
	if p.stopped {
		p.mu.Unlock()
		return opResult{err: errStopped}
	}
	p.lanes[l].queue = append(p.lanes[l].queue, o)
	p.change.Broadcast()
	p.mu.Unlock()
	select {
	case <-o.done:
		return o.result
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch o.phase {
	case answered:
		return o.result
	case queued:
		o.phase = withdrawn
		p.lanes[l].queue = slices.DeleteFunc(p.lanes[l].queue, func(x *op) bool { return x == o })
		return opResult{err: fmt.Errorf("%w: not sent: %w", scheduler.ErrUnavailable, context.Cause(ctx))}
	}
	return opResult{err: fmt.Errorf("%w: %w", scheduler.ErrUnknown, context.Cause(ctx))}
}

// next waits for the lane's next group; nil when the packer has stopped.
func (p *packer) next(l int) []*op {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		if group := p.take(&p.lanes[l]); len(group) > 0 {
			return group
		}
		if p.stopped {
			return nil
		}
		p.change.Wait()
	}
}

// take removes the operations of the next group from the lane. The oldest one that may go goes; the
// others join if they fit. What does not fit is passed over and keeps its place, and later
// operations of its job wait behind it.
func (p *packer) take(l *lane) []*op {
	g := newGathering(p.limit)
	rest := l.queue[:0:0]
	for i, o := range l.queue {
		if g.closed || i == mostLooked {
			rest = append(rest, l.queue[i:]...)
			break
		}
		if o.writesState && p.busy[o.uid] || !g.admit(o) {
			g.jobs[o.uid] = true
			rest = append(rest, o)
		}
	}
	if len(g.ops) == 0 {
		return nil
	}
	l.queue = rest
	for _, o := range g.ops {
		o.phase = sent
		if o.writesState {
			p.busy[o.uid] = true
		}
	}
	return g.ops
}

// send commits a group and gives each operation its result. A group that etcd refuses as a whole is
// split, never sent again as it is.
func (p *packer) send(ctx context.Context, group []*op) {
	var outer, head = []clientv3.Cmp{}, []clientv3.Op{}
	if rules := group[0].rules; rules > 0 && !cutRulesGuard {
		// Guard of every claim: the rules are those it was planned under (ownership, pauses, quotas).
		outer = append(outer, unchanged(p.head, rules))
		head = append(head, clientv3.OpGet(p.head, clientv3.WithKeysOnly()))
	}
	nested := make([]clientv3.Op, len(group))
	for i, o := range group {
		nested[i] = clientv3.OpTxn(o.cmps, o.then, o.els)
	}
	// The call is shared: it outlives the callers and the stop, and ends by its own deadline.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.timeout)
	asked := p.history.asked()
	resp, err := p.client.Txn(ctx).If(outer...).Then(nested...).Else(head...).Commit()
	cancel()

	p.mu.Lock()
	p.counts.Groups++
	p.counts.Operations += int64(len(group))
	p.mu.Unlock()
	if err != nil {
		p.sendFailed(ctx, group, err)
		return
	}
	p.history.answered(asked, resp.Header)
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, o := range group {
		switch {
		case !resp.Succeeded:
			p.answer(o, opResult{rulesMoved: true, head: revisionOf(found(resp.Responses, 0)), revision: resp.Header.GetRevision()})
		default:
			one := resp.Responses[i].GetResponseTxn()
			p.answer(o, opResult{applied: one.GetSucceeded(), replies: one.GetResponses(), revision: resp.Header.GetRevision()})
		}
	}
	p.change.Broadcast()
}

// sendFailed deals with a group that got no answer, or was refused as a whole.
func (p *packer) sendFailed(ctx context.Context, group []*op, err error) {
	end := classify(err)
	if end == endUnknown && cutUnknownRepeated {
		for _, o := range group {
			o.rules, o.cmps = 0, nil
		}
		p.send(ctx, group)
		return
	}
	if end == endShape && len(group) > 1 {
		p.mu.Lock()
		p.counts.Refused++
		if errors.Is(err, rpctypes.ErrTooManyOps) {
			p.limit = max(fewOperations, min(p.limit, count(group)/2))
		}
		p.mu.Unlock()
		p.send(ctx, group[:len(group)/2])
		p.send(ctx, group[len(group)/2:])
		return
	}
	leased := slices.ContainsFunc(group, func(o *op) bool { return o.lease != 0 })
	var others []*op
	p.mu.Lock()
	if end == endUnknown {
		p.counts.Unknown++
	} else {
		p.counts.Refused++
	}
	for _, o := range group {
		switch {
		case end == endLease && o.lease != 0:
			p.answer(o, opResult{leaseGone: true})
		case end == endLease && leased:
			others = append(others, o) // Nothing of the group was applied, and these put under no lease.
		default:
			p.answer(o, opResult{err: failure(err)})
		}
	}
	p.change.Broadcast()
	p.mu.Unlock()
	if len(others) > 0 {
		p.send(ctx, others)
	}
}

// answer ends an operation; p.mu is held.
func (p *packer) answer(o *op, r opResult) {
	if o.writesState && o.phase == sent {
		delete(p.busy, o.uid)
	}
	o.phase, o.result = answered, r
	close(o.done)
}

func (p *packer) stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.counts
	s.Limit = p.limit
	return s
}
