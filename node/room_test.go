package node

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumcron/quorumcron/scheduler"
)

// TestCommandsWithoutRoomHoldUpNoHandlers: as many commands run as may, for long, and more are due. A
// handler job that waits for a place among handlers must not stand behind them.
func TestCommandsWithoutRoomHoldUpNoHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		defer b.close()
		m := b.join("only", func(c *Config) { c.Capacity, c.HandlerCapacity = 1, 1 })
		b.ready()
		long := &held{nonce: "a command that runs for long", command: true, cancel: func(error) {}}
		m.held.add(long)
		trigger := func(job scheduler.Job) {
			t.Helper()
			if _, err := m.Trigger(t.Context(), scheduler.TriggerRequest{Job: b.apply(job).Name, RequestID: job.Name.Name}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		for i := range 3 {
			command := handlerJob(fmt.Sprintf("command-%d", i), time.Hour, "", "")
			command.Run = scheduler.Executable{Command: &scheduler.Command{Args: []string{"true"}}}
			trigger(command)
		}
		for i := range 4 { // the first takes the place, the others wait for it
			trigger(handlerJob(fmt.Sprintf("handler-%d", i), time.Hour, "slow", "2s"))
		}
		time.Sleep(9 * time.Second)
		if n := len(b.witnessed()); n != 4 {
			t.Errorf("%d handlers were started one after the other, want 4", n)
		}
		m.held.remove(long)
	})
}

// TestLeaseThatComesBackUnannouncedIsNoticed: a lock lease is too old to take locks at the very moment
// of a plan, and is answered before anybody doubts it. No event tells of that.
func TestLeaseThatComesBackUnannouncedIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		defer b.close()
		m := b.join("only")
		b.ready()
		job := b.apply(handlerJob("asked", time.Hour, "work", ""))
		time.Sleep(time.Second)
		if _, err := m.Trigger(t.Context(), scheduler.TriggerRequest{Job: job.Name, RequestID: "r"}); err != nil {
			t.Fatal(err)
		}
		m.inbox.post(func(now scheduler.Reading) { // before the turn that sees the trigger
			m.view.agenda.Soon(job.Name)
			m.view.room.wait(kindOf(job), job.Name)
			m.view.room.leaseless = true
		})
		time.Sleep(3 * time.Second)
		if n := len(b.witnessed()); n != 1 {
			t.Errorf("%d starts, want 1: a lease has been there for seconds", n)
		}
	})
}
