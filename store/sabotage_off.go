//go:build !sabotage

package store

// What the store can go without in the test build (internal/sabotage), and what goes wrong then.
const (
	// cutStateCompare: two claims that were planned on one state both commit: an instant is granted twice,
	// the cursor moves back, an end is counted twice.
	cutStateCompare = false
	// cutJobCompare: a job is granted under a definition that an acknowledged edit, pause or delete has
	// replaced.
	cutJobCompare = false
	// cutLockLease: the lock of a member that died stays for ever, and with it the attempt: it is never
	// called LOST, and blocks its job.
	cutLockLease = false
	// cutLockOnly: when the lock goes with the member that held it, nobody knows that there was an
	// attempt: its firing never gets a verdict.
	cutLockOnly = false
	// cutRulesGuard: a claim of a former owner commits after the shard has become another's, who plans
	// from what was there before.
	cutRulesGuard = false
	// cutTriggerCompare: a trigger that has been consumed, or cancelled, is started by whoever has not
	// heard of it yet.
	cutTriggerCompare = false
	// cutTriggerDelete: a trigger is started again and again.
	cutTriggerDelete = false
	// cutSkipJobCompare: an instant is decided under a definition that an acknowledged edit has replaced.
	cutSkipJobCompare = false
	// cutSkipLock: an instant is skipped for overlap with an attempt that had ended.
	cutSkipLock = false
	// cutSkipSlot: the same, with an attempt that had lost its lock and whose late result had come.
	cutSkipSlot = false
	// cutGroupJobs: operations of one job compare what the others write: all guards of a transaction see
	// the state before it, so that both pass.
	cutGroupJobs = false
	// cutFence: a claim commits after it was read to be absent and counted as refused: it is granted, and
	// nobody runs it.
	cutFence = false
	// cutFenceGuard: the fence puts an old state over a newer one: a grant that came in between loses its
	// entry.
	cutFenceGuard = false
	// cutNonce: a member starts an attempt that another one, or another claim of its own, was granted.
	cutNonce = false
	// cutResolutionState: the owner never learns of an entry that its own unknown claim made, and never
	// folds it.
	cutResolutionState = false
	// cutUnknownRepeated: a claim that was committed, and whose reply was lost, commits again: over what
	// has happened since, and with a token that is not its lock's.
	cutUnknownRepeated = false
	// cutFinishCompare: a firing that was called LOST, or whose attempt is another one by now, gets a
	// second verdict.
	cutFinishCompare = false
	// cutLoseLock: an attempt is called LOST while it runs.
	cutLoseLock = false
	// cutLoseSlot: LOST is written over the record of how the attempt ended.
	cutLoseSlot = false
	// cutLateCompare: a late result is written beside a LOST that came first, or into a slot that is
	// another firing's by now.
	cutLateCompare = false
	// cutLateOverLost: a verdict that was given is changed afterwards.
	cutLateOverLost = false
	// cutRequestID: a repeated request is a second firing.
	cutRequestID = false
	// cutTriggerJobCompare: a trigger is left below a job that was deleted meanwhile, uncounted.
	cutTriggerJobCompare = false
	// cutEditJobCompare: an edit overwrites another one that nobody has seen.
	cutEditJobCompare = false
	// cutEditStateCompare: an edit that closes the books overwrites a grant, or an end, that came
	// meanwhile.
	cutEditStateCompare = false
	// cutEditPast: instants of a new schedule fire though they lie before the edit that brought it.
	cutEditPast = false
	// cutDeleteTriggers: a trigger that came while its job was being deleted ends without a verdict.
	cutDeleteTriggers = false
	// cutSweepCompare: a job that was applied again is removed with the tombstone of its former self.
	cutSweepCompare = false
	// cutDispatcherGuard: a dispatcher that was deposed without noticing gives shards away.
	cutDispatcherGuard = false
	// cutCalendarRules: what a calendar excludes is granted after the reply to its change.
	cutCalendarRules = false
	// cutCalendarGuard: a job is stored that names a calendar which is gone, and is put aside for ever.
	cutCalendarGuard = false
	// cutRepairCursor: instants that have their verdict are decided again, by a member whose clock is behind.
	cutRepairCursor = false
	// cutPoolsUnread: a job that only newer members can read loses its pool, and never fires again.
	cutPoolsUnread = false
)
