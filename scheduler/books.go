package scheduler

import (
	"time"
)

// CloseBooks is the state to write together with a new definition, a pause, a resume or a tombstone:
// v is the old definition with its timetable and state, and everything due under it up to now gets its
// verdict, SKIPPED(reason), with the backlog. The cursor becomes now, so that the new definition
// decides only what comes after. What is in flight stays as it is; it keeps the definition it was
// granted under.
//
// The instants of a paused job are SKIPPED(paused) whatever closes its books, for that is why they
// were not run. For ReasonDeleted the waiting triggers of the view are SKIPPED(deleted), and each owed
// retry ends its firing with its last attempt's verdict. An edit that closes no books (ClosesBooks)
// keeps the cursor: its state is Fill alone.
func CloseBooks(v View, now Reading, reason Reason) State {
	s := Fill(v.State, v.StateRevision)
	at := v.instant(now)
	why := reason
	if v.Job.Paused {
		why = ReasonPaused
	}
	if b := s.Backlog; b != nil {
		s.account(v.Timetable, Range{Verdict: Skipped, Reason: why, First: b.First, Last: b.Last, Count: b.Count})
		s.Backlog = nil
	}
	if v.Job.Paused {
		v.Excluded = nil // a pause may last for longer than former versions of calendars are kept
	}
	if !cutBooks {
		s.accountBetween(&v, s.Cursor, at, Skipped, why)
	}
	if whole := wholeSecond(at); whole.After(s.Cursor) {
		s.Cursor = whole
	}
	if reason != ReasonDeleted {
		return s
	}
	if cutDeleteState {
		s.Entries = nil
	}
	for _, t := range v.Triggers {
		if !s.knows(Triggered(s.UID, t.ID)) {
			s.accountTrigger(t, Skipped, ReasonDeleted)
		}
	}
	if !cutDeleteRetries {
		for _, r := range s.Retries {
			s.count(r.last().Verdict, r.last().Reason, 1)
		}
		s.Retries = nil
	}
	s.settle(at)
	return s
}

// knows says whether the firing is in flight or owed a retry.
func (s *State) knows(f Firing) bool {
	for _, e := range s.Entries {
		if e.Firing == f {
			return true
		}
	}
	for _, r := range s.Retries {
		if r.Firing == f {
			return true
		}
	}
	return false
}

// Unaccounted counts the instants due more than OnTime ago that no decision covers. A backlog is
// covered by the decision that made it, a pause covers its instants until it ends, and calendars cover
// theirs: they are accounted together, with the next one that is not excluded or within ExcludedAfter.
func Unaccounted(v View, now Reading) int64 {
	if v.Job.Tombstone() || v.Job.Paused {
		return 0
	}
	late := lastDue(v.Job, v.Timetable, v.State.Cursor, now.Wall.Add(-OnTime-1))
	var n int64
	v.Excluded.runs(v.Timetable, v.State.Cursor, late, func(r Range, excluded bool) bool {
		if !excluded {
			n += r.Count
		}
		return true
	})
	return n
}

// ShowExcluded is the state as people are shown it: with the instants up to now accounted that the calendars
// exclude, if nothing else is due before them. They will be written with the next decision (ExcludedAfter),
// which no reader should have to know.
func ShowExcluded(v View, now time.Time) State {
	s := v.State.clone()
	if v.Excluded == nil || v.Job.Tombstone() || v.Job.Paused {
		return s
	}
	s.passExcluded(&v, now)
	return s
}

// passExcluded accounts the excluded instants that follow the cursor directly, up to now, and moves the
// cursor past them. It returns the range they make; its Count is 0 if there are none.
func (s *State) passExcluded(v *View, now time.Time) (passed Range) {
	v.Excluded.runs(v.Timetable, s.Cursor, now, func(r Range, excluded bool) bool {
		if !excluded {
			return false
		}
		r.Verdict, r.Reason = Skipped, ReasonExcluded
		s.account(v.Timetable, r)
		if passed.Count == 0 {
			passed.First = r.First
		}
		passed.Last, passed.Count = r.Last, passed.Count+r.Count
		s.Cursor = r.Last
		return true
	})
	return passed
}

// instant is the latest instant that may be decided about: the member's wall clock, or less if that
// may be ahead.
func (v View) instant(now Reading) time.Time {
	at := now.Wall.Round(0).UTC()
	if !v.NotBeyond.IsZero() && v.NotBeyond.Before(at) {
		return v.NotBeyond.Round(0).UTC()
	}
	return at
}
