package scheduler

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/quorumcron/quorumcron/scheduler/cron"
)

// Exclusion is what the calendars of a job exclude, each instant by the version that was in force at it. It
// is immutable and safe for concurrent use. A nil Exclusion excludes nothing.
type Exclusion struct{ calendars [][]compiledVersion }

// compiledVersion is in force for instants after a Unix second, up to and with that of the next version.
type compiledVersion struct {
	after    int64
	calendar *cron.Calendar
}

// mostStretches bounds the search for the next instant that is not excluded: ten years of nights. What lies
// beyond counts as never, until the search begins later.
const mostStretches = 4000

// Excludes says whether the instant is excluded.
func (x *Exclusion) Excludes(at time.Time) bool {
	if x == nil {
		return false
	}
	excluded, _, _ := x.stretch(at.Unix())
	return excluded
}

// shut says whether the version in force at the instant, which is one that came after the calendar's first
// known one, excludes it: what was decided may be judged again, and by nothing but what held at it.
func (x *Exclusion) shut(at time.Time) bool {
	if x == nil {
		return false
	}
	return slices.ContainsFunc(x.calendars, func(versions []compiledVersion) bool {
		excluded, _, _ := stretchOf(versions, at.Unix())
		return excluded && versions[0].after < at.Unix()
	})
}

// Next is the first instant of the timetable after the given time that is not excluded; the zero Time means
// that there is none, or none before a bounded search ends.
func (x *Exclusion) Next(t *cron.Timetable, after time.Time) time.Time {
	return x.next(t, after, time.Time{})
}

// next is Next, but need not look beyond a time, if one is given. The search may go through years, which a
// member that plans thousands of jobs in one turn of its loop has no time for.
func (x *Exclusion) next(t *cron.Timetable, after, beyond time.Time) time.Time {
	if x == nil {
		return t.Next(after)
	}
	for range mostStretches {
		at := t.Next(after)
		if at.IsZero() {
			return at
		}
		excluded, _, until := x.stretch(at.Unix())
		if !excluded {
			return at
		}
		after = time.Unix(until-1, 0)
		if !beyond.IsZero() && after.After(beyond) {
			break
		}
	}
	return time.Time{}
}

// last is the newest instant in (after, through] that is not excluded, or zero.
func (x *Exclusion) last(t *cron.Timetable, after, through time.Time) time.Time {
	for {
		at := t.Last(after, through)
		if at.IsZero() || x == nil {
			return at
		}
		excluded, since, _ := x.stretch(at.Unix())
		if !excluded {
			return at
		}
		through = time.Unix(since-1, 0)
	}
}

// runs tells of the instants in (after, through], oldest first, as ranges that are excluded as a whole or
// not at all, until take says that it has enough. Two that follow each other may be alike.
func (x *Exclusion) runs(t *cron.Timetable, after, through time.Time, take func(r Range, excluded bool) (more bool)) {
	if x == nil {
		if r := between(t, after, through); r.Count > 0 {
			take(r, false)
		}
		return
	}
	for {
		first := t.Next(after)
		if first.IsZero() || first.After(through) {
			return
		}
		excluded, _, until := x.stretch(first.Unix())
		end := earlier(through, time.Unix(until-1, 0).UTC())
		if !take(between(t, after, end), excluded) {
			return
		}
		after = end
	}
}

// stretch is cron.Calendar.Stretch for all calendars and versions together.
func (x *Exclusion) stretch(second int64) (excluded bool, since, until int64) {
	since, until = math.MinInt64, math.MaxInt64
	for _, versions := range x.calendars {
		out, from, to := stretchOf(versions, second)
		switch {
		case out && !excluded:
			excluded, since, until = true, from, to
		case out: // excluded by one is excluded: what either of them excludes joins
			since, until = min(since, from), max(until, to)
		case !excluded:
			since, until = max(since, from), min(until, to)
		}
	}
	return excluded, since, until
}

func stretchOf(versions []compiledVersion, second int64) (excluded bool, since, until int64) {
	i := len(versions) - 1
	for i > 0 && versions[i].after >= second {
		i--
	}
	excluded, since, until = versions[i].calendar.Stretch(second)
	if i > 0 {
		since = max(since, versions[i].after+1)
	}
	if i+1 < len(versions) {
		until = min(until, versions[i+1].after+1)
	}
	return excluded, since, until
}

// Calendars are the calendars of a cluster as planning needs them: each version is compiled once for each
// zone that it is read in, and all jobs that name the same calendars in the same zone share one Exclusion.
// It is not safe for concurrent use.
type Calendars struct {
	known      map[CalendarName]Calendar
	unreadable map[CalendarName]error
	compiled   map[zonedVersion]*cron.Calendar
	exclusions map[string]*Exclusion
}

type zonedVersion struct {
	name  CalendarName
	since int64
	place int // of the version: two can have the same since
	zone  string
}

// NewCalendars has no calendars.
func NewCalendars() *Calendars {
	return &Calendars{compiled: map[zonedVersion]*cron.Calendar{}, exclusions: map[string]*Exclusion{}}
}

// Replace takes in all calendars of the cluster, and those that cannot be read, and says which are other
// ones than before.
func (c *Calendars) Replace(known map[CalendarName]Calendar, unreadable map[CalendarName]error) map[CalendarName]bool {
	changed := map[CalendarName]bool{}
	for name, now := range known {
		if old, ok := c.known[name]; !ok || old.Revision != now.Revision {
			changed[name] = true
		}
	}
	for name := range c.known {
		if _, ok := known[name]; !ok {
			changed[name] = true
		}
	}
	for name := range unreadable {
		changed[name] = changed[name] || c.unreadable[name] == nil
	}
	for name := range c.unreadable {
		changed[name] = changed[name] || unreadable[name] == nil
	}
	for name, is := range changed {
		if !is {
			delete(changed, name)
		}
	}
	c.known, c.unreadable = known, unreadable
	if len(changed) > 0 {
		for key := range c.compiled {
			if changed[key.name] {
				delete(c.compiled, key)
			}
		}
		clear(c.exclusions) // which of them are affected is not worth knowing
	}
	return changed
}

// Of is what the calendars that the job names exclude, nil if it names none. The error says which of them
// is not there or cannot be read: the job must not be planned then.
func (c *Calendars) Of(job Job) (*Exclusion, error) {
	names := job.Schedule.Exclude
	if len(names) == 0 {
		return nil, nil
	}
	key := job.Schedule.TimeZone + " " + job.Name.Namespace + "/" + strings.Join(names, "/")
	if x := c.exclusions[key]; x != nil {
		return x, nil
	}
	x := &Exclusion{}
	for _, name := range names {
		versions, err := c.versions(CalendarName{Namespace: job.Name.Namespace, Name: name}, job.Schedule.TimeZone)
		if err != nil {
			return nil, err
		}
		x.calendars = append(x.calendars, versions)
	}
	c.exclusions[key] = x
	return x, nil
}

func (c *Calendars) versions(name CalendarName, zone string) ([]compiledVersion, error) {
	calendar, ok := c.known[name]
	switch {
	case c.unreadable[name] != nil:
		return nil, fmt.Errorf("calendar %s cannot be read: %w", name, c.unreadable[name])
	case !ok:
		return nil, fmt.Errorf("calendar %s is not there", name)
	}
	versions := make([]compiledVersion, len(calendar.Versions))
	for i, v := range calendar.Versions {
		spec := v.Excludes
		if spec.TimeZone == "" {
			spec.TimeZone = zone
		}
		key := zonedVersion{name: name, since: v.Since.Unix(), place: i, zone: spec.TimeZone}
		compiled := c.compiled[key]
		if compiled == nil {
			var err error
			if compiled, err = cron.CompileCalendar(spec); err != nil { // stored by a newer version, or by hand
				return nil, fmt.Errorf("calendar %s: %w", name, err)
			}
			c.compiled[key] = compiled
		}
		versions[i] = compiledVersion{after: v.Since.Unix(), calendar: compiled}
	}
	if len(versions) == 0 {
		return nil, fmt.Errorf("calendar %s has no version", name)
	}
	return versions, nil
}

// NamesCalendar says whether one of the calendars is among those that the job names.
func (j Job) NamesCalendar(changed map[CalendarName]bool) bool {
	return slices.ContainsFunc(j.Schedule.Exclude, func(name string) bool {
		return changed[CalendarName{Namespace: j.Name.Namespace, Name: name}]
	})
}
