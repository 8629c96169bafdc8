package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	quorumcronv1 "github.com/quorumcron/quorumcron/proto/quorumcron/v1"
	"github.com/quorumcron/quorumcron/scheduler/cron"
)

func newJobNext(c *console) *cobra.Command {
	o := &jobOptions{}
	var after instantFlag
	var count int32
	cmd := o.command(c, "next", "Show when a job is due next, also while it is paused", func(ctx context.Context, client *client) error {
		if count < 1 || count > 1000 { // The server takes 0 for "as many as you like".
			return invalid(fmt.Errorf("--count %d: must be from 1 to 1000", count))
		}
		request := &quorumcronv1.JobServiceNextRequest{Namespace: o.namespace, Name: o.name, Count: count}
		if after.given {
			request.After = timestamppb.New(after.Time)
		}
		answer, err := call(ctx, client, client.jobs.Next, request)
		if err != nil {
			return err
		}
		if o.output != formatTable {
			return c.print(o.output, answer, nil)
		}
		if len(answer.GetInstants()) == 0 {
			c.say("its schedule has ended")
			return nil
		}
		job, err := call(ctx, client, client.jobs.Get, &quorumcronv1.JobServiceGetRequest{Namespace: o.namespace, Name: o.name})
		if err != nil {
			return err
		}
		zone, err := cron.LoadZone(job.GetJob().GetSchedule().GetTimeZone())
		if err != nil {
			zone = time.UTC // A zone that only the server knows.
		}
		return c.printTable(func(w io.Writer) {
			for _, t := range answer.GetInstants() {
				c.instantRow(w, t.AsTime(), zone)
			}
		})
	})
	cmd.Flags().Var(&after, "after", "instants after this one (default now)")
	cmd.Flags().Int32VarP(&count, "count", "n", 5, "how many, at most 1000")
	return cmd
}

// instantFlag is a flag that takes an instant. The zero time can be one, so that given says whether there is.
type instantFlag struct {
	time.Time
	given bool
}

// String implements pflag.Value.
func (f *instantFlag) String() string {
	if !f.given {
		return ""
	}
	return f.Format(time.RFC3339)
}

// Type implements pflag.Value: what the help shows.
func (f *instantFlag) Type() string { return "RFC3339" }

// Set implements pflag.Value.
func (f *instantFlag) Set(s string) error {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return errors.New("must be an instant such as 2026-12-24T18:00:00Z or 2026-12-24T19:00:00+01:00")
	}
	f.Time, f.given = t, true
	return nil
}

// instantRow is one instant of a list: in UTC, in words of its zone, and as seen from now.
func (c *console) instantRow(w io.Writer, t time.Time, zone *time.Location) {
	row(w, t.UTC().Format(time.RFC3339), t.In(zone).Format("Mon 2006-01-02 15:04:05 MST"), relative(t, c.now()))
}
