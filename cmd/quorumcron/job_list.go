package main

import (
	"context"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	quorumcronv1 "github.com/quorumcron/quorumcron/proto/quorumcron/v1"
)

type jobListOptions struct {
	serverOptions
	namespaceOption
	all    bool
	output format
}

func newJobList(c *console) *cobra.Command {
	o := &jobListOptions{}
	cmd := &cobra.Command{
		Use: "list", Short: "List the jobs of a namespace", Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), c) },
	}
	o.serverOptions.addFlags(cmd.Flags())
	o.namespaceOption.addFlags(cmd.Flags())
	cmd.Flags().BoolVarP(&o.all, "all-namespaces", "A", false, "list the jobs of all namespaces")
	addOutput(cmd, &o.output)
	return cmd
}

func (o *jobListOptions) run(ctx context.Context, c *console) error {
	client, err := o.connect()
	if err != nil {
		return err
	}
	defer client.close()
	request := &quorumcronv1.JobServiceListRequest{Namespace: o.namespace, PageSize: 1000}
	if o.all {
		request.Namespace = ""
	}
	all := &quorumcronv1.JobServiceListResponse{}
	for {
		page, err := call(ctx, client, client.jobs.List, request)
		if err != nil {
			return err
		}
		all.Jobs = append(all.Jobs, page.GetJobs()...)
		if request.PageToken = page.GetNextPageToken(); request.PageToken == "" {
			break
		}
	}
	if len(all.Jobs) == 0 && o.output == formatTable {
		c.say("no jobs; store one with `quorumcron job apply -f FILE`")
	}
	return c.print(o.output, all, func(w io.Writer) { o.table(w, c, all.GetJobs()) })
}

func (o *jobListOptions) table(w io.Writer, c *console, jobs []*quorumcronv1.Job) {
	head := []string{"JOB", "SCHEDULE", "NEXT", c.paint(plain, "STATE"), "OK", "NOT-OK", "NOT-RUN", "OWNER"}
	if o.all {
		head = append([]string{"NAMESPACE"}, head...)
	}
	row(w, head...)
	for _, j := range jobs {
		next := "-"
		if len(j.GetNextInstants()) > 0 {
			next = c.ago(j.GetNextInstants()[0])
		}
		ok, notOK, notRun := ended(j.GetCounters())
		state := jobState(j)
		colour := plain
		if state == "no owner" {
			colour = red
		}
		cells := []string{j.GetName(), scheduleLine(j.GetSchedule()), next, c.paint(colour, state),
			strconv.FormatInt(ok, 10), strconv.FormatInt(notOK, 10), strconv.FormatInt(notRun, 10), orDash(j.GetOwner())}
		if o.all {
			cells = append([]string{j.GetNamespace()}, cells...)
		}
		row(w, cells...)
	}
}

// ended sums the counters of a job: firings that succeeded, that ended otherwise, that were not run.
func ended(counters []*quorumcronv1.Counter) (ok, notOK, notRun int64) {
	for _, counter := range counters {
		switch counter.GetVerdict() {
		case "SUCCEEDED":
			ok += counter.GetCount()
		case "SKIPPED", "MISSED":
			notRun += counter.GetCount()
		default:
			notOK += counter.GetCount()
		}
	}
	return ok, notOK, notRun
}
