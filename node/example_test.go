package node_test

import (
	"context"
	"fmt"
	"log"
	"os/signal"
	"syscall"
	"time"

	"github.com/quorumcron/quorumcron/election"
	"github.com/quorumcron/quorumcron/executor"
	"github.com/quorumcron/quorumcron/node"
	"github.com/quorumcron/quorumcron/scheduler"
)

// A program that runs on many machines embeds a member: the job fires on one of them, whichever
// lives. Ctrl-C or SIGTERM hands over to the others first.
func Example() {
	client, err := election.Dial(election.DialConfig{Endpoints: []string{"127.0.0.1:2379"}})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	member, err := node.New(node.Config{Name: "web-1", Client: client})
	if err != nil {
		log.Fatal(err)
	}
	member.Handle("send-report", func(ctx context.Context, run executor.Identity) error {
		// run.Firing names this firing for ever, run.Token only grows: hand both to what you write to.
		fmt.Println("report for", run.Payload, "due", run.Firing.Instant(), "token", run.Token)
		return ctx.Err()
	})

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := member.Run(ctx); err != nil {
		log.Fatal(err)
	}
}

// Jobs are applied by any member, as often as you like: a definition that is already there changes
// nothing.
func ExampleNode_Apply() {
	apply := func(ctx context.Context, member *node.Node) error {
		edit, err := member.Apply(ctx, scheduler.Job{
			Name:     scheduler.JobName{Namespace: "default", Name: "nightly-report"},
			Schedule: scheduler.Schedule{Cron: []string{"30 2 * * *"}, TimeZone: "Europe/Berlin"},
			Run:      scheduler.Executable{Handler: &scheduler.HandlerCall{Name: "send-report", Payload: "finance"}},
			Policy:   scheduler.Policy{OnLost: scheduler.OnLostRetry, Timeout: 10 * time.Minute},
		}, 0)
		if err != nil {
			return err // a scheduler.FieldErrors names every field that is wrong
		}
		fmt.Println(edit.Change, edit.Job.Name)
		return nil
	}
	_ = apply
}
