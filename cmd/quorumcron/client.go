package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
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
	conn, err := grpc.NewClient(o.server, grpc.WithTransportCredentials(insecure.NewCredentials()))
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
	answer, err := method(ctx, request)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) { // The server may have noticed first, and broken the stream off.
		err = status.Errorf(codes.DeadlineExceeded, "no answer from %s within %s; give it longer with --timeout, or look whether etcd answers with `cluster status`",
			c.options.server, c.options.timeout)
	}
	return answer, c.explain(err)
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
