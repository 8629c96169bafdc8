package cron

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func mustCompile(t testing.TB, spec Spec) *Timetable {
	t.Helper()
	table, err := Compile(spec)
	if err != nil {
		t.Fatalf("Compile(%+v): %v", spec, err)
	}
	return table
}

func day(year, month, day int) time.Time {
	return time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
}

func TestSourcesAddUpAndAnInstantNamedTwiceIsOne(t *testing.T) {
	t.Parallel()
	table := mustCompile(t, Spec{
		Cron:   []string{"0 12 * * *", "0 6,12 * * *"},
		Every:  8 * time.Hour,
		Origin: day(2026, 1, 1).Add(4*time.Hour + 700*time.Millisecond),
		At:     []time.Time{day(2026, 1, 1).Add(13 * time.Hour), day(2026, 1, 1).Add(6 * time.Hour), day(2026, 1, 1).Add(13 * time.Hour)},
		Start:  day(2026, 1, 1).Add(time.Nanosecond),
		End:    day(2026, 1, 2).Add(6 * time.Hour),
	})
	want := []string{"06:00", "12:00", "13:00", "20:00", "04:00"}
	var got []string
	at := time.Time{}
	for at = table.Next(at); !at.IsZero() && len(got) < 10; at = table.Next(at) {
		got = append(got, at.Format("15:04"))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("instants (-want +got):\n%s", diff)
	}
	if n := table.Count(time.Time{}, day(3000, 1, 1)); n != int64(len(want)) {
		t.Errorf("Count = %d, want %d", n, len(want))
	}
	if last := table.Last(time.Time{}, day(3000, 1, 1)); !last.Equal(day(2026, 1, 2).Add(4 * time.Hour)) {
		t.Errorf("Last = %s, want 04:00 on the 2nd: the end is excluded", last)
	}
}

func TestBoundsIncludeStartAndExcludeEnd(t *testing.T) {
	t.Parallel()
	table := mustCompile(t, Spec{Cron: []string{"0 0 * * *"}, Start: day(2026, 3, 1), End: day(2026, 3, 3)})
	if next := table.Next(day(2020, 1, 1)); !next.Equal(day(2026, 3, 1)) {
		t.Errorf("Next before the start = %s, want the start itself", next)
	}
	if next := table.Next(day(2026, 3, 2)); !next.IsZero() {
		t.Errorf("Next on the last day = %s, want never: the end is excluded", next)
	}
}

// TestDecadesAreCountedByDays would run for minutes if Count went from instant to instant.
func TestDecadesAreCountedByDays(t *testing.T) {
	t.Parallel()
	const seconds = (10*365 + 3) * 86400 // 2015 to 2025 has three leap days: 2016, 2020, 2024
	for _, c := range []struct {
		name string
		spec Spec
		want int64
	}{
		{"each second", Spec{Cron: []string{"* * * * * *"}}, seconds},
		{"each second in a zone that changes", Spec{Cron: []string{"* * * * * *"}, TimeZone: "Europe/Berlin"}, seconds},
		{"each second twice", Spec{Cron: []string{"* * * * * *", "* * * * * ?"}, TimeZone: "Australia/Lord_Howe"}, seconds},
		{"each second and an interval", Spec{Cron: []string{"* * * * * *"}, Every: 7 * time.Second}, seconds},
		{"even seconds and each third", Spec{Cron: []string{"*/2 * * * * *"}, Every: 3 * time.Second}, seconds/2 + seconds/6},
		{"even seconds and each 93rd", Spec{Cron: []string{"*/2 * * * * *"}, Every: 93 * time.Second, Origin: day(2015, 1, 1)}, seconds/2 + seconds/186},
		{"an interval alone", Spec{Every: time.Second}, seconds},
		{"each hour", Spec{Cron: []string{"0 * * * *"}, TimeZone: "America/New_York"}, seconds / 3600},
		{"each night", Spec{Cron: []string{"30 2 * * *"}, TimeZone: "America/New_York"}, seconds / 86400},
		{"each night, fixed seconds", Spec{Cron: []string{"30 30 1 * * *", "30 30 1-1 * * *"}, TimeZone: "America/New_York"}, seconds / 86400},
	} {
		table := mustCompile(t, c.spec)
		begun := time.Now()
		got := table.Count(day(2014, 12, 31).Add(24*time.Hour), day(2025, 1, 1))
		took := time.Since(begun)
		if got != c.want {
			t.Errorf("%s: Count = %d, want %d", c.name, got, c.want)
		}
		if took > 5*time.Second { // milliseconds on any machine
			t.Errorf("%s: Count took %s", c.name, took)
		}
	}
}

func TestEverythingWrongIsReportedAtOnce(t *testing.T) {
	t.Parallel()
	_, err := Compile(Spec{
		Cron:     []string{"60 25 * * *", "0 0 30 2 *", "@every 5m", "0 9 * * *"},
		Every:    1500 * time.Millisecond,
		At:       []time.Time{day(2026, 1, 1), day(2026, 1, 1).Add(time.Nanosecond), {}},
		TimeZone: "Mars/Olympus",
	})
	var list Errors
	if !errors.As(err, &list) {
		t.Fatalf("got %v, want Errors", err)
	}
	var got []string
	for _, one := range list {
		got = append(got, one.Field+" "+one.Value+" "+one.Kind)
		if one.Problem == "" || one.Remedy == "" {
			t.Errorf("%s lacks a problem or a remedy: %+v", one.Field, one)
		}
	}
	want := []string{
		"timeZone Mars/Olympus tz", "cron[0] 60 range", "cron[0] 25 range", "cron[1] 0 0 30 2 * never", "cron[2] @every 5m every",
		"every 1.5s every", "at[1] 2026-01-01T00:00:00.000000001Z at", "at[2] 0001-01-01T00:00:00Z at",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
	if lines := strings.Split(err.Error(), "\n"); len(lines) != len(want) {
		t.Errorf("the text has %d lines, want one each:\n%v", len(lines), err)
	}
}

func TestWhatNeverFiresIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spec  Spec
		field string
	}{
		"an empty schedule":            {Spec{}, "cron"},
		"an end before the start":      {Spec{Cron: []string{"@daily"}, Start: day(2026, 1, 2), End: day(2026, 1, 1)}, "end"},
		"leap days between 2097, 2103": {Spec{Cron: []string{"0 0 29 2 *"}, Start: day(2097, 1, 1), End: day(2103, 1, 1)}, "end"},
		"a start after the last date":  {Spec{At: []time.Time{day(2026, 1, 1)}, Start: day(2026, 1, 2)}, "start"},
		"a start at the end of time":   {Spec{Cron: []string{"@daily"}, Start: day(9999, 12, 31).Add(time.Second)}, "start"},
	} {
		_, err := Compile(c.spec)
		var wrong *FieldError
		if !errors.As(err, &wrong) || wrong.Kind != KindNever || wrong.Field != c.field {
			t.Errorf("%s: got %v, want an error of kind never at %q", name, err, c.field)
		}
	}
}

func TestListsAreBounded(t *testing.T) {
	t.Parallel()
	many := Spec{Cron: make([]string, maxExpressions+1), At: make([]time.Time, maxDates+1)}
	_, err := Compile(many)
	var list Errors
	if !errors.As(err, &list) || len(list) != 2 || list[0].Kind != KindLimit || list[1].Kind != KindLimit {
		t.Errorf("%d expressions and %d dates: got %v, want two errors of kind limit", len(many.Cron), len(many.At), err)
	}
	_, err = Compile(Spec{Cron: []string{strings.Repeat("0,", maxExpressionBytes) + "0 * * * *"}})
	var wrong *FieldError
	if !errors.As(err, &wrong) || wrong.Kind != KindSyntax || len(wrong.Value) > maxShown+len("…") {
		t.Errorf("a very long expression: got %v, want a syntax error with a short value", err)
	}
}

// TestEndsOfTime: a time.Time can lie far outside the years of the calendar.
func TestEndsOfTime(t *testing.T) {
	t.Parallel()
	table := mustCompile(t, Spec{Cron: []string{"* * * * * *", "@yearly"}, Every: 290 * 365 * 24 * time.Hour, TimeZone: "Europe/Berlin"})
	early, late := time.Unix(math.MinInt64/2, 0), time.Unix(math.MaxInt64/2, 0)
	first, last := time.Unix(firstInstant, 0).UTC(), time.Unix(lastInstant, 0).UTC()
	if got := table.Next(early); !got.Equal(first) {
		t.Errorf("Next(%s) = %s, want %s", early, got, first)
	}
	if got := table.Next(last); !got.IsZero() {
		t.Errorf("Next(%s) = %s, want never", last, got)
	}
	if got := table.Last(early, late); !got.Equal(last) {
		t.Errorf("Last of all time = %s, want %s", got, last)
	}
	if got, want := table.Count(early, late), int64(lastInstant-firstInstant+1); got != want {
		t.Errorf("Count of all time = %d, want %d", got, want)
	}
	if n := table.Count(late, early); n != 0 {
		t.Errorf("Count backwards = %d, want 0", n)
	}
	if got := table.Last(time.Unix(math.MaxInt64, 0), time.Unix(math.MaxInt64, 0)); !got.IsZero() {
		t.Errorf("Last after the end of time = %s, want none", got)
	}
}

func TestNilTimetableNamesNothing(t *testing.T) {
	t.Parallel()
	var table *Timetable
	if next := table.Next(time.Time{}); !next.IsZero() {
		t.Errorf("Next = %s, want never", next)
	}
	if n, last := table.Count(time.Time{}, day(2030, 1, 1)), table.Last(time.Time{}, day(2030, 1, 1)); n != 0 || !last.IsZero() {
		t.Errorf("Count = %d, Last = %s, want none", n, last)
	}
}

func TestSpecOfReportsZoneAndIntervalTogether(t *testing.T) {
	t.Parallel()
	_, err := SpecOf("@every 5", "Nowhere", day(2026, 1, 1))
	var list Errors
	if !errors.As(err, &list) || len(list) != 2 || list[0].Kind != KindZone || list[1].Kind != KindEvery {
		t.Errorf("got %v, want the zone and the interval", err)
	}
}

func TestNextAllocatesNothing(t *testing.T) {
	table := mustCompile(t, Spec{Cron: []string{"*/5 * * * *", "30 2 29 2 *"}, Every: time.Hour, At: []time.Time{day(2030, 1, 1)}, TimeZone: "Europe/Berlin"})
	at := day(2026, 6, 1)
	if n := testing.AllocsPerRun(100, func() { at = table.Next(at) }); n != 0 {
		t.Errorf("Next allocates %v times, want 0", n)
	}
}

func BenchmarkNext(b *testing.B) {
	for _, c := range []struct {
		name string
		spec Spec
	}{
		{"each5Minutes", Spec{Cron: []string{"*/5 * * * *"}}},
		{"each5MinutesBerlin", Spec{Cron: []string{"*/5 * * * *"}, TimeZone: "Europe/Berlin"}},
		{"nightly", Spec{Cron: []string{"30 2 * * *"}, TimeZone: "America/New_York"}},
		{"weekdays", Spec{Cron: []string{"0 9 * * 1-5"}, TimeZone: "America/New_York"}},
		{"leapDays", Spec{Cron: []string{"0 0 29 2 *"}, TimeZone: "Australia/Lord_Howe"}},
		{"every", Spec{Every: 15 * time.Minute}},
	} {
		b.Run(c.name, func(b *testing.B) {
			table := mustCompile(b, c.spec)
			at := day(2026, 6, 1)
			b.ReportAllocs()
			for b.Loop() {
				if at = table.Next(at); at.Year() > 2400 {
					at = day(2026, 6, 1)
				}
			}
		})
	}
}

func BenchmarkCountTenYears(b *testing.B) {
	for _, c := range []struct {
		name string
		spec Spec
	}{
		{"eachSecond", Spec{Cron: []string{"* * * * * *"}, TimeZone: "Europe/Berlin"}},
		{"twoExpressions", Spec{Cron: []string{"* * * * * *", "*/7 * * * *"}, TimeZone: "Europe/Berlin"}},
		{"withInterval", Spec{Cron: []string{"*/2 * * * * *"}, Every: 7 * time.Second, TimeZone: "Europe/Berlin"}},
	} {
		b.Run(c.name, func(b *testing.B) {
			table := mustCompile(b, c.spec)
			for b.Loop() {
				table.Count(day(2015, 1, 1), day(2025, 1, 1))
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	for b.Loop() {
		mustCompile(b, Spec{Cron: []string{"*/5 8-18 * * mon-fri"}, TimeZone: "Europe/Berlin"})
	}
}

// TestAnOriginTooLateForTheEndIsAnEnd: the origin is not the user's, so that it makes no definition wrong.
func TestAnOriginTooLateForTheEndIsAnEnd(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 12, 24, 12, 0, 0, 0, time.UTC)
	spec := Spec{Every: time.Hour, Origin: noon, End: noon.Add(30 * time.Minute)}
	table, err := Compile(spec)
	if err != nil {
		t.Fatalf("got %v, want a schedule that has ended", err)
	}
	if next := table.Next(time.Time{}); !next.IsZero() || table.Count(time.Time{}, noon.AddDate(1, 0, 0)) != 0 {
		t.Errorf("it is due at %s, want never", next)
	}
	spec.Origin, spec.Start = time.Time{}, spec.End
	if _, err := Compile(spec); err == nil {
		t.Error("a start that is not before the end was taken")
	}
}
