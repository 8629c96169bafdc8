package chaos

import (
	"fmt"
	"time"

	"github.com/quorumcron/quorumcron/chaos-tests/history"
)

// wanted is a job as the mixed run asks for it.
type wanted struct {
	name string
	history.Spec
}

// kept is history.limit of every job of a mixed run: the most there is.
const kept = 100

// document is the job as the API's JSON has it.
func (w wanted) document() map[string]any {
	cron := expressions[w.Period]
	if w.Period == 0 {
		cron = "0 0 1 1 *" // far away: it is triggered
	}
	schedule := map[string]any{"cron": []string{cron}}
	if !w.End.IsZero() {
		schedule["end"] = w.End.Format(time.RFC3339)
	}
	env := map[string]string{"WITNESS_SLEEP": w.Sleep.String(), "WITNESS_EXIT": fmt.Sprint(w.Exit), "WITNESS_VERSION": fmt.Sprint(w.Version)}
	policy := map[string]any{}
	for name, value := range map[string]string{"onLost": w.OnLost, "onSessionLost": w.OnSessionLost} {
		if value != "" {
			policy[name] = value
		}
	}
	for name, value := range map[string]time.Duration{"timeout": w.Timeout, "startDeadline": w.StartDeadline} {
		if value > 0 {
			policy[name] = value.String()
		}
	}
	if w.CatchUp != "" {
		policy["catchUp"] = map[string]any{"mode": w.CatchUp}
	}
	document := map[string]any{
		"name": w.name, "schedule": schedule, "policy": policy, "history": map[string]any{"limit": w.Kept},
		"run": map[string]any{"command": map[string]any{"args": []string{programs.witness}, "env": env}},
	}
	if len(w.Selector) > 0 {
		document["target"] = map[string]any{"selector": w.Selector}
	}
	return document
}

// several are jobs that differ in their names only.
func several(n int, name string, s history.Spec) []wanted {
	var all []wanted
	for i := range n {
		all = append(all, wanted{fmt.Sprintf("%s-%d", name, i+1), s})
	}
	return all
}

// mixedLoad is about 600 instants a minute, under each policy there is; nothing is due at or after end.
func mixedLoad(end time.Time) []wanted {
	const ms = time.Millisecond
	var all []wanted
	add := func(n int, name string, s history.Spec) {
		s.End, s.Kept = end, kept
		all = append(all, several(n, name, s)...)
	}
	add(3, "short", history.Spec{Period: time.Second})
	add(2, "half", history.Spec{Period: time.Second, Sleep: 500 * ms})
	add(2, "overlapping", history.Spec{Period: time.Second, Sleep: 1400 * ms}) // every other one is SKIPPED
	add(2, "again", history.Spec{Period: 2 * time.Second, Sleep: 700 * ms, OnLost: "retry"})
	add(2, "never-late", history.Spec{Period: 2 * time.Second, Sleep: 300 * ms, CatchUp: "none"})
	add(1, "deadline", history.Spec{Period: 2 * time.Second, StartDeadline: 3 * time.Second})
	add(1, "deadline-again", history.Spec{Period: 5 * time.Second, Sleep: time.Second, StartDeadline: 30 * time.Second, OnLost: "retry"})
	add(2, "too-long", history.Spec{Period: 10 * time.Second, Sleep: 20 * time.Second, Timeout: 2 * time.Second})
	add(1, "failing", history.Spec{Period: 5 * time.Second, Exit: 3})
	add(2, "zone-a", history.Spec{Period: 2 * time.Second, Selector: map[string]string{"zone": "a"}})
	add(1, "zone-b", history.Spec{Period: 5 * time.Second, Selector: map[string]string{"zone": "b"}})
	add(2, "finishing", history.Spec{Period: 10 * time.Second, Sleep: 6 * time.Second, OnSessionLost: "finish"})
	add(3, "minutely", history.Spec{Period: time.Minute, Sleep: 2 * time.Second})
	return all
}

// Jobs that users change, pause, delete, trigger and cancel all the time.
const (
	editedJob, rescheduledJob, pausedJob, recreatedJob = "edited", "rescheduled", "paused", "recreated"
	triggeredJob, canceledJob                          = "triggered", "canceled"
)

func usersLoad(end time.Time) []wanted {
	return []wanted{
		{editedJob, history.Spec{Period: time.Second, End: end, Kept: kept}},
		{rescheduledJob, history.Spec{Period: time.Second, End: end, Kept: kept}},
		{pausedJob, history.Spec{Period: time.Second, End: end, Kept: kept}},
		{recreatedJob, history.Spec{Period: 2 * time.Second, End: end, Kept: kept, Sleep: 400 * time.Millisecond}},
		{triggeredJob, history.Spec{Kept: kept, Sleep: 300 * time.Millisecond}},
		{canceledJob, history.Spec{Period: 10 * time.Second, End: end, Kept: kept, Sleep: 15 * time.Second, OnLost: "retry"}},
	}
}
