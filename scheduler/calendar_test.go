package scheduler

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/quorumcron/quorumcron/scheduler/cron"
)

// shut excludes a part of each day from the job of a table, hh:mm to hh:mm.
func shut(from, to string) func(*testing.T, *View) {
	return func(t *testing.T, v *View) { v.Excluded = exclusionOf(t, &v.Job, cron.Hours{From: from, To: to}) }
}

func exclusionOf(t *testing.T, j *Job, hours ...cron.Hours) *Exclusion {
	t.Helper()
	j.Schedule.Exclude = []string{"closed"}
	name := CalendarName{j.Name.Namespace, "closed"}
	c, err := Calendar{}.Amended(NewCalendar(name, "", cron.CalendarSpec{Hours: hours}), epoch)
	if err != nil {
		t.Fatal(err)
	}
	all := NewCalendars()
	all.Replace(map[CalendarName]Calendar{name: c}, nil)
	x, err := all.Of(*j)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func TestExcludedInstantsAreSkippedTogether(t *testing.T) {
	t.Parallel()
	checkPlans(t, []planRow{{
		name: "an excluded instant is not begun: the next plan is for the next one that is not",
		view: shut("10:01", "10:04"),
		now:  "10:01:00",
		want: "wake 10:04:00",
	}, {
		name:  "the instants before it get their verdict with the next one",
		view:  shut("10:01", "10:04"),
		now:   "10:04:00",
		want:  "begin u@10:04:00Z attempt 1 slot 0 after 3 excluded",
		state: "cursor 10:04:00; entry @10:04:00 #1 slot 0 token 0; range 10:01:00…10:03:00 ×3 SKIPPED(excluded by calendar); count SKIPPED(excluded by calendar) 3",
	}, {
		name: "or after an hour, if none came",
		view: shut("10:01", "14:00"),
		now:  "10:30:00",
		want: "wake 11:01:00",
	}, {
		name:  "and then as far as the clock reads",
		view:  shut("10:01", "14:00"),
		now:   "11:01:00",
		want:  "skip 61 instants 10:01:00Z…11:01:00Z SKIPPED(excluded by calendar)",
		state: "cursor 11:01:00; range 10:01:00…11:01:00 ×61 SKIPPED(excluded by calendar); count SKIPPED(excluded by calendar) 61",
	}, {
		name: "catch-up takes the newest that is not excluded, though later ones are",
		view: shut("10:08", "10:30"),
		now:  "10:10:20",
		want: "miss 6 instants 10:01:00Z…10:07:00Z MISSED(catch-up policy)",
		state: "cursor 10:07:00; backlog 10:07:00…10:07:00 ×1; range 10:01:00…10:06:00 ×6 MISSED(catch-up policy); " +
			"count MISSED(catch-up policy) 6",
	}, {
		name: "excluded ones are not missed, also outside the window",
		job:  func(j *Job) { j.Policy.CatchUp.Window = 4 * time.Minute },
		view: shut("10:03", "10:05"),
		now:  "10:10:20",
		want: "miss 7 instants 10:01:00Z…10:10:00Z MISSED(catch-up policy) after 2 excluded",
		state: "cursor 10:10:00; backlog 10:10:00…10:10:00 ×1; range 10:01:00…10:02:00 ×2 MISSED(window); " +
			"range 10:03:00…10:04:00 ×2 SKIPPED(excluded by calendar); range 10:05:00…10:06:00 ×2 MISSED(window); range 10:07:00…10:09:00 ×3 MISSED(catch-up policy); " +
			"count MISSED(catch-up policy) 3; count MISSED(window) 4; count SKIPPED(excluded by calendar) 2",
	}, {
		name: "an excluded instant meets no overlap",
		view: func(t *testing.T, v *View) {
			inFlight(t, v, "10:01:00", 1, 45)
			shut("10:02", "10:03")(t, v)
		},
		now:  "10:02:00",
		want: "wake 10:03:00",
	}, {
		name: "and one that is skipped for overlap takes those before it along",
		view: func(t *testing.T, v *View) {
			inFlight(t, v, "10:01:00", 1, 45)
			shut("10:02", "10:03")(t, v)
		},
		now:  "10:03:00",
		want: "skip u@10:03:00Z SKIPPED(overlap) because of u@10:01:00Z after 1 excluded",
	}, {
		name: "a trigger is not excluded",
		view: func(t *testing.T, v *View) {
			waiting(t, v, "a", "10:01:10")
			shut("00:00", "24:00")(t, v)
		},
		now:  "10:01:20",
		want: "begin u+a attempt 1 slot 0",
	}, {
		name: "what calendars exclude for ever is decided once an hour, and nothing else comes",
		view: shut("00:00", "24:00"),
		now:  "10:30:00",
		want: "wake 11:01:00",
	}, {
		name: "what waits in the backlog, and a calendar has come to exclude, is not begun",
		view: func(t *testing.T, v *View) {
			v.State.Cursor = clockTime(t, "10:02:00")
			v.State.Backlog = &Backlog{First: v.State.Cursor, Last: v.State.Cursor, Count: 1}
			shut("10:02", "10:03")(t, v)
		},
		now:   "10:02:20",
		want:  "skip 1 instants 10:02:00Z…10:02:00Z SKIPPED(excluded by calendar)",
		state: "cursor 10:02:00; range 10:02:00…10:02:00 ×1 SKIPPED(excluded by calendar); count SKIPPED(excluded by calendar) 1",
	}, {
		name: "unless it is older than all that is known of the calendar",
		view: func(t *testing.T, v *View) {
			v.State.Backlog = &Backlog{First: clockTime(t, "10:00:00"), Last: clockTime(t, "10:00:00"), Count: 1}
			shut("09:00", "10:01")(t, v)
		},
		now:  "10:00:50",
		want: "begin u@10:00:00Z attempt 1 slot 0",
	}, {
		name: "a pause covers them",
		job:  func(j *Job) { j.Paused = true },
		view: shut("10:01", "14:00"),
		now:  "12:00:00",
		want: "wake -",
	}})
}

func TestExcludedInstantsAreNeitherUnaccountedNorHidden(t *testing.T) {
	t.Parallel()
	v := situation(t, nil)
	shut("10:03", "10:20")(t, &v)
	now := reading(clockTime(t, "10:10:30"))
	if n := Unaccounted(v, now); n != 2 {
		t.Errorf("got %d, want the two before", n)
	}
	if got := sketch(ShowExcluded(v, now.Wall)); got != "cursor 10:00:30" {
		t.Errorf("shown before what is due: %s", got)
	}
	v.State.Cursor = clockTime(t, "10:02:00")
	if got, want := sketch(ShowExcluded(v, now.Wall)), "cursor 10:10:00; range 10:03:00…10:10:00 ×8 SKIPPED(excluded by calendar); count SKIPPED(excluded by calendar) 8"; got != want {
		t.Errorf("shown %s\nwant %s", got, want)
	}
	if v.State.Counters != nil {
		t.Error("showing it changed the state")
	}
}

// TestASearchThroughWhatIsExcludedEnds, whatever excludes it: nothing hangs, and never is said.
func TestASearchThroughWhatIsExcludedEnds(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, cron string
		spec       cron.CalendarSpec
	}{
		{"every second, all days", "* * * * * *", cron.CalendarSpec{Weekdays: []string{"mon", "tue", "wed", "thu", "fri", "sat", "sun"}}},
		{"every second, the whole year", "* * * * * *", cron.CalendarSpec{Dates: []string{"01-01..02-28", "02-29..12-31"}}},
		{"noon, at noon", "0 12 * * *", cron.CalendarSpec{Hours: []cron.Hours{{From: "11:59", To: "12:01"}}}},
		{"29 February, all Februaries", "0 0 29 2 *", cron.CalendarSpec{Dates: []string{"02-01..03-01"}}},
	} {
		spec := Schedule{Cron: []string{row.cron}}
		calendar, err := cron.CompileCalendar(row.spec)
		if err != nil {
			t.Fatal(err)
		}
		x := &Exclusion{calendars: [][]compiledVersion{{{calendar: calendar}}}}
		table := compile(t, spec)
		if at := x.Next(table, epoch); !at.IsZero() {
			t.Errorf("%s: got %s, want never", row.name, at)
		}
		if at := x.last(table, epoch, epoch.AddDate(30, 0, 0)); !at.IsZero() {
			t.Errorf("%s: got %s as the last, want none", row.name, at)
		}
	}
}

// TestFormerVersionsOfACalendarAreBounded: every member holds all of them.
func TestFormerVersionsOfACalendarAreBounded(t *testing.T) {
	t.Parallel()
	many := func(year int) Calendar {
		var dates []string
		for day := range 1000 {
			dates = append(dates, time.Date(year, 1, 1+day, 0, 0, 0, 0, time.UTC).Format("2006-01-02"))
		}
		return NewCalendar(CalendarName{"default", "c"}, "", cron.CalendarSpec{Dates: dates})
	}
	c := Calendar{}
	for i := range MaxCalendarVersions {
		next, err := c.Amended(many(2026+i), epoch.Add(time.Duration(i)*time.Minute))
		if err != nil {
			if !errors.Is(err, ErrExhausted) || i < 2 {
				t.Errorf("change %d: %v, want a few changes and then ErrExhausted", i, err)
			}
			if _, err := c.Amended(many(2026+i), epoch.Add(25*time.Hour)); err != nil {
				t.Errorf("a day later: %v", err)
			}
			return
		}
		c = next
	}
	t.Errorf("%d versions of 1,000 dates each are kept", len(c.Versions))
}

func TestAmendedCalendarsRememberWhatTheySaid(t *testing.T) {
	t.Parallel()
	say := func(c Calendar, from string, at time.Duration) Calendar {
		t.Helper()
		next, err := c.Amended(NewCalendar(CalendarName{"default", "c"}, "", cron.CalendarSpec{Hours: []cron.Hours{{From: from, To: "23:59"}}}), epoch.Add(at))
		if err != nil {
			t.Fatal(err)
		}
		return next
	}
	check := func(what string, c Calendar, want ...string) {
		t.Helper()
		var got []string
		for _, v := range c.Versions {
			got = append(got, fmt.Sprintf("%s after %s", v.Excludes.Hours[0].From, v.Since.Sub(epoch)))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", what, got, want)
		}
	}
	c := say(Calendar{}, "01:00", 0)
	check("at first", c, "01:00 after 0s")
	check("the same again", say(c, "01:00", time.Hour), "01:00 after 0s")
	c = say(c, "02:00", time.Hour+time.Millisecond)
	check("a change acts after the second it is made in", c, "01:00 after 0s", "02:00 after 1h0m0s")
	check("another in that second", say(c, "03:00", time.Hour+900*time.Millisecond), "01:00 after 0s", "03:00 after 1h0m0s")
	check("one by a clock that is behind", say(c, "03:00", time.Minute), "01:00 after 0s", "03:00 after 1h0m0s")
	check("while the former is needed", say(c, "03:00", 25*time.Hour-time.Second), "01:00 after 0s", "02:00 after 1h0m0s", "03:00 after 24h59m59s")
	check("when it is not any more", say(c, "03:00", 25*time.Hour), "02:00 after 1h0m0s", "03:00 after 25h0m0s")
	check("a first change in the second of the creation", say(say(Calendar{}, "01:00", 0), "02:00", 0), "01:00 after 0s", "02:00 after 0s")
}

// TestCalendarsAreCompiledOnce: all jobs that name the same ones in the same zone share one exclusion.
func TestCalendarsAreCompiledOnce(t *testing.T) {
	t.Parallel()
	named := func(zone string, exclude ...string) Job {
		return Job{Name: JobName{"default", "j"}, Schedule: Schedule{TimeZone: zone, Exclude: exclude}}
	}
	of := func(c *Calendars, j Job) *Exclusion {
		t.Helper()
		x, err := c.Of(j)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	a, b := CalendarName{"default", "a"}, CalendarName{"default", "b"}
	spec := CalendarVersion{Excludes: cron.CalendarSpec{Weekdays: []string{"sun"}}}
	known := map[CalendarName]Calendar{a: {Name: a, Revision: 1, Versions: []CalendarVersion{spec}}, b: {Name: b, Revision: 2, Versions: []CalendarVersion{spec}}}
	c := NewCalendars()
	if changed := c.Replace(known, nil); len(changed) != 2 {
		t.Errorf("got %v, want both", changed)
	}
	if x := of(c, named("")); x != nil {
		t.Error("a job without calendars has an exclusion")
	}
	both := of(c, named("", "a", "b"))
	if of(c, named("", "a", "b")) != both {
		t.Error("two jobs that name the same calendars have two exclusions")
	}
	if of(c, named("Europe/Berlin", "a")).calendars[0][0] == of(c, named("", "a")).calendars[0][0] {
		t.Error("a calendar without a zone is not read in that of the schedule")
	}
	if of(c, named("", "b")).calendars[0][0].calendar != both.calendars[1][0].calendar {
		t.Error("a version is compiled twice")
	}
	if _, err := c.Of(named("", "a", "nowhere")); err == nil {
		t.Error("a calendar that is not there excludes nothing")
	}
	next := map[CalendarName]Calendar{a: known[a], b: known[b]}
	if changed := c.Replace(next, nil); len(changed) != 0 {
		t.Errorf("the same again: got %v", changed)
	}
	delete(next, b)
	broken := errors.New("broken")
	if changed := c.Replace(next, map[CalendarName]error{b: broken}); len(changed) != 1 || !changed[b] {
		t.Errorf("got %v, want b", changed)
	}
	if _, err := c.Of(named("", "b")); !errors.Is(err, broken) {
		t.Errorf("got %v, want why it cannot be read", err)
	}
	if changed := c.Replace(known, nil); len(changed) != 1 || !changed[b] {
		t.Errorf("repaired: got %v, want b", changed)
	}
}

// TestExclusionsLikeASlowWalk compares what searches and counts say with a walk over the instants, for
// random calendars, versions, zones, schedules and ranges.
func TestExclusionsLikeASlowWalk(t *testing.T) {
	t.Parallel()
	for seed := uint64(1); seed <= 200; seed++ {
		w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 7)), job: Job{Schedule: randomSchedule(rand.New(rand.NewPCG(seed, 8)))}}
		w.job.Schedule.Exclude = []string{"a", "b"}
		table := compile(t, w.job.Schedule)
		known := map[CalendarName]Calendar{}
		said := map[CalendarName][]CalendarVersion{}
		for _, name := range []CalendarName{{"", "a"}, {"", "b"}} {
			c := Calendar{Revision: 1}
			for i := range 1 + w.rng.IntN(4) {
				var err error
				if c, err = c.Amended(NewCalendar(name, "", w.randomExcludes()), epoch.Add(time.Duration(i)*time.Duration(w.rng.IntN(6*3600))*time.Second)); err != nil {
					t.Fatal(err)
				}
			}
			known[name], said[name] = c, c.Versions
		}
		all := NewCalendars()
		all.Replace(known, nil)
		x, err := all.Of(w.job)
		if err != nil {
			t.Fatal(err)
		}
		after := epoch.Add(time.Duration(w.rng.IntN(3600)) * time.Second)
		through := after.Add(time.Duration(w.rng.IntN(30*3600)) * time.Second)
		var want []time.Time // those that are not excluded
		excluded := int64(0)
		for _, at := range instants(table, after, through) {
			out := false
			for _, versions := range said {
				w.judged = versions
				out = out || w.excludes(at)
			}
			if out {
				excluded++
			} else {
				want = append(want, at)
			}
		}
		var got []time.Time
		for at := x.Next(table, after); !at.IsZero() && !at.After(through); at = x.Next(table, at) {
			got = append(got, at)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: %+v\n%+v\nfrom %s to %s: got %d instants, want %d", seed, w.job.Schedule, said, after, through, len(got), len(want))
		}
		newest := time.Time{}
		if len(want) > 0 {
			newest = want[len(want)-1]
		}
		if at := x.last(table, after, through); !at.Equal(newest) {
			t.Fatalf("seed %d: %+v\n%+v\nfrom %s to %s: got %s as the last, want %s", seed, w.job.Schedule, said, after, through, at, newest)
		}
		var in, out int64
		x.runs(table, after, through, func(r Range, excluded bool) bool {
			if excluded {
				out += r.Count
			} else {
				in += r.Count
			}
			return true
		})
		if in != int64(len(want)) || out != excluded {
			t.Fatalf("seed %d: %+v\n%+v\nfrom %s to %s: counted %d and %d excluded, want %d and %d", seed, w.job.Schedule, said, after, through, in, out, len(want), excluded)
		}
	}
}

// A plan is made in the loop of a member, of thousands of jobs in one turn; a loop that stands still for
// half a TTL takes the member out of the cluster, and the next owner of the job after it.
func TestAPlanCostsLittleWhateverIsExcluded(t *testing.T) {
	t.Parallel()
	var days []string // each by itself, and many of them twice
	for i := range 1000 {
		days = append(days, time.Date(2024, time.January, 1+i%366, 0, 0, 0, 0, time.UTC).Format("01-02"))
	}
	var halves []cron.CalendarSpec // of each hour, so that no stretch is longer than its half
	for minute := range 2 {
		var parts []cron.Hours
		for hour := range 24 {
			from := time.Duration(hour)*time.Hour + time.Duration(minute)*30*time.Minute
			at := func(d time.Duration) string { return fmt.Sprintf("%02d:%02d", int(d.Hours()), int(d.Minutes())%60) }
			parts = append(parts, cron.Hours{From: at(from), To: at(from + 30*time.Minute)})
		}
		halves = append(halves, cron.CalendarSpec{Hours: parts})
	}
	for name, specs := range map[string][]cron.CalendarSpec{
		"days":   slices.Repeat([]cron.CalendarSpec{{Dates: days[:999]}}, MaxExclude),
		"almost": slices.Repeat([]cron.CalendarSpec{{Dates: days[:365]}}, MaxExclude), // and not the last day of the year
		"hours":  slices.Repeat(halves, MaxExclude/2),
	} {
		known := map[CalendarName]Calendar{}
		var names []string
		for i, spec := range specs {
			c, err := Calendar{}.Amended(NewCalendar(CalendarName{"default", fmt.Sprintf("c%d", i)}, "", spec), epoch)
			if err != nil {
				t.Fatal(err)
			}
			known[c.Name], names = c, append(names, c.Name.Name)
		}
		all := NewCalendars()
		all.Replace(known, nil)
		for _, every := range []string{"* * * * * *", "0 3 * * *", "30 4 1 1 *"} {
			v := situation(t, func(j *Job) {
				j.Schedule = Schedule{Cron: []string{every}, TimeZone: "Europe/Berlin", Exclude: names}
			})
			var err error
			if v.Excluded, err = all.Of(v.Job); err != nil {
				t.Fatal(err)
			}
			const plans = 100
			begun := time.Now()
			for range plans {
				PlanJob(v, Reading{Wall: v.State.Cursor.Add(10 * time.Minute), Elapsed: time.Hour})
			}
			if each := time.Since(begun) / plans; each > 10*time.Millisecond {
				t.Errorf("%s, %s: a plan takes %s, want far below a millisecond", name, every, each)
			}
		}
	}
}

func BenchmarkPlanAmongNights(b *testing.B) {
	t := &testing.T{}
	v := situation(t, nil)
	shut("22:00", "06:00")(t, &v)
	now := reading(epoch.Add(12 * time.Hour))
	v.State.Cursor = epoch.Add(11 * time.Hour)
	for b.Loop() {
		PlanJob(v, now)
	}
}
