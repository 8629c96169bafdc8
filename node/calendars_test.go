package node

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorumcron/quorumcron/internal/memetcd"
	"github.com/quorumcron/quorumcron/scheduler"
	"github.com/quorumcron/quorumcron/scheduler/cron"
)

// calendar is one that excludes a part of each day.
func calendar(name, from, to string) scheduler.Calendar {
	return scheduler.NewCalendar(scheduler.CalendarName{Namespace: "default", Name: name}, "",
		cron.CalendarSpec{Hours: []cron.Hours{{From: from, To: to}}})
}

func (s *scene) applyCalendar(m *bubbleMember, c scheduler.Calendar) scheduler.CalendarEdit {
	s.t.Helper()
	edit, err := m.ApplyCalendar(s.t.Context(), c, 0)
	if err != nil {
		s.t.Fatalf("apply calendar %s: %v", c.Name, err)
	}
	return edit
}

// closed is a ticking job that names a calendar.
func closed(name string, period time.Duration, payload, calendar string) scheduler.Job {
	job := ticking(name, period, payload)
	job.Schedule.Exclude = []string{calendar}
	return job
}

// said is what a calendar says from a revision and a time on.
type said struct {
	revision int64
	since    time.Time
	shut     bool
}

// shutAt judges an instant by what had been said before a revision.
func shutAt(history []said, at time.Time, revision int64) bool {
	shut := history[0].shut
	for _, v := range history {
		if v.revision < revision && v.since.Before(at) {
			shut = v.shut
		}
	}
	return shut
}

// TestACalendarHoldsThroughChangesAndOwners changes a calendar while instants of every second are due and
// owners come and go. What runs is what the calendar allows that its claim was planned under, which after the
// reply is the new one; every instant has one verdict.
func TestACalendarHoldsThroughChangesAndOwners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "2026-03-10T12:00:00Z", "a", "b", "c")
		defer s.close()
		note := func(e scheduler.CalendarEdit, shut bool) said {
			return said{e.Calendar.Revision, e.Calendar.Present().Since, shut}
		}
		history := []said{note(s.applyCalendar(s.any(), calendar("shop", "20:00", "21:00")), false)}
		var jobs []scheduler.Job
		for i := range 30 {
			jobs = append(jobs, s.apply(closed(fmt.Sprint("job-", i), time.Second, "100ms", "shop")))
		}
		for _, m := range s.members {
			m.link.Delay(2*time.Millisecond, 2*time.Millisecond)
		}
		offsets := []time.Duration{0, time.Millisecond, 4 * time.Millisecond, 300 * time.Millisecond, 998 * time.Millisecond}
		for i := range scheduler.MaxCalendarVersions - 2 {
			s.until(s.next(time.Second, time.Second).Add(offsets[i%len(offsets)]))
			shut := i%2 == 0
			c := calendar("shop", "20:00", "21:00")
			if shut {
				c = calendar("shop", "11:00", "13:00")
			}
			history = append(history, note(s.applyCalendar(s.any(), c), shut))
			switch i {
			case 7:
				s.die(s.members["a"])
			case 11:
				s.add("d")
				s.ready()
			case 15:
				s.leave(s.members["b"])
			}
		}
		s.until(s.next(time.Second, 20*time.Second).Add(500 * time.Millisecond))
		ran := 0
		for _, job := range jobs {
			verdicts := s.balance(job, s.wall())
			if verdicts["SUCCEEDED"] < 10 || verdicts["SKIPPED(excluded by calendar)"] < 10 {
				t.Errorf("job %s: %v, too few of either to show anything", job.Name, verdicts)
			}
			for _, one := range s.seen(job) {
				ran++
				if at := one.id.Firing.Instant(); shutAt(history, at, one.id.Token) {
					t.Errorf("job %s: %s was granted at revision %d, under %+v", job.Name, one.id.Firing.Key(), one.id.Token, history)
				}
			}
		}
		s.checkStarts()
		if status, err := s.any().Status(t.Context()); err != nil || status.Unaccounted != 0 {
			t.Errorf("status: %v, %d unaccounted", err, status.Unaccounted)
		}
		t.Logf("%d runs, %d changes", ran, len(history)-1)
	})
}

// TestANightThatIsExcludedCostsOneWriteAnHour, also when the owner changes in the middle of it.
func TestANightThatIsExcludedCostsOneWriteAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "2026-03-10T19:58:00Z", "a")
		defer s.close()
		s.applyCalendar(s.any(), calendar("night", "20:00", "06:00"))
		job := s.apply(closed("job", time.Second, "100ms", "night"))
		s.until(time.Date(2026, 3, 10, 20, 0, 20, 0, time.UTC)) // the last run of the evening is folded
		var writes atomic.Int64
		s.etcd.OnCommit(func(r memetcd.Revision) {
			for _, e := range r.Events {
				if strings.HasPrefix(string(e.Kv.Key), "/quorumcron/state/") && e.Type == clientv3.EventTypePut {
					writes.Add(1)
				}
			}
		})
		s.until(time.Date(2026, 3, 11, 0, 30, 0, 0, time.UTC))
		s.add("b")
		s.ready()
		s.leave(s.members["a"])
		s.until(time.Date(2026, 3, 11, 5, 59, 59, 0, time.UTC))
		if n := writes.Load(); n < 9 || n > 10 {
			t.Errorf("the state was written %d times in a night of ten hours, want once an hour", n)
		}
		view, err := s.any().Job(t.Context(), job.Name)
		if err != nil || !view.State.Cursor.Equal(s.wall()) || !view.Next[0].Equal(time.Date(2026, 3, 11, 6, 0, 0, 0, time.UTC)) {
			t.Errorf("shown: %v, cursor %s, next %v; want all instants up to now, and six o'clock", err, view.State.Cursor, view.Next)
		}
		if status, err := s.any().Status(t.Context()); err != nil || status.Unaccounted != 0 {
			t.Errorf("status: %v, %d unaccounted", err, status.Unaccounted)
		}
		s.until(time.Date(2026, 3, 11, 6, 0, 10, 500_000_000, time.UTC))
		verdicts := s.balance(job, s.wall())
		if n := verdicts["SKIPPED(excluded by calendar)"]; n != 36_000 {
			t.Errorf("%d instants of the night are excluded, want 36,000: %v", n, verdicts)
		}
		if seen := between(s.seen(job), time.Date(2026, 3, 10, 20, 0, 1, 0, time.UTC), time.Date(2026, 3, 11, 6, 0, 0, 0, time.UTC)); len(seen) != 0 {
			t.Errorf("started in the night: %+v", seen[0])
		}
		s.checkStarts()
	})
}

// TestATriggerIsNotExcluded, and what an excluded time began is not ended by it.
func TestATriggerIsNotExcluded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "2026-03-10T12:00:00Z", "a")
		defer s.close()
		s.applyCalendar(s.any(), calendar("always", "00:00", "24:00"))
		edit, err := s.any().Apply(t.Context(), closed("job", time.Second, "3s", "always"), 0)
		if err != nil || len(edit.Warnings) != 1 || !strings.Contains(edit.Warnings[0], "leave no instant") || !edit.Next.IsZero() {
			t.Errorf("got %v, warnings %q and next %s, want a warning that it never fires", err, edit.Warnings, edit.Next)
		}
		one := s.trigger(edit.Job)
		time.Sleep(5 * time.Second)
		if run := s.record(one.id.Firing); run.Last().Verdict != scheduler.Succeeded || len(s.seen()) != 1 {
			t.Errorf("got %+v and %d starts", run, len(s.seen()))
		}
	})
}

// TestAJobAndTheDeletionOfItsCalendar: whichever wins, no job is left that names a calendar that is gone.
func TestAJobAndTheDeletionOfItsCalendar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "2026-03-10T12:00:00Z", "a", "b")
		defer s.close()
		a, b := s.members["a"], s.members["b"]
		a.link.Delay(time.Millisecond, 3*time.Millisecond)
		b.link.Delay(time.Millisecond, 3*time.Millisecond)
		stored, deleted := 0, 0
		for i := range 60 {
			c := calendar(fmt.Sprint("c", i), "20:00", "21:00")
			s.applyCalendar(a, c)
			var applied, removed error
			var ahead [2]time.Duration
			ahead[i%2] = time.Duration(i) * 200 * time.Microsecond
			var both sync.WaitGroup
			both.Go(func() {
				time.Sleep(ahead[0])
				_, applied = a.Apply(t.Context(), closed(c.Name.Name, time.Hour, "1s", c.Name.Name), 0)
			})
			both.Go(func() {
				time.Sleep(ahead[1])
				removed = b.DeleteCalendar(t.Context(), c.Name, 0)
			})
			both.Wait()
			_, there := a.Calendar(t.Context(), c.Name)
			switch {
			case applied == nil && errors.Is(removed, scheduler.ErrConflict) && there == nil:
				stored++
			case errors.Is(applied, scheduler.ErrInvalid) && removed == nil && errors.Is(there, scheduler.ErrNotFound):
				deleted++
			default:
				t.Errorf("calendar %s: apply %v, delete %v, then %v", c.Name, applied, removed, there)
			}
		}
		if stored == 0 || deleted == 0 {
			t.Errorf("%d jobs were stored and %d calendars deleted: nothing met", stored, deleted)
		}
	})
}

// TestAnUnreadableCalendarPutsAsideThoseThatNameIt, until it is applied again.
func TestAnUnreadableCalendarPutsAsideThoseThatNameIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "2026-03-10T12:00:00Z", "a", "b")
		defer s.close()
		s.applyCalendar(s.any(), calendar("night", "20:00", "06:00"))
		shut, free := s.apply(closed("shut", time.Second, "10ms", "night")), s.apply(ticking("free", time.Second, "10ms"))
		time.Sleep(3 * time.Second)
		if _, err := s.etcd.Client(t.Context()).Txn(t.Context()).Then(
			clientv3.OpPut("/quorumcron/rules/calendars/default/night", "\xff\xff"), clientv3.OpPut("/quorumcron/rules/head", "")).Commit(); err != nil {
			t.Fatal(err)
		}
		broken := s.next(time.Second, 0)
		s.until(broken.Add(5 * time.Second))
		if n := len(between(s.seen(shut), broken, s.wall())); n != 0 {
			t.Errorf("it ran %d times while its calendar could not be read", n)
		}
		if n := len(between(s.seen(free), broken, s.wall())); n < 4 {
			t.Errorf("the other job ran %d times in 5 s", n)
		}
		status, err := s.any().Status(t.Context())
		if err != nil || len(status.Quarantined) != 1 || !strings.Contains(strings.Join(status.Warnings, "\n"), "default/shut is put aside") {
			t.Errorf("status: %v, quarantined %+v, warnings %q; want the calendar and the job", err, status.Quarantined, status.Warnings)
		}
		view, err := s.any().Job(t.Context(), shut.Name)
		if err != nil || !strings.Contains(view.Problem, "calendar") || view.Next != nil {
			t.Errorf("job: %v, problem %q, next %v; want what is wrong, and no next instant", err, view.Problem, view.Next)
		}
		if s.alarmed("job put aside") == 0 {
			t.Error("the log says nothing")
		}
		repaired := s.next(time.Second, 0)
		s.applyCalendar(s.any(), calendar("night", "20:00", "06:00"))
		s.until(repaired.Add(5500 * time.Millisecond))
		if n := len(between(s.seen(shut), repaired, s.wall())); n < 5 {
			t.Errorf("it ran %d times in the 5 s after the repair", n)
		}
		s.balance(shut, s.wall())
		s.checkStarts()
	})
}

// TestAJobWithoutItsCalendarStillSettlesWhatIsInFlight: nothing is claimed for it, but nothing holds up a
// verdict.
func TestAJobWithoutItsCalendarStillSettlesWhatIsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "2026-03-10T12:00:00Z", "a", "b", "c")
		defer s.close()
		s.applyCalendar(s.any(), calendar("night", "20:00", "06:00"))
		job := s.apply(closed("shut", time.Second, "5m", "night"))
		r := s.run(job, 5*time.Second, "running", running)
		if _, err := s.etcd.Client(t.Context()).Txn(t.Context()).Then(
			clientv3.OpPut("/quorumcron/rules/calendars/default/night", "\xff\xff"), clientv3.OpPut("/quorumcron/rules/head", "")).Commit(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		broken := s.wall()
		s.die(s.members[r.Last().Member])
		s.run(job, time.Minute, "LOST", func(r scheduler.Run) bool { return r.Last().Verdict == scheduler.Lost })
		repaired := s.wall()
		s.applyCalendar(s.any(), calendar("night", "20:00", "06:00"))
		s.run(job, 5*time.Second, "running again", func(next scheduler.Run) bool { return running(next) && next.Firing != r.Firing })
		if n := len(between(s.seen(job), broken, repaired)); n != 0 {
			t.Errorf("it was begun %d times while its calendar could not be read", n)
		}
	})
}

// TestManyChangesOfCalendarsHoldNobodyUp: each of them refuses the claims that are on their way.
func TestManyChangesOfCalendarsHoldNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "2026-03-10T12:00:00Z", "a", "b", "c")
		defer s.close()
		var jobs []scheduler.Job
		for i := range 30 {
			jobs = append(jobs, s.apply(ticking(fmt.Sprint("job-", i), time.Second, "100ms")))
		}
		for name, m := range s.members {
			far := 10 * time.Millisecond
			if name == "a" {
				far = time.Millisecond / 2
			}
			m.link.Delay(far, far)
		}
		time.Sleep(2 * time.Second)
		var editors sync.WaitGroup
		var edits atomic.Int64
		begun := s.next(time.Second, 0)
		for i := range 6 {
			m := s.members["a"]
			editors.Go(func() {
				for n := 0; s.wall().Before(begun.Add(15 * time.Second)); n++ {
					c := calendar(fmt.Sprint("folder-", i), "20:00", "21:00")
					c.Description = fmt.Sprint("edition ", n)
					if _, err := m.ApplyCalendar(t.Context(), c, 0); err == nil {
						edits.Add(1)
					} else if !errors.Is(err, scheduler.ErrConflict) {
						t.Error(err)
					}
				}
			})
		}
		editors.Wait()
		late := time.Duration(0)
		for _, job := range jobs {
			seen := between(s.seen(job), begun, begun.Add(15*time.Second))
			if len(seen) < 14 {
				t.Errorf("job %s ran %d times in 15 s", job.Name, len(seen))
			}
			for _, one := range seen {
				late = max(late, one.at.Sub(one.id.Firing.Instant()))
			}
		}
		if late > time.Second {
			t.Errorf("one began %s late", late)
		}
		s.checkStarts()
		t.Logf("%d edits, at most %s late", edits.Load(), late)
	})
}
