//go:build !sabotage

package scheduler

// What the core can go without in the test build (internal/sabotage), and what goes wrong then.
const (
	// cutOverlapMemory: a new owner starts a firing beside an attempt that it has not heard of yet.
	cutOverlapMemory = false
	// cutAgeCheck: a process that was frozen starts what others have long decided about.
	cutAgeCheck = false
	// cutLoseHold: the next attempt starts while the one whose lock is gone still runs.
	cutLoseHold = false
	// cutFoldCount: a firing ends without being counted.
	cutFoldCount = false
	// cutSlotsShared: a record overwrites the only proof of how an attempt ended that is still in the
	// state.
	cutSlotsShared = false
	// cutRetrySlot: a firing has two records, one of which says LOST for ever.
	cutRetrySlot = false
	// cutBooks: instants that were due when the schedule changed end without a verdict.
	cutBooks = false
	// cutDeleteState: an attempt that runs when its job is deleted ends without a verdict.
	cutDeleteState = false
	// cutDeleteRetries: an owed retry of a deleted job is granted by nobody and ended by nobody.
	cutDeleteRetries = false
	// cutIncarnation: a claim of a process that died commits after its successor has read the state, which
	// never hears of it.
	cutIncarnation = false
	// cutCatchUpClock: what fell due while nobody could fire is forgotten instead of MISSED or made up
	// for.
	cutCatchUpClock = false
	// cutClockStep: a clock that is set ahead swallows all instants in between.
	cutClockStep = false
	// cutBacklogEarly: after a clock that was ahead has been set back, an instant fires before it is due.
	cutBacklogEarly = false
)
