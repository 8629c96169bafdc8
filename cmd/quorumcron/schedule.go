package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorumcron/quorumcron/scheduler/cron"
)

func newSchedule(c *console) *cobra.Command {
	return noun("schedule", "Try schedules, without a server", newScheduleNext(c))
}

type scheduleNextOptions struct {
	zone          string
	after, anchor instantFlag
	count         int
	output        format
}

func newScheduleNext(c *console) *cobra.Command {
	o := &scheduleNextOptions{}
	cmd := &cobra.Command{
		Use: "next EXPR", Short: "Show when an expression is due", Args: exactly("EXPR"),
		Long: "Show when an expression is due: one of 5 fields, or 6 with seconds first; @hourly, @daily and the like;\n" +
			"or \"@every 15m\". No server is asked. Fewer instants are shown if the schedule ends.",
		Example: "  quorumcron schedule next '30 2 * * *' --time-zone Europe/Berlin\n" +
			"  quorumcron schedule next '@every 15m' --anchor 2026-01-01T00:05:00Z -n 3",
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.count < 1 || o.count > 10_000 {
				return usageError(cmd, fmt.Errorf("--count %d: must be from 1 to 10000", o.count))
			}
			if o.anchor.given && o.anchor.IsZero() { // as a job's origin it is none
				return usageError(cmd, errors.New("--anchor 0001-01-01T00:00:00Z: must be later"))
			}
			return o.run(c, args[0])
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.zone, "time-zone", "", "IANA name of the zone that the expression is read in (default UTC)")
	flags.Var(&o.after, "after", "instants after this one (default now)")
	flags.Var(&o.anchor, "anchor", "where @every begins to count (default: --after)")
	flags.IntVarP(&o.count, "count", "n", 5, "how many, at most 10000")
	addOutput(cmd, &o.output)
	return cmd
}

func (o *scheduleNextOptions) run(c *console, expression string) error {
	at := o.after.Time
	if !o.after.given {
		at = c.now()
	}
	anchor := o.anchor.Time
	if !o.anchor.given {
		anchor = at // As a job that is stored at that moment.
	}
	spec, err := cron.SpecOf(expression, o.zone, anchor)
	if err != nil {
		return invalid(err)
	}
	table, err := cron.Compile(spec)
	if err != nil {
		return invalid(err)
	}
	zone, err := cron.LoadZone(o.zone)
	if err != nil {
		return invalid(err)
	}
	instants := []string{}
	var times []time.Time
	for range o.count {
		if at = table.Next(at); at.IsZero() {
			break
		}
		times = append(times, at)
		instants = append(instants, at.UTC().Format(time.RFC3339))
	}
	if o.output == formatTable {
		return c.printTable(func(w io.Writer) {
			for _, t := range times {
				c.instantRow(w, t, zone)
			}
		})
	}
	return c.printValue(o.output, map[string][]string{"instants": instants})
}
