package scheduler

import "time"

// Verdict says how a firing, or one attempt of it, ended. The empty verdict means it runs.
type Verdict string

// Verdicts. The first five end granted firings; Skipped and Missed firings were never granted.
const (
	Succeeded Verdict = "SUCCEEDED"
	Failed    Verdict = "FAILED"
	TimedOut  Verdict = "TIMED_OUT"
	Canceled  Verdict = "CANCELED"
	Lost      Verdict = "LOST"
	Skipped   Verdict = "SKIPPED"
	Missed    Verdict = "MISSED"
)

// Reason says why a firing ended as it did. It is empty for Succeeded, TimedOut and Canceled.
type Reason string

// Reasons of Skipped, Missed, Failed and Lost, in that order.
const (
	ReasonOverlap  Reason = "overlap"
	ReasonPaused   Reason = "paused"
	ReasonEdited   Reason = "edited"
	ReasonDeleted  Reason = "deleted"
	ReasonExcluded Reason = "excluded by calendar"
	ReasonCanceled Reason = "canceled" // a waiting trigger or pending retry that was cancelled

	ReasonCatchUp       Reason = "catch-up policy"
	ReasonWindow        Reason = "window"
	ReasonStartDeadline Reason = "start deadline"

	ReasonStartError Reason = "start error"
	ReasonExitCode   Reason = "exit code"
	ReasonError      Reason = "error"
	ReasonPanic      Reason = "panic"
	ReasonStopping   Reason = "node stopping" // killed because the drain limit of its node had passed
	ReasonLockLost   Reason = "lock lost"     // killed because the lock session could not be kept

	ReasonMemberLost   Reason = "member lost"
	ReasonNeverStarted Reason = "never started"
)

// Attempt is the line of one attempt in the record of its firing.
type Attempt struct {
	Number int   // from 1
	Token  int64 // create revision of the lock: the fencing token
	Member string
	// Granted is when the Begin was committed by the granting member's clock; Started and Finished
	// are when the process or handler did. Zero when it did not happen or is not known.
	Granted, Started, Finished time.Time
	Verdict                    Verdict
	Reason                     Reason
	Message                    string // for people; at most 1 KiB
	// ExitCode is set for a command that was started and ended by itself or by signal (128 + signal).
	ExitCode *int32
}

// Outcome is the verdict with its reason, as it is shown everywhere: "FAILED(exit code)".
func (a Attempt) Outcome() string {
	if a.Reason == "" {
		return string(a.Verdict)
	}
	return string(a.Verdict) + "(" + string(a.Reason) + ")"
}

// Run is the record of a granted firing. The last attempt's end is the verdict of the firing.
type Run struct {
	Job        JobName
	Firing     Firing
	Generation int64 // of the definition it was granted under
	Slot       int
	Attempts   []Attempt // in order of number
	// Output is the tail of the last attempt's output, at most 8 KiB; OutputBytes is how much there
	// was in all and OutputDropped how much of it the member's file does not hold.
	Output                     []byte
	OutputBytes, OutputDropped int64
	// Shortened: etcd was short of space when the record was written. It has no output and no messages,
	// and of the attempts before the last what is needed.
	Shortened bool
}

// Last is the newest attempt, or the zero Attempt of an empty record.
func (r Run) Last() Attempt {
	if len(r.Attempts) == 0 {
		return Attempt{}
	}
	return r.Attempts[len(r.Attempts)-1]
}
