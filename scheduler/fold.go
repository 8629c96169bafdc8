package scheduler

import (
	"slices"
	"time"
)

// ApplyEnd is the fold rule for one entry whose record was seen in its slot, or is written in the same
// transaction: the entry of f leaves the state, and either its verdict is counted or, if the job's
// policy allows a further attempt, it becomes a pending retry. Under a tombstone there is never a
// further attempt. A state without that entry, or a run that does not end its attempt, comes back
// unchanged: applying an end twice counts it once.
//
// A late result uses it as well. Tokens of s must have been filled in (Fill); s is not changed.
func ApplyEnd(s State, job Job, run Run, f Firing) State {
	i := slices.IndexFunc(s.Entries, func(e Entry) bool { return e.Firing == f })
	if i < 0 || !s.Entries[i].endedBy(&run) {
		return s
	}
	s.end(job, i, run.Attempts)
	if job.Tombstone() {
		s.settle(run.Last().Finished)
	}
	return s
}

// endedBy says whether the record holds the end of this very attempt. A record of a former attempt
// lies in the same slot, and one of another firing may have lain there.
func (e Entry) endedBy(r *Run) bool {
	if r == nil || r.Firing != e.Firing {
		return false
	}
	last := r.Last()
	sameToken := last.Token == e.Token || last.Token == 0 || e.Token == 0
	return last.Number == e.Attempt && last.Verdict != "" && sameToken
}

// end takes entry i out. The lines are those of all its attempts; the last one is how it ended.
func (s *State) end(job Job, i int, lines []Attempt) {
	e := s.Entries[i]
	s.Entries = slices.Delete(slices.Clone(s.Entries), i, i+1)
	last := lines[len(lines)-1]
	if !followed(job, last) {
		if !cutFoldCount {
			s.count(last.Verdict, last.Reason, 1)
		}
		return
	}
	s.Retries = append(slices.Clip(s.Retries), PendingRetry{
		Firing: e.Firing, Attempt: e.Attempt + 1, Slot: e.Slot, Past: lines, Generation: e.Generation, Due: e.due(),
	})
}

// followed says whether the policy owes a further attempt after one that ended so. Only lost attempts
// are tried again, at once; a back-off sets PendingRetry.NotBefore where end makes it.
func followed(job Job, last Attempt) bool {
	return !job.Tombstone() && job.Policy.OnLost == OnLostRetry && lost(last) && last.Number < maxAttempts(job)
}

// lost says whether the attempt went with its lock. One that its own member killed for that, and could
// still record, is FAILED(lock lost); it would be LOST had its member not come back in time. Which of
// the two is written first must not decide whether the firing is tried again.
func lost(a Attempt) bool {
	return a.Verdict == Lost || a.Verdict == Failed && a.Reason == ReasonLockLost
}

// maxAttempts is Retry.MaxAttempts with its default.
func maxAttempts(job Job) int {
	switch {
	case job.Policy.Retry.MaxAttempts > 0:
		return job.Policy.Retry.MaxAttempts
	case job.Policy.OnLost == OnLostRetry:
		return defaultLostAttempts
	}
	return 1
}

// cancelled says whether an owed retry can never be granted any more: an edit took away the attempt,
// or its start deadline has passed or will have before it may begin. The firing then ends with the
// verdict of its last attempt.
func (r PendingRetry) cancelled(job Job, now time.Time) bool {
	if !followed(job, r.last()) {
		return true
	}
	deadline := job.Policy.StartDeadline
	return deadline > 0 && (now.After(r.due().Add(deadline)) || r.NotBefore.After(r.due().Add(deadline)))
}

// last is the line of the attempt before. A retry without one was written by something else than this
// program; that it is owed at all says how the attempt ended.
func (r PendingRetry) last() Attempt {
	if len(r.Past) == 0 {
		return Attempt{Number: r.Attempt - 1, Verdict: Lost, Reason: ReasonMemberLost}
	}
	return r.Past[len(r.Past)-1]
}

// due falls back to the instant, for a state that does not carry Due.
func (r PendingRetry) due() time.Time { return Entry{Firing: r.Firing, Due: r.Due, Past: r.Past}.due() }

func (e Entry) due() time.Time {
	switch {
	case !e.Due.IsZero():
		return e.Due
	case !e.Firing.Manual():
		return e.Firing.Instant()
	case len(e.Past) > 0:
		return e.Past[0].Granted
	}
	return e.Granted
}

// settle notes when the last firing in flight of a tombstone ended.
func (s *State) settle(at time.Time) {
	if len(s.Entries) == 0 && len(s.Retries) == 0 && at.After(s.Settled) {
		s.Settled = at
	}
}
