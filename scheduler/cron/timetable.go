package cron

import (
	"fmt"
	"slices"
	"time"
)

// Spec says at which instants something is due. Its sources add up; an instant named twice is one.
type Spec struct {
	Cron  []string      // expressions of the wall clock in TimeZone; at most 32
	Every time.Duration // whole seconds, at least 1 s; 0 means none
	// Origin is the phase of Every: its instants are Origin + k·Every for k = 1, 2, 3 and so on. A
	// fraction of a second is cut off. Zero means 1970-01-01T00:00:00Z.
	Origin time.Time
	At     []time.Time // whole seconds; at most 1,000
	// TimeZone is an IANA name; "" is UTC.
	TimeZone string
	// Start and End bound the instants of all sources: Start ≤ instant < End. Zero means unbounded.
	Start, End time.Time
}

const (
	maxExpressions = 32
	maxDates       = 1000

	// firstInstant and lastInstant are 0001-01-01T00:00:01Z, one after the zero Time, and
	// 9999-12-31T23:59:59Z: what a Timestamp of protobuf and RFC 3339 can say.
	firstInstant = -62135596799
	lastInstant  = 253402300799
)

// SpecOf makes the Spec of a single expression: of five or six fields, a name such as @daily, or
// "@every 15m" from anchor on. It is for the command line; job files have fields of their own. Only
// a refused interval is an error here, the rest is for [Compile] to find.
func SpecOf(expr, zone string, anchor time.Time) (Spec, error) {
	text, ok := interval(expr)
	if !ok {
		return Spec{Cron: []string{expr}, TimeZone: zone}, nil
	}
	every, err := time.ParseDuration(text)
	if err == nil && every != 0 {
		return Spec{Every: every, Origin: anchor, TimeZone: zone}, nil
	}
	var errs Errors
	if _, wrong := openZone(zone); wrong != nil {
		errs = append(errs, wrong)
	}
	problem := "it is not a duration"
	if err == nil {
		problem = "an interval is at least 1s" // in a Spec, 0 would mean none
	}
	return Spec{}, append(errs, &FieldError{Field: "every", Value: shown(text), Kind: KindEvery, Problem: problem, Remedy: everyRemedy})
}

const everyRemedy = "write whole seconds, at least one and under 292 years, such as 90s, 15m or 1h30m"

// Timetable is a compiled [Spec]. It is immutable and safe for concurrent use. A nil Timetable names
// no instant.
type Timetable struct {
	zone        *zone
	expressions []*expression
	every       int64 // seconds; 0 means none
	origin      int64
	dates       []int64 // sorted, each once
	first, last int64   // the bounds, both included
}

// Compile checks spec and makes it a Timetable. The error is an [Errors] with everything that is
// wrong. A spec that names no instant at all is an error.
func Compile(spec Spec) (*Timetable, error) {
	t := &Timetable{first: firstInstant, last: lastInstant}
	var errs Errors
	z, wrong := openZone(spec.TimeZone)
	if wrong != nil {
		errs = append(errs, wrong)
	}
	t.zone = z
	errs = append(errs, t.addExpressions(spec.Cron)...)
	errs = append(errs, t.addEvery(spec.Every, spec.Origin)...)
	errs = append(errs, t.addDates(spec.At)...)
	if !spec.Start.IsZero() {
		t.first = max(t.first, ceil(spec.Start))
	}
	if !spec.End.IsZero() {
		t.last = min(t.last, ceil(spec.End)-1)
	}
	if errs == nil {
		errs = t.never(spec)
	}
	if errs != nil {
		return nil, errs
	}
	return t, nil
}

func (t *Timetable) addExpressions(list []string) (errs Errors) {
	if len(list) > maxExpressions {
		return Errors{{Field: "cron", Value: fmt.Sprint(len(list)), Kind: KindLimit,
			Problem: fmt.Sprintf("a schedule has at most %d expressions", maxExpressions), Remedy: "use lists and ranges, or several jobs"}}
	}
	for i, text := range list {
		e, wrong := parse(text)
		for _, one := range wrong {
			one.Field = fmt.Sprintf("cron[%d]", i)
			errs = append(errs, one)
		}
		t.expressions = append(t.expressions, e)
	}
	return errs
}

func (t *Timetable) addEvery(every time.Duration, origin time.Time) Errors {
	refuse := func(problem string) Errors {
		return Errors{{Field: "every", Value: every.String(), Kind: KindEvery, Problem: problem, Remedy: everyRemedy}}
	}
	switch {
	case every == 0:
		return nil
	case every < 0:
		return refuse("an interval cannot be negative")
	case every < time.Second:
		return refuse("an interval is at least 1s")
	case every%time.Second != 0:
		return refuse("an interval is whole seconds")
	}
	t.every = int64(every / time.Second)
	if !origin.IsZero() {
		t.origin = origin.Unix()
	}
	if t.origin < firstInstant || t.origin > lastInstant {
		return refuse("its origin is not in the years 1 to 9999")
	}
	return nil
}

func (t *Timetable) addDates(list []time.Time) (errs Errors) {
	if len(list) > maxDates {
		return Errors{{Field: "at", Value: fmt.Sprint(len(list)), Kind: KindLimit,
			Problem: fmt.Sprintf("a schedule has at most %d dates", maxDates), Remedy: "use cron or every, or several jobs"}}
	}
	for i, at := range list {
		problem := ""
		if at.Nanosecond() != 0 {
			problem = "it is not a whole second"
		} else if s := at.Unix(); s < firstInstant || s > lastInstant {
			problem = "it is not in the years 1 to 9999"
		}
		if problem != "" {
			errs = append(errs, &FieldError{Field: fmt.Sprintf("at[%d]", i), Value: at.Format(time.RFC3339Nano), Kind: KindDate,
				Problem: problem, Remedy: "write a date such as 2026-12-24T18:00:00Z"})
		}
		t.dates = append(t.dates, at.Unix())
	}
	slices.Sort(t.dates)
	t.dates = slices.Compact(t.dates)
	return errs
}

// never tells when nothing of a spec without errors can fire. That an interval's origin comes too late for its end is
// no mistake in the definition, which has none: it is given to a job that is stored, when its end may be near or past.
// Such a schedule is one that has ended.
func (t *Timetable) never(spec Spec) Errors {
	switch {
	case len(t.expressions) == 0 && t.every == 0 && len(t.dates) == 0:
		return Errors{{Field: "cron", Kind: KindNever, Problem: "the schedule is empty", Remedy: "give it cron, every or at"}}
	case !t.Next(time.Time{}).IsZero(), t.every != 0 && !spec.Origin.IsZero():
		return nil
	case spec.End.IsZero():
		return Errors{{Field: "start", Value: spec.Start.Format(time.RFC3339Nano), Kind: KindNever,
			Problem: "nothing fires at or after it", Remedy: "move it back"}}
	}
	return Errors{{Field: "end", Value: spec.End.Format(time.RFC3339Nano), Kind: KindNever,
		Problem: "nothing fires before it", Remedy: "move it on, or start back: an instant must be at or after start and before end"}}
}

// Next returns the first instant strictly after the given time, in UTC; the zero Time means never.
func (t *Timetable) Next(after time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	from := max(after.Unix(), t.first-1)
	if from >= t.last {
		return time.Time{}
	}
	next := int64(forever)
	for _, e := range t.expressions {
		if n := e.next(t.zone, from); n != none {
			next = min(next, n)
		}
	}
	if t.every != 0 {
		next = min(next, t.origin+t.every*(max(0, floorDiv(from-t.origin, t.every))+1))
	}
	if i, _ := slices.BinarySearch(t.dates, from+1); i < len(t.dates) {
		next = min(next, t.dates[i])
	}
	if next > t.last {
		return time.Time{}
	}
	return time.Unix(next, 0).UTC()
}

// Last returns the newest instant in (after, through], in UTC; the zero Time means there is none.
func (t *Timetable) Last(after, through time.Time) time.Time {
	from, to, ok := t.within(after, through)
	if !ok {
		return time.Time{}
	}
	newest := int64(none)
	for _, e := range t.expressions {
		newest = max(newest, e.last(t.zone, max(from-1, newest), to))
	}
	if t.every != 0 && to-t.origin >= t.every {
		newest = max(newest, t.origin+t.every*((to-t.origin)/t.every))
	}
	if i, _ := slices.BinarySearch(t.dates, to+1); i > 0 {
		newest = max(newest, t.dates[i-1])
	}
	if newest < from {
		return time.Time{}
	}
	return time.Unix(newest, 0).UTC()
}

// within returns the whole seconds of (after, through] inside the bounds of t: from ≤ instant ≤ to.
func (t *Timetable) within(after, through time.Time) (from, to int64, ok bool) {
	if t == nil {
		return 0, 0, false
	}
	from = max(after.Unix(), t.first-1)
	to = min(through.Unix(), t.last)
	if from >= to { // before adding 1: a time.Time may lie at the end of int64
		return 0, 0, false
	}
	return from + 1, to, true
}

// ceil is the first whole second at or after t.
func ceil(t time.Time) int64 {
	if t.Nanosecond() > 0 {
		return t.Unix() + 1
	}
	return t.Unix()
}
