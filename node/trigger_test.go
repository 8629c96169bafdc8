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

// TestNothingIsDueBeforeItsJobWasThere: the clock of the member that takes the job has just stepped. One that is
// behind must not make instants due that were over before the job was there. A calendar holds from then on, too.
func TestNothingIsDueBeforeItsJobWasThere(t *testing.T) {
	for name, step := range map[string]time.Duration{"back": -time.Hour, "ahead": time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, "2026-03-10T12:00:00Z", "a", "b")
				defer s.close()
				want := ticking("anew", time.Minute, "1s")
				former := s.apply(want) // to know who will own it: another serves
				time.Sleep(2 * time.Second)
				serves := s.another(s.owner(former))
				if _, err := serves.Delete(t.Context(), want.Name, 0); err != nil {
					t.Fatal(err)
				}
				s.clocks[serves.cfg.Name].step(step)
				asked := s.wall()
				edit, err := serves.Apply(t.Context(), want, 0)
				if err != nil {
					t.Fatal(err)
				}
				night, err := serves.ApplyCalendar(t.Context(), calendar("night", "20:00", "06:00"), 0)
				if err != nil {
					t.Fatal(err)
				}
				if off := night.Calendar.Present().Since.Sub(asked); off.Abs() > time.Second {
					t.Errorf("the calendar holds from %s off the true time", off)
				}
				if off := s.stored(edit.Job).Cursor.Sub(asked); off.Abs() > time.Second {
					t.Errorf("its cursor is %s off the true time", off)
				}
				time.Sleep(5 * time.Minute)
				starts := s.seen(edit.Job)
				if len(starts) < 3 {
					t.Errorf("%d starts in five minutes", len(starts))
				}
				for _, one := range starts {
					if one.id.Firing.Instant().Before(asked) {
						t.Errorf("%s started, due before the job was there", one.id.Firing)
					}
				}
			})
		})
	}
}
