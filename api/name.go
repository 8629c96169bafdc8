package api

import (
	"strings"

	"github.com/quorumcron/quorumcron/scheduler"
)

// What a request names becomes part of a key, so names are checked here, also where a wrong one could
// only be "not found": a slash in a name must never reach another job's keys.

// jobName reads the job that a request names.
func jobName(namespace, name string) (scheduler.JobName, []scheduler.FieldError) {
	return named("job", namespace, name)
}

// calendarName reads the calendar that a request names.
func calendarName(namespace, name string) (scheduler.CalendarName, []scheduler.FieldError) {
	n, errs := named("calendar", namespace, name)
	return scheduler.CalendarName(n), errs
}

func named(noun, namespace, name string) (scheduler.JobName, []scheduler.FieldError) {
	n, errs := namespaceOf(namespace)
	if n == "" {
		n = DefaultNamespace
	}
	if name == "" {
		errs = append(errs, scheduler.FieldError{Field: "name", Problem: "is missing", Remedy: "name the " + noun})
	} else if !properName(name) {
		errs = append(errs, badName("name", name))
	}
	return scheduler.JobName{Namespace: n, Name: name}, errs
}

// namespaceOf reads a namespace of which "" means all.
func namespaceOf(namespace string) (string, []scheduler.FieldError) {
	if namespace != "" && !properName(namespace) {
		return "", []scheduler.FieldError{badName("namespace", namespace)}
	}
	return namespace, nil
}

func badName(field, value string) scheduler.FieldError {
	return scheduler.FieldError{
		Field: field, Value: value,
		Problem: "must match [a-z0-9]([a-z0-9._-]*[a-z0-9])? and have at most 253 bytes",
	}
}

func properName(s string) bool {
	if s == "" || len(s) > scheduler.MaxNameBytes || !lowerAlphanumeric(rune(s[0])) || !lowerAlphanumeric(rune(s[len(s)-1])) {
		return false
	}
	return strings.IndexFunc(s, func(r rune) bool {
		return !lowerAlphanumeric(r) && r != '.' && r != '_' && r != '-'
	}) < 0
}

func lowerAlphanumeric(r rune) bool { return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' }

// Bounds of a firing's string. A chained trigger's id is the firing string of its parent, so a string
// has many uids, but an end.
const (
	uidLength = 26 // of a ULID
	maxFiring = 512
)

// firingOf reads the firing that a request names.
func firingOf(s string) (scheduler.Firing, []scheduler.FieldError) {
	wrong := func(problem string) (scheduler.Firing, []scheduler.FieldError) {
		return scheduler.Firing{}, []scheduler.FieldError{{
			Field: "firing", Value: s, Problem: problem,
			Remedy: "copy it from the list of runs: <uid>@<instant> or <uid>+<trigger id>",
		}}
	}
	if s == "" {
		return wrong("is missing")
	}
	f, err := scheduler.ParseFiring(s)
	switch {
	case err != nil, len(s) > maxFiring, len(f.UID) != uidLength,
		strings.IndexFunc(f.UID, func(r rune) bool { return !lowerAlphanumeric(r) }) >= 0,
		strings.IndexFunc(f.Trigger, func(r rune) bool { return r <= ' ' || r > '~' || r == '/' }) >= 0:
		return wrong("is not the string of a firing")
	}
	return f, nil
}

// invalid is nil for no errors.
func invalid(errs ...[]scheduler.FieldError) error {
	var all scheduler.FieldErrors
	for _, e := range errs {
		all = append(all, e...)
	}
	if len(all) == 0 {
		return nil
	}
	return all
}
