package memetcd

import (
	"context"
	"io"
	"slices"
	"time"

	"google.golang.org/grpc/metadata"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// stream is the server's end and the client's end of a gRPC stream in one. Messages to the server are
// handled by the goroutine that sends them; messages to the client wait in out.
type stream struct {
	c      *conn
	l      *Link
	ctx    context.Context
	call   Call
	serial int
	leader bool // opened by a context that requires a leader
	watch  *watchStream

	// guarded by the lock of the store
	out  []outgoing
	wake chan struct{} // a token while Recv should look again
	err  error         // how it ended
	stop func() bool   // lets go of ctx
}

// outgoing is a message to the client, and when it may arrive.
type outgoing struct {
	due  time.Time
	resp any
}

// open makes a stream, waiting for a connection if need be.
func (c *conn) open(ctx context.Context, call Call) (*stream, error) {
	l := c.l
	call.Link = l.name
	if ctx.Err() != nil {
		return nil, ctxError(ctx)
	}
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	if err := c.connect(ctx); err != nil {
		l.counts.CallsRefused++
		return nil, err
	}
	st := &stream{c: c, l: l, ctx: ctx, call: call, serial: l.s.serial, leader: requiresLeader(ctx), wake: make(chan struct{}, 1)}
	l.s.serial++
	l.counts.Opened++
	l.streams = append(l.streams, st)
	st.stop = context.AfterFunc(ctx, func() { st.endBy(ctxError(ctx)) })
	if st.leader && !l.s.cluster.up {
		// Not at once: there is code that tries again without a pause, and virtual time would stand still.
		l.s.later(time.Millisecond, func() { st.end(rpctypes.ErrGRPCNoLeader) })
	}
	return st, nil
}

func (st *stream) endBy(err error) {
	st.l.s.mu.Lock()
	defer st.l.s.mu.Unlock()
	st.end(err)
}

// end breaks the stream; what has not arrived never does.
func (st *stream) end(err error) {
	if st.err != nil {
		return
	}
	st.err, st.out = err, nil
	st.stop()
	st.l.streams = slices.DeleteFunc(st.l.streams, func(o *stream) bool { return o == st })
	if st.watch != nil {
		st.watch.end()
	}
	st.signal()
}

func (st *stream) signal() {
	select {
	case st.wake <- struct{}{}:
	default:
	}
}

// held tells whether messages to the client stand still.
func (st *stream) held() bool {
	return st.l.repliesHeld() || st.watch != nil && st.l.frozen
}

// resume looks again after a change of the link.
func (st *stream) resume() {
	if st.watch != nil {
		st.watch.resume()
	}
	st.signal()
}

func (st *stream) push(resp any) {
	if st.err == nil {
		st.out = append(st.out, outgoing{time.Now().Add(st.l.replyDelay), resp})
		st.signal()
	}
}

// send brings a message to the server, where handle deals with it.
func (st *stream) send(handle func()) error {
	l := st.l
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	if st.err != nil {
		return io.EOF // as gRPC: the error itself comes from Recv
	}
	apply := func() (any, error) {
		if st.err == nil {
			handle()
		}
		return nil, nil
	}
	r := &request{call: st.call, apply: apply, done: make(chan struct{})}
	switch {
	case l.requestsHeld():
		l.counts.MessagesHeld++
		l.queue = append(l.queue, r)
	case l.requestDelay > 0:
		l.s.later(l.requestDelay, func() { _, _ = r.arrive(l) })
	default:
		_, _ = r.arrive(l)
	}
	return nil
}

// recv waits for the next message.
func (st *stream) recv() (any, error) {
	s := st.l.s
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if st.err != nil {
			return nil, st.err
		}
		var wait time.Duration
		if len(st.out) > 0 && !st.held() {
			if wait = time.Until(st.out[0].due); wait <= 0 {
				resp := st.out[0].resp
				st.out = st.out[1:]
				return resp, nil
			}
		}
		if err := st.c.unlocked(st.ctx, st.wake, wait); err != nil {
			st.end(err)
		}
	}
}

// The parts of a gRPC stream that etcd's client does not use for anything that matters here.

func (st *stream) Context() context.Context     { return st.ctx }
func (st *stream) Header() (metadata.MD, error) { return nil, nil }
func (st *stream) Trailer() metadata.MD         { return nil }
func (st *stream) SendMsg(any) error            { return errUnimplemented }
func (st *stream) RecvMsg(any) error            { return errUnimplemented }

// CloseSend ends a stream of keep-alives: the server has answered all there was.
func (st *stream) CloseSend() error {
	st.endBy(io.EOF)
	return nil
}

// keepAliveStream renews leases.
type keepAliveStream struct{ *stream }

// Send implements pb.Lease_LeaseKeepAliveClient.
func (k keepAliveStream) Send(r *pb.LeaseKeepAliveRequest) error {
	return k.send(func() {
		if !k.l.s.cluster.up {
			k.l.await(&renewal{k.stream, r.ID})
			return
		}
		k.push(k.l.s.lessor.renew(r.ID))
	})
}

// Recv implements pb.Lease_LeaseKeepAliveClient.
func (k keepAliveStream) Recv() (*pb.LeaseKeepAliveResponse, error) {
	resp, err := k.recv()
	if err != nil {
		return nil, err
	}
	return resp.(*pb.LeaseKeepAliveResponse), nil
}

// renewal is a keep-alive that waits for a leader.
type renewal struct {
	st *stream
	id int64
}

func (l *Link) await(r *renewal) {
	l.renewals = append(l.renewals, r)
	l.s.later(l.s.patience(), func() {
		if slices.Contains(l.renewals, r) {
			r.st.end(rpctypes.ErrGRPCNoLeader)
		}
	})
}

func (l *Link) drainRenewals() {
	all := l.renewals
	l.renewals = nil
	for _, r := range all {
		r.st.push(l.s.lessor.renew(r.id))
	}
}

func (l *Link) endRequiringLeader(err error) {
	for _, st := range slices.Clone(l.streams) {
		if st.leader {
			st.end(err)
		}
	}
}

// watchStream carries watches.
type watchStream struct {
	*stream
	watchers      map[int64]*watcher
	nextID        int64
	progressTimer *time.Timer
}

// Send implements pb.Watch_WatchClient.
func (o *watchStream) Send(r *pb.WatchRequest) error {
	return o.send(func() {
		switch {
		case r.GetCreateRequest() != nil:
			o.create(r.GetCreateRequest())
		case r.GetCancelRequest() != nil:
			o.cancel(r.GetCancelRequest().WatchId)
		case r.GetProgressRequest() != nil:
			o.progress()
		}
	})
}

// Recv implements pb.Watch_WatchClient.
func (o *watchStream) Recv() (*pb.WatchResponse, error) {
	resp, err := o.recv()
	if err != nil {
		return nil, err
	}
	return resp.(*pb.WatchResponse), nil
}

func (o *watchStream) sorted() []*watcher {
	all := make([]*watcher, 0, len(o.watchers))
	for _, w := range o.watchers {
		all = append(all, w)
	}
	slices.SortFunc(all, func(a, b *watcher) int { return int(a.id - b.id) })
	return all
}

func (o *watchStream) resume() {
	for _, w := range o.sorted() {
		w.sync(o.l.s)
	}
}

func (o *watchStream) end() {
	for _, w := range o.sorted() {
		o.forget(w)
	}
	if o.progressTimer != nil {
		o.progressTimer.Stop()
	}
}

// armProgress starts the unasked progress notifications once a watch of the stream wants them.
func (o *watchStream) armProgress() {
	if o.progressTimer != nil {
		return
	}
	for _, w := range o.watchers {
		if w.notify {
			o.progressTimer = o.l.s.later(o.l.s.cfg.ProgressInterval, o.announce)
			return
		}
	}
}

// announce sends a notification to each watch that wants them and got nothing since the last turn.
func (o *watchStream) announce() {
	if o.err != nil {
		return
	}
	for _, w := range o.sorted() {
		if w.notify && w.quiet && w.inProgress(o.l.s) {
			o.push(&pb.WatchResponse{Header: o.l.s.header(), WatchId: w.id})
		}
		w.quiet = true
	}
	o.progressTimer.Reset(o.l.s.cfg.ProgressInterval)
}
