package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/quorumcron/quorumcron/api"
	quorumcronv1 "github.com/quorumcron/quorumcron/proto/quorumcron/v1"
	"github.com/quorumcron/quorumcron/scheduler/cron"
)

func newJob(c *console) *cobra.Command {
	return noun("job", "Store, show and steer jobs",
		newJobApply(c), newJobList(c), newJobShow(c), newJobDelete(c), newJobPause(c), newJobResume(c), newJobNext(c), newJobTrigger(c))
}

// jobOptions are what every command about one job has.
type jobOptions struct {
	serverOptions
	namespaceOption
	name   string
	output format
	// names completes NAME; nil completes the names of jobs.
	names func(cmd *cobra.Command, c *console, o *serverOptions, n *namespaceOption, prefix string) []string
}

// command makes a command about one job, or what else has a namespace and a name, from what it is called and what it does.
func (o *jobOptions) command(c *console, use, short string, run func(context.Context, *client) error) *cobra.Command {
	cmd := &cobra.Command{
		Use: use + " NAME", Short: short, Args: exactly("NAME"),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			names := jobNames
			if o.names != nil {
				names = o.names
			}
			return names(cmd, c, &o.serverOptions, &o.namespaceOption, prefix), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.name = args[0]
			client, err := o.connect()
			if err != nil {
				return err
			}
			defer client.close()
			return run(cmd.Context(), client)
		},
	}
	o.serverOptions.addFlags(cmd.Flags())
	o.namespaceOption.addFlags(cmd.Flags())
	addOutput(cmd, &o.output)
	return cmd
}

// title is how messages name the job.
func (o *jobOptions) title() string { return o.namespace + "/" + o.name }

// jobNames completes the name of a job. Shells wait for it, so it gives up soon, and without a node
// there is nothing to offer.
func jobNames(cmd *cobra.Command, c *console, o *serverOptions, n *namespaceOption, prefix string) []string {
	return completed(cmd, c, o, prefix, func(client *client) (names []string) {
		answer, err := call(cmd.Context(), client, client.jobs.List, &quorumcronv1.JobServiceListRequest{Namespace: n.namespace, PageSize: 1000})
		if err != nil {
			return nil
		}
		for _, job := range answer.GetJobs() {
			names = append(names, job.GetName())
		}
		return names
	})
}

// completed asks a node for names and keeps those that begin as what is typed.
func completed(cmd *cobra.Command, c *console, o *serverOptions, prefix string, ask func(*client) []string) []string {
	if applyEnvironment(cmd, c) != nil { // Cobra completes without what runs before a command.
		return nil
	}
	server := *o
	server.timeout = min(server.timeout, time.Second)
	client, err := server.connect()
	if err != nil {
		return nil
	}
	defer client.close()
	return slices.DeleteFunc(ask(client), func(name string) bool { return !strings.HasPrefix(name, prefix) })
}

// schedule is a job's schedule on one line.
func scheduleLine(s *quorumcronv1.Schedule) string {
	var sources []string
	for _, cron := range s.GetCron() {
		sources = append(sources, cron)
	}
	if s.GetEvery() != "" {
		sources = append(sources, "every "+s.GetEvery())
	}
	for _, at := range s.GetAt() {
		sources = append(sources, "at "+stamp(at))
	}
	line := "-"
	switch len(sources) {
	case 0:
	case 1:
		line = sources[0]
	default:
		line = fmt.Sprintf("%s +%d", sources[0], len(sources)-1)
	}
	if s.GetTimeZone() != "" && len(s.GetCron()) > 0 {
		line += " " + s.GetTimeZone()
	}
	return line
}

// jobState is what a job is doing, as a word.
func jobState(j *quorumcronv1.Job) string {
	switch {
	case j.GetPaused():
		return "paused"
	case j.GetProblem() != "":
		return "put aside"
	case len(j.GetNextInstants()) == 0 && len(j.GetSchedule().GetExclude()) > 0:
		return "nothing left" // the schedule has ended, or its calendars exclude all of it
	case len(j.GetNextInstants()) == 0:
		return "ended"
	case j.GetOwner() == "":
		return "no owner"
	default:
		return "scheduled"
	}
}

// nextOf is when a stored job is due next, by the schedule in the answer; nil when it is paused or its
// schedule has ended. Answers to changes do not have it, and here it costs no call.
func (c *console) nextOf(p *quorumcronv1.Job) *timestamppb.Timestamp {
	if p.GetPaused() {
		return nil
	}
	if next := p.GetNextInstants(); len(next) > 0 {
		return next[0]
	}
	if len(p.GetSchedule().GetExclude()) > 0 {
		return nil // What its calendars exclude is for the server to say, and it did.
	}
	job, wrong := api.JobFromProto(p)
	if len(wrong) > 0 {
		return nil
	}
	if origin := p.GetSchedule().GetOrigin(); origin != nil {
		job.Schedule.Origin = origin.AsTime()
	}
	table, err := cron.Compile(job.Schedule.Spec())
	if err != nil {
		return nil // A newer server may know schedules that this program does not.
	}
	next := table.Next(c.now())
	if next.IsZero() {
		return nil
	}
	return timestamppb.New(next)
}

// warn shows what a server wants the caller to know though all went well.
func (c *console) warn(warnings []string) {
	for _, w := range warnings {
		c.say("warning: %s", w)
	}
}
