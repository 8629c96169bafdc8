package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	quorumcronv1 "github.com/quorumcron/quorumcron/proto/quorumcron/v1"
)

func newRun(c *console) *cobra.Command {
	return noun("run", "Show and stop runs", newRunList(c), newRunShow(c), newRunLogs(c), newRunCancel(c))
}

// runOptions are what every command about one run has.
type runOptions struct {
	serverOptions
	firing string
	output format
}

// command makes a command about one run.
func (o *runOptions) command(use, short string, run func(context.Context, *client) error) *cobra.Command {
	cmd := &cobra.Command{
		Use: use + " FIRING", Short: short, Args: exactly("FIRING"),
		Long:              short + ". FIRING is as `job trigger` and the last column of `run list` show it.",
		Example:           "  quorumcron run " + use + " 01m8px4xe5m8gw87wbwnv1kjvp@2026-12-24T18:00:00Z",
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.firing = args[0]
			client, err := o.connect()
			if err != nil {
				return err
			}
			defer client.close()
			return run(cmd.Context(), client)
		},
	}
	o.serverOptions.addFlags(cmd.Flags())
	return cmd
}

// runTable shows one run as lines of name and value.
func (c *console) runTable(w io.Writer, r *quorumcronv1.Run) {
	row(w, "Firing:", r.GetFiring())
	job := r.GetNamespace() + "/" + r.GetJob()
	if r.GetGeneration() > 0 { // What was never granted has no generation, and no attempt.
		job += fmt.Sprintf(", generation %d", r.GetGeneration())
	}
	row(w, "Job:", job)
	if r.GetInstant() != nil {
		row(w, "Instant:", c.both(r.GetInstant()))
	} else {
		row(w, "Instant:", "none: it was triggered")
	}
	row(w, "Verdict:", c.verdict(r.GetVerdict())+outcome("", r.GetReason()))
	if r.ExitCode != nil {
		row(w, "Exit code:", fmt.Sprint(r.GetExitCode()))
	}
	if r.GetMessage() != "" {
		for i, line := range lines(r.GetMessage()) {
			row(w, first(i, "Message:"), line)
		}
	}
	for i, a := range r.GetAttempts() {
		if a.GetNumber() == 0 {
			row(w, "Attempts:", "none: it was not run")
			continue
		}
		verdict := outcome(a.GetVerdict(), a.GetReason())
		if verdict == "" {
			verdict = "running"
		}
		line := fmt.Sprintf("%d %s on %s, token %d", a.GetNumber(), verdict, orDash(a.GetMember()), a.GetToken())
		switch {
		case a.GetStartTime() == nil && a.GetVerdict() == "" && a.GetGranted() != nil: // its start is recorded with its end
			line += fmt.Sprintf(", granted %s, %s", stamp(a.GetGranted()), c.ago(a.GetGranted()))
		case a.GetStartTime() != nil:
			line += fmt.Sprintf(", started %s, took %s", stamp(a.GetStartTime()), c.took(a.GetStartTime(), a.GetEndTime()))
		}
		row(w, first(i, "Attempts:"), line)
	}
	if r.GetOutputBytes() > 0 {
		what := fmt.Sprintf("%d bytes", r.GetOutputBytes())
		if r.GetOutputDropped() > 0 {
			what += fmt.Sprintf(", %d of them not kept", r.GetOutputDropped())
		}
		row(w, "Output:", what)
	}
	if r.GetShortened() {
		row(w, "Shortened:", "etcd was short of space (80 % of its quota) when this was recorded: no message, no tail of the output")
		row(w, "", "here, and no more of earlier attempts than shown; `run logs "+r.GetFiring()+"` has the output")
	}
}
