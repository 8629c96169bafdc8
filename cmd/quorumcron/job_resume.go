package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	quorumcronv1 "github.com/quorumcron/quorumcron/proto/quorumcron/v1"
)

func newJobResume(c *console) *cobra.Command {
	o := &jobOptions{}
	return o.command(c, "resume", "Start a paused job's schedule again", func(ctx context.Context, client *client) error {
		answer, err := call(ctx, client, client.jobs.Resume, &quorumcronv1.JobServiceResumeRequest{Namespace: o.namespace, Name: o.name})
		if err != nil {
			return err
		}
		c.warn(answer.GetWarnings())
		return c.print(o.output, answer, func(w io.Writer) {
			text := "resumed " + o.title()
			if answer.GetChange() == "unchanged" {
				text = o.title() + " was not paused"
			}
			if next := c.nextOf(answer.GetJob()); next != nil {
				text += "; next " + c.both(next)
			}
			row(w, text)
		})
	})
}
