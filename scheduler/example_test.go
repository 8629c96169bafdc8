package scheduler_test

import (
	"fmt"
	"time"

	"github.com/quorumcron/quorumcron/scheduler"
	"github.com/quorumcron/quorumcron/scheduler/cron"
)

// A job is planned by asking what to write now, committing it, and asking again. Here the commit is a
// counter; in a cluster it is a transaction that compares the revision of the state.
func ExamplePlanJob() {
	job := scheduler.Job{
		Name: scheduler.JobName{Name: "report"}, UID: "01j",
		Schedule: scheduler.Schedule{Cron: []string{"* * * * *"}},
		Run:      scheduler.Executable{Handler: &scheduler.HandlerCall{Name: "send-report"}},
	}.WithDefaults()
	timetable, err := cron.Compile(job.Schedule.Spec())
	if err != nil {
		fmt.Println(err)
		return
	}
	now := scheduler.Reading{Wall: time.Date(2026, 12, 24, 17, 59, 30, 0, time.UTC), Elapsed: time.Hour}
	view := scheduler.View{
		Job: job, Timetable: timetable, Room: true,
		State: scheduler.NewState(job, now.Wall), StateRevision: 1,
	}
	for range 5 {
		plan := scheduler.PlanJob(view, now)
		if plan.Decision == nil {
			fmt.Println("wait until", plan.Wake.Format(time.TimeOnly))
			now.Elapsed += plan.Wake.Sub(now.Wall)
			now.Wall = plan.Wake
			continue
		}
		d := plan.Decision.Grant("n1", "nonce", 15*time.Second)
		fmt.Println(d)
		view.StateRevision++
		view.State = scheduler.Fill(d.Next, view.StateRevision)
		if e, granted := d.Entry(); granted { // what the owner then sees: its lock
			view.Facts = map[scheduler.Firing]scheduler.Fact{e.Firing: {Attempt: 1, Lock: view.StateRevision}}
		}
	}
	// Output:
	// wait until 18:00:00
	// begin default/report 01j@2026-12-24T18:00:00Z attempt 1 slot 0
	// wait until 18:01:00
	// skip default/report 01j@2026-12-24T18:01:00Z SKIPPED(overlap) because of 01j@2026-12-24T18:00:00Z
	// wait until 18:02:00
}

func ExampleAssign() {
	members := []scheduler.Member{{Name: "a", Incarnation: 1}, {Name: "b", Incarnation: 1}, {Name: "c", Incarnation: 4}}
	pool := scheduler.Pool{ID: scheduler.PoolAll}
	three := scheduler.Assign(nil, members, pool)
	two := scheduler.Assign(&three, members[:2], pool)

	moved := 0
	for s := range scheduler.ShardCount {
		before, after := three.Owner(scheduler.Shard(s)), two.Owner(scheduler.Shard(s))
		if before != after && before != "c#4" {
			moved++
		}
	}
	fmt.Println(three.Members, "to", two.Members)
	fmt.Println("moved between those who stay:", moved)
	// Output:
	// [a#1 b#1 c#4] to [a#1 b#1]
	// moved between those who stay: 0
}

func ExampleJob_Validate() {
	job := scheduler.Job{
		Name:     scheduler.JobName{Name: "Report"},
		Schedule: scheduler.Schedule{Cron: []string{"61 * * * *"}},
	}
	for _, e := range job.WithDefaults().Validate() {
		fmt.Println(e)
	}
	// Output:
	// name: is not a name (use lower-case letters, digits, '.', '_' and '-'; begin and end with a letter or digit)
	// schedule.cron[0]: minute is outside 0 to 59 (write values from 0 to 59)
	// run: says nothing to run (give it command or handler)
}

func ExampleAgenda() {
	agenda := scheduler.NewAgenda()
	now := scheduler.Reading{Wall: time.Date(2026, 12, 24, 18, 0, 0, 0, time.UTC), Elapsed: time.Hour}
	agenda.Set(scheduler.JobName{Namespace: "default", Name: "report"}, now.Wall.Add(90*time.Second), 0)
	wait, _ := agenda.Wait(now)
	fmt.Println(wait)
	now.Wall = now.Wall.Add(wait)
	fmt.Println(agenda.Due(now))
	// Output:
	// 1m30s
	// [default/report]
}
