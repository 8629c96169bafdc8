package scheduler

import "time"

// book works out, instant by instant, what the write did to which firing.
func (w *world) book(d Decision, before State) {
	w.t.Helper()
	next := d.Next
	if d.Kind == KindSkip || d.Kind == KindMiss {
		if d.Trigger != "" {
			w.ended(d.Firing, d.Verdict, d.Reason)
		}
	}
	decided, excluded := int64(0), int64(0)
	passed := instants(w.table, before.Cursor, next.Cursor)
	if b := before.Backlog; b != nil && (next.Backlog == nil || !next.Backlog.Last.Equal(b.Last)) {
		passed = append([]time.Time{b.Last}, passed...)
	}
	for _, i := range passed {
		f := At(w.job.UID, i)
		fromBacklog := before.Backlog != nil && before.Backlog.Last.Equal(i)
		switch {
		case w.excludes(i) && !fromBacklog: // whatever is decided: it never runs, and waits for nothing
			w.ended(f, Skipped, ReasonExcluded)
			excluded++
		case d.Kind == KindBegin && d.Firing == f:
			decided++
		case next.Backlog != nil && next.Backlog.Last.Equal(i):
		case d.Kind == KindSkip:
			w.ended(f, Skipped, ReasonOverlap)
			decided++
		case d.Kind == KindMiss:
			w.ended(f, Missed, w.whyMissed(i))
			decided++
		default:
			w.fail("%s passes over %s", d, i)
		}
	}
	if d.Reason == ReasonExcluded {
		decided, excluded = decided+excluded, 0
	}
	if decided != d.Instants || excluded != d.Excluded {
		w.fail("%s says that it decides %d and %d excluded instants, it decides %d and %d", d, d.Instants, d.Excluded, decided, excluded)
	}
	for _, p := range promises(before) {
		if next.knows(p.firing) {
			continue
		}
		last := w.lastLine(before, p.firing, d)
		w.ended(p.firing, last.Verdict, last.Reason)
	}
}

// whyMissed is the rule for the reasons of late instants, one at a time.
func (w *world) whyMissed(i time.Time) Reason {
	age := w.at().Sub(Due(w.job, w.table, i))
	policy := w.job.Policy
	switch {
	case policy.CatchUp.Mode == CatchUpNone && age > OnTime:
		return ReasonCatchUp
	case age > policy.CatchUp.Window && age > OnTime:
		return ReasonWindow
	case policy.StartDeadline > 0 && age > policy.StartDeadline:
		return ReasonStartDeadline
	}
	return ReasonCatchUp
}

// lastLine is the line of the attempt with which a firing ends.
func (w *world) lastLine(before State, f Firing, d Decision) Attempt {
	if d.Kind == KindLose && d.Firing == f {
		return d.Record.Last()
	}
	for _, e := range before.Entries {
		if e.Firing == f {
			return w.ring[e.Slot].run.Last()
		}
	}
	for _, r := range before.Retries {
		if r.Firing == f {
			return r.last()
		}
	}
	return Attempt{}
}
