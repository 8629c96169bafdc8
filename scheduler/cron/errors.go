package cron

import (
	"fmt"
	"strings"
)

// The kinds of refusal. They are part of the interface: callers and their tests compare them.
const (
	KindSyntax      = "syntax"      // not of the form of an expression
	KindRange       = "range"       // a value outside its field, or a range that runs backwards
	KindStep        = "step"        // a step wider than its field, which would not repeat
	KindUnsupported = "unsupported" // another scheduler's extension, such as L, W, #, H or @reboot
	KindInlineZone  = "inline-tz"   // TZ= or CRON_TZ= inside the expression
	KindZone        = "tz"          // a time zone that is not an IANA name of the embedded database
	KindEvery       = "every"       // an interval that is not whole seconds, at least one
	KindDate        = "at"          // a date that is not a whole second of the years 1 to 9999
	KindNever       = "never"       // nothing would ever fire
	KindLimit       = "limit"       // more expressions or dates than one schedule may have
)

// FieldError is one thing that is wrong with a [Spec], in words for the person who wrote it.
type FieldError struct {
	Field   string // as in the job file: cron[0], every, at[2], timeZone, start, end
	Value   string // the smallest part of it that is wrong, shortened when it is long
	Kind    string // one of the Kind constants
	Problem string
	Remedy  string // the next thing to try
}

// Error is one line: field, value, problem and remedy.
func (e *FieldError) Error() string {
	return fmt.Sprintf("%s: %q: %s; %s", e.Field, e.Value, e.Problem, e.Remedy)
}

// Errors is everything that is wrong with a [Spec]. It is never empty when it is returned.
type Errors []*FieldError

// Error has a line for each error.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, one := range e {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives errors.As each FieldError in turn.
func (e Errors) Unwrap() []error {
	list := make([]error, len(e))
	for i, one := range e {
		list[i] = one
	}
	return list
}

// maxShown is how many bytes of a wrong value an error repeats: it is shown on terminals and kept in
// events, and the value may be anything.
const maxShown = 80

func shown(value string) string {
	if len(value) <= maxShown {
		return value
	}
	return strings.ToValidUTF8(value[:maxShown], "") + "…"
}
