package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/quorumcron/quorumcron/api"
	quorumcronv1 "github.com/quorumcron/quorumcron/proto/quorumcron/v1"
)

// serverOptions say which node to ask, and how long.
type serverOptions struct {
	server  string
	timeout time.Duration
}

func (o *serverOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.server, "server", "127.0.0.1:7460", "gRPC address of any node")
	durationVar(flags, &o.timeout, "timeout", 10*time.Second, "longest wait for an answer")
	fromEnvironment(flags, "server", "timeout")
}

// namespaceOption says which namespace is meant.
type namespaceOption struct{ namespace string }

func (o *namespaceOption) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.namespace, "namespace", api.DefaultNamespace, "namespace that is meant")
	fromEnvironment(flags, "namespace")
}

// client is a connection to one node.
type client struct {
	jobs      quorumcronv1.JobServiceClient
	calendars quorumcronv1.CalendarServiceClient
	runs      quorumcronv1.RunServiceClient
	cluster   quorumcronv1.ClusterServiceClient

	options serverOptions
	conn    *grpc.ClientConn
}

// connect makes a client. It does not wait for the node: the first call finds out.
func (o serverOptions) connect() (*client, error) {
	if _, _, err := net.SplitHostPort(o.server); err != nil {
		return nil, invalid(fmt.Errorf("--server %q: must be host:port, such as 127.0.0.1:7460", o.server))
	}
	if o.timeout <= 0 {
		return nil, invalid(fmt.Errorf("--timeout %s: must be more than 0s", o.timeout))
	}
	conn, err := grpc.NewClient(o.server, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithStatsHandler(tracer{}))
	if err != nil {
		return nil, invalid(fmt.Errorf("--server %q: %w", o.server, err))
	}
	return &client{
		jobs: quorumcronv1.NewJobServiceClient(conn), runs: quorumcronv1.NewRunServiceClient(conn),
		calendars: quorumcronv1.NewCalendarServiceClient(conn), cluster: quorumcronv1.NewClusterServiceClient(conn), options: o, conn: conn,
	}, nil
}

func (c *client) close() { _ = c.conn.Close() }

// call makes one unary call under the deadline, and explains an error if no node was reached.
func call[Q, A any](ctx context.Context, c *client, method func(context.Context, Q, ...grpc.CallOption) (A, error), request Q) (A, error) {
	ctx, cancel := context.WithTimeout(ctx, c.options.timeout)
	defer cancel()
	t := &trace{}
	answer, err := method(context.WithValue(ctx, traceKey{}, t), request)
	switch {
	case err == nil:
		return answer, nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded): // The server may have noticed first, and broken the stream off.
		err = c.silent()
	case t.left.Load() && !t.answered.Load() && status.Code(err) == codes.Unavailable:
		err = failedWith(exitUnreachable, fmt.Errorf("the connection to %s broke before it answered (%s)", c.options.server, status.Convert(err).Message()))
	}
	if err = c.explain(err); !t.left.Load() {
		err = &unsentError{err}
	}
	return answer, err
}

// unsentError is that of a call which never left this process, so that nothing can have come of it.
type unsentError struct{ err error }

// Error implements error.
func (e *unsentError) Error() string { return e.err.Error() }

// Unwrap gives the cause to errors.Is and errors.As.
func (e *unsentError) Unwrap() error { return e.err }

// unsent says whether nothing can have come of a call that failed so.
func unsent(err error) bool {
	_, ok := errors.AsType[*unsentError](err)
	return ok
}

// trace is what is known of a call: whether its request was handed to a connection, and whether the node
// answered. An error that the node did not send looks like one that it did.
type trace struct{ left, answered atomic.Bool }

type traceKey struct{}

// tracer keeps the trace that is in a call's context.
type tracer struct{}

// HandleRPC implements stats.Handler.
func (tracer) HandleRPC(ctx context.Context, event stats.RPCStats) {
	t, ok := ctx.Value(traceKey{}).(*trace)
	if !ok {
		return
	}
	switch event.(type) {
	case *stats.OutHeader:
		t.left.Store(true)
	case *stats.InHeader, *stats.InTrailer:
		t.answered.Store(true)
	}
}

// TagRPC, TagConn and HandleConn complete stats.Handler.
func (tracer) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (tracer) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (tracer) HandleConn(context.Context, stats.ConnStats)                       {}

// silent is that no answer came within the time limit.
func (c *client) silent() error {
	return status.Errorf(codes.DeadlineExceeded, "no answer from %s within %s; give it longer with --timeout, or look whether etcd answers with `cluster status`",
		c.options.server, c.options.timeout)
}

// explain tells "no node there" from what a node answered.
func (c *client) explain(err error) error {
	code := status.Code(err)
	if code != codes.Unavailable && code != codes.DeadlineExceeded || c.conn.GetState() == connectivity.Ready {
		return err
	}
	return failedWith(exitUnreachable, fmt.Errorf("no node answers at %s (%s); is one running? start one with `quorumcron dev`, "+
		"or name one with --server or QUORUMCRON_SERVER", c.options.server, status.Convert(err).Message()))
}
