package store_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/quorumcron/quorumcron/internal/memetcd"
	"github.com/quorumcron/quorumcron/scheduler"
	"github.com/quorumcron/quorumcron/scheduler/cron"
	"github.com/quorumcron/quorumcron/store"
)

var night = store.CalendarRequest{Name: scheduler.CalendarName{Namespace: "default", Name: "night"}, Now: at(noon)}

func (b *bench) closeFrom(s *store.Store, from string) {
	b.Helper()
	spec := cron.CalendarSpec{Hours: []cron.Hours{{From: from, To: "23:59"}}}
	_, err := s.ApplyCalendar(b.ctx, night, scheduler.NewCalendar(night.Name, "", spec))
	b.must(err)
}

// naming is the request of a job that names the calendar.
func naming() store.ApplyRequest {
	j := definition("a")
	j.Schedule.Exclude = []string{"night"}
	return store.ApplyRequest{Job: j, Now: at(noon)}
}

// TestAJobIsNeverStoredWithoutItsCalendar: whichever of the two comes first, the other is refused.
func TestAJobIsNeverStoredWithoutItsCalendar(t *testing.T) {
	t.Run("the calendar goes while an apply is on its way", func(t *testing.T) {
		inBubble(t, func(b *bench) {
			b.closeFrom(b.store, "22:00")
			b.between("jobs/", func(s *store.Store) {
				_, err := s.Apply(b.ctx, naming())
				if !errors.Is(err, scheduler.ErrInvalid) {
					b.Errorf("apply: got %v, want it refused: the calendar is gone", err)
				}
			}, func(s *store.Store) { b.must(s.DeleteCalendar(b.ctx, night)) })
			if _, err := b.other().Job(b.ctx, naming().Job.Name); !errors.Is(err, scheduler.ErrNotFound) {
				b.Errorf("the job: got %v, want none", err)
			}
		})
	})
	t.Run("a job is applied before the mark", func(t *testing.T) {
		inBubble(t, func(b *bench) {
			b.closeFrom(b.store, "22:00")
			b.between("rules/", func(s *store.Store) {
				if err := s.DeleteCalendar(b.ctx, night); !errors.Is(err, scheduler.ErrConflict) {
					b.Errorf("delete: got %v, want a conflict", err)
				}
			}, func(s *store.Store) {
				_, err := s.Apply(b.ctx, naming())
				b.must(err)
			})
			if c, err := b.other().Calendar(b.ctx, night.Name); err != nil || c.Deleting {
				b.Errorf("got %+v, %v, want it there without a mark", c, err)
			}
		})
	})
	t.Run("the mark is taken off and a job applied while the deletion is on its way", func(t *testing.T) {
		inBubble(t, func(b *bench) {
			b.closeFrom(b.store, "22:00")
			mark := b.link.Hold(memetcd.WritesTo("/q/rules/"))
			done := make(chan error, 1)
			go func() { done <- b.store.DeleteCalendar(b.ctx, night) }()
			<-mark.Caught()
			deletion := b.link.Hold(memetcd.WritesTo("/q/rules/"))
			_, err := mark.Land()
			b.must(err)
			<-deletion.Caught()
			other := b.other()
			b.closeFrom(other, "22:00")
			_, err = other.Apply(b.ctx, naming())
			b.must(err)
			_, err = deletion.Land()
			b.must(err)
			if err := <-done; !errors.Is(err, scheduler.ErrConflict) {
				b.Errorf("delete: got %v, want a conflict", err)
			}
			if c, err := other.Calendar(b.ctx, night.Name); err != nil || c.Deleting {
				b.Errorf("got %+v, %v, want it there without a mark: a job names it", c, err)
			}
		})
	})
	t.Run("the calendar changes while an apply is on its way", func(t *testing.T) {
		inBubble(t, func(b *bench) {
			b.closeFrom(b.store, "22:00")
			b.between("jobs/", func(s *store.Store) {
				_, err := s.Apply(b.ctx, naming())
				b.must(err)
			}, func(s *store.Store) { b.closeFrom(s, "21:00") })
		})
	})
}

// TestTwoChangesOfACalendarAreTwoVersions: none is lost.
func TestTwoChangesOfACalendarAreTwoVersions(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.closeFrom(b.store, "22:00")
		b.between("rules/", func(s *store.Store) { b.closeFrom(s, "21:00") }, func(s *store.Store) { b.closeFrom(s, "20:00") })
		c, err := b.other().Calendar(b.ctx, night.Name)
		b.must(err)
		if got := c.Present().Excludes.Hours[0].From; got != "21:00" {
			b.Errorf("got %s, want what the later one says", got)
		}
	})
}

// TestThereAreNeverMoreCalendarsThanAllowed, though two of them are the last one at the same time.
func TestThereAreNeverMoreCalendarsThanAllowed(t *testing.T) {
	inBubble(t, func(b *bench) {
		for i := range scheduler.MaxCalendars - 1 {
			_, err := b.watch.Put(b.ctx, fmt.Sprintf("/q/rules/calendars/default/c%d", i), "")
			b.must(err)
		}
		spec := cron.CalendarSpec{Weekdays: []string{"sun"}}
		day := store.CalendarRequest{Name: scheduler.CalendarName{Namespace: "default", Name: "day"}, Now: at(noon)}
		b.between("rules/", func(s *store.Store) {
			if _, err := s.ApplyCalendar(b.ctx, day, scheduler.NewCalendar(day.Name, "", spec)); !errors.Is(err, scheduler.ErrExhausted) {
				b.Errorf("got %v, want the last place to be taken", err)
			}
		}, func(s *store.Store) { b.closeFrom(s, "22:00") })
	})
}
