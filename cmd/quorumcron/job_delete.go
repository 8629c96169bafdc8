package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	quorumcronv1 "github.com/quorumcron/quorumcron/proto/quorumcron/v1"
)

func newJobDelete(c *console) *cobra.Command {
	o := &jobOptions{}
	dryRun := false
	cmd := o.command(c, "delete", "End a job; attempts in flight go on to their end", func(ctx context.Context, client *client) error {
		if dryRun {
			return o.deleteDry(ctx, c, client)
		}
		answer, err := call(ctx, client, client.jobs.Delete, &quorumcronv1.JobServiceDeleteRequest{Namespace: o.namespace, Name: o.name})
		if err != nil {
			return err
		}
		return c.print(o.output, answer, func(w io.Writer) {
			row(w, fmt.Sprintf("deleted %s; %s", o.title(), goingOn(int(answer.GetRunning()))))
		})
	})
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "say what would be deleted, and delete nothing")
	return cmd
}

// deleteDry reads the job instead of deleting it, and answers in the form of the deletion.
func (o *jobOptions) deleteDry(ctx context.Context, c *console, client *client) error {
	answer, err := call(ctx, client, client.jobs.Get, &quorumcronv1.JobServiceGetRequest{Namespace: o.namespace, Name: o.name})
	if err != nil {
		return err
	}
	running := len(answer.GetJob().GetRunning())
	return c.print(o.output, &quorumcronv1.JobServiceDeleteResponse{Running: int32(running)}, func(w io.Writer) {
		row(w, fmt.Sprintf("would delete %s; %s", o.title(), goingOn(running)))
	})
}

// goingOn says what a deletion leaves in flight.
func goingOn(attempts int) string {
	switch attempts {
	case 0:
		return "nothing of it is running"
	case 1:
		return "1 attempt goes on to its end"
	default:
		return fmt.Sprintf("%d attempts go on to their end", attempts)
	}
}
