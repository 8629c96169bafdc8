package scheduler

import (
	"time"
)

// JobName names a job; it is unique in the cluster.
type JobName struct {
	Namespace string // [a-z0-9]([a-z0-9._-]*[a-z0-9])?, at most 253 bytes
	Name      string // the same alphabet and limit
}

// String is "namespace/name", the form used in keys, logs and messages.
func (n JobName) String() string { return n.Namespace + "/" + n.Name }

// Job is the desired state of one job, or its tombstone. A Job is a value: what reads one must not
// change the maps and slices it shares.
type Job struct {
	Name JobName
	// UID is a ULID in lower case. A name that is deleted and applied again gets a new one.
	UID string
	// Generation counts the definitions this UID has had, from 1. Records name it.
	Generation int64
	// Revision is the etcd mod revision this value was read at: the edit token. It is not stored.
	Revision int64

	Labels   map[string]string
	Schedule Schedule
	Run      Executable
	Target   Target
	Policy   Policy
	// HistoryLimit is how many finished runs are kept, 1 to 100; default 10.
	HistoryLimit int
	Paused       bool

	// Created and Edited are when the first and the present definition were committed, by the wall
	// clock of the member that served the call.
	Created, Edited time.Time
	// Deleted is non-zero in a tombstone: nothing is granted any more, what is in flight is settled,
	// and an hour later tombstone, state and runs go.
	Deleted time.Time
}

// Tombstone says whether j is only the grave of a deleted job.
func (j Job) Tombstone() bool { return !j.Deleted.IsZero() }

// Schedule says at which instants a job is due. Several sources add up; an instant named twice is
// one instant.
type Schedule struct {
	Cron  []string      // 5 fields, 6 with seconds first, or @hourly and the like
	Every time.Duration // whole seconds, at least 1 s; 0 means none
	// Origin anchors Every: instants are Origin + k·Every. It is stored when Every is first set or
	// changes, so that a restart or another edit does not move the phase.
	Origin time.Time
	At     []time.Time // whole seconds
	// TimeZone is an IANA name for Cron; "" is UTC on every member.
	TimeZone string
	// Start and End bound the instants: Start ≤ instant < End. Zero means unbounded.
	Start, End time.Time
	// Jitter is the most a start is put off, spread by hash over the firings; it never passes the
	// next instant. At most 24 h.
	Jitter time.Duration
	// Exclude names calendars of the job's namespace, at most MaxExclude: an instant that one of them
	// excludes is SKIPPED(excluded by calendar). Triggers are not excluded.
	Exclude []string
}

// Executable says what an attempt runs: exactly one of its fields is set.
type Executable struct {
	Command *Command
	Handler *HandlerCall
}

// Command is a program started as a process of its own by the member's supervisor.
type Command struct {
	Args []string          // Args[0] is the program; at least one
	Env  map[string]string // added to the node's environment; names starting QUORUMCRON_ are refused
	Dir  string            // working directory; "" is a scratch directory of the node
	User string            // run-as user name; "" is the node's user
}

// HandlerCall names a Go function registered in the members that may run the job.
type HandlerCall struct {
	Name    string
	Payload string // handed to the handler as it is; at most 64 KiB
}

// Target says which members may run a job.
type Target struct {
	Selector map[string]string // labels a member must have; empty selects all
	Prefer   []string          // reserved: refused until preferred members are supported
	Mode     string            // "one"; "all" and "parts" are refused until supported
}

// Policy says what happens around a firing.
type Policy struct {
	Overlap       OverlapPolicy
	CatchUp       CatchUp
	OnLost        OnLost
	OnSessionLost OnSessionLost
	Retry         Retry
	// Timeout ends an attempt with TIMED_OUT; 0 means none.
	Timeout time.Duration
	// StartDeadline: no attempt, the first or a later one, is granted after due + StartDeadline;
	// 0 means none.
	StartDeadline time.Duration
}

// OverlapPolicy says what happens to a firing that falls due while one is in flight.
type OverlapPolicy string

// The overlap policies, with Temporal's names. Only skip is accepted so far; the others are refused
// at apply.
const (
	OverlapSkip OverlapPolicy = "skip"
)

// CatchUpMode says what is done about instants found late.
type CatchUpMode string

// The catch-up modes; "all" is refused until it is supported.
const (
	CatchUpLatest CatchUpMode = "latest" // run the newest one inside the window
	CatchUpNone   CatchUpMode = "none"   // run none
)

// CatchUp is the policy for the backlog.
type CatchUp struct {
	Mode   CatchUpMode
	Window time.Duration // how far back an instant may lie; default 24 h
	Max    int           // most instants drawn; default 100
}

// OnLost says what follows an attempt whose member died.
type OnLost string

// OnLost values.
const (
	OnLostFail  OnLost = "fail"  // the firing ends LOST (default)
	OnLostRetry OnLost = "retry" // a further attempt with a higher token, up to Retry.MaxAttempts
)

// OnSessionLost says what a member does with a running attempt when its lock session is lost.
type OnSessionLost string

// OnSessionLost values.
const (
	SessionLostKill   OnSessionLost = "kill"   // stop it before another member may start (default)
	SessionLostFinish OnSessionLost = "finish" // let it go on; gives up G6 for this job
)

// Retry bounds the attempts of one firing.
type Retry struct {
	MaxAttempts int // 1 to 100; default 1, or 3 with OnLostRetry
}
