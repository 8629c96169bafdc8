package history

import (
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// History is all that is known at the end of a run. What was not collected is left empty: a check that
// has nothing to look at says so, and whoever needs it (Needs) gets no "valid".
type History struct {
	// Bounds are the times that the promises are made of; zero means DefaultBounds.
	Bounds Bounds
	// Plans are jobs that were applied once and never changed; Changes are all other calls that write,
	// in the order in which they were made.
	Plans   []Plan
	Changes []Change
	// Faults are what was done to the cluster.
	Faults []Fault
	// Lines are what the commands wrote down, Effects what the receivers of their effects did.
	Lines   []Line
	Effects []Effect
	// Jobs and Runs are what the cluster shows at the end; Etcd is every write below its prefix.
	Jobs []Job
	Runs []Run
	Etcd *EtcdLog
	// Reads are jobs as any node showed them, Previews the next instants as it showed them.
	Reads    []Read
	Previews []Preview
	// Samples are what the nodes said of themselves, Statuses what they said of the cluster, Spaces what
	// lay in etcd.
	Samples  []Sample
	Statuses []Status
	Spaces   []Space
	// Phases are the parts of the run; Members what is known of the nodes from outside.
	Phases  []Phase
	Members []Member
	// FsyncP99 is how long etcd's slowest member took to make 99 of 100 writes safe; zero: not measured.
	FsyncP99 time.Duration
	// Taken is when the history was taken; zero: not known.
	Taken time.Time

	line *faultLine // made from Faults when it is first asked for
}

// Bounds are the times that the promises of docs/guarantees.md are made of.
type Bounds struct {
	TTL, Grace, Election time.Duration
	// Calm is the most that a start may be late while nothing is wrong.
	Calm time.Duration
}

// DefaultBounds are those of the shortest TTL.
func DefaultBounds() Bounds {
	return Bounds{TTL: 3 * time.Second, Grace: 5 * time.Second, Election: 2 * time.Second, Calm: 2 * time.Second}
}

// Hold is how long an attempt may live on without its lock.
func (b Bounds) Hold() time.Duration { return b.TTL + b.Grace }

// Recovery is R: how long the idle jobs of a dead node stand still.
func (b Bounds) Recovery() time.Duration { return 2*b.TTL + b.Election + 2*time.Second }

// BusyRecovery is R for jobs whose attempt was in flight there.
func (b Bounds) BusyRecovery() time.Duration { return b.Recovery() + b.Hold() + 2*time.Second }

// Operations of a Change.
const (
	Apply   = "apply"
	Pause   = "pause"
	Resume  = "resume"
	Delete  = "delete"
	Trigger = "trigger"
	Cancel  = "cancel"
)

// Results of a call: done, surely not done, or nobody knows.
const (
	OK      = "ok"
	Failed  = "fail"
	Unknown = "unknown"
)

// Change is one call that changes a job, or asks for a firing.
type Change struct {
	Op, Job           string
	Invoked, Returned time.Time // by the caller's clock, which is true
	Result            string
	Error             string
	Firing            string // of a trigger or a cancel
	Spec              Spec   // of an apply
	// What the reply said; zero when it said nothing.
	UID                  string
	Generation, Revision int64
}

// Spec is a definition as it was asked for. Zero fields are the defaults.
type Spec struct {
	// Period: the instants are its multiples since the epoch. Zero, and no Cron: it is only triggered.
	Period time.Duration
	// Cron is an expression of six fields, seconds first, that is read in Zone; nil is UTC. See walk.
	Cron string
	Zone *time.Location
	// Start and End are the schedule's: no instant before the one, nor at or after the other.
	Start, End time.Time
	// OnLost is fail or retry, Attempts the most that a firing may have; 0 means 1, or 3 with retry.
	OnLost   string
	Attempts int
	// CatchUp is latest or none, Window how far back it looks.
	CatchUp                string
	Window                 time.Duration
	StartDeadline, Timeout time.Duration
	OnSessionLost          string // kill or finish
	Selector               map[string]string
	Sleep                  time.Duration
	Exit                   int
	// Kept is history.limit: so many runs must still be there.
	Kept int
	// Handler says that it runs a function, which has no exit code.
	Handler bool
	// Version tells the definitions of a job apart; the witness writes it down.
	Version int
}

func (s Spec) attempts() int {
	switch {
	case s.Attempts > 0:
		return s.Attempts
	case s.OnLost == "retry":
		return 3
	}
	return 1
}

// sameSchedule says whether a change from one to the other leaves the cursor where it is.
func (s Spec) sameSchedule(o Spec) bool {
	return s.Period == o.Period && s.Cron == o.Cron && s.zone().String() == o.zone().String() && s.Start.Equal(o.Start) && s.End.Equal(o.End)
}

// Plan is a job that is applied once: the checker's own knowledge of it.
type Plan struct {
	Job string
	// Period: the instants are its multiples since the epoch. Zero: it has none, it is only triggered.
	Period time.Duration
	// Triggers is how often it was triggered besides.
	Triggers int
	// Applied and Acknowledged are when the apply was called, and when it had returned.
	Applied, Acknowledged time.Time
	// Start and End are the schedule's: no instant before the one, nor at or after the other. End is
	// required with a period.
	Start, End time.Time
	// Attempts is the most attempts that a firing may have: 1, unless onLost is retry.
	Attempts int
	// Kept is history.limit: so many runs must still be there.
	Kept int
	// Handler says that it runs a function, which has no exit code.
	Handler bool
	// Finish says that its commands go on when their session is lost: onSessionLost.
	Finish bool
}

// spec is the plan's definition.
func (p Plan) spec() Spec {
	s := Spec{Period: p.Period, Start: p.Start, End: p.End, Attempts: p.Attempts, Kept: p.Kept, Handler: p.Handler}
	if p.Attempts > 1 {
		s.OnLost = "retry"
	}
	if p.Finish {
		s.OnSessionLost = "finish"
	}
	return s
}

// Due is the oracle: every instant of a job that was created at a moment.
func (p Plan) Due(created time.Time) []time.Time { return p.spec().due(created, p.End) }

// Read is a job as a node showed it.
type Read struct {
	Job, Node            string
	Invoked, Returned    time.Time
	Result               string
	Found                bool
	UID                  string
	Generation, Revision int64
	Paused               bool
}

// Preview is the next instants of a job as a node showed them.
type Preview struct {
	At        time.Time
	Node, Job string
	Next      []time.Time
}

// Sample is what a node said of itself.
type Sample struct {
	At      time.Time
	Node    string
	Ready   bool
	Readyz  string             // its reason when it is not ready
	Metrics map[string]float64 // sums over labels, by name; empty when it did not answer
}

// Status is what a node said of the cluster; the fields are those of `cluster status -o json`.
type Status struct {
	At          time.Time      `json:"-"`
	Node        string         `json:"-"` // who was asked
	Dispatcher  string         `json:"dispatcher"`
	ShardsOwned int            `json:"shardsOwned"`
	Members     []MemberStatus `json:"members"`
	Unaccounted int64          `json:"unaccounted,string"`
	Ready       bool           `json:"ready"`
	Warnings    []string       `json:"warnings"`
}

// MemberStatus is one member of a Status.
type MemberStatus struct {
	Name        string `json:"name"`
	ShardsOwned int    `json:"shardsOwned"`
}

// Space is what lay in etcd at a moment.
type Space struct {
	At            time.Time
	Leases, Locks int
	DatabaseBytes int64
	Members       int // member keys
}

// Names of phases.
const (
	Before = "calm"
	During = "faults"
	After  = "settle"
)

// Phase is a part of the run.
type Phase struct {
	Name     string
	From, To time.Time
}

// Member is what is known of a node from outside.
type Member struct {
	Name   string
	Labels map[string]string
}

// Effect is what a receiver noted of one effect of a command. Ledger is Fenced or Plain.
type Effect struct {
	Ledger   string `json:"ledger"`
	Accepted bool   `json:"accepted"`
	BootNS   int64  `json:"boot"`
	Seq      int64  `json:"seq"`
	Job      string `json:"job"`
	Firing   string `json:"firing"`
	Attempt  string `json:"attempt"`
	Token    int64  `json:"token"`
	Nonce    string `json:"nonce"`
	// Highest is the highest token of the job that the ledger had accepted before.
	Highest int64 `json:"highest"`
}

// Ledgers of the receiver: one refuses tokens that are lower than one it has seen, one does not look.
const (
	Fenced = "fenced"
	Plain  = "plain"
)

// ReadEffects reads a receiver's log.
func ReadEffects(r io.Reader) ([]Effect, error) {
	var effects []Effect
	err := eachLine(r, func(number int, text string) error {
		var e Effect
		if err := json.Unmarshal([]byte(text), &e); err != nil {
			return fmt.Errorf("line %d, %q: %w", number, text, err)
		}
		effects = append(effects, e)
		return nil
	})
	return effects, err
}
