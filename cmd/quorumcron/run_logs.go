package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	quorumcronv1 "github.com/quorumcron/quorumcron/proto/quorumcron/v1"
)

func newRunLogs(c *console) *cobra.Command {
	o := &runOptions{}
	var attempt int32
	cmd := o.command("logs", "Print the output of a run as the process wrote it", func(ctx context.Context, client *client) error {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		silence := time.AfterFunc(o.timeout, func() { cancel(client.silent()) }) // until the first piece; all may take long
		defer silence.Stop()
		stream, err := client.runs.Logs(ctx, &quorumcronv1.RunServiceLogsRequest{Firing: o.firing, Attempt: attempt})
		if err != nil {
			return client.explain(err)
		}
		for {
			piece, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				if cause := context.Cause(ctx); status.Code(cause) == codes.DeadlineExceeded {
					err = cause
				}
				return client.explain(err)
			}
			silence.Stop()
			if piece.GetNote() != "" {
				c.say("note: %s", piece.GetNote())
			}
			if _, err := c.out.Write(piece.GetChunk()); err != nil {
				return fmt.Errorf("write the output: %w", err)
			}
		}
	})
	cmd.Flags().Int32Var(&attempt, "attempt", 0, "which attempt (default the newest)")
	return cmd
}
