//go:build !sabotage

package node

// What a member can go without in the test build (internal/sabotage), and what goes wrong then.
const (
	// cutUnknownRefused: a firing whose grant was committed, and whose reply was lost, is not run.
	cutUnknownRefused = false
	// cutUnknownGranted: a firing is run that nobody has granted: others run it too.
	cutUnknownGranted = false
	// cutUnknownForgotten: a claim that lands late makes an entry that its own member does not know, and
	// never settles.
	cutUnknownForgotten = false
	// cutSessionCheck: an attempt is started though others may already have been told that it is lost.
	cutSessionCheck = false
	// cutTokenMemory: the job's receiver cannot tell a newer attempt from an older one.
	cutTokenMemory = false
	// cutOrphanRule: a grant that nothing runs blocks its job for as long as the process lives.
	cutOrphanRule = false
	// cutListingFirst: a lock that is taken just then is closed as LOST(never started) while its attempt
	// runs.
	cutListingFirst = false
	// cutHeldEarly: the same, for a grant whose answer is still on its way.
	cutHeldEarly = false
	// cutFoldEarly: a firing is counted by an end that was never recorded, and its slot given away.
	cutFoldEarly = false
	// cutReload: the owner does not know of an attempt that was granted while the shard was another's, and
	// never settles it.
	cutReload = false
	// cutMarks: a job whose event was lost is never planned.
	cutMarks = false
	// cutCancelEarly: an attempt runs to its end though its cancel was taken.
	cutCancelEarly = false
)
