package executor_test

import (
	"context"
	"fmt"
	"time"

	"github.com/quorumcron/quorumcron/executor"
	"github.com/quorumcron/quorumcron/scheduler"
)

// A handler writes its output where it is kept, and returns when it must end.
func ExampleExecutor_Execute() {
	report := func(ctx context.Context, run executor.Identity) error {
		fmt.Fprintf(executor.Output(ctx), "%s, attempt %d, token %d: %s\n", run.Job, run.Attempt, run.Token, run.Payload)
		select {
		case <-time.After(time.Millisecond): // the work
			return nil
		case <-ctx.Done():
			return context.Cause(ctx) // ErrLockLost, ErrTimeLimit, …
		}
	}
	e, err := executor.New(executor.Config{
		Handlers: map[string]executor.Handler{"send-report": report},
		Clock:    func() scheduler.Reading { return scheduler.Reading{Wall: time.Now()} },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	result := e.Execute(context.Background(), executor.Attempt{
		Job:    scheduler.JobName{Namespace: "default", Name: "nightly-report"},
		Firing: scheduler.At("01jfz", time.Date(2026, 12, 24, 18, 0, 0, 0, time.UTC)),
		Number: 1, Token: 42, Member: "node-a",
		Run: scheduler.Executable{Handler: &scheduler.HandlerCall{Name: "send-report", Payload: "all regions"}},
	}, nil)
	fmt.Printf("%s: %s", result.Verdict, result.Output)
	// Output: SUCCEEDED: default/nightly-report, attempt 1, token 42: all regions
}
