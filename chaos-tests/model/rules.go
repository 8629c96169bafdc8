package main

// rules are the guards and habits of the protocol that can be taken away. The zero value is the
// protocol; each true field takes one thing from it. The numbers are those of the rules in
// docs/architecture.md; the README says which line of code stands behind each.
type rules struct {
	NoStateCompare, NoJobCompare      bool // 1, 5, 7, 10
	NoSkipJob                         bool // 10: a skip does not compare the definition
	NoLockBegin, NoLockLose           bool // 1, 5: the lock is not compared to be absent
	NoLease                           bool // 1: the lock hangs on no lease
	NoEntry                           bool // 1: a Begin leaves no entry in the state
	NoDoubt                           bool // 1, 11: started without asking the local session
	NoTriggerCompare, NoTriggerDelete bool // 1, 8: a Begin and its trigger
	TakenForRefused, TakenForGranted  bool // 2: an unknown Begin is settled without reading
	ByLease                           bool // 2: ... by the lease of the lock, not by its nonce
	ByRead                            bool // 2: ... by a read alone, without a fence
	LockOnly                          bool // 2: the resolution does not renew the owner's copy
	NoOrphans                         bool // 3
	HeldIsAttempts                    bool // 3: unresolved claims do not count as held
	HeldFirst                         bool // 3: what is held is noted before the listing
	OrphansWhileHeld                  bool // 3: looked for only while something else is held
	NoFinishCompare                   bool // 4
	NoSlotCompare                     bool // 5: LOST does not compare the slot
	NoHold                            bool // 5: LOST does not wait until the attempt is surely dead
	NoKill                            bool // 5: the supervisor does not kill by the deadline
	LateNoState, LateNoSlot           bool // 6
	LateNoLock                        bool // 6
	LateOverLost                      bool // 6: a late result replaces a LOST
	LateUntold                        bool // 6: that a copy of a late result had been committed is not told to the owner
	LetGoUnfollowed                   bool // 6, 12: an entry of ours whose attempt is let go is followed by nobody
	SharedSlots                       bool // 7: slots are given out though an attempt owes its record
	SharedRetry                       bool // 7: ... though a pending retry does
	ForgetsLast                       bool // 7: a fold that makes no retry does not end the firing
	KilledIsFinal                     bool // 7: an attempt that its own supervisor killed is not tried again
	OwedStays                         bool // 7: a retry that must never be granted stays owed
	NoRequestMemory                   bool // 8: a repeated request id is not recognised
	NoTriggerJob                      bool // 8: a trigger does not compare the definition
	NoEditState                       bool // 9: edits that write the state do not compare it
	NoBooks                           bool // 9: the cursor moves without an account
	DeleteKeepsRetry                  bool // 9: a delete leaves pending retries
	DeleteWipesState                  bool // 9
	DeleteNoTriggers                  bool // 9: ... does not compare that no trigger came since it read
	SweepNoCompare                    bool // 9: a sweep compares neither definition nor state
	BusyAcrossUID                     bool // 9: a name applied again waits for an answer of its former uid
	NoBlameLock, NoBlameSlot          bool // 10
	ForgetClaims                      bool // 11: unresolved claims are forgotten
	NoRules                           bool // 12: claims carry no compare of the rules
	NoReload                          bool // 12: plans on what it knew before it became the owner
	SameOwner                         bool // 12: a restarted or rejoined process owns without new rules
	ReloadBlind                       bool // 12: an answer to a reload replaces what the watch brought since
	TriggersNotRead                   bool // 12: triggers are not read when a job comes into view
	KeepsOnRegain                     bool // 12: an owner that was none in between keeps what it knew of attempts
	FollowByFiring                    bool // 12: a follower is known by its firing, not by its attempt
	CancelNoState                     bool // 13
	CancelNoTrigger                   bool // 13
	CancelNoLock                      bool // 13
	CancelNoToken                     bool // 13: it ends whichever attempt of the firing it meets
	CancelKeyStays                    bool // 13: what is let go does not remove a key that its Finish did not carry
	QueueOnce                         bool // 13: the queue is not read again
	CancelSaysEnded                   bool // 13: a LOST attempt is answered as the end though a retry follows
	GroupsShareJobs                   bool // Groups: several operations of one job, ends beside claims
	GroupsNotSplit                    bool // Groups: one that is refused as a whole is sent again as it is
}
