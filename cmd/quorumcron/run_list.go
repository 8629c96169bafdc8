package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	quorumcronv1 "github.com/quorumcron/quorumcron/proto/quorumcron/v1"
)

type runListOptions struct {
	serverOptions
	namespaceOption
	all    bool
	job    string
	limit  int
	output format
}

func newRunList(c *console) *cobra.Command {
	o := &runListOptions{}
	cmd := &cobra.Command{
		Use: "list", Short: "List runs, newest first, those that are running included", Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.limit < 1 || o.limit > 100_000 {
				return usageError(cmd, fmt.Errorf("--limit %d: must be from 1 to 100000", o.limit))
			}
			if o.all && o.job != "" {
				return usageError(cmd, errors.New("--all-namespaces and --job exclude each other"))
			}
			return o.run(cmd.Context(), c)
		},
	}
	o.serverOptions.addFlags(cmd.Flags())
	o.namespaceOption.addFlags(cmd.Flags())
	cmd.Flags().BoolVarP(&o.all, "all-namespaces", "A", false, "list the runs of all namespaces")
	cmd.Flags().StringVar(&o.job, "job", "", "only this job's runs")
	cmd.Flags().IntVar(&o.limit, "limit", 20, "the most runs to list, at most 100000")
	addOutput(cmd, &o.output)
	// The flag was made just above, so registering it cannot fail.
	_ = cmd.RegisterFlagCompletionFunc("job", func(cmd *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
		return jobNames(cmd, c, &o.serverOptions, &o.namespaceOption, prefix), cobra.ShellCompDirectiveNoFileComp
	})
	return cmd
}

func (o *runListOptions) run(ctx context.Context, c *console) error {
	client, err := o.connect()
	if err != nil {
		return err
	}
	defer client.close()
	request := &quorumcronv1.RunServiceListRequest{Namespace: o.namespace, Job: o.job}
	if o.all {
		request.Namespace = ""
	}
	all := &quorumcronv1.RunServiceListResponse{}
	for len(all.GetRuns()) < o.limit {
		request.PageSize = int32(min(o.limit-len(all.GetRuns()), 1000))
		page, err := call(ctx, client, client.runs.List, request)
		if err != nil {
			return err
		}
		all.Runs = append(all.Runs, page.GetRuns()...)
		if request.PageToken = page.GetNextPageToken(); request.PageToken == "" {
			break
		}
	}
	if o.output == formatTable && request.GetPageToken() != "" {
		c.say("there are more; see them with --limit")
	}
	if len(all.GetRuns()) == 0 && o.output == formatTable {
		c.say("no runs yet")
	}
	return c.print(o.output, all, func(w io.Writer) { o.table(w, c, all.GetRuns()) })
}

func (o *runListOptions) table(w io.Writer, c *console, runs []*quorumcronv1.Run) {
	row(w, "JOB", "INSTANT", c.paint(plain, "VERDICT"), "REASON", "ATTEMPT", "MEMBER", "STARTED", "TOOK", "FIRING")
	for _, r := range runs {
		name := r.GetJob()
		if o.all {
			name = r.GetNamespace() + "/" + name
		}
		instant := "triggered"
		if r.GetInstant() != nil {
			instant = stamp(r.GetInstant())
		}
		row(w, name, instant, c.verdict(r.GetVerdict()), orDash(r.GetReason()), fmt.Sprint(r.GetAttempt()), orDash(r.GetMember()),
			c.ago(r.GetStartTime()), c.took(r.GetStartTime(), r.GetEndTime()), r.GetFiring())
	}
}
