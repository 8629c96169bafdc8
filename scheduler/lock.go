package scheduler

import "time"

// Reading is one reading of a member's clocks: the wall clock, and the time elapsed since boot with
// suspension included (CLOCK_BOOTTIME). It is taken once per turn.
type Reading struct {
	Wall    time.Time
	Elapsed time.Duration
}

// Guard proves a right: the key exists with that create revision. Election issues it; only store
// turns it into a comparison.
type Guard struct {
	Key            string
	CreateRevision int64
}

// LockLease is a live lease under which this member may put locks.
type LockLease struct {
	ID   int64
	Hold time.Duration // TTL + grace
}

// Lock identifies the lock of one granted attempt.
type Lock struct {
	Firing Firing
	Part   int
	Token  int64 // its create revision
	Nonce  string
}
