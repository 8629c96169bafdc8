package node

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumcron/quorumcron/scheduler"
)

// down stops all members, as if the machines were switched off, and starts them after a while.
func (s *scene) down(until time.Time) {
	s.t.Helper()
	names := slices.Sorted(maps.Keys(s.members))
	for _, name := range names {
		s.die(s.members[name])
	}
	s.until(until)
	for _, name := range names {
		s.add(name)
	}
	s.ready()
}

// ranges are the job's ranges of instants that were not run: reason, first, last and count of each.
func (s *scene) ranges(job scheduler.Job) []string {
	s.t.Helper()
	view, err := s.any().Job(s.t.Context(), job.Name)
	if err != nil {
		s.t.Fatal(err)
	}
	var all []string
	for _, r := range view.State.Ranges {
		all = append(all, fmt.Sprintf("%s(%s) %s…%s %d", r.Verdict, r.Reason, r.First.Format(time.TimeOnly), r.Last.Format(time.TimeOnly), r.Count))
	}
	return all
}

func TestSA27_MoreThanAHundredMissedInstantsStopNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "2026-03-10T12:00:30Z", "a", "b")
		defer s.close()
		job := s.apply(ticking("minute", time.Minute, "50ms"))
		down := s.next(time.Minute, 0).Add(30 * time.Second) // after one firing
		s.until(down)
		back := down.Add(101 * time.Minute)
		s.down(back)
		s.until(back.Add(time.Minute + 15*time.Second))
		after := between(s.seen(job), back, s.wall())
		if len(after) != 2 || after[0].id.Firing.Instant() != back.Truncate(time.Minute) || after[1].late() > time.Second {
			t.Errorf("%+v, want one late start of the newest instant and the next one on time", after)
		}
		time.Sleep(time.Minute)
		if v := s.balance(job, s.wall().Add(-time.Minute)); v["MISSED(catch-up policy)"] != 100 || v["SUCCEEDED"] < 3 || len(v) != 2 {
			t.Errorf("verdicts %v, want 100 MISSED(catch-up policy) and the others SUCCEEDED", v)
		}
		if r := s.ranges(job); len(r) != 1 || r[0] != "MISSED(catch-up policy) 12:02:00…13:41:00 100" {
			t.Errorf("ranges %q, want one of 100", r)
		}
		s.checkStarts()
	})
}

func TestSA28_EditDoesNotFireInThePast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "2026-03-10T16:32:30Z", "a")
		defer s.close()
		job := watched("edited", "50ms")
		job.Schedule.Cron = []string{"33 16 * * *"}
		job = s.apply(job)
		s.until(time.Date(2026, 3, 10, 16, 34, 8, 0, time.UTC))
		if n := len(s.seen(job)); n != 1 {
			t.Fatalf("%d starts at 16:33, want 1", n)
		}
		job.Schedule.Cron = []string{"34 16 * * *"}
		job = s.apply(job)
		tomorrow := time.Date(2026, 3, 11, 16, 34, 0, 0, time.UTC)
		view, err := s.any().Job(t.Context(), job.Name)
		if err != nil || !view.Next[0].Equal(tomorrow) {
			t.Errorf("shown next: %v, %v; want %s", view.Next, err, tomorrow)
		}
		time.Sleep(time.Hour)
		if n := len(s.seen(job)); n != 1 {
			t.Errorf("%d starts within an hour after the edit, want 0", n-1)
		}
		s.down(tomorrow.Add(-time.Minute)) // a night of idling costs a test ten seconds
		s.until(tomorrow.Add(time.Minute))
		if seen := s.seen(job); len(seen) != 2 || !seen[1].id.Firing.Instant().Equal(tomorrow) || seen[1].late() > time.Second {
			t.Errorf("%+v, want the next start tomorrow at 16:34", seen)
		}
		s.want(job, map[string]int64{"SUCCEEDED": 2})
		s.checkStarts()
	})
}

func TestSA29_RestartFiresNothingThatIsNotDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "2026-03-10T23:50:00Z", "a", "b", "c") // a Tuesday
		defer s.close()
		var jobs []scheduler.Job
		for i := range 20 {
			job := watched(fmt.Sprintf("tuesday-%d", i), "50ms")
			job.Schedule.Cron = []string{"55 23 * * 2"}
			jobs = append(jobs, s.apply(job))
		}
		s.until(time.Date(2026, 3, 11, 0, 20, 0, 0, time.UTC)) // Wednesday
		if n := len(s.seen()); n != 20 {
			t.Fatalf("%d starts on Tuesday, want 20", n)
		}
		for _, name := range []string{"a", "b", "c"} { // one after the other
			s.leave(s.members[name])
			s.add(name)
			s.ready()
		}
		s.down(s.wall().Add(time.Minute)) // and all at once
		time.Sleep(20 * time.Minute)
		if n := len(s.seen()); n != 20 {
			t.Errorf("%d starts on Wednesday, want 0", n-20)
		}
		for _, job := range jobs {
			s.want(job, map[string]int64{"SUCCEEDED": 1})
		}
	})
}

// hang keeps a member's loop from turning, as a process that does not get the processor.
func (m *bubbleMember) hang(d time.Duration) {
	m.inbox.post(func(scheduler.Reading) { time.Sleep(d) })
}

func TestSA30_ShortStartDeadlineSkipsNothingThatIsALittleLate(t *testing.T) {
	rng := random(t)
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "2026-03-10T12:00:00Z")
		defer s.close()
		m := s.add("only", func(c *Config) { c.SessionTTL = 10 * time.Second }) // a loop that hangs for TTL/2 is dead
		s.ready()
		want := ticking("daily", time.Minute, "50ms") // the days are minutes here
		want.Policy.StartDeadline = 10 * time.Second
		job := s.apply(want)
		first := s.next(time.Minute, 0)
		for day := range 60 {
			due := first.Add(time.Duration(day) * time.Minute)
			before := time.Duration(rng.Int64N(int64(500 * time.Millisecond)))
			s.until(due.Add(-before))
			m.hang(before + time.Duration(rng.Int64N(int64(3*time.Second))))
		}
		s.until(first.Add(59*time.Minute + 30*time.Second))
		s.want(job, map[string]int64{"SUCCEEDED": 60})
		seen := s.seen(job)
		if len(seen) != 60 || latest(seen) < time.Second || latest(seen) > 4*time.Second {
			t.Errorf("%d starts, the latest %s late; want 60, some of them late", len(seen), latest(seen))
		}
		s.checkStarts()
	})
}

func TestSA31_FiveHundredSchedulesSkipNothingInAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "2026-03-10T11:59:00Z", "a", "b", "c")
		defer s.close()
		var jobs []scheduler.Job
		for i := range 500 {
			job := watched(fmt.Sprintf("offset-%d", i), "50ms")
			job.Schedule.Cron = []string{fmt.Sprintf("%d %d/10 * * * *", i%60, i%10)}
			jobs = append(jobs, s.apply(job))
		}
		s.until(s.next(time.Hour, 0))
		from := s.wall()
		s.until(from.Add(time.Hour - time.Millisecond))
		seen := map[string]int{}
		for _, one := range between(s.seen(), from, s.wall()) {
			seen[one.id.Job.Name]++
			if one.late() > time.Second {
				t.Errorf("%s of job %s started %s late", one.id.Firing.Key(), one.id.Job, one.late())
			}
		}
		time.Sleep(time.Second)
		for _, job := range jobs {
			if seen[job.Name.Name] != 6 {
				t.Errorf("job %s fired %d times in the hour, want 6", job.Name, seen[job.Name.Name])
			}
			if v := s.verdicts(job); v["SUCCEEDED"] != sum(v) {
				t.Errorf("job %s: verdicts %v, want nothing but SUCCEEDED", job.Name, v)
			}
		}
		s.checkStarts()
	})
}

func TestSA33_HourWithoutSchedulersMeetsTheCatchUpPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "2026-03-10T19:59:10Z", "a", "b")
		defer s.close()
		job := func(mode scheduler.CatchUpMode) scheduler.Job {
			job := ticking("minute-"+string(mode), time.Minute, "50ms")
			job.Policy.CatchUp.Mode = mode
			return job
		}
		latestOne, none := s.apply(job(scheduler.CatchUpLatest)), s.apply(job(scheduler.CatchUpNone))
		var refused scheduler.FieldErrors
		if _, err := s.any().Apply(t.Context(), job("all"), 0); !errors.As(err, &refused) || refused[0].Field != "policy.catchUp.mode" {
			t.Errorf("catch-up all: %v; until it is built it is refused by name", err)
		}
		s.until(time.Date(2026, 3, 10, 19, 59, 50, 0, time.UTC))
		back := time.Date(2026, 3, 10, 21, 0, 10, 0, time.UTC)
		s.down(back) // 20:00 to 21:00: 61 instants
		s.until(back.Add(30 * time.Second))
		for job, want := range map[*scheduler.Job]map[string]int64{
			&latestOne: {"MISSED(catch-up policy)": 60, "SUCCEEDED": 1},
			&none:      {"MISSED(catch-up policy)": 61},
		} {
			s.want(*job, want)
			if n := int64(len(s.seen(*job))); n != want["SUCCEEDED"] {
				t.Errorf("job %s: %d starts, want %d", job.Name, n, want["SUCCEEDED"])
			}
			s.balance(*job, s.wall().Add(-time.Minute))
		}
		s.checkStarts()
	})
}

func TestSA53_WhatFellDueDuringALongRunIsCaughtUpAtMostOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "2026-03-10T12:00:00Z")
		defer s.close()
		for _, name := range []string{"a", "b"} {
			s.add(name, func(c *Config) { c.SessionTTL = 10 * time.Second })
		}
		s.ready()
		job := s.apply(ticking("long", 10*time.Second, "24s"))
		first := s.next(10*time.Second, 0)
		starts := func(from, to time.Duration) (instants []string) {
			for _, one := range between(s.seen(job), first.Add(from), first.Add(to)) {
				instants = append(instants, fmt.Sprintf("%s at %s", one.id.Firing.Instant().Sub(first), one.at.Sub(first).Round(time.Second)))
			}
			return instants
		}
		// All is well: what falls due during a run is SKIPPED, and nothing of it is caught up.
		s.until(first.Add(55 * time.Second))
		if got := starts(0, time.Minute); !slices.Equal(got, []string{"0s at 0s", "30s at 30s"}) {
			t.Errorf("starts %q, want none but each third", got)
		}
		// The instant at 70 s is found late, during the run that began at 60 s.
		s.until(first.Add(68 * time.Second))
		s.etcd.LoseQuorum()
		s.until(first.Add(76500 * time.Millisecond))
		s.etcd.RegainQuorum()
		s.until(first.Add(175 * time.Second))
		if got := starts(time.Minute, 170*time.Second); !slices.Equal(got, []string{"1m0s at 1m0s", "1m10s at 1m24s", "1m50s at 1m50s", "2m20s at 2m20s"}) {
			t.Errorf("starts %q, want exactly one caught up when the run had ended", got)
		}
		v := s.balance(job, s.wall().Add(-10*time.Second))
		if v["MISSED(catch-up policy)"] != 0 || v["SUCCEEDED"]+v["SKIPPED(overlap)"] != sum(v) {
			t.Errorf("verdicts %v, want only SUCCEEDED and SKIPPED(overlap)", v)
		}
		s.checkStarts()
	})
}

func TestSA55_ProcessThatStartsInTheSecondPassOfAnHourFiresSixtyTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// At 01:00 UTC the clocks of Berlin go back from 03:00 to 02:00.
		s := newScene(t, "2026-10-25T00:58:30Z", "a", "b")
		defer s.close()
		want := ticking("minute", time.Minute, "50ms")
		want.Schedule.TimeZone = "Europe/Berlin"
		before := s.apply(want)
		second := time.Date(2026, 10, 25, 1, 0, 0, 0, time.UTC)
		s.until(second.Add(10*time.Minute + 20*time.Second))
		for _, name := range []string{"a", "b"} {
			s.leave(s.members[name])
			s.add(name)
			s.ready()
		}
		want.Name.Name = "applied-then"
		inside := s.apply(want)
		s.until(second.Add(time.Hour - time.Millisecond))
		if seen := between(s.seen(before), second, s.wall()); len(seen) != 60 || latest(seen) > time.Second {
			t.Errorf("%d starts in the second pass of the hour, the latest %s late; want 60", len(seen), latest(seen))
		}
		if n := len(s.seen(inside)); n != 49 {
			t.Errorf("%d starts of the job that was applied 11 minutes into the hour, want 49", n)
		}
		s.until(second.Add(time.Hour + 2*time.Minute))
		s.checkStarts()
		s.allSucceeded([]scheduler.Job{before, inside}, s.wall().Add(-time.Minute))
	})
}
