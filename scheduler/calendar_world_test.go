package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorumcron/quorumcron/scheduler/cron"
)

// excluded is what the calendars of the world's job exclude, as planning sees it.
func (w *world) excluded() *Exclusion {
	w.t.Helper()
	if len(w.calendar.Versions) == 0 {
		w.amend()
	}
	x, err := w.calendars.Of(w.job)
	if err != nil {
		w.fail("calendars: %v", err)
	}
	return x
}

// amend changes what the calendar excludes, from now on.
func (w *world) amend() {
	w.t.Helper()
	name := CalendarName{Namespace: w.job.Name.Namespace, Name: "closed"}
	want := NewCalendar(name, "", w.randomExcludes())
	next, err := w.calendar.Amended(want, w.at())
	if err != nil {
		w.say("%v", err)
		return
	}
	w.rev++
	next.Revision = w.rev
	w.calendar = next
	w.judged = append(w.judged, next.Present())
	w.calendars.Replace(map[CalendarName]Calendar{name: next}, nil)
	w.say("the calendar is %+v", next.Present())
}

// randomExcludes draws a calendar under which something goes on happening in the first days of March 2026.
func (w *world) randomExcludes() cron.CalendarSpec {
	r := w.rng
	if r == nil {
		return cron.CalendarSpec{Dates: []string{"2000-01-01"}}
	}
	spec := cron.CalendarSpec{TimeZone: pick(r, "", "", "America/New_York"), Dates: []string{"2000-01-01"}}
	for range r.IntN(3) {
		from := r.IntN(24 * 60)
		spec.Hours = append(spec.Hours, hours(from, from+1+r.IntN(14*60)))
	}
	if r.IntN(3) == 0 {
		day := epoch.AddDate(0, 0, r.IntN(6))
		spec.Dates = append(spec.Dates, day.Format(pick(r, "2006-01-02", "01-02")))
	}
	if r.IntN(4) == 0 {
		spec.Weekdays = []string{pick(r, "mon", "tue", "sun")}
	}
	return spec
}

// hours is a part of the day from a minute to another, which may be of the next day.
func hours(from, to int) cron.Hours {
	clock := func(minute int) string { return fmt.Sprintf("%02d:%02d", minute/60%24, minute%60) }
	return cron.Hours{From: clock(from), To: clock(to)}
}

// excludes says, the slow way and from all that the calendar has ever said, whether an instant is excluded.
func (w *world) excludes(at time.Time) bool {
	if len(w.job.Schedule.Exclude) == 0 || len(w.judged) == 0 {
		return false
	}
	said := w.judged[0].Excludes
	for _, v := range w.judged {
		if v.Since.Before(at) {
			said = v.Excludes
		}
	}
	zone := said.TimeZone
	if zone == "" {
		zone = w.job.Schedule.TimeZone
	}
	return excludedSlowly(said, zone, at)
}

func excludedSlowly(spec cron.CalendarSpec, zone string, at time.Time) bool {
	location, err := cron.LoadZone(zone)
	if err != nil {
		panic(err)
	}
	wall := at.In(location)
	day, clock := wall.Format("2006-01-02"), wall.Format("15:04")
	return slices.Contains(spec.Weekdays, strings.ToLower(wall.Format("Mon"))) ||
		slices.ContainsFunc(spec.Dates, func(d string) bool { return strings.HasSuffix(day, d) }) ||
		slices.ContainsFunc(spec.Hours, func(h cron.Hours) bool {
			if h.From < h.To {
				return h.From <= clock && clock < h.To
			}
			return h.From <= clock || clock < h.To
		})
}
