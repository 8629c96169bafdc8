package sim

import (
	"testing"
	"time"

	"github.com/quorumcron/quorumcron/scheduler"
	"github.com/quorumcron/quorumcron/scheduler/cron"
)

// TestCalendarAndTimetableAgree compares the oracle's calendar with the code under test where it is hardest:
// over both changes of the clocks. The two share nothing but the zone.
func TestCalendarAndTimetableAgree(t *testing.T) {
	t.Parallel()
	weekend := []time.Time{time.Date(2026, 3, 28, 0, 0, 0, 0, time.UTC), time.Date(2026, 10, 24, 0, 0, 0, 0, time.UTC)}
	at := []time.Time{weekend[0].Add(90 * time.Minute), weekend[1].Add(7 * time.Second)}
	for _, s := range []scheduler.Schedule{
		{Cron: []string{"* * * * *"}, TimeZone: "Europe/Berlin"},
		{Cron: []string{"*/7 * * * *"}, TimeZone: "Europe/Berlin"},
		{Cron: []string{"30 2 * * *"}, TimeZone: "Europe/Berlin"},
		{Cron: []string{"15,45 2 * * *"}, TimeZone: "Europe/Berlin"},
		{Cron: []string{"0 */2 * * *", "7 1-5 * * *"}, TimeZone: "Europe/Berlin"},
		{Cron: []string{"0 12 * * 0"}, TimeZone: "America/New_York"},
		{Cron: []string{"30 * 29 3 *"}},
		{Cron: []string{"10 2 * * *"}, TimeZone: "Australia/Lord_Howe"},
		{Every: 17 * time.Second, Origin: weekend[0].Add(5 * time.Second)},
		{Every: 13 * time.Minute, Origin: weekend[1], Start: weekend[1].Add(3 * time.Hour), End: weekend[1].Add(9 * time.Hour)},
		{Every: time.Hour, Origin: weekend[0], Cron: []string{"30 2 * * *"}, TimeZone: "Europe/Berlin", At: at},
		{At: at},
	} {
		table, err := cron.Compile(s.Spec())
		if err != nil {
			t.Fatal(err)
		}
		for _, from := range weekend {
			c := newCalendar(s)
			cursor := from
			for step := range 60 {
				through := cursor.Add(time.Duration(step*step) * 11 * time.Second)
				if got, want := c.count(cursor.Unix(), through.Unix()), table.Count(cursor, through); got != want {
					t.Errorf("%+v: %d instants in (%s, %s], the timetable has %d", s, got, cursor, through, want)
				}
				next := table.Next(cursor)
				if got := c.next(cursor.Unix()); got != 0 && got != next.Unix() || got == 0 && !next.IsZero() && next.Sub(cursor) < horizon*time.Second/3 {
					t.Errorf("%+v: the next instant after %s is %s, the timetable says %s", s, cursor, time.Unix(got, 0).UTC(), next)
				}
				cursor = through
			}
		}
	}
}
