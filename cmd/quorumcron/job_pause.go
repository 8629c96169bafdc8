package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	quorumcronv1 "github.com/quorumcron/quorumcron/proto/quorumcron/v1"
)

func newJobPause(c *console) *cobra.Command {
	o := &jobOptions{}
	cmd := o.command(c, "pause", "Stop a job's schedule; attempts in flight go on", func(ctx context.Context, client *client) error {
		answer, err := call(ctx, client, client.jobs.Pause, &quorumcronv1.JobServicePauseRequest{Namespace: o.namespace, Name: o.name})
		if err != nil {
			return err
		}
		return c.print(o.output, answer, func(w io.Writer) {
			text := "paused " + o.title()
			if answer.GetChange() == "unchanged" {
				text = o.title() + " was paused already"
			}
			row(w, text)
		})
	})
	cmd.Long = "Stop a job's schedule. Attempts in flight go on; instants that fall due before `job resume` are\n" +
		"SKIPPED(paused), and triggers are refused."
	return cmd
}
