package scheduler

import (
	"slices"
	"time"
)

// NewState is the state of a job that is created now: nothing before now is ever due.
func NewState(j Job, now time.Time) State {
	s := State{UID: j.UID, Cursor: wholeSecond(now)}
	s.Slots = ringSize(j, s)
	return s
}

// Fill is s with the tokens filled in that were not known when it was written: an entry granted by a
// write has that write's revision, rev, as its token. Whoever rewrites a state fills it first, for the
// rewritten value has another revision. The result shares nothing that planning changes.
func Fill(s State, rev int64) State {
	return s.clone().filled(rev)
}

// filled is Fill without the copy. What plans may share slices with what it was given, because whatever
// changes one of a State's slices copies it first: a job is planned many times for each write.
func (s State) filled(rev int64) State {
	if !slices.ContainsFunc(s.Entries, func(e Entry) bool { return e.Token == 0 }) {
		return s
	}
	s.Entries = slices.Clone(s.Entries)
	for i := range s.Entries {
		if s.Entries[i].Token == 0 {
			s.Entries[i].Token = rev
		}
	}
	return s
}

// clone is a copy whose slices can be changed. Past lines are shared: nothing changes one.
func (s State) clone() State {
	if s.Backlog != nil {
		b := *s.Backlog
		s.Backlog = &b
	}
	s.Entries = slices.Clone(s.Entries)
	s.Retries = slices.Clone(s.Retries)
	s.Ranges = slices.Clone(s.Ranges)
	s.Counters = slices.Clone(s.Counters)
	return s
}

// wholeSecond cuts to the second: instants are whole seconds, so that nothing lies between.
func wholeSecond(t time.Time) time.Time { return time.Unix(t.Unix(), 0).UTC() }
