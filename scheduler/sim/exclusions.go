package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/quorumcron/quorumcron/scheduler"
	"github.com/quorumcron/quorumcron/scheduler/cron"
)

// Exclusion calendars: how scripts change them, how members hear of it, and what the oracle believes that they
// exclude. (The type calendar of this package is another thing: the oracle's own way to find instants.)

// calendarAction changes an exclusion calendar.
func (c Command) calendarAction() (action, error) {
	a, err := c.arguments(1, "by", "zone", "dates", "weekdays", "hours")
	if err != nil {
		return nil, err
	}
	list := func(key string) []string {
		return strings.FieldsFunc(a.named[key], func(r rune) bool { return r == ',' })
	}
	spec := cron.CalendarSpec{TimeZone: a.named["zone"], Dates: list("dates"), Weekdays: list("weekdays")}
	for _, text := range list("hours") {
		from, to, _ := strings.Cut(text, "-")
		spec.Hours = append(spec.Hours, cron.Hours{From: from, To: to})
	}
	want := scheduler.NewCalendar(calendarNamed(a.names[0]), "", spec)
	if problems := want.Validate(); len(problems) > 0 {
		return nil, scheduler.FieldErrors(problems)
	}
	return func(w *world) error {
		w.amend(want, a.named["by"])
		return nil
	}, nil
}

func calendarNamed(name string) scheduler.CalendarName {
	return scheduler.CalendarName{Namespace: "default", Name: name}
}

// amend has a member serve a change of a calendar: read, plan, commit, and again if the rules have moved.
func (w *world) amend(want scheduler.Calendar, by string) {
	m := w.server(by)
	if m == nil {
		w.tell("user", "calendar %s: nobody answers", want.Name.Name)
		return
	}
	w.tryAmend(m, want, 1)
}

func (w *world) tryAmend(m *member, want scheduler.Calendar, tries int) {
	name, read, now := want.Name, w.etcd.rules, m.reading()
	next, err := read.calendars[name].Amended(want, (&change{by: m, now: now}).instant())
	if err != nil {
		w.tell("user", "calendar %s: %v", name.Name, err)
		return
	}
	w.after(w.lagOf(m, nil), func() {
		switch {
		case w.etcd.down:
			w.tell("user", "calendar %s: etcd does not answer", name.Name)
		case read.rev != w.etcd.rules.rev && tries < mostTries:
			w.tryAmend(m, want, tries+1)
		case read.rev != w.etcd.rules.rev:
			w.tell("user", "calendar %s: conflict, the rules changed %d times", name.Name, tries)
		default:
			w.etcd.putCalendar(next)
			w.tell("user", "calendar %s: holds after %s", name.Name, w.trace.clock(next.Present().Since))
			w.count("calendar")
		}
	})
}

// putCalendar replaces a calendar, and moves the rules, in one transaction.
func (e *etcd) putCalendar(next scheduler.Calendar) {
	e.rev++
	next.Revision = e.rev
	all := maps.Clone(e.rules.calendars)
	if all == nil {
		all = map[scheduler.CalendarName]scheduler.Calendar{}
	}
	all[next.Name] = next
	e.rules.rev, e.rules.calendars = e.rev, all
	e.world.oracle.said[next.Name] = append(e.world.oracle.said[next.Name], next.Present())
	r := e.rules
	for _, m := range e.world.members {
		m.watch(nil, func() { m.takeRules(r) })
	}
}

// takeCalendars takes in the calendars of the rules and plans again the jobs that another one matters to.
func (m *member) takeCalendars() {
	if m.calendars == nil {
		m.calendars = scheduler.NewCalendars()
	}
	changed := m.calendars.Replace(m.rules.calendars, nil)
	for _, t := range m.jobs {
		if t != nil && t.def != nil && len(changed) > 0 && t.def.NamesCalendar(changed) {
			m.soon(t)
		}
	}
}

// excluded is what the calendars of a job exclude, as somebody sees it who has read these.
func excluded(def *scheduler.Job, all map[scheduler.CalendarName]scheduler.Calendar) *scheduler.Exclusion {
	c := scheduler.NewCalendars()
	c.Replace(all, nil)
	x, err := c.Of(*def)
	if err != nil {
		panic(fmt.Sprintf("%s was stored without its calendar: %v", def.Name, err))
	}
	return x
}

// calendarsMoved says whether a calendar that the job names is another one than in what was read.
func (e *etcd) calendarsMoved(def *scheduler.Job, read map[scheduler.CalendarName]scheduler.Calendar) bool {
	return slices.ContainsFunc(def.Schedule.Exclude, func(name string) bool {
		n := calendarNamed(name)
		return e.rules.calendars[n].Revision != read[n].Revision
	})
}

// out says, the slow way and from everything that was ever said, whether an instant of a job is excluded.
func (o *oracle) out(a *account, at int64) bool {
	return slices.ContainsFunc(a.schedule.Exclude, func(name string) bool {
		said := o.said[calendarNamed(name)]
		spec := said[0].Excludes
		for _, v := range said {
			if v.Since.Unix() < at {
				spec = v.Excludes
			}
		}
		return outSlowly(spec, a.schedule.TimeZone, at)
	})
}

// outSlowly compares the wall clock with what a calendar says.
func outSlowly(spec cron.CalendarSpec, zone string, at int64) bool {
	if spec.TimeZone != "" {
		zone = spec.TimeZone
	}
	location, err := cron.LoadZone(zone)
	if err != nil {
		panic("the oracle has no zone " + zone)
	}
	wall := time.Unix(at, 0).In(location)
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

// countOut counts the excluded instants in (after, through], one by one.
func (o *oracle) countOut(a *account, after, through int64) (n int64) {
	if a.calendar == nil || len(a.schedule.Exclude) == 0 {
		return 0
	}
	for at := a.calendar.next(after); at != 0 && at <= through; at = a.calendar.next(at) {
		if o.out(a, at) {
			n++
		}
	}
	return n
}

// nextOpen is the first instant in (after, through] that is not excluded, or 0.
func (o *oracle) nextOpen(a *account, after, through int64) int64 {
	at := a.calendar.next(after)
	for at != 0 && at <= through && o.out(a, at) {
		at = a.calendar.next(at)
	}
	if at > through {
		return 0
	}
	return at
}

// exclusions compares what a write counts as excluded with what the calendars exclude of it.
func (o *oracle) exclusions(a *account, before, next *scheduler.State, why string) {
	var counted int64
	for _, d := range differences(before.Counters, next.Counters) {
		if d.Verdict == scheduler.Skipped && d.Reason == scheduler.ReasonExcluded {
			counted += d.Count
		}
	}
	want := o.countOut(a, before.Cursor.Unix(), next.Cursor.Unix())
	if a.rec.def.Paused {
		want = 0
	}
	if b := before.Backlog; b != nil && next.Backlog == nil && counted == want+1 && o.out(a, b.Last.Unix()) {
		return // a change reached back beyond it, by a clock that is behind
	}
	o.world.countBy("excluded", int(counted))
	if counted != want {
		o.broken(a, "calendar", "%s counts %d instants as excluded, %d are, by %s", a.rec.job.name.Name, counted, want, why)
	}
}
