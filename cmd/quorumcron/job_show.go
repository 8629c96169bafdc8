package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	quorumcronv1 "github.com/quorumcron/quorumcron/proto/quorumcron/v1"
)

func newJobShow(c *console) *cobra.Command {
	o := &jobOptions{}
	return o.command(c, "show", "Show a job: its definition, what is decided, and how its firings ended",
		func(ctx context.Context, client *client) error {
			answer, err := call(ctx, client, client.jobs.Get, &quorumcronv1.JobServiceGetRequest{Namespace: o.namespace, Name: o.name})
			if err != nil {
				return err
			}
			return c.print(o.output, answer.GetJob(), func(w io.Writer) { c.jobTable(w, answer.GetJob()) })
		})
}

// jobTable shows one job as lines of name and value.
func (c *console) jobTable(w io.Writer, j *quorumcronv1.Job) {
	row(w, "Job:", j.GetNamespace()+"/"+j.GetName())
	row(w, "State:", jobState(j))
	if j.GetProblem() != "" {
		row(w, "Problem:", onOneLine(j.GetProblem()))
	}
	if len(j.GetLabels()) > 0 {
		row(w, "Labels:", pairs(j.GetLabels()))
	}
	c.scheduleRows(w, j.GetSchedule())
	row(w, "Run:", runLine(j.GetRun()))
	target := "any member"
	if selector := j.GetTarget().GetSelector(); len(selector) > 0 {
		target = "members with " + pairs(selector)
	}
	if h := j.GetRun().GetHandler(); h != nil {
		target = strings.Replace(target, "any member", "members", 1) + " that have the handler"
	}
	row(w, "Target:", target)
	row(w, "Policy:", policyLine(j.GetPolicy()))
	row(w, "Owner:", fmt.Sprintf("%s (shard %s of pool %s)", orDash(j.GetOwner()), j.GetShard(), j.GetPool()))
	row(w, "Identity:", fmt.Sprintf("%s, generation %d, revision %d", j.GetUid(), j.GetGeneration(), j.GetRevision()))
	row(w, "Edited:", c.both(j.GetEdited()))
	row(w, "Cursor:", c.both(j.GetCursor()))
	if b := j.GetBacklog(); b.GetCount() > 0 {
		row(w, "Backlog:", fmt.Sprintf("%d from %s to %s", b.GetCount(), stamp(b.GetFirst()), stamp(b.GetLast())))
	}
	for i, next := range j.GetNextInstants() {
		row(w, first(i, "Next:"), c.both(next))
	}
	for i, run := range j.GetRunning() {
		row(w, first(i, "Running:"), fmt.Sprintf("%s on %s, attempt %d, started %s", run.GetFiring(), orDash(run.GetMember()), run.GetAttempt(), c.ago(run.GetStartTime())))
	}
	for i, counter := range j.GetCounters() {
		row(w, first(i, "Ended:"), fmt.Sprintf("%d %s", counter.GetCount(), outcome(counter.GetVerdict(), counter.GetReason())))
	}
	for i, r := range j.GetRanges() {
		what := fmt.Sprintf("%d %s", r.GetCount(), outcome(r.GetVerdict(), r.GetReason()))
		if r.GetTrigger() != "" {
			what += ", trigger " + r.GetTrigger()
		} else {
			what += ", " + stamp(r.GetFirst()) + " to " + stamp(r.GetLast())
		}
		row(w, first(i, "Not run:"), what)
	}
}

// first is the name of the first of several rows.
func first(i int, name string) string {
	if i == 0 {
		return name
	}
	return ""
}

// outcome is a verdict with its reason: MISSED(window).
func outcome(verdict, reason string) string {
	if reason == "" {
		return verdict
	}
	return verdict + "(" + reason + ")"
}

// pairs is a mapping on one line, by name.
func pairs(m map[string]string) string {
	var all []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		all = append(all, onOneLine(k+"="+m[k]))
	}
	return strings.Join(all, ", ")
}

func (c *console) scheduleRows(w io.Writer, s *quorumcronv1.Schedule) {
	name := "Schedule:"
	line := func(text string) {
		row(w, name, text)
		name = ""
	}
	zone := s.GetTimeZone()
	if zone == "" {
		zone = "UTC"
	}
	for _, cron := range s.GetCron() {
		line(fmt.Sprintf("%s (%s)", cron, zone))
	}
	if s.GetEvery() != "" {
		line(fmt.Sprintf("every %s from %s", s.GetEvery(), stamp(s.GetOrigin())))
	}
	for _, at := range s.GetAt() {
		line("at " + c.both(at))
	}
	if s.GetStart() != nil || s.GetEnd() != nil {
		line(fmt.Sprintf("not before %s, before %s", stamp(s.GetStart()), stamp(s.GetEnd())))
	}
	if len(s.GetExclude()) > 0 {
		line("but for what these calendars exclude: " + strings.Join(s.GetExclude(), ", "))
	}
	if s.GetJitter() != "" {
		line("put off by up to " + s.GetJitter())
	}
}

// runLine is what a job runs, on one line.
func runLine(r *quorumcronv1.Executable) string {
	if h := r.GetHandler(); h != nil {
		return "handler " + h.GetName()
	}
	command := r.GetCommand()
	var words []string
	for _, arg := range command.GetArgs() {
		if arg == "" || strings.ContainsAny(arg, " \t\n\"'$&|;<>()*?[]{}\\`") || onOneLine(arg) != arg {
			arg = fmt.Sprintf("%q", arg)
		}
		words = append(words, arg)
	}
	line := "command " + strings.Join(words, " ")
	if command.GetDir() != "" {
		line += ", in " + onOneLine(command.GetDir())
	}
	if command.GetUser() != "" {
		line += ", as " + onOneLine(command.GetUser())
	}
	if len(command.GetEnv()) > 0 {
		line += ", with " + onOneLine(strings.Join(slices.Sorted(maps.Keys(command.GetEnv())), ", "))
	}
	return line
}

func policyLine(p *quorumcronv1.Policy) string {
	parts := []string{
		"overlap " + p.GetOverlap(),
		fmt.Sprintf("catch-up %s within %s", p.GetCatchUp().GetMode(), p.GetCatchUp().GetWindow()),
		fmt.Sprintf("when lost %s (%s at most)", p.GetOnLost(), counted(int64(p.GetRetry().GetMaxAttempts()), "attempt")),
		"when the session is lost " + p.GetOnSessionLost(),
	}
	if p.GetTimeout() != "" {
		parts = append(parts, "timeout "+p.GetTimeout())
	}
	if p.GetStartDeadline() != "" {
		parts = append(parts, "start within "+p.GetStartDeadline())
	}
	return strings.Join(parts, ", ")
}
