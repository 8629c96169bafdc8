package main

// The worlds. Each bound is on faults and on what users do; everything else may happen in any order.

// edits are the changes that users make where nothing else is said.
func edits() []change { return []change{plainEdit, reschedule, pauseResume, deletion} }

// Free worlds: every member acts as the owner at all times, from any earlier view. They ask the guards
// of the transactions.

func fail1() world {
	return world{Members: 2, Instants: 1, Limit: 1, Crashes: 1, Ends: 1, Ambiguous: 1, Edits: 1, Freezes: 1, Changes: edits()}
}

func retry1() world {
	return world{Members: 2, Instants: 1, Limit: 1, Retry: true, Crashes: 1, Ends: 1, Ambiguous: 1, Freezes: 1}
}

func retryEdits() world {
	return world{Members: 2, Instants: 1, Limit: 1, Retry: true, Ends: 1, Ambiguous: 1, Edits: 1,
		Changes: append(edits(), lowerAttempts)}
}

func fail2() world {
	return world{Members: 2, Instants: 2, Limit: 1, Crashes: 1, Ends: 1, Ambiguous: 1}
}

func fail2Edits() world {
	return world{Members: 2, Instants: 2, Limit: 1, Ends: 1, Ambiguous: 1, Edits: 1, Changes: edits()}
}

func any2() world {
	return world{Members: 2, Instants: 2, Limit: 1, AllowAll: true, Ends: 1, Ambiguous: 1}
}

func anyRetry2() world {
	return world{Members: 2, Instants: 2, Limit: 1, AllowAll: true, Retry: true, Ends: 1}
}

func trigger1() world {
	return world{Members: 2, Manual: true, Repeats: 1, Limit: 1, Crashes: 1, Ends: 1, Ambiguous: 1, Edits: 1, Changes: edits()}
}

func late2() world {
	return world{Members: 2, Instants: 2, Limit: 1, CatchUp: true, Deadline: true, Ends: 1}
}

func two() world {
	return world{Members: 2, Instants: 2, Out: 2, Limit: 1, AllowAll: true, Ambiguous: 2}
}

func groups() world {
	return world{Members: 1, TwoJobs: true, Instants: 2, Limit: 1, Out: 2, Groups: true, Ends: 1, Ambiguous: 1}
}

func cancels() world {
	return world{Members: 2, Manual: true, Limit: 1, Retry: true, Ends: 1, Cancels: 1}
}

func freeWorlds() []testCase {
	return []testCase{
		{"fail, 1 instant", "", large, fail1()},
		{"fail, 1 instant, no edits", "", medium, fail1().with(func(w *world) { w.Edits = 0 })},
		{"fail, 1 instant, 3 members", "", medium, world{Members: 3, Instants: 1, Limit: 1, Crashes: 1, Ends: 1, Ambiguous: 1}},
		{"retry, 1 instant", "", large, retry1()},
		{"retry, 1 instant, no crash", "", small, retry1().with(func(w *world) { w.Crashes = 0 })},
		{"retry, 1 instant, edits", "", medium, retryEdits()},
		{"retry, 1 instant, 3 members", "", medium, world{Members: 3, Instants: 1, Limit: 1, Retry: true, Ends: 1, Ambiguous: 1}},
		{"retry, 1 instant, deadline", "", medium, retryEdits().with(func(w *world) { w.Edits, w.Deadline = 0, true })},
		{"fail, 2 instants", "", large, fail2()},
		{"fail, 2 instants, no crash", "", medium, fail2().with(func(w *world) { w.Crashes = 0 })},
		{"fail, 2 instants, edits", "", large, fail2Edits()},
		{"fail, 2 instants, pause and resume", "", medium, fail2Edits().with(func(w *world) {
			w.Ambiguous, w.Edits, w.Changes = 0, 2, []change{pauseResume}
		})},
		{"fail, 2 instants, late, deadline", "", medium, late2()},
		{"fail, 2 instants, allow_all", "", large, any2()},
		{"retry, 2 instants", "", large, world{Members: 2, Instants: 2, Limit: 1, Retry: true, Crashes: 1, Ends: 1}},
		{"fail, trigger", "", large, trigger1()},
		{"fail, instant + trigger", "", large, world{Members: 2, Instants: 1, Manual: true, Repeats: 1, Limit: 1,
			Ends: 1, Ambiguous: 1, Edits: 1, Changes: edits()}},
		{"retry, instant + trigger", "", medium, world{Members: 2, Instants: 1, Manual: true, Repeats: 1, Limit: 1, Retry: true, Ends: 1}},
		{"fail, panic after grant", "", large, fail1().with(func(w *world) { w.Panics, w.Freezes = 1, 0 })},
		{"retry, panic after grant", "", medium, retryEdits().with(func(w *world) { w.Panics, w.Changes = 1, []change{deletion} })},
		{"retry, trigger, cancel", "", small, cancels()},
		{"retry, trigger, cancel, lost reply", "", medium, cancels().with(func(w *world) { w.Ambiguous = 1 })},
		{"two claims out, 1 member, panic", "", large, world{Members: 1, Instants: 2, Out: 2, Limit: 1, AllowAll: true,
			Ends: 1, Ambiguous: 2, Panics: 1}},
		{"two claims out, 1 member, retry", "", large, world{Members: 1, Instants: 2, Out: 2, Limit: 1, Retry: true, Ends: 1, Ambiguous: 2}},
		{"groups, 2 jobs", "", large, groups()},
		{"groups, 2 jobs, retry", "", large, groups().with(func(w *world) { w.Retry, w.Ambiguous = true, 0 })},
		{"groups, 2 jobs, rules move", "", small, groups().with(func(w *world) { w.Ends, w.Moves = 0, 1 })},
		{"groups, 2 jobs, 2 members", "", medium, groups().with(func(w *world) { w.Members, w.Ends = 2, 0 })},
	}
}

// Owned worlds: one owner, which plans from its own copy of the state, its own copy of the definition
// and what it was told of triggers and entries. They ask how an owner learns what it must know.

func own1() world {
	return world{Members: 2, Instants: 1, Limit: 1, Owned: true, Moves: 1, Crashes: 1, Ends: 1, Ambiguous: 1}
}

func ownTrigger() world {
	return world{Members: 2, Manual: true, Limit: 1, Owned: true, Moves: 1, Crashes: 1, Ends: 1, Ambiguous: 1}
}

func ownRetry() world {
	return world{Members: 2, Manual: true, Limit: 1, Retry: true, Owned: true, Moves: 2, Ends: 1}
}

func ownAlone() world {
	return world{Members: 1, Manual: true, Limit: 1, Retry: true, Owned: true, Ends: 1, Ambiguous: 1}
}

func ownEdits() world {
	return world{Members: 1, Instants: 1, Manual: true, Limit: 1, Owned: true, Edits: 2, Changes: []change{plainEdit, pauseResume}}
}

func ownPause() world {
	return world{Members: 1, Instants: 2, Limit: 1, Owned: true, Edits: 2, Changes: []change{pauseResume}}
}

func ownApply() world {
	return world{Members: 1, Manual: true, Limit: 1, Owned: true, Ends: 1, Ambiguous: 1, Edits: 2, Changes: []change{deletion, creation}}
}

func ownCreate() world {
	return world{Members: 1, Manual: true, Limit: 1, Owned: true, Unborn: true, Ends: 1, Ambiguous: 1, Edits: 1, Changes: []change{creation}}
}

func ownPool() world {
	return world{Members: 1, Manual: true, Limit: 1, Owned: true, Elsewhere: true, Ends: 1, Ambiguous: 1, Edits: 1, Changes: []change{movePool}}
}

func ownCancel() world {
	return world{Members: 1, Manual: true, Limit: 1, Retry: true, Owned: true, Ends: 1, Ambiguous: 1, Cancels: 1}
}

func ownedWorlds() []testCase {
	return []testCase{
		{"owner moves, instant", "", large, own1()},
		{"owner moves, trigger", "", large, ownTrigger()},
		{"owner moves, trigger, no crash", "", medium, ownTrigger().with(func(w *world) { w.Crashes = 0 })},
		{"owner moves, trigger, delete", "", large, ownTrigger().with(func(w *world) {
			w.Crashes, w.Ambiguous, w.Edits, w.Changes = 0, 0, 1, []change{deletion}
		})},
		{"owner moves twice, retry", "", medium, ownRetry()},
		{"owner moves, two requests out", "", medium, ownRetry().with(func(w *world) { w.Out, w.Moves, w.Ambiguous = 2, 1, 1 })},
		{"owner alone, retry, lost reply", "", small, ownAlone()},
		{"owner alone, retry, panic, crash, rejoin", "", large, ownAlone().with(func(w *world) { w.Panics, w.Moves, w.Crashes = 1, 1, 1 })},
		{"owner alone, retry, panic, rejoin", "", small, ownAlone().with(func(w *world) { w.Panics, w.Moves = 1, 1 })},
		{"owner alone, retry, edits", "", medium, ownAlone().with(func(w *world) {
			w.Edits, w.Changes = 1, []change{deletion, lowerAttempts}
		})},
		{"owner alone, retry, 2 instants", "", small, ownAlone().with(func(w *world) { w.Manual, w.Instants = false, 2 })},
		{"owner alone, retry, late, deadline", "", medium, late2().with(func(w *world) { w.Members, w.Owned, w.Retry = 1, true, true })},
		{"owner alone, edits", "", small, ownEdits()},
		{"owner alone, pause and resume", "", small, ownPause()},
		{"owner alone, name applied again", "", medium, ownApply()},
		{"owner alone, job created", "", small, ownCreate()},
		{"owner alone, job changes pools", "", small, ownPool()},
		{"owner alone, cancel", "", small, ownCancel()},
	}
}

// goals must be reached: a model in which nothing happens proves nothing.
func goals() []testCase {
	goal := func(name string, w world, g func(*state) bool) testCase {
		w.Goal = g
		return testCase{Name: reachPrefix + name, Want: "reached", World: w}
	}
	return []testCase{
		goal("second attempt succeeds", retry1().with(func(w *world) { w.Crashes = 0 }), func(s *state) bool { return s.Started[0][1] == 1 && s.Jobs[0].Count[0] == succeeded }),
		goal("LOST, never started", fail1(), func(s *state) bool { return s.Verdict[0] == lost && s.Started[0][0] == 0 }),
		goal("killed at its deadline, then tried again", retry1(), func(s *state) bool {
			return s.Ring[0][0].Lines[0] == killed && s.Locks[0].Token == 2
		}),
		goal("overlap skip", fail2(), func(s *state) bool { return s.Verdict[1] == skipped && s.Started[0][0] == 1 }),
		goal("late result counted", fail1(), func(s *state) bool {
			return s.Jobs[0].Count[0] == succeeded && s.Members[0].Run[0][0].Phase == late
		}),
		goal("backlog drawn", late2(), func(s *state) bool { return s.Verdict[0] == skipped && s.Started[1][0] == 1 && s.Late == 2 }),
		goal("retry ended by the deadline", retry1().with(func(w *world) { w.Deadline = true }), func(s *state) bool {
			return s.Past == 1 && s.Jobs[0].Count[0] == lost && s.Started[0][1] == 0 && s.Grants == 1 && s.Ring[0][0].full()
		}),
		goal("retry ended by an edit", retryEdits(), func(s *state) bool { return s.Def.Once == 1 && s.Jobs[0].Count[0] == lost && s.Grants == 1 }),
		goal("retry dropped by a delete", retryEdits(), func(s *state) bool { return s.Def.Gone == 1 && s.Jobs[0].Count[0] == lost && s.Grants == 1 }),
		goal("two run at once, allow_all", any2(), func(s *state) bool {
			return s.Locks[0].Lease != 0 && s.Locks[1].Lease != 0 && s.Locks[0].Lease != s.Locks[1].Lease
		}),
		goal("two run at once after a freeze", retry1(), func(s *state) bool {
			return s.Frozen == 1 && s.Started[0] == [nAttempts]uint8{1, 1}
		}),
		goal("two claims unresolved at once", two(), func(s *state) bool { return s.Members[0].Wait == [nOut]wait{unknown, unknown} }),
		goal("both still in flight", two(), func(s *state) bool {
			return s.Members[0].Astray[0].Kind == begin && s.Members[0].Astray[1].Kind == begin
		}),
		goal("a group grants two jobs", groups(), func(s *state) bool {
			return s.Locks[0].Lease != 0 && s.Locks[1].Lease != 0 && s.Members[0].Wait == [nOut]wait{}
		}),
		goal("of one group one is granted, one refused", groups().with(func(w *world) { w.Members, w.Ends = 2, 0 }), func(s *state) bool {
			p := &s.Members[0]
			return p.Joint == 1 && p.Sent[0].StateStale != p.Sent[1].StateStale && s.Locks[0].Lease == 0 && s.Locks[1].Lease == 0
		}),
		goal("a group unanswered and in flight", groups(), func(s *state) bool { return s.Members[0].AstrayJoint == 1 }),
		goal("running attempt cancelled", cancels(), func(s *state) bool { return s.Verdict[manual] == canceled && s.Started[manual][0] == 1 }),
		goal("owed retry cancelled", cancels(), func(s *state) bool { return s.Cancels == 0 && s.Jobs[0].Count[manual] == lost && s.Grants == 1 }),
		goal("waiting trigger cancelled", cancels(), func(s *state) bool { return s.Cancels == 0 && s.Verdict[manual] == skipped }),
		goal("second uid fires", ownApply(), func(s *state) bool { return s.Def.UID == 2 && s.Jobs[0].Count[manual] == succeeded }),
		goal("owner back, its former claim still in flight", ownRetry().with(func(w *world) { w.Ambiguous = 1 }), func(s *state) bool {
			return s.Moves == 0 && s.Owner == 1 && s.Members[0].Mind.Loaded == 1 && s.Members[0].Astray[0].Kind == begin && s.Members[0].Wait[0] == unknown
		}),
		goal("attempt of a former incarnation runs on", ownAlone().with(func(w *world) { w.Moves = 1 }), func(s *state) bool {
			return s.Moves == 0 && s.Named == 1 && s.Members[0].Mind.Loaded == 1 && s.Members[0].Run[manual][0].Phase == running
		}),
	}
}
