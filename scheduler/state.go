package scheduler

import "time"

// State is the value of a job's state key: what is decided, and what is not yet settled. Its owner
// is its only planner; every write of it compares the revision that the plan was made on.
type State struct {
	UID string
	// Cursor is the newest instant that is decided; it never moves back. At creation it is the
	// moment of the apply.
	Cursor time.Time
	// Backlog is the late instants that wait for the catch-up policy, nil if none do.
	Backlog *Backlog
	Entries []Entry // attempts in flight, oldest grant first
	Retries []PendingRetry
	// Ranges are the newest instants that were not run, oldest first, at most MaxRanges.
	Ranges []Range
	// Counters count every firing that ended, by how it ended. They are sums since creation.
	Counters []Counter
	// NextSlot is where the search for the next free slot begins; Slots is the size of the ring. It
	// only grows: a promised slot can then never lie outside it, and no old record is left in a slot
	// that the search no longer reaches.
	NextSlot, Slots int
	// Settled is when the last firing in flight left the state of a tombstone; zero before that.
	Settled time.Time
}

// MaxRanges bounds State.Ranges; the oldest beyond it live on in the counters only.
const MaxRanges = 16

// Entry is an attempt in flight: granted, and its end not yet folded.
type Entry struct {
	Firing     Firing
	Attempt    int
	Generation int64
	Slot       int
	Member     string // who runs it
	Nonce      string // drawn by the process that sent the Begin; also in the lock
	// Token is the revision of the write that granted it. 0 means: the mod revision of the value
	// that holds the entry. Whoever rewrites the state fills it in.
	Token int64
	// Hold is TTL + grace of the session it was granted under: so long after its lock is gone it is
	// surely dead, plus LoseMargin.
	Hold    time.Duration
	Granted time.Time // by the granting member's clock
	// Due is when the firing was due under the definition of its first attempt: its start deadline
	// is reckoned from here, whatever was edited since.
	Due  time.Time
	Past []Attempt // the lines of the attempts before this one
}

// PendingRetry is a further attempt that is owed. It keeps its slot promised and blocks the overlap
// policy as an entry does.
type PendingRetry struct {
	Firing     Firing
	Attempt    int // the number it will have
	Slot       int
	Past       []Attempt
	NotBefore  time.Time // when back-off allows it; zero means at once
	Generation int64     // of the attempt before
	Due        time.Time // as in Entry
}

// Backlog is a counted range of late instants that the catch-up policy may still draw from.
type Backlog struct {
	First, Last time.Time
	Count       int64
}

// Range is a run of consecutive instants (or one trigger) that ended alike without being granted.
type Range struct {
	Verdict     Verdict
	Reason      Reason
	First, Last time.Time // instants; for a trigger, both are when it was requested
	Count       int64
	Trigger     string // the trigger id, for a range of one triggered firing
}

// Counter is the number of firings that ended in one way.
type Counter struct {
	Verdict Verdict
	Reason  Reason
	Count   int64
}

// Trigger is a request for a firing outside the schedule that waits for the owner.
type Trigger struct {
	ID        string
	Revision  int64 // mod revision of its key; not stored
	Requested time.Time
	Caller    string
}
