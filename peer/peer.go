// Package peer talks to the other members of the cluster.
//
// So far it does one thing: it fetches output that lies on another member. It guarantees that a call it
// passes on is marked, so that it is passed on once only, and that a member that does not answer costs
// its caller a bounded wait. It keeps no connections, holds no state and starts no goroutines of its
// own; which member to ask, and what to do without it, it leaves to its caller.
package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	quorumcronv1 "github.com/quorumcron/quorumcron/proto/quorumcron/v1"
	"github.com/quorumcron/quorumcron/scheduler"
)

// forwardedHeader is api.ForwardedHeader; packages api and peer do not import each other.
const forwardedHeader = "quorumcron-forwarded"

// firstAnswer is how long a member may take until its first message, connecting included.
const firstAnswer = 5 * time.Second

// Client calls other members. The zero value is ready and safe for concurrent use.
type Client struct {
	// Options are added to those of each dial; tests dial through memory.
	Options []grpc.DialOption
	// Wait is how long a member may take until its first message; 0 means 5 s.
	Wait time.Duration
}

// errSilent ends a call whose first answer does not come.
var errSilent = errors.New("no answer in time")

// Logs asks the member at address for the output of an attempt that ran there, and calls deliver for each
// piece. It returns deliver's error as it is. A member that does not answer is an ErrUnavailable; one
// that does not have the output is an ErrNotFound.
func (c *Client) Logs(
	ctx context.Context, address string, r *quorumcronv1.RunServiceLogsRequest,
	deliver func(*quorumcronv1.RunServiceLogsResponse) error,
) error {
	options := append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
	}, c.Options...)
	connection, err := grpc.NewClient(address, options...)
	if err != nil {
		return fmt.Errorf("dial member at %s: %w: %w", address, scheduler.ErrUnavailable, err)
	}
	defer connection.Close()

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	wait := c.Wait
	if wait == 0 {
		wait = firstAnswer
	}
	silence := time.AfterFunc(wait, func() { cancel(errSilent) })
	defer silence.Stop()

	call := metadata.AppendToOutgoingContext(ctx, forwardedHeader, "1")
	stream, err := quorumcronv1.NewRunServiceClient(connection).Logs(call, r)
	if err != nil {
		return answered(ctx, address, err)
	}
	for {
		piece, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return answered(ctx, address, err)
		}
		silence.Stop()
		if err := deliver(piece); err != nil {
			return err
		}
	}
}

// answered turns what gRPC says into what callers act on.
func answered(ctx context.Context, address string, err error) error {
	cause := scheduler.ErrUnavailable
	switch {
	case errors.Is(context.Cause(ctx), errSilent):
		err = errSilent
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case status.Code(err) == codes.NotFound:
		cause = scheduler.ErrNotFound
	}
	return fmt.Errorf("ask member at %s: %w: %w", address, cause, err)
}
