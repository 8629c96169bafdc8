package main

// The cuts: what each guard and habit is for. A row is the protocol with that one thing taken away, and
// the violation that must be found.

// cut makes a row. Under a wanted violation that another one would hide, that one alone is looked at.
func cut(name string, w world, want string, f func(*rules)) testCase {
	w = w.cutting(f)
	w.Only = want
	return testCase{Name: cutPrefix + name, Want: want, World: w}
}

// claimCuts: rules 1 to 3, 10, and Groups.
func claimCuts() []testCase {
	plain := fail1().with(func(w *world) { w.Edits, w.Crashes, w.Freezes = 0, 0, 0 })
	return []testCase{
		cut("1: job compare", fail1(), "I5", func(r *rules) { r.NoJobCompare = true }),
		cut("1: job compare, fewer attempts", retryEdits(), "I5", func(r *rules) { r.NoJobCompare = true }),
		cut("1: state compare", fail1(), "I1 ", func(r *rules) { r.NoStateCompare = true }),
		cut("1: state compare: cursor", fail2(), "I3 the cursor", func(r *rules) { r.NoStateCompare = true }),
		cut("1, 5: all lock compares: overlap", fail2(), "I4", func(r *rules) { r.NoLockBegin, r.NoLockLose = true, true }),
		cut("1, 5: all lock compares: attempts", retry1(), "I2 ", func(r *rules) { r.NoLockBegin, r.NoLockLose = true, true }),
		cut("1: lease on the lock", plain.with(func(w *world) { w.Crashes, w.Ends, w.Ambiguous = 1, 0, 0 }), "stuck", func(r *rules) { r.NoLease = true }),
		cut("1: entry in the state", fail1(), "I3 a decided", func(r *rules) { r.NoEntry = true }),
		cut("1: trigger compare", trigger1(), "I1/I3", func(r *rules) { r.NoTriggerCompare = true }),
		cut("1: trigger compare: two starts", trigger1(), "I1 ", func(r *rules) { r.NoTriggerCompare = true }),
		cut("1: trigger not deleted", trigger1(), "I1/I3", func(r *rules) { r.NoTriggerDelete = true }),
		cut("2: unknown taken for granted", fail1(), "I8", func(r *rules) { r.TakenForGranted = true }),
		cut("2: unknown taken for granted: two starts", fail1(), "I1 ", func(r *rules) { r.TakenForGranted = true }),
		cut("2: nonce, two claims out", two(), "I1 ", func(r *rules) { r.ByLease = true }),
		cut("2: fence, owner's own copy", ownTrigger().with(func(w *world) { w.Crashes, w.Moves = 0, 0 }), "stuck", func(r *rules) { r.ByRead = true }),
		cut("2: resolution, owner's own copy", ownTrigger().with(func(w *world) { w.Crashes, w.Moves = 0, 0 }), "stuck", func(r *rules) { r.TakenForRefused = true }),
		cut("2: resolution reads no state", ownTrigger().with(func(w *world) { w.Crashes, w.Moves = 0, 0 }), "stuck", func(r *rules) { r.LockOnly = true }),
		cut("2, 3: read without a fence", plain, "stuck", func(r *rules) { r.ByRead, r.NoOrphans = true, true }),
		cut("2, 3: unknown taken for refused", plain, "stuck", func(r *rules) { r.TakenForRefused, r.NoOrphans = true, true }),
		cut("3: forgotten locks are not closed", plain.with(func(w *world) { w.Panics = 1 }), "stuck", func(r *rules) { r.NoOrphans = true }),
		cut("3: unresolved claims not held", two(), "I3 LOST", func(r *rules) { r.HeldIsAttempts = true }),
		cut("3: held noted before the listing", fail1(), "I3 LOST", func(r *rules) { r.HeldFirst = true }),
		cut("3: looked for while something is held", ownAlone().with(func(w *world) { w.Panics = 1 }), "stuck", func(r *rules) { r.OrphansWhileHeld = true }),
		cut("10: skip blames a lock uncompared", fail2(), "I10", func(r *rules) { r.NoBlameLock = true }),
		cut("10: skip blames an entry uncompared", fail2(), "I10", func(r *rules) { r.NoBlameSlot = true }),
		cut("10: skip without job compare", fail2Edits(), "I5", func(r *rules) { r.NoSkipJob = true }),
		cut("11: start under a doubted session", fail1(), "I9", func(r *rules) { r.NoDoubt = true }),
		cut("Groups: two operations of one job", groups().with(func(w *world) { w.TwoJobs = false }), "I10", func(r *rules) { r.GroupsShareJobs = true }),
		cut("Groups: refused as a whole, not split", groups().with(func(w *world) { w.TwoJobs, w.Ambiguous = false, 0 }), "stuck",
			func(r *rules) { r.GroupsShareJobs, r.GroupsNotSplit = true, true }),
		cut("Groups: claims without rules guard", own1(), "I13", func(r *rules) { r.NoRules = true }),
		cut("Groups: claims without rules guard, 2 jobs", groups().with(func(w *world) { w.Ends, w.Moves = 0, 1 }), "I13", func(r *rules) { r.NoRules = true }),
	}
}

// endCuts: rules 4 to 7.
func endCuts() []testCase {
	return []testCase{
		cut("4: verdict's lock compare", fail1(), "I3 a second", func(r *rules) { r.NoFinishCompare = true }),
		cut("4: verdict's lock compare, retry", retry1(), "I1/I3", func(r *rules) { r.NoFinishCompare = true }).sized(medium),
		cut("5: LOST without slot compare", fail1(), "I3 a second", func(r *rules) { r.NoSlotCompare = true }),
		cut("5: LOST without slot compare, retry", retry1(), "I1/I3", func(r *rules) { r.NoSlotCompare = true }),
		cut("5: LOST without lock compare", fail1(), "I2/I3", func(r *rules) { r.NoLockLose = true }),
		cut("5: LOST without hold, retry", retry1(), "I12", func(r *rules) { r.NoHold = true }),
		cut("5: LOST without hold, overlap", fail2(), "I12", func(r *rules) { r.NoHold = true }).sized(medium),
		cut("5: no kill by the deadline", fail2(), "I12", func(r *rules) { r.NoKill = true }).sized(medium),
		cut("6: late compares neither state nor slot", retry1(), "I6", func(r *rules) { r.LateNoState, r.LateNoSlot = true, true }),
		cut("6: late replaces LOST", retry1(), "I6", func(r *rules) { r.LateOverLost = true }),
		cut("6: late replaces LOST, slots", anyRetry2(), "I6", func(r *rules) { r.LateOverLost = true }),
		cut("6: a committed late result untold", ownAlone(), "stuck", func(r *rules) { r.LateUntold, r.LetGoUnfollowed = true, true }),
		cut("7: slots shared", any2(), "I6", func(r *rules) { r.SharedSlots = true }),
		cut("7: slot of a pending retry shared", anyRetry2(), "I6", func(r *rules) { r.SharedRetry = true }),
		cut("7: fold forgets the last attempt", retryEdits(), "I3 a decided", func(r *rules) { r.ForgetsLast = true }),
		cut("7: a killed attempt is not tried again", retry1(), "I16", func(r *rules) { r.KilledIsFinal = true }),
		cut("7: an owed retry outlives an edit", retryEdits(), "I18", func(r *rules) { r.OwedStays = true }),
		cut("7: an owed retry outlives its deadline", retryEdits().with(func(w *world) { w.Edits, w.Deadline = 0, true }), "I18", func(r *rules) { r.OwedStays = true }),
	}
}

// userCuts: rules 8, 9 and 13.
func userCuts() []testCase {
	del := world{Members: 2, Manual: true, Limit: 1, Ends: 1, Edits: 1, Changes: edits()}
	retryDelete := retryEdits().with(func(w *world) { w.Ambiguous, w.Changes = 0, []change{deletion} })
	return []testCase{
		cut("8: request id forgotten", trigger1(), "I1/I3", func(r *rules) { r.NoRequestMemory = true }),
		cut("8: trigger without job compare", del, "stuck", func(r *rules) { r.NoTriggerJob = true }),
		cut("9: books not closed", fail2Edits(), "I3 a decided", func(r *rules) { r.NoBooks = true }),
		cut("9: edit without state compare", fail2Edits(), "I4", func(r *rules) { r.NoEditState = true }),
		cut("9: delete wipes the state", fail1(), "I3 a decided", func(r *rules) { r.DeleteWipesState = true }),
		cut("9: delete keeps retries", retryDelete, "stuck", func(r *rules) { r.DeleteKeepsRetry, r.OwedStays = true, true }),
		cut("9: delete without triggers compare", del, "stuck", func(r *rules) { r.DeleteNoTriggers = true }),
		cut("9: sweep compares nothing", ownApply(), "I5", func(r *rules) { r.SweepNoCompare = true }),
		cut("9: busy across uids", ownApply().with(func(w *world) { w.Ends = 0 }), "stuck", func(r *rules) { r.BusyAcrossUID = true }),
		cut("13: cancel without state compare", cancels(), "I11", func(r *rules) { r.CancelNoState = true }),
		cut("13: cancel names no token", cancels(), "I17", func(r *rules) { r.CancelNoToken = true }),
		cut("13: LOST answered as the end", cancels(), "I15", func(r *rules) { r.CancelSaysEnded = true }),
		cut("13: cancel key stays", ownCancel(), "stuck", func(r *rules) { r.CancelKeyStays, r.QueueOnce = true, true }),
	}
}

// ownerCuts: rules 11 and 12.
func ownerCuts() []testCase {
	return []testCase{
		cut("11: unresolved claims forgotten", ownAlone().with(func(w *world) { w.Ambiguous = 0 }), "stuck", func(r *rules) { r.ForgetClaims = true }),
		cut("12: no reload, trigger", ownTrigger().with(func(w *world) { w.Crashes, w.Ends, w.Ambiguous = 0, 0, 0 }), "stuck", func(r *rules) { r.NoReload = true }),
		cut("12: restart is no new owner", ownAlone().with(func(w *world) { w.Ends, w.Ambiguous, w.Crashes = 0, 0, 1 }), "stuck", func(r *rules) { r.SameOwner = true }),
		cut("12: away and back, a dropped result", ownRetry(), "stuck", func(r *rules) { r.KeepsOnRegain, r.LetGoUnfollowed = true, true }).sized(medium),
		cut("12: away and back, followers known by firing", ownRetry(), "stuck", func(r *rules) { r.KeepsOnRegain, r.FollowByFiring = true, true }).sized(medium),
		cut("6, 12: a forgotten attempt is not followed", ownAlone().with(func(w *world) { w.Panics = 1 }), "stuck", func(r *rules) { r.LetGoUnfollowed = true }),
		cut("12: a reload is taken in blindly, pause", ownPause(), "stuck", func(r *rules) { r.ReloadBlind = true }),
		cut("12: a reload is taken in blindly, trigger", ownEdits().with(func(w *world) { w.Edits = 1 }), "stuck", func(r *rules) { r.ReloadBlind = true }),
		cut("12: triggers not read with a new job", ownCreate(), "stuck", func(r *rules) { r.TriggersNotRead = true }),
		cut("12: triggers not read with a job of another pool", ownPool(), "stuck", func(r *rules) { r.TriggersNotRead = true }),
	}
}

// spares are guards that others imply: taken away alone, nothing breaks.
func spares() []testCase {
	spare := func(name string, w world, f func(*rules)) testCase {
		return testCase{Name: sparePrefix + name, World: w.cutting(f)}
	}
	calm := retry1().with(func(w *world) { w.Crashes = 0 })
	plain := fail1().with(func(w *world) { w.Edits, w.Freezes = 0, 0 })
	return []testCase{
		spare("1: lock compare, overlap", fail2().with(func(w *world) { w.Crashes = 0 }), func(r *rules) { r.NoLockBegin = true }).sized(medium),
		spare("1: lock compare, retry", calm, func(r *rules) { r.NoLockBegin = true }),
		spare("6: lock compare", calm, func(r *rules) { r.LateNoLock = true }),
		spare("6: slot compare", calm, func(r *rules) { r.LateNoSlot = true }),
		spare("6: state compare and state write", calm, func(r *rules) { r.LateNoState = true }).sized(medium),
		spare("6: a committed late result untold, if it is followed", ownAlone(), func(r *rules) { r.LateUntold = true }),
		spare("2: nonce, one claim out", calm, func(r *rules) { r.ByLease = true }),
		spare("2: fence, if forgotten locks are closed", plain, func(r *rules) { r.ByRead = true }).sized(medium),
		spare("2: resolution, if forgotten locks are closed", plain, func(r *rules) { r.TakenForRefused = true }).sized(medium),
		spare("12: no reload, instant", own1().with(func(w *world) { w.Crashes = 0 }), func(r *rules) { r.NoReload = true }).sized(medium),
		spare("12: followers known by firing, dropped results, if nothing is kept", ownRetry(), func(r *rules) {
			r.FollowByFiring, r.LetGoUnfollowed = true, true
		}).sized(medium),
		spare("12: rejoin is no new owner", ownAlone().with(func(w *world) { w.Moves = 1 }), func(r *rules) { r.SameOwner = true }),
		spare("13: cancel key stays, if the queue is read again", ownCancel(), func(r *rules) { r.CancelKeyStays = true }),
		spare("13: queue read once, if what is let go removes its key", ownCancel(), func(r *rules) { r.QueueOnce = true }),
		spare("13: trigger compare of a cancel", cancels(), func(r *rules) { r.CancelNoTrigger = true }),
		spare("13: lock compare of a cancel", ownCancel(), func(r *rules) { r.CancelNoLock = true }),
		{Name: "not promised: order of starts", Want: "(not promised)", World: calm.with(func(w *world) { w.StartOrder = true })},
		{Name: "order of starts, nobody frozen", World: calm.with(func(w *world) { w.StartOrder, w.Freezes = true, 0 })},
	}
}
