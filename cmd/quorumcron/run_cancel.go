package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	quorumcronv1 "github.com/quorumcron/quorumcron/proto/quorumcron/v1"
)

func newRunCancel(c *console) *cobra.Command {
	o := &runOptions{}
	cmd := o.command("cancel", "Stop a firing that runs, or take out one that waits", func(ctx context.Context, client *client) error {
		answer, err := call(ctx, client, client.runs.Cancel, &quorumcronv1.RunServiceCancelRequest{Firing: o.firing})
		if err != nil {
			return err
		}
		return c.print(o.output, answer, func(w io.Writer) {
			text := "taken out before it ran: " + o.firing
			if answer.GetMember() != "" {
				text = answer.GetMember() + " was told to stop " + o.firing
			}
			row(w, text)
		})
	})
	addOutput(cmd, &o.output)
	return cmd
}
