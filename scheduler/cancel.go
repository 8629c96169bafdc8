package scheduler

import "slices"

// CancelTrigger is s with a waiting trigger ended as SKIPPED(canceled). Tokens of s must have been
// filled in (Fill); s is not changed.
func CancelTrigger(s State, t Trigger) State {
	s = s.clone()
	s.accountTrigger(t, Skipped, ReasonCanceled)
	return s
}

// CancelRetry is s with an owed retry taken out: the firing ends with its last attempt's verdict, as
// its record says. It reports false if no retry of the firing is owed. Tokens of s must have been
// filled in (Fill); s is not changed.
func CancelRetry(s State, f Firing) (State, bool) {
	i := slices.IndexFunc(s.Retries, func(r PendingRetry) bool { return r.Firing == f })
	if i < 0 {
		return s, false
	}
	s = s.clone()
	last := s.Retries[i].last()
	s.Retries = slices.Delete(s.Retries, i, i+1)
	s.count(last.Verdict, last.Reason, 1)
	return s, true
}

// CancelEnded is CancelRetry for a retry that is not derived yet: the record of the attempt's end lies
// in its slot, and the fold that would make the retry is still to come. It reports false if none would
// follow. Tokens of s must have been filled in (Fill); s is not changed.
func CancelEnded(s State, job Job, run Run) (State, bool) {
	if after, owed := CancelRetry(ApplyEnd(s, job, run, run.Firing), run.Firing); owed {
		return after, true
	}
	return s, false
}
