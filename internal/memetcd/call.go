package memetcd

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// Call describes a request to the rules of a link.
type Call struct {
	Link    string
	Method  string // Range Put Delete Txn Compact Grant Revoke TimeToLive Leases KeepAlive Watch …
	Write   bool   // it can change the store
	Request any    // the request of etcd's API: *pb.TxnRequest …; read only
}

// Txn is the transaction that the call carries, or nil.
func (c Call) Txn() *pb.TxnRequest {
	t, _ := c.Request.(*pb.TxnRequest)
	return t
}

// request is a call on its way to the server.
type request struct {
	call     Call
	apply    func() (any, error)
	done     chan struct{} // closed when the caller has its answer
	answered bool
	result   any
	err      error
	orphan   bool // its caller has given up
	keep     bool // carried out all the same
	quorum   bool // it cannot be carried out without a leader
}

// finish gives the caller its answer, if it has none yet.
func (r *request) finish(result any, err error) {
	if !r.answered {
		r.answered, r.result, r.err = true, result, err
		close(r.done)
	}
}

// arrive lets the request arrive at the server, where it may have to wait for a leader.
func (r *request) arrive(l *Link) (any, error) {
	if r.quorum && !l.s.cluster.up {
		return l.s.cluster.queueUp(l, r)
	}
	if r.orphan || r.answered {
		l.counts.LateCommits++
	}
	l.s.by = l.name
	result, err := r.apply()
	l.s.by = ""
	r.finish(result, err)
	return result, err
}

// conn is what the parts of one client share.
type conn struct {
	l      *Link
	closed <-chan struct{}
}

func ctxError(ctx context.Context) error { return status.FromContextError(ctx.Err()).Err() }

// wait blocks until on is closed, d is over (if positive), the caller gives up or the client is closed.
// Only the last two are errors.
func (c *conn) wait(ctx context.Context, on <-chan struct{}, d time.Duration) error {
	var over <-chan time.Time
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		over = t.C
	}
	select {
	case <-on:
		return nil
	case <-over:
		return nil
	case <-ctx.Done():
		return ctxError(ctx)
	case <-c.closed:
		return errClosed
	}
}

// unlocked is wait without the lock of the store, which is held before and after.
func (c *conn) unlocked(ctx context.Context, on <-chan struct{}, d time.Duration) error {
	c.l.s.mu.Unlock()
	defer c.l.s.mu.Lock()
	return c.wait(ctx, on, d)
}

// do carries a unary call there and back. apply runs under the lock of the store.
func do[R any](ctx context.Context, c *conn, call Call, apply func() (R, error)) (R, error) {
	var none R
	result, err := c.do(ctx, call, func() (any, error) { return apply() })
	if err != nil {
		return none, err
	}
	return result.(R), nil
}

func (c *conn) do(ctx context.Context, call Call, apply func() (any, error)) (any, error) {
	l := c.l
	call.Link = l.name
	if ctx.Err() != nil {
		return nil, ctxError(ctx)
	}
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	l.counts.Calls++
	if err := c.connect(ctx); err != nil {
		l.counts.CallsRefused++
		return nil, err
	}
	generation := l.generation
	f := l.fate(call)
	r := &request{call: call, apply: apply, done: make(chan struct{}), quorum: needsQuorum(call.Request)}
	if err := c.send(ctx, r, generation, f); err != nil {
		return nil, err
	}
	return c.reply(ctx, r, generation, f)
}

// connect waits for a connection, as etcd's client does by default.
func (c *conn) connect(ctx context.Context) error {
	for {
		select {
		case <-c.closed:
			return errClosed
		default:
		}
		if c.l.s.closed {
			return errGone
		}
		if !c.l.refused {
			return nil
		}
		if err := c.unlocked(ctx, c.l.gate, 0); err != nil {
			return err
		}
	}
}

// send brings a request to the server and waits until it was carried out. Its error says that the
// caller has given up, or lost the connection, or that a rule wants it so.
func (c *conn) send(ctx context.Context, r *request, generation int, f fate) error {
	l := c.l
	if d := l.requestDelay + f.RequestDelay; d > 0 {
		l.counts.Delayed++
		err := c.unlocked(ctx, nil, d)
		if err == nil && generation != l.generation {
			err = errReset
		}
		if err != nil {
			l.counts.RequestsLost++
			return err
		}
	}
	switch {
	case f.Err != nil:
		return f.Err
	case f.LoseRequest:
		l.counts.RequestsLost++
		return errDropped
	case f.hold != nil:
		f.hold.catch(r)
	case f.Late > 0:
		r.keep = true
		l.counts.RequestsHeld++
		l.s.later(f.Late, func() { _, _ = r.arrive(l) })
	case l.requestsHeld():
		l.counts.RequestsHeld++
		l.queue = append(l.queue, r)
	case r.quorum && !l.s.cluster.up && requiresLeader(ctx):
		return rpctypes.ErrGRPCNoLeader
	default:
		if _, err := r.arrive(l); !errors.Is(err, errWaits) {
			return nil
		}
	}
	l.waiting = append(l.waiting, r)
	err := c.unlocked(ctx, r.done, 0)
	l.forget(r)
	if err != nil && !r.answered {
		r.orphan, r.keep = true, r.keep || l.paused
		l.counts.CallsHung++
	}
	return err
}

// reply brings the answer back.
func (c *conn) reply(ctx context.Context, r *request, generation int, f fate) (any, error) {
	l := c.l
	if f.LoseReply {
		l.counts.RepliesDropped++
		return nil, errDropped
	}
	if d := l.replyDelay + f.ReplyDelay; d > 0 {
		if err := c.unlocked(ctx, nil, d); err != nil {
			l.counts.RepliesLost++
			return nil, err
		}
	}
	for l.repliesHeld() && generation == l.generation {
		if err := c.unlocked(ctx, l.gate, 0); err != nil {
			l.counts.RepliesLost++
			return nil, err
		}
	}
	if generation != l.generation && r.err == nil {
		l.counts.RepliesLost++
		return nil, errReset
	}
	return r.result, r.err
}

func needsQuorum(request any) bool {
	switch r := request.(type) {
	case *pb.RangeRequest:
		return !r.Serializable
	case *pb.TxnRequest:
		return !readOnly(r) || !serializable(r)
	case *pb.LeaseLeasesRequest, *pb.StatusRequest, *pb.MemberListRequest:
		return false
	}
	return true
}

func serializable(r *pb.TxnRequest) bool {
	for _, ops := range [][]*pb.RequestOp{r.Success, r.Failure} {
		for _, op := range ops {
			if !op.GetRequestRange().GetSerializable() {
				return false
			}
		}
	}
	return true
}

func requiresLeader(ctx context.Context) bool {
	md, _ := metadata.FromOutgoingContext(ctx)
	v := md.Get(rpctypes.MetadataRequireLeaderKey)
	return len(v) > 0 && v[0] == rpctypes.MetadataHasLeader
}

// retry repeats a call that etcd's client holds to be repeatable, as its interceptor does: at most a
// hundred times, 25 ms apart, while the error is Unavailable.
func retry[R any](ctx context.Context, c *conn, f func() (R, error)) (R, error) {
	for n := 1; ; n++ {
		resp, err := f()
		if err == nil || status.Code(err) != codes.Unavailable || n == 100 {
			return resp, err
		}
		if werr := c.wait(ctx, nil, 25*time.Millisecond); werr != nil {
			return resp, werr
		}
	}
}
