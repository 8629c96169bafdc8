package scheduler

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorumcron/quorumcron/scheduler/cron"
)

// CalendarName names a calendar; it is unique in the cluster. Jobs name calendars of their own namespace.
type CalendarName struct {
	Namespace string // as in JobName
	Name      string
}

// String is "namespace/name".
func (n CalendarName) String() string { return n.Namespace + "/" + n.Name }

// Before says whether n comes before o: by namespace, then by name.
func (n CalendarName) Before(o CalendarName) bool { return JobName(n).Before(JobName(o)) }

// Calendar says at which times the jobs that name it are not to run. It is a value like Job.
type Calendar struct {
	Name CalendarName
	// Revision is the etcd mod revision this value was read at: the edit token. It is not stored.
	Revision    int64
	Description string
	// Versions are what it excludes and has excluded, oldest first; the last one is the present. An empty
	// time zone in them is that of the schedule that names the calendar.
	Versions []CalendarVersion
	// Created and Edited are as in Job.
	Created, Edited time.Time
	// Deleting says that it is being deleted: no job may be applied that names it. It stays in force until
	// it is gone, and applying it again keeps it.
	Deleting bool
}

// CalendarVersion is what a calendar excludes from a time on. An instant is judged by the version in force
// at it: the newest one whose Since is before it, and the oldest if there is none.
type CalendarVersion struct {
	Since    time.Time // whole seconds
	Excludes cron.CalendarSpec
}

// Limits of calendars. Every member holds all of them.
const (
	MaxCalendars           = 1000 // in a cluster
	MaxExclude             = 16   // calendars that a job names
	MaxCalendarDescription = 1024 // bytes
	MaxCalendarBytes       = 32 << 10
	// MaxCalendarVersions and MaxCalendarHistory (bytes, of all versions together) bound how often a calendar
	// can be changed within CalendarMemory.
	MaxCalendarVersions = 24
	MaxCalendarHistory  = 64 << 10
	// CalendarMemory is how long a version is kept after another has replaced it: instants that are decided
	// late, or together with later ones (ExcludedAfter), are judged by the version in force at them.
	CalendarMemory = 24 * time.Hour
)

// Present is what the calendar excludes from now on.
func (c Calendar) Present() CalendarVersion {
	if len(c.Versions) == 0 {
		return CalendarVersion{}
	}
	return c.Versions[len(c.Versions)-1]
}

// NewCalendar is a calendar that is wanted, as Validate and Amended take it.
func NewCalendar(name CalendarName, description string, excludes cron.CalendarSpec) Calendar {
	return Calendar{Name: name, Description: description, Versions: []CalendarVersion{{Excludes: excludes}}}
}

// Validate says everything that is wrong with what the calendar says at present, in the order of its file;
// nil if it may be stored.
func (c Calendar) Validate() []FieldError {
	var k checker
	k.name("name", c.Name.Name)
	k.name("namespace", c.Name.Namespace)
	if len(c.Description) > MaxCalendarDescription || !printable(c.Description) {
		k.wrong("description", c.Description, "is not a description",
			fmt.Sprintf("use at most %d bytes of printable text on one line", MaxCalendarDescription))
	}
	spec := c.Present().Excludes
	if _, err := cron.CompileCalendar(spec); err != nil {
		k.cronErrors("", err)
	}
	if size := sizeOf(spec); size > MaxCalendarBytes {
		k.wrong("dates", strconv.Itoa(size), fmt.Sprintf("has %d bytes, more than %d", size, MaxCalendarBytes), "use several calendars")
	}
	return k.found
}

// sizeOf is the text of a calendar, in bytes; its hours are few.
func sizeOf(spec cron.CalendarSpec) int {
	size := len(spec.TimeZone)
	for _, text := range slices.Concat(spec.Dates, spec.Weekdays) {
		size += len(text)
	}
	return size
}

// cronErrors takes in what package cron says, with the fields below a prefix.
func (c *checker) cronErrors(prefix string, err error) {
	var list cron.Errors
	if !errors.As(err, &list) {
		c.wrong(strings.TrimSuffix(prefix, "."), "", err.Error(), "")
	}
	for _, e := range list {
		c.wrong(strings.TrimSuffix(prefix+e.Field, "."), e.Value, e.Problem, e.Remedy)
	}
}

// exclude checks the calendars that a job names. Whether they exist is not for a definition to say.
func (c *checker) exclude(names []string) {
	if len(names) > MaxExclude {
		c.wrong("schedule.exclude", strconv.Itoa(len(names)), fmt.Sprintf("names more than %d calendars", MaxExclude), "join some of them")
		return
	}
	for i, name := range names {
		field := fmt.Sprintf("schedule.exclude[%d]", i)
		if slices.Contains(names[:i], name) {
			c.wrong(field, name, "stands twice", "leave one of them out")
		} else {
			c.name(field, name)
		}
	}
}

// SameCalendar says whether applying want over c changes nothing.
func (c Calendar) SameCalendar(want Calendar) bool {
	return !c.Deleting && c.Description == want.Description && sameExcludes(c.Present().Excludes, want.Present().Excludes)
}

func sameExcludes(a, b cron.CalendarSpec) bool {
	return a.TimeZone == b.TimeZone && slices.Equal(a.Dates, b.Dates) && slices.Equal(a.Weekdays, b.Weekdays) && slices.Equal(a.Hours, b.Hours)
}

// Amended is c made to say what want says: c is the zero Calendar when there is none. What changes acts on
// instants after at only, which is a trusted reading, and never before what is in force already; versions
// that no instant needs any more go. It is ErrExhausted if the calendar was changed too often for all that
// are still needed to be kept.
func (c Calendar) Amended(want Calendar, at time.Time) (Calendar, error) {
	since := wholeSecond(at)
	next := Calendar{Name: want.Name, Description: want.Description, Created: c.Created, Edited: at.UTC(), Versions: slices.Clone(c.Versions)}
	if next.Created.IsZero() {
		next.Created = next.Edited
	}
	old := c.Present()
	if old.Since.After(since) {
		since = old.Since
	}
	version := CalendarVersion{Since: since, Excludes: want.Present().Excludes}
	n := len(next.Versions)
	switch {
	case n > 0 && sameExcludes(old.Excludes, version.Excludes):
	case n > 1 && old.Since.Equal(since): // it was in force at no instant
		next.Versions[n-1] = version
	default:
		next.Versions = append(next.Versions, version)
	}
	for len(next.Versions) > 1 && !next.Versions[1].Since.After(at.Add(-CalendarMemory)) {
		next.Versions = next.Versions[1:]
	}
	history := 0
	for _, v := range next.Versions {
		history += sizeOf(v.Excludes)
	}
	if len(next.Versions) > MaxCalendarVersions || history > MaxCalendarHistory {
		return c, fmt.Errorf("%w: calendar %s has been changed %d times within %s, and instants of that time may still have to be judged; change it again after %s",
			ErrExhausted, c.Name, len(next.Versions)-2, CalendarMemory, next.Versions[1].Since.Add(CalendarMemory).Format(time.RFC3339))
	}
	return next, nil
}
