package scheduler

import (
	"errors"
	"fmt"
	"strings"
)

// What a caller can act on. Whatever a member's operations return wraps one of these, or it is a
// fault of the program; package api maps each to one gRPC code, in one table. The text around them
// names the job or key, the cause and the next thing to try.
var (
	// ErrNotFound: no such job, firing, output or member.
	ErrNotFound = errors.New("not found")
	// ErrConflict: the edit token is out of date, the request id has served other parameters, or the
	// name's tombstone still has an attempt in flight. Read again, then decide.
	ErrConflict = errors.New("conflict")
	// ErrUnknown: the request may or may not have been committed. Repeating it with the same request
	// id or edit token is safe.
	ErrUnknown = errors.New("outcome unknown")
	// ErrInvalid: the request can never succeed as it is. A FieldErrors value is one.
	ErrInvalid = errors.New("invalid")
	// ErrUnavailable: not now (etcd away, no quorum, no session yet); nothing was written.
	ErrUnavailable = errors.New("unavailable")
	// ErrPaused: the job is paused, and what was asked needs one that is not.
	ErrPaused = errors.New("paused")
	// ErrEnded: the firing has ended, so that there is nothing left to cancel.
	ErrEnded = errors.New("already ended")
	// ErrNoRoom: etcd's database is nearly full, and what was asked would add to it for good.
	ErrNoRoom = errors.New("no room")
	// ErrExhausted: a limit of the cluster or of etcd's requests is used up.
	ErrExhausted = errors.New("limit reached")
)

// FieldError is one thing wrong with one field of what was handed in.
type FieldError struct {
	Field   string // its path as in the job file, camelCase: "schedule.cron[0]"
	Value   string // what was given, as text; "" when it is missing
	Problem string // what is wrong with it
	Remedy  string // what to write instead; "" when the problem says it
}

// Error is "field: problem (remedy)", one line.
func (e FieldError) Error() string {
	if e.Remedy == "" {
		return fmt.Sprintf("%s: %s", e.Field, e.Problem)
	}
	return fmt.Sprintf("%s: %s (%s)", e.Field, e.Problem, e.Remedy)
}

// FieldErrors is everything that is wrong with a request, all at once. It is an ErrInvalid.
type FieldErrors []FieldError

// Error joins them with "; ".
func (e FieldErrors) Error() string {
	lines := make([]string, len(e))
	for i, field := range e {
		lines[i] = field.Error()
	}
	return strings.Join(lines, "; ")
}

// Unwrap makes errors.Is(err, ErrInvalid) true.
func (e FieldErrors) Unwrap() error { return ErrInvalid }
