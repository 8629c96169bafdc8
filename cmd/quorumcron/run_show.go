package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	quorumcronv1 "github.com/quorumcron/quorumcron/proto/quorumcron/v1"
)

func newRunShow(c *console) *cobra.Command {
	o := &runOptions{}
	cmd := o.command("show", "Show a run: its attempts and how it ended", func(ctx context.Context, client *client) error {
		answer, err := call(ctx, client, client.runs.Get, &quorumcronv1.RunServiceGetRequest{Firing: o.firing})
		if err != nil {
			return err
		}
		return c.print(o.output, answer.GetRun(), func(w io.Writer) { c.runTable(w, answer.GetRun()) })
	})
	addOutput(cmd, &o.output)
	return cmd
}
