package scheduler

import (
	"maps"
	"slices"
	"time"

	"github.com/quorumcron/quorumcron/scheduler/cron"
)

// Defaults of a definition, as in the job file.
const (
	defaultNamespace    = "default"
	defaultHistoryLimit = 10
	defaultWindow       = 24 * time.Hour
	defaultMax          = 100
	defaultLostAttempts = 3 // with OnLostRetry
	modeOne             = "one"
)

// WithDefaults is j with every field that was left out filled in, so that a stored definition says all
// that holds for it. A value that is wrong stays as it is, for Validate to name.
func (j Job) WithDefaults() Job {
	set(&j.Name.Namespace, defaultNamespace)
	set(&j.HistoryLimit, defaultHistoryLimit)
	set(&j.Target.Mode, modeOne)
	p := &j.Policy
	set(&p.Overlap, OverlapSkip)
	set(&p.CatchUp.Mode, CatchUpLatest)
	set(&p.CatchUp.Window, defaultWindow)
	set(&p.CatchUp.Max, defaultMax)
	set(&p.OnLost, OnLostFail)
	set(&p.OnSessionLost, SessionLostKill)
	set(&p.Retry.MaxAttempts, maxAttempts(j))
	return j
}

// set gives a field that was left out its value.
func set[T comparable](field *T, value T) {
	var none T
	if *field == none {
		*field = value
	}
}

// Anchored is j with the origin of its interval set: the one given, else the old definition's while
// the interval is the same, else now. A restart or another edit therefore never moves the phase. Pass
// the zero Job as old when there is none.
func (j Job) Anchored(old Job, now time.Time) Job {
	s := &j.Schedule
	switch {
	case s.Every == 0:
		s.Origin = time.Time{}
	case !s.Origin.IsZero():
	case s.Every == old.Schedule.Every && !old.Schedule.Origin.IsZero():
		s.Origin = old.Schedule.Origin
	default:
		s.Origin = wholeSecond(now)
	}
	return j
}

// SameDefinition says whether both say the same about the job, so that applying one over the other
// changes nothing. What the cluster adds (uid, generation, revision, dates) does not count, fields
// left out count as their defaults, and an origin that one of them leaves open is the other's.
func (j Job) SameDefinition(o Job) bool {
	j, o = j.WithDefaults(), o.WithDefaults()
	return j.Name == o.Name && j.Tombstone() == o.Tombstone() && j.Paused == o.Paused &&
		j.HistoryLimit == o.HistoryLimit && j.Policy == o.Policy &&
		maps.Equal(j.Labels, o.Labels) && j.Schedule.same(o.Schedule) && j.Run.same(o.Run) && j.Target.same(o.Target)
}

// ClosesBooks says whether the step from old to new is one that closes the books of what is due:
// the schedule, its zone, calendars, bounds or jitter change, or the job is paused, resumed or deleted. Other
// edits keep the cursor, and instants already due run under the new definition.
func ClosesBooks(old, new Job) bool {
	return old.Paused != new.Paused || old.Tombstone() != new.Tombstone() || !old.Schedule.same(new.Schedule)
}

// Spec is what the schedule asks package cron to compile.
func (s Schedule) Spec() cron.Spec {
	return cron.Spec{Cron: s.Cron, Every: s.Every, Origin: s.Origin, At: s.At, TimeZone: s.TimeZone, Start: s.Start, End: s.End}
}

func (s Schedule) same(o Schedule) bool {
	origin := s.Every == 0 || s.Origin.IsZero() || o.Origin.IsZero() || s.Origin.Equal(o.Origin)
	return slices.Equal(s.Cron, o.Cron) && s.Every == o.Every && origin && s.TimeZone == o.TimeZone && s.Jitter == o.Jitter &&
		sameNames(s.Exclude, o.Exclude) &&
		slices.EqualFunc(s.At, o.At, time.Time.Equal) && s.Start.Equal(o.Start) && s.End.Equal(o.End)
}

// sameNames says whether both name the same calendars; their order has no meaning.
func sameNames(a, b []string) bool {
	return slices.Equal(a, b) || slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

func (e Executable) same(o Executable) bool {
	if (e.Command == nil) != (o.Command == nil) || (e.Handler == nil) != (o.Handler == nil) {
		return false
	}
	if a, b := e.Command, o.Command; a != nil &&
		(!slices.Equal(a.Args, b.Args) || !maps.Equal(a.Env, b.Env) || a.Dir != b.Dir || a.User != b.User) {
		return false
	}
	return e.Handler == nil || *e.Handler == *o.Handler
}

func (t Target) same(o Target) bool {
	return maps.Equal(t.Selector, o.Selector) && slices.Equal(t.Prefer, o.Prefer) && t.Mode == o.Mode
}
