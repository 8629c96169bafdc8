package store

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/quorumcron/quorumcron/proto/quorumcron/stored/v1"
	"github.com/quorumcron/quorumcron/scheduler"
	"github.com/quorumcron/quorumcron/scheduler/cron"
)

func encodeCalendar(c scheduler.Calendar) *storedv1.Calendar {
	m := &storedv1.Calendar{
		Namespace:   c.Name.Namespace,
		Name:        c.Name.Name,
		Description: c.Description,
		Created:     encodeTime(c.Created),
		Edited:      encodeTime(c.Edited),
		Deleting:    c.Deleting,
	}
	for _, v := range c.Versions {
		version := &storedv1.CalendarVersion{
			Since: timestamppb.New(v.Since), TimeZone: v.Excludes.TimeZone, Dates: v.Excludes.Dates, Weekdays: v.Excludes.Weekdays,
		}
		for _, h := range v.Excludes.Hours {
			version.Hours = append(version.Hours, &storedv1.Hours{From: h.From, To: h.To})
		}
		m.Versions = append(m.Versions, version)
	}
	return m
}

// decodeCalendar reads a calendar found under the key of name. Its Revision is left to the caller.
func decodeCalendar(name scheduler.CalendarName, m *storedv1.Calendar) (scheduler.Calendar, error) {
	var d decoder
	if got := (scheduler.CalendarName{Namespace: m.GetNamespace(), Name: m.GetName()}); got != name {
		d.fail("the value names calendar %q", got)
	}
	if len(m.GetVersions()) == 0 {
		d.fail("no version")
	}
	c := scheduler.Calendar{
		Name:        name,
		Description: m.GetDescription(),
		Created:     d.time("created", m.GetCreated()),
		Edited:      d.time("edited", m.GetEdited()),
		Deleting:    m.GetDeleting(),
	}
	for i, v := range m.GetVersions() {
		version := scheduler.CalendarVersion{
			Since:    d.time("since", v.GetSince()),
			Excludes: cron.CalendarSpec{TimeZone: v.GetTimeZone(), Dates: v.GetDates(), Weekdays: v.GetWeekdays()},
		}
		for _, h := range v.GetHours() {
			version.Excludes.Hours = append(version.Excludes.Hours, cron.Hours{From: h.GetFrom(), To: h.GetTo()})
		}
		if _, err := cron.CompileCalendar(version.Excludes); err != nil { // by hand, or by a newer version
			d.fail("version %d: %w", i, err)
		}
		c.Versions = append(c.Versions, version)
	}
	return c, d.err
}
