package api

import (
	"context"
	"io"
	"time"

	quorumcronv1 "github.com/quorumcron/quorumcron/proto/quorumcron/v1"
	"github.com/quorumcron/quorumcron/scheduler"
)

// The interfaces below are what the server needs of the member it belongs to. All methods are safe
// for concurrent use, return when the context ends, and return errors that wrap a sentinel of package
// scheduler: ErrNotFound, ErrConflict, ErrInvalid (as FieldErrors), ErrUnavailable, ErrUnknown and so
// on. A write that returns nil is committed.

// Editor changes jobs. A revision of 0 means "whatever is there"; any other that is out of date is an
// ErrConflict that names the present one.
type Editor interface {
	// Apply stores a definition: its own fields only, without uid, generation and the like. The server
	// has not validated it beyond what translation needs.
	Apply(ctx context.Context, job scheduler.Job, expectedRevision int64) (scheduler.Edit, error)
	Delete(ctx context.Context, job scheduler.JobName, expectedRevision int64) (scheduler.Edit, error)
	Pause(ctx context.Context, job scheduler.JobName, expectedRevision int64) (scheduler.Edit, error)
	Resume(ctx context.Context, job scheduler.JobName, expectedRevision int64) (scheduler.Edit, error)
}

// Catalog reads jobs.
type Catalog interface {
	// Job reads one job with everything in JobView. A tombstone is ErrNotFound.
	Job(ctx context.Context, job scheduler.JobName) (scheduler.JobView, error)
	// Jobs reads the next at most q.Limit jobs; fewer means that there are no more.
	Jobs(ctx context.Context, q scheduler.JobQuery) ([]scheduler.JobView, error)
	// Next computes at most n instants after the given one; a zero time means now.
	Next(ctx context.Context, job scheduler.JobName, after time.Time, n int) ([]time.Time, error)
}

// Starter starts and stops firings.
type Starter interface {
	Trigger(ctx context.Context, t scheduler.TriggerRequest) (scheduler.TriggerReceipt, error)
	// Cancel returns the member that was told to stop the firing, "" when it only waited and is taken
	// out. ErrEnded when it has ended.
	Cancel(ctx context.Context, f scheduler.Firing) (member string, err error)
}

// Records reads runs, those in flight included.
type Records interface {
	// RunByFiring reads one run. While it runs its last attempt has no verdict.
	RunByFiring(ctx context.Context, f scheduler.Firing) (scheduler.Run, error)
	// Runs reads the next at most q.Limit runs; fewer means that there are no more.
	Runs(ctx context.Context, q scheduler.RunQuery) ([]scheduler.Run, error)
	// Output opens the whole output of an attempt that ran on this member; ErrNotFound when its file is
	// not here (any more).
	Output(ctx context.Context, f scheduler.Firing, attempt int) (io.ReadCloser, error)
	// WatchRuns calls deliver, from one goroutine, for every attempt that starts or ends on this member,
	// until ctx ends or deliver fails, and returns why. Slow delivery costs events, never the member.
	WatchRuns(ctx context.Context, deliver func(scheduler.RunEvent) error) error
}

// Cluster shows the cluster and drains this member.
type Cluster interface {
	// Status answers also while etcd is away, with what is known and why it is not ready.
	Status(ctx context.Context) (scheduler.ClusterStatus, error)
	Members(ctx context.Context) ([]scheduler.MemberView, error)
	// Drain publishes the wish; already says that it was published before.
	Drain(ctx context.Context) (already bool, err error)
}

// Vitals says how this member is. Both answer from memory at once.
type Vitals interface {
	// Ready says whether the member serves, with every check.
	Ready() scheduler.Readiness
	// Alive is nil while the member's loop turns; its error is what a watchdog acts on.
	Alive() error
}

// Calendars edits and reads calendars. Revisions are as in Editor.
type Calendars interface {
	// ApplyCalendar stores what the present version says, with name and description.
	ApplyCalendar(ctx context.Context, c scheduler.Calendar, expectedRevision int64) (scheduler.CalendarEdit, error)
	// DeleteCalendar is an ErrConflict that names some jobs while the calendar is in use.
	DeleteCalendar(ctx context.Context, name scheduler.CalendarName, expectedRevision int64) error
	Calendar(ctx context.Context, name scheduler.CalendarName) (scheduler.Calendar, error)
	// Calendars reads the next at most q.Limit calendars; fewer means that there are no more.
	Calendars(ctx context.Context, q scheduler.CalendarQuery) ([]scheduler.Calendar, error)
}

// Jobs is all about jobs.
type Jobs interface {
	Editor
	Catalog
}

// Runs is all about runs.
type Runs interface {
	Starter
	Records
}

// Node is all that the server needs of its member, when one value has it all, as package node's does.
type Node interface {
	Jobs
	Calendars
	Runs
	Cluster
	Vitals
}

// Forwarder asks another member for the output of an attempt that ran there. Package peer has one.
type Forwarder interface {
	// Logs calls deliver for each piece. It fails with ErrUnavailable when the member does not answer.
	Logs(ctx context.Context, address string, r *quorumcronv1.RunServiceLogsRequest,
		deliver func(*quorumcronv1.RunServiceLogsResponse) error) error
}
