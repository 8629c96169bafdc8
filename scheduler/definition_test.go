package scheduler

import (
	"slices"
	"testing"
	"time"
)

func fullJob() Job {
	return Job{
		Name: JobName{"ns", "a"}, UID: "u", Generation: 1, Revision: 9, Labels: map[string]string{"team": "x"},
		Schedule: Schedule{
			Cron: []string{"0 * * * *"}, Every: time.Minute, Origin: epoch, At: []time.Time{epoch},
			TimeZone: "Europe/Berlin", Start: epoch, End: epoch.AddDate(1, 0, 0), Jitter: time.Second,
		},
		Run:     Executable{Command: &Command{Args: []string{"a", "b"}, Env: map[string]string{"A": "b"}, Dir: "/", User: "u"}},
		Target:  Target{Selector: map[string]string{"zone": "eu"}},
		Created: epoch, Edited: epoch,
	}.WithDefaults()
}

// definitionChanges are changes of a definition, each of one field; books says that it closes the books.
var definitionChanges = []struct {
	name   string
	books  bool
	change func(*Job)
}{
	{"an expression", true, func(j *Job) { j.Schedule.Cron = []string{"1 * * * *"} }},
	{"another expression", true, func(j *Job) { j.Schedule.Cron = append(slices.Clone(j.Schedule.Cron), "1 * * * *") }},
	{"the interval", true, func(j *Job) { j.Schedule.Every = time.Hour }},
	{"the origin", true, func(j *Job) { j.Schedule.Origin = epoch.Add(1 * time.Second) }},
	{"a date", true, func(j *Job) { j.Schedule.At = []time.Time{epoch.Add(time.Second)} }},
	{"the zone", true, func(j *Job) { j.Schedule.TimeZone = "" }},
	{"the start", true, func(j *Job) { j.Schedule.Start = time.Time{} }},
	{"the end", true, func(j *Job) { j.Schedule.End = time.Time{} }},
	{"the jitter", true, func(j *Job) { j.Schedule.Jitter = 0 }},
	{"a pause", true, func(j *Job) { j.Paused = true }},
	{"a delete", true, func(j *Job) { j.Deleted = epoch }},
	{"a label", false, func(j *Job) { j.Labels = map[string]string{"team": "y"} }},
	{"an argument", false, func(j *Job) {
		j.Run.Command = &Command{Args: []string{"a"}, Env: map[string]string{"A": "b"}, Dir: "/", User: "u"}
	}},
	{"a variable", false, func(j *Job) { c := *j.Run.Command; c.Env = nil; j.Run.Command = &c }},
	{"the directory", false, func(j *Job) { c := *j.Run.Command; c.Dir = ""; j.Run.Command = &c }},
	{"the user", false, func(j *Job) { c := *j.Run.Command; c.User = ""; j.Run.Command = &c }},
	{"a handler instead", false, func(j *Job) { j.Run = Executable{Handler: &HandlerCall{Name: "h"}} }},
	{"the selector", false, func(j *Job) { j.Target.Selector = nil }},
	{"the time-out", false, func(j *Job) { j.Policy.Timeout = time.Second }},
	{"the start deadline", false, func(j *Job) { j.Policy.StartDeadline = time.Second }},
	{"the catch-up", false, func(j *Job) { j.Policy.CatchUp.Mode = CatchUpNone }},
	{"onLost", false, func(j *Job) { j.Policy.OnLost = OnLostRetry }},
	{"the history", false, func(j *Job) { j.HistoryLimit = 11 }},
	{"the name", false, func(j *Job) { j.Name.Name = "b" }},
}

func TestEveryChangeOfADefinitionIsOne(t *testing.T) {
	t.Parallel()
	for _, row := range definitionChanges {
		old, changed := fullJob(), fullJob()
		row.change(&changed)
		if old.SameDefinition(changed) || changed.SameDefinition(old) {
			t.Errorf("%s is no change of the definition", row.name)
		}
		if got := ClosesBooks(old, changed); got != row.books {
			t.Errorf("%s: ClosesBooks is %v", row.name, got)
		}
		if got := ClosesBooks(changed, old); got != row.books {
			t.Errorf("%s, taken back: ClosesBooks is %v", row.name, got)
		}
	}
}

func TestApplyingTheSameFileAgainChangesNothing(t *testing.T) {
	t.Parallel()
	stored := fullJob()
	file := fullJob()
	// What the cluster adds, and what a file leaves to the defaults.
	file.UID, file.Generation, file.Revision, file.Created, file.Edited = "", 0, 0, time.Time{}, time.Time{}
	file.Schedule.Origin = time.Time{}
	file.Policy, file.HistoryLimit, file.Target.Mode = Policy{}, 0, ""
	// The same dates in another zone; an empty map and none.
	file.Schedule.At = []time.Time{epoch.In(time.FixedZone("x", 3600))}
	stored.Run.Command.Env, file.Run.Command.Env = map[string]string{}, nil
	if !stored.SameDefinition(file) || !file.SameDefinition(stored) {
		t.Error("it is taken for a change")
	}
	if ClosesBooks(stored, file) {
		t.Error("it closes the books")
	}
	h := handlerJob()
	if !h.SameDefinition(handlerJob()) {
		t.Error("a handler job is not the same as itself")
	}
	other := handlerJob()
	other.Run.Handler.Payload = "x"
	if h.SameDefinition(other) {
		t.Error("another payload is no change")
	}
}

func TestTheOriginStaysWithItsInterval(t *testing.T) {
	t.Parallel()
	later := epoch.Add(90*time.Minute + 300*time.Millisecond)
	every := func(d time.Duration, origin time.Time) Job { return Job{Schedule: Schedule{Every: d, Origin: origin}} }
	for _, row := range []struct {
		name     string
		job, old Job
		want     time.Time
	}{
		{"a new job counts from now, in whole seconds", every(time.Minute, time.Time{}), Job{}, epoch.Add(90 * time.Minute)},
		{"an edit of something else keeps the phase", every(time.Minute, time.Time{}), every(time.Minute, epoch), epoch},
		{"another interval counts from now", every(time.Hour, time.Time{}), every(time.Minute, epoch), epoch.Add(90 * time.Minute)},
		{"a given origin is taken", every(time.Minute, epoch.Add(time.Second)), every(time.Minute, epoch), epoch.Add(time.Second)},
		{"without an interval there is none", every(0, epoch), every(time.Minute, epoch), time.Time{}},
		{"an interval that comes back counts anew", every(time.Minute, time.Time{}), every(0, time.Time{}), epoch.Add(90 * time.Minute)},
	} {
		if got := row.job.Anchored(row.old, later).Schedule.Origin; !got.Equal(row.want) {
			t.Errorf("%s: got %s, want %s", row.name, got, row.want)
		}
	}
}

func TestASpecHasAllOfTheSchedule(t *testing.T) {
	t.Parallel()
	s := fullJob().Schedule
	spec := s.Spec()
	if !slices.Equal(spec.Cron, s.Cron) || spec.Every != s.Every || !spec.Origin.Equal(s.Origin) || len(spec.At) != 1 ||
		spec.TimeZone != s.TimeZone || !spec.Start.Equal(s.Start) || !spec.End.Equal(s.End) {
		t.Errorf("got %+v of %+v", spec, s)
	}
}

func TestFiringsAreTheirStrings(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		f    Firing
		want string
	}{
		{At("01j", time.Date(2026, 12, 24, 18, 0, 0, 5, time.FixedZone("x", 0))), "01j@2026-12-24T18:00:00Z"},
		{Triggered("01j", "01k"), "01j+01k"},
		{Triggered("01j", "01k@2026-12-24T18:00:00Z"), "01j+01k@2026-12-24T18:00:00Z"}, // chained: the parent's firing
	} {
		if got := row.f.String(); got != row.want {
			t.Errorf("got %s, want %s", got, row.want)
		}
		if back, err := ParseFiring(row.want); err != nil || back != row.f {
			t.Errorf("%s reads as %+v, %v", row.want, back, err)
		}
	}
	for _, bad := range []string{"", "01j", "@", "01j@", "01j@noon", "01j@2026-12-24T18:00:00.5Z", "+x", "01j+"} {
		if f, err := ParseFiring(bad); err == nil {
			t.Errorf("%q reads as %+v", bad, f)
		}
	}
	if !Triggered("u", "a").Instant().IsZero() {
		t.Error("a triggered firing has an instant")
	}
}
