package cron

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestCalendarExcludes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sentence string
		spec     CalendarSpec
		in, out  []string
	}{
		{
			"a single day is excluded from midnight to midnight of its zone",
			CalendarSpec{TimeZone: "Europe/Berlin", Dates: []string{"2026-12-25"}},
			[]string{"2026-12-24T23:00:00Z", "2026-12-25T22:59:59Z"}, []string{"2026-12-24T22:59:59Z", "2026-12-25T23:00:00Z"},
		},
		{
			"both ends of a range are in it",
			CalendarSpec{Dates: []string{"2026-12-24..2026-12-27"}},
			[]string{"2026-12-24T00:00:00Z", "2026-12-27T23:59:59Z"}, []string{"2026-12-23T23:59:59Z", "2026-12-28T00:00:00Z", "2027-12-25T00:00:00Z"},
		},
		{
			"a date without a year is every year's",
			CalendarSpec{Dates: []string{"12-25"}},
			[]string{"1999-12-25T12:00:00Z", "2400-12-25T12:00:00Z"}, []string{"2026-12-26T00:00:00Z"},
		},
		{
			"a range of every year may pass New Year",
			CalendarSpec{Dates: []string{"12-24..01-02"}},
			[]string{"2026-12-24T00:00:00Z", "2027-01-01T00:00:00Z", "2027-01-02T23:59:59Z"}, []string{"2027-01-03T00:00:00Z", "2026-12-23T23:59:59Z"},
		},
		{
			"29 February is excluded in the years that have one",
			CalendarSpec{Dates: []string{"02-29"}},
			[]string{"2028-02-29T12:00:00Z"}, []string{"2027-02-28T12:00:00Z", "2027-03-01T12:00:00Z", "2100-03-01T00:00:00Z"},
		},
		{
			"a range that ends on 29 February ends on the 28th of other years, one that begins there on 1 March",
			CalendarSpec{Dates: []string{"02-27..02-29", "02-29..03-02"}},
			[]string{"2027-02-28T23:59:59Z", "2027-03-01T00:00:00Z", "2027-03-02T23:59:59Z"}, []string{"2027-02-26T23:59:59Z", "2027-03-03T00:00:00Z"},
		},
		{
			"days of the week are those of the zone",
			CalendarSpec{TimeZone: "Pacific/Auckland", Weekdays: []string{"sat", "sun"}},
			[]string{"2026-11-27T11:00:00Z", "2026-11-29T10:59:59Z"}, []string{"2026-11-27T10:59:59Z", "2026-11-29T11:00:00Z"},
		},
		{
			"hours may pass midnight",
			CalendarSpec{Hours: []Hours{{"22:00", "06:00"}}},
			[]string{"2026-11-27T22:00:00Z", "2026-11-28T05:59:59Z"}, []string{"2026-11-27T21:59:59Z", "2026-11-28T06:00:00Z"},
		},
		{
			"hours are those of the wall clock: the hour that a change skips is in no day, that which it repeats is in twice",
			CalendarSpec{TimeZone: "Europe/Berlin", Hours: []Hours{{"02:00", "03:00"}}},
			[]string{"2026-10-25T00:00:00Z", "2026-10-25T01:59:59Z"}, []string{"2026-03-29T00:59:59Z", "2026-03-29T01:00:00Z", "2026-10-25T02:00:00Z"},
		},
		{
			"hours up to midnight end with the day",
			CalendarSpec{Hours: []Hours{{"18:00", "24:00"}, {"17:00", "00:00"}}},
			[]string{"2026-11-27T17:00:00Z", "2026-11-27T23:59:59Z"}, []string{"2026-11-28T00:00:00Z"},
		},
	} {
		calendar, err := CompileCalendar(c.spec)
		if err != nil {
			t.Errorf("%s: %v", c.sentence, err)
			continue
		}
		for _, at := range c.in {
			if !calendar.Excludes(instantOf(t, at)) {
				t.Errorf("%s: %+v does not exclude %s", c.sentence, c.spec, at)
			}
		}
		for _, at := range c.out {
			if calendar.Excludes(instantOf(t, at)) {
				t.Errorf("%s: %+v excludes %s", c.sentence, c.spec, at)
			}
		}
	}
}

func instantOf(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// TestCalendarErrors says that all that is wrong is said at once, each with its field.
func TestCalendarErrors(t *testing.T) {
	t.Parallel()
	_, err := CompileCalendar(CalendarSpec{
		TimeZone: "Berlin",
		Dates:    []string{"2026-02-29", "02-30", "13-01", "2026-12-27..2026-12-24", "2026-12-24..12-27", "25.12.", "", "2026-1-02", "0000-01-01", "+1-+1", "12-24..12-25..12-26"},
		Weekdays: []string{"Sat", "sun", "sun"},
		Hours:    []Hours{{"24:00", "06:00"}, {"6:00", "25:00"}, {"06:00", "06:00"}, {"06:60", "07:00"}},
	})
	var list Errors
	if !errors.As(err, &list) {
		t.Fatalf("got %v, want Errors", err)
	}
	var fields []string
	for _, e := range list {
		fields = append(fields, e.Field)
		if e.Problem == "" || e.Remedy == "" {
			t.Errorf("%+v has no problem or no remedy", e)
		}
	}
	want := []string{"timeZone"}
	for i := range 11 {
		want = append(want, fmt.Sprintf("dates[%d]", i))
	}
	want = append(want, "weekdays[0]", "weekdays[2]", "hours[0].from", "hours[1].from", "hours[1].to", "hours[2]", "hours[3].from")
	if !slices.Equal(fields, want) {
		t.Errorf("got %q\nwant %q", fields, want)
	}
	for name, spec := range map[string]CalendarSpec{
		"dates": {}, "hours": {Hours: slices.Repeat([]Hours{{"01:00", "02:00"}}, maxCalendarHours+1)},
	} {
		if _, err := CompileCalendar(spec); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%+v: got %v, want an error of %s", spec, err, name)
		}
	}
	if _, err := CompileCalendar(CalendarSpec{Dates: slices.Repeat([]string{"12-25"}, maxCalendarDates+1)}); err == nil {
		t.Error("more dates than allowed are taken")
	}
}

// slowly says by the wall clock of package time whether a calendar excludes an instant.
func slowly(spec CalendarSpec, zone *time.Location, at time.Time) bool {
	wall := at.In(zone)
	if slices.Contains(spec.Weekdays, strings.ToLower(wall.Weekday().String()[:3])) {
		return true
	}
	for _, text := range spec.Dates {
		low, high, is := strings.Cut(text, "..")
		if !is {
			high = low
		}
		day := wall.Format("2006-01-02")
		if len(low) == 5 {
			day = wall.Format("01-02")
		}
		if low <= high && low <= day && day <= high || low > high && (low <= day || day <= high) {
			return true
		}
	}
	now := wall.Format("15:04")
	return slices.ContainsFunc(spec.Hours, func(h Hours) bool {
		return h.From < h.To && h.From <= now && now < h.To || h.From > h.To && (h.From <= now || now < h.To)
	})
}

// randomCalendar draws a calendar that excludes days around the given one.
func randomCalendar(r *rand.Rand, zone string, around time.Time) CalendarSpec {
	spec := CalendarSpec{TimeZone: zone}
	day := func() time.Time { return around.AddDate(0, 0, r.IntN(21)-10) }
	for range r.IntN(4) {
		from, long := day(), r.IntN(6)
		form := []string{"2006-01-02", "01-02"}[r.IntN(2)]
		text := from.Format(form)
		if long > 0 {
			text += ".." + from.AddDate(0, 0, long).Format(form)
		}
		spec.Dates = append(spec.Dates, text)
	}
	for _, name := range weekdayNames {
		if r.IntN(8) == 0 {
			spec.Weekdays = append(spec.Weekdays, name)
		}
	}
	for range r.IntN(3) {
		at := func() string { return fmt.Sprintf("%02d:%02d", r.IntN(24), []int{0, 0, 30, 59}[r.IntN(4)]) }
		if h := (Hours{at(), at()}); h.From != h.To {
			spec.Hours = append(spec.Hours, h)
		}
	}
	return spec
}

// TestCalendarLikeTheWallClock compares random calendars around clock changes with package time, and sees
// that a stretch has one answer throughout.
func TestCalendarLikeTheWallClock(t *testing.T) {
	t.Parallel()
	r := newRandom(t)
	zones := []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "America/Sao_Paulo", "Asia/Kathmandu", "Africa/Casablanca"}
	around := []string{"2026-03-29", "2026-10-25", "2028-02-29", "2100-02-28", "2011-12-30", "2018-11-04", "2026-12-31", "2501-03-14"}
	for range 400 {
		name := zones[r.IntN(len(zones))]
		middle := instantOf(t, around[r.IntN(len(around))]+"T00:00:00Z")
		spec := randomCalendar(r, name, middle)
		calendar, err := CompileCalendar(spec)
		if err != nil {
			continue // an empty one
		}
		zone, err := LoadZone(name)
		if err != nil {
			t.Fatal(err)
		}
		for range 60 {
			at := middle.Add(time.Duration(r.Int64N(20*daySeconds)-10*daySeconds) * time.Second)
			got, since, until := calendar.Stretch(at.Unix())
			if want := slowly(spec, zone, at); got != want {
				t.Fatalf("%+v at %s: got %t, want %t", spec, at, got, want)
			}
			if since > at.Unix() || until <= at.Unix() {
				t.Fatalf("%+v at %s: stretch %d to %d does not hold %d", spec, at, since, until, at.Unix())
			}
			since, until = max(since, middle.Unix()-12*daySeconds), min(until, middle.Unix()+12*daySeconds)
			for _, s := range []int64{since, until - 1, since + r.Int64N(max(until-since, 1))} {
				if want := slowly(spec, zone, time.Unix(s, 0)); got != want {
					t.Fatalf("%+v: the stretch %s to %s around %s is %t, but at %s it is not", spec,
						time.Unix(since, 0).UTC(), time.Unix(until, 0).UTC(), at, got, time.Unix(s, 0).UTC())
				}
			}
		}
	}
}

// TestCalendarStretchesJoin says that a search does not go day by day through what is excluded for long.
func TestCalendarStretchesJoin(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sentence string
		spec     CalendarSpec
		atLeast  time.Duration
	}{
		{"all days of the week are always", CalendarSpec{Weekdays: []string{"mon", "tue", "wed", "thu", "fri", "sat", "sun"}}, 1 << 62},
		{"the whole day is always", CalendarSpec{Hours: []Hours{{"00:00", "12:00"}, {"12:00", "24:00"}}}, 1 << 62},
		{"every day of the year is always", CalendarSpec{Dates: []string{"03-01..02-29"}}, 1 << 62},
		{"days of every year are one stretch", CalendarSpec{Dates: []string{"07-01..12-31", "01-01", "01-02..06-07"}}, 330 * 24 * time.Hour},
		{"a long range is one stretch", CalendarSpec{Dates: []string{"2020-01-01..2049-12-31"}}, 29 * 365 * 24 * time.Hour},
		{"a night is one stretch", CalendarSpec{Hours: []Hours{{"22:00", "06:00"}}}, 8 * time.Hour},
	} {
		calendar, err := CompileCalendar(c.spec)
		if err != nil {
			t.Fatalf("%s: %v", c.sentence, err)
		}
		excluded, since, until := calendar.Stretch(instantOf(t, "2026-06-05T23:00:00Z").Unix())
		if got := min(until-since, 1<<62/int64(time.Second)); !excluded || got < int64(c.atLeast/time.Second) {
			t.Errorf("%s: got %t for %d s", c.sentence, excluded, got)
		}
	}
}
