package sabotage

// Cuts are all there are, in the order of the rules in docs/architecture.md.
func Cuts() []Cut {
	return []Cut{
		// Claims: what a Begin, a Skip and a Miss rest on.
		{"state-compare", "a planned write of a job's state does not compare the revision that it was planned on"},
		{"job-compare", "a Begin does not compare the definition that it was planned under"},
		{"lock-lease", "a lock hangs on no lease"},
		{"lock-only", "the state has no entry for an attempt in flight: its lock is the only record of it"},
		{"rules-guard", "claims do not compare the rules revision that they were planned under"},
		{"calendar-rules", "a change of a calendar does not move the rules"},
		{"calendar-guard", "an edit does not compare the calendars that the job names"},
		{"trigger-compare", "a Begin does not compare the trigger that it consumes"},
		{"trigger-delete", "a Begin leaves the trigger that it consumes"},
		{"skip-job-compare", "a Skip or Miss does not compare the definition"},
		{"skip-lock", "a skip for overlap does not compare the lock that it is blamed on"},
		{"skip-slot", "a skip for overlap does not compare that the attempt it is blamed on has not ended"},
		{"overlap-memory", "only attempts that this member knows of are in the way of the next, not those that the state names"},
		{"group-jobs", "operations of one job share a group"},

		// Claims whose outcome is unknown.
		{"fence", "an unknown claim is settled by reading: what is not there counts as refused"},
		{"fence-guard", "the fence is written whatever the state has become meanwhile"},
		{"nonce", "any lock of the firing counts as the claim's own"},
		{"resolution-state", "the owner does not get the state that was read when its claim was resolved"},
		{"unknown-refused", "an unknown claim counts as refused"},
		{"unknown-granted", "an unknown claim counts as granted"},
		{"unknown-repeated", "an unknown group is sent again, without its guards"},
		{"unknown-forgotten", "an unknown claim is not resolved when its lock lease is in doubt"},

		// From the grant to the start.
		{"session-check", "a grant is started though its lock lease is known to be gone"},
		{"age-check", "a grant is started however long ago its Begin was sent"},
		{"token-memory", "the token is what the member knows by itself, the number of the attempt, not the revision of the grant"},

		// Locks that nobody holds.
		{"orphan-rule", "locks of this process that nothing holds are not closed"},
		{"listing-first", "locks are compared with what was held before they were listed"},
		{"held-early", "a claim is not held before it is granted"},

		// Ends.
		{"finish-compare", "a Finish does not compare its lock"},
		{"lose-lock", "LOST does not compare that the lock is gone"},
		{"lose-slot", "LOST does not compare that the slot has no end of the attempt"},
		{"lose-hold", "an attempt is called LOST as soon as its lock is gone"},
		{"handler-deadline", "a handler whose lock cannot be kept is not told to end"},
		{"command-deadline", "a command whose lock cannot be kept is not killed"},
		{"late-compare", "a late result compares neither state nor slot"},
		{"late-over-lost", "a late result replaces LOST"},
		{"fold-early", "an entry is folded when its attempt has ended, before its record is seen"},
		{"fold-count", "a fold does not count the verdict"},
		{"slots-shared", "a promised slot is given out again"},
		{"retry-slot", "a further attempt gets a slot of its own"},

		// Users.
		{"request-id", "a trigger's request id is not remembered"},
		{"trigger-job-compare", "a trigger is stored without comparing the definition"},
		{"edit-job-compare", "an edit does not compare the definition that it was planned on"},
		{"edit-state-compare", "an edit does not compare the state whose books it closes"},
		{"books", "closing the books moves the cursor and accounts for nothing"},
		{"edit-past", "a new schedule is applied to the time before it"},
		{"delete-state", "a delete drops what is in flight from the state"},
		{"delete-retries", "a delete keeps owed retries"},
		{"delete-triggers", "a delete does not compare that no trigger came meanwhile"},
		{"sweep-compare", "the sweep of a tombstone compares nothing"},
		{"repair-cursor", "the repair of a definition moves the cursor to now, also back"},
		{"cancel-early", "a cancel that comes before the grant is known is forgotten"},

		// Owners and what they see.
		{"incarnation", "an assignment names a member, not its incarnation: a restarted one goes on where it was"},
		{"reload", "a shard that was another's in between is not read again"},
		{"marks", "nobody looks for events that a watch has lost"},
		{"dispatcher-guard", "a dispatcher's writes do not compare its term"},
		{"pools-unread", "pools are swept that a definition may use which cannot be read"},

		// Time.
		{"catch-up-clock", "what is late is reckoned from the clock, not from the cursor"},
		{"clock-step", "a step of the wall clock is believed at once"},
		{"backlog-early", "what was found late is begun though the clock, set back since, says that it is not due"},
	}
}
