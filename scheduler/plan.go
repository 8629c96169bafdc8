package scheduler

import (
	"time"

	"github.com/quorumcron/quorumcron/scheduler/cron"
)

// Bounds of planning, each in one place.
const (
	// OnTime is how late an instant may be found and still be decided by itself, by the overlap
	// policy; older ones become the backlog.
	OnTime = 5 * time.Second
	// LoseMargin is added to an entry's hold before it is called lost.
	LoseMargin = 2 * time.Second
	// FoldAfter is how long an ended entry may wait to ride on another write; RideWithin is how far off
	// the job's next instant may be for the entry to wait for that one instead.
	FoldAfter  = 10 * time.Second
	RideWithin = time.Hour
	// EndingWait is how long the overlap decision waits for a Finish that is on its way.
	EndingWait = time.Second
	// ExcludedAfter is how long an excluded instant may wait for its verdict to ride on that of the next
	// one that is not excluded. It is far below CalendarMemory, and far above what would cost a job of
	// every second a write for each night's second.
	ExcludedAfter = time.Hour
	// SweepAfter is how long a settled tombstone stays.
	SweepAfter = time.Hour
)

// View is all that planning one job needs. It is a value: PlanJob changes nothing in it.
type View struct {
	Job       Job
	Timetable *cron.Timetable // compiled from Job.Schedule; nil under a tombstone
	Excluded  *Exclusion      // by the calendars that Job.Schedule names; nil for none
	State     State
	// StateRevision is the mod revision State was read or written at: what the next write compares.
	StateRevision int64
	Triggers      []Trigger // waiting, oldest first
	// Facts says what the planner has seen of each entry's lock and record, by Firing. An entry
	// without a fact is not yet known: it blocks, and nothing is blamed on it or decided about it.
	Facts map[Firing]Fact
	// Room says whether another attempt may be granted here (capacity, live lock lease, trusted
	// clock). Without it due instants wait.
	Room bool
	// EndsOnly says that no claim may be made here at all (a doubtful clock, a member that has stopped
	// claiming): only Lose, Fold and Sweep are planned, since nothing holds up a verdict.
	EndsOnly bool
	// NotBeyond bounds the cursor: no decision moves it past this instant (a clock that is ahead
	// must not swallow instants). Zero means now.
	NotBeyond time.Time
}

// Fact is what is known of one entry beyond the state value.
type Fact struct {
	// Attempt is the number of the attempt it is known of; 0 is the first. A fact about another attempt
	// of the firing is no fact: the lock of a former attempt has long been gone, and would have this
	// one called lost before its process is surely dead.
	Attempt int
	// Lock is the create revision of its lock as last seen; 0 means that no lock was seen.
	Lock int64
	// GoneSince is when (Reading.Elapsed) the lock was first seen gone while no record of the
	// attempt was in the slot. It counts only when Lock is 0 and Record is nil.
	GoneSince time.Duration
	// Record is the run record seen in its slot, if it holds the end of this entry's attempt.
	Record *Run
	// RecordedSince is when (Reading.Elapsed) Record was first seen.
	RecordedSince time.Duration
	// Ending says that the attempt has ended here and its Finish is on its way since EndingSince.
	Ending      bool
	EndingSince time.Duration
}

// Of says whether the fact is of this very attempt, its token filled in. A fact of another attempt, a
// lock that is not the entry's, or a record that is not of its end are out of date, and as good as none.
func (f Fact) Of(e Entry) bool {
	stale := max(f.Attempt, 1) != e.Attempt || f.Lock != 0 && f.Lock != e.Token || f.Record != nil && !e.endedBy(f.Record)
	return !stale
}

// Kind says what a decision does.
type Kind string

// Kinds of decisions. Begin, Skip and Miss are claims: they carry the rules guard. Lose, Fold and
// Sweep are ends: they carry none.
const (
	KindBegin Kind = "begin" // grant an attempt
	KindSkip  Kind = "skip"  // decide instants or a trigger as SKIPPED
	KindMiss  Kind = "miss"  // decide instants as MISSED, or put them into the backlog
	KindLose  Kind = "lose"  // call an entry lost
	KindFold  Kind = "fold"  // take ended entries out of the state
	KindSweep Kind = "sweep" // remove a settled tombstone, its state and its runs
)

// Decision is the next write of a job's state, as data: performing it twice changes nothing, because
// the second time the state no longer has the revision it was planned on.
type Decision struct {
	Kind Kind
	Job  JobName
	// Next is the state to put. Entry tokens known from the planned revision are filled in; a new
	// entry has Token 0, Member, Nonce and Hold left to the caller (see Decision.Grant).
	Next State

	Firing  Firing // of begin, lose, and of a skip or miss that concerns one firing
	Attempt int    // of begin and lose
	Slot    int    // of begin and lose
	// Instants is how many scheduled instants get their attempt or their verdict by it; those that it
	// only puts into the backlog do not count yet. First and Last bound all that it is about.
	Instants int64
	// Excluded is how many instants before them get their verdict in passing: the calendars exclude them.
	Excluded    int64
	First, Last time.Time
	Verdict     Verdict // of skip, miss and lose; of the newest instants if they have several reasons
	Reason      Reason
	// Trigger is the waiting trigger that it consumes: compared at this revision, and deleted.
	Trigger         string
	TriggerRevision int64
	// Blame is what a skip for overlap is blamed on, one line for each entry or retry in the way.
	Blame []Blame
	// Record is the run record that lose puts into Slot.
	Record *Run
	// SlotBelow is the entry's token: lose compares that the slot's mod revision is lower.
	SlotBelow int64
	// Folded lists the firings whose entry or owed retry leaves the state in this write: the author saw
	// the record of its end, or the retry can never be granted any more. One whose LOST is followed by
	// a further attempt is among them, though the firing goes on.
	Folded []Firing
}

// Blame is one comparison of a skip for overlap: the lock has this create revision, or (Lock 0) there
// is no lock and the slot is older than the token, so that the attempt is not yet surely dead. A
// pending retry (Token 0) needs no comparison: it follows from the value whose revision is compared.
type Blame struct {
	Firing Firing
	Part   int
	Lock   int64
	Slot   int
	Token  int64
}

// Plan is the answer of PlanJob: the one write to make now, if any, or else when to plan again if
// nothing happens before. Wake is after now; zero means never. WakeElapsed is the same on the
// elapsed clock, for waits that no step of the wall clock may stretch; 0 means none. For an unchanged
// View the answer stays the same until the earlier of the two, and is another one then. With a
// decision both are zero: its outcome is what comes next.
type Plan struct {
	Decision    *Decision
	Wake        time.Time
	WakeElapsed time.Duration
}
