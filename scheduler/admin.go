package scheduler

import (
	"cmp"
	"strings"
	"time"
)

// The values in which people ask a cluster and are answered. A member's operations take and give
// these; package api translates them.

// Edit is a committed change of a job.
type Edit struct {
	Job    Job // as stored, defaults filled in
	Change Change
	// Warnings are for the caller, though the change is committed: the job's pool has no member.
	Warnings []string
	// Running is how many attempts were in flight; they go on as they were granted.
	Running int
	// Next is the next instant, zero when there is none; only an apply and a resume fill it in.
	Next time.Time
}

// Change says what an edit did.
type Change string

// What an edit did; Unchanged wrote nothing.
const (
	Created   Change = "created"
	Changed   Change = "changed"
	Unchanged Change = "unchanged"
)

// CalendarEdit is a committed change of a calendar.
type CalendarEdit struct {
	Calendar Calendar // as stored
	Change   Change
	Warnings []string // as in Edit
}

// CalendarQuery asks for calendars, ordered by namespace and then name.
type CalendarQuery struct {
	Namespace string       // "" means all
	After     CalendarName // answer only calendars after this one
	Limit     int          // the most to answer, at least 1
}

// JobView is a job with what is known of it.
type JobView struct {
	Job Job
	// State is nil when it was not read, or could not be.
	State *State
	Next  []time.Time // the next instants, without jitter
	// Running has a record so far of each entry and pending retry, oldest grant first. Lists leave it out.
	Running []Run
	Owner   string // the member that owns its shard in its pool; "" none
	Pool    string // the pool's id
	Problem string // why the job is put aside; "" when it is not
}

// JobQuery asks for jobs, tombstones left out, ordered by namespace and then name.
type JobQuery struct {
	Namespace string  // "" means all
	After     JobName // answer only jobs after this one; the zero value starts at the beginning
	Limit     int     // the most to answer, at least 1
}

// Before says whether n comes before o: by namespace, then by name.
func (n JobName) Before(o JobName) bool {
	if n.Namespace != o.Namespace {
		return n.Namespace < o.Namespace
	}
	return n.Name < o.Name
}

// RunQuery asks for runs, running ones included, in the order of NewestFirst.
type RunQuery struct {
	Namespace string    // "" means all
	Job       string    // only this job; "" means all. Needs Namespace
	After     *RunPlace // answer only runs after this place; nil starts at the newest
	Limit     int       // the most to answer, at least 1
}

// RunPlace is a place in the order of runs. It stays the same for as long as the run is kept.
type RunPlace struct {
	Granted time.Time // of its first attempt
	Firing  string
}

// Place is where r stands in the order of runs.
func (r Run) Place() RunPlace {
	p := RunPlace{Firing: r.Firing.String()}
	if len(r.Attempts) > 0 {
		p.Granted = r.Attempts[0].Granted
	}
	return p
}

// NewestFirst compares two places: the later first grant comes first, then the greater firing.
func NewestFirst(a, b RunPlace) int {
	return cmp.Or(b.Granted.Compare(a.Granted), strings.Compare(b.Firing, a.Firing))
}

// RunEvent is the start or the end of an attempt on one member.
type RunEvent struct {
	Run      Run // its last attempt is the one that the event is about
	Finished bool
	// Missed is how many events were dropped before this one because the reader was slow.
	Missed int64
}

// TriggerRequest asks for a firing outside the schedule.
type TriggerRequest struct {
	Job JobName
	// RequestID makes a repeat safe: within 24 hours it is answered with the first firing. Required.
	RequestID string
	Caller    string // who asks, as the server knows it; "" when nobody is authenticated
}

// MaxRequestID bounds TriggerRequest.RequestID in bytes.
const MaxRequestID = 128

// Validate says whether the request id can be part of a key.
func (t TriggerRequest) Validate() []FieldError {
	problem := ""
	switch {
	case t.RequestID == "":
		problem = "is missing"
	case len(t.RequestID) > MaxRequestID:
		problem = "is longer than 128 bytes"
	case strings.IndexFunc(t.RequestID, outsideRequestID) >= 0:
		problem = "has a character that is not one of [A-Za-z0-9._:-]"
	default:
		return nil
	}
	return []FieldError{{Field: "requestId", Value: t.RequestID, Problem: problem, Remedy: "use a UUID or a ULID"}}
}

const requestIDAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-"

func outsideRequestID(r rune) bool { return !strings.ContainsRune(requestIDAlphabet, r) }

// TriggerReceipt says that a trigger is stored.
type TriggerReceipt struct {
	Firing   Firing
	Repeated bool // the request id had been served before
	Warnings []string
}

// Readiness is whether a member serves, and why not.
type Readiness struct {
	Ready  bool
	Checks []Check
}

// Check is one condition of readiness: etcd answers, the session lives, the shards are loaded, the
// clock is trusted, not draining.
type Check struct {
	Name   string
	OK     bool
	Detail string // one line; the reason when it is not OK
}

// Reasons are the checks that failed, one line each.
func (r Readiness) Reasons() []string {
	var reasons []string
	for _, c := range r.Checks {
		if !c.OK {
			reasons = append(reasons, c.Name+": "+c.Detail)
		}
	}
	return reasons
}

// MemberView is a member with what the cluster made of it.
type MemberView struct {
	Member      Member
	ShardsOwned int // of the pool PoolAll
	Dispatcher  bool
}

// ClusterStatus is the cluster as one member sees it.
type ClusterStatus struct {
	Dispatcher  string       // name; "" while there is none
	Members     []MemberView // by name
	ShardsOwned int          // shards of the pool PoolAll with a live owner
	Unaccounted int64        // instants due more than OnTime ago that no decision covers
	Readiness   Readiness    // of the member that answers
	Member      string       // its name
	ClusterID   string
	Format      int64       // stored format in force
	Etcd        *EtcdHealth // nil while etcd does not answer
	Quarantined []Quarantined
	Warnings    []string
	Now         time.Time
}

// EtcdHealth is what etcd says of itself. Sizes and quota are those of the member of etcd with the
// greatest share, for the first one whose file is full raises the alarm for all.
type EtcdHealth struct {
	Endpoints                 []string
	Version                   string
	Revision, CompactRevision int64
	DBSize, DBInUse, DBQuota  int64 // bytes; DBQuota 0 when it does not tell
	Alarms                    []string
	Members                   int
	// Space is what the sizes and alarms mean for what is written.
	Space SpaceLevel
	// HistoryStood is for how long the compaction revision has stood still while HistoryWritten revisions
	// were written; zeros while history is compacted.
	HistoryStood   time.Duration
	HistoryWritten int64
}

// Quarantined is a record that could not be read.
type Quarantined struct {
	Key     string // below the prefix
	Problem string
}
