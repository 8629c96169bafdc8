package node

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumcron/quorumcron/scheduler"
)

// TestTriggerIsReckonedByAClockThatIsBelieved: the clock of the member that takes a trigger has just
// stepped. The start deadline of the firing must be reckoned from when it was asked for all the same.
func TestTriggerIsReckonedByAClockThatIsBelieved(t *testing.T) {
	for name, step := range map[string]time.Duration{"back": -time.Hour, "ahead": time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, "2026-03-10T12:00:00Z", "a", "b")
				defer s.close()
				want := rarely("asked", "5s")
				want.Policy.StartDeadline = time.Minute
				job := s.apply(want)
				time.Sleep(2 * time.Second)
				serves := s.another(s.owner(job))
				for _, wait := range []time.Duration{0, 10 * time.Second} { // at once, and when its loop knows
					s.clocks[serves.cfg.Name].step(step)
					time.Sleep(wait)
					asked := s.wall()
					receipt, err := serves.Trigger(t.Context(), scheduler.TriggerRequest{Job: job.Name, RequestID: wait.String()})
					if err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Second)
					e := entryOf(s.stored(job), receipt.Firing)
					if off := e.Due.Sub(asked); e.Attempt != 1 || off.Abs() > time.Second {
						t.Errorf("%s after the step: attempt %d, due %s off the true time, want a start and no more than a second; verdicts %v",
							wait, e.Attempt, off, s.verdicts(job))
					}
					time.Sleep(2 * time.Minute) // then the step is believed
					s.clocks[serves.cfg.Name].step(-step)
					time.Sleep(2 * time.Minute)
				}
			})
		})
	}
}

// TestJobIsCreatedByAClockThatIsBelieved applies a job through a member whose clock has just stepped:
// the job is as old as it is, and an edit of it too.
func TestJobIsCreatedByAClockThatIsBelieved(t *testing.T) {
	for name, step := range map[string]time.Duration{"back": -time.Hour, "ahead": time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, "2026-03-10T12:00:00Z", "a", "b")
				defer s.close()
				first := s.apply(rarely("first", "5s"))
				time.Sleep(2 * time.Second)
				serves := s.another(s.owner(first))
				s.clocks[serves.cfg.Name].step(step)
				called := s.wall()
				edit, err := serves.Apply(t.Context(), rarely("second", "5s"), 0)
				if err != nil {
					t.Fatal(err)
				}
				if off := edit.Job.Created.Sub(called); off.Abs() > time.Second {
					t.Errorf("created %s off the true time", off)
				}
				paused, err := serves.Pause(t.Context(), edit.Job.Name, 0)
				if err != nil {
					t.Fatal(err)
				}
				if off := paused.Job.Edited.Sub(called); off.Abs() > time.Second {
					t.Errorf("edited %s off the true time", off)
				}
			})
		})
	}
}
