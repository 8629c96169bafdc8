package scheduler

import (
	"time"
)

// adoptLate decides about every instant that was found late, in one write, by arithmetic: the newest
// one that the catch-up policy would still run becomes the backlog, and all others are MISSED, or SKIPPED if a calendar excludes them. The
// order of their reasons is the order of their age: outside the window, past the start deadline,
// given up for a newer one. The cursor moves past them, so that on-time instants never queue behind.
func (p *planner) adoptLate() *Decision {
	job, table := p.v.Job, p.v.Timetable
	newest := p.lastLate()
	if newest.IsZero() {
		return nil
	}
	d := Decision{First: table.Next(p.s.Cursor), Last: newest}
	missed := func(n int64, why Reason) {
		if n > 0 {
			d.Instants += n
			d.Verdict, d.Reason = Missed, why
		}
	}
	miss := func(after, through time.Time, why Reason) {
		n, excluded := p.s.accountBetween(&p.v, after, through, Missed, why)
		missed(n, why)
		d.Excluded += excluded
	}
	if b := p.s.Backlog; b != nil { // one that waits is given up for a newer one
		r := Range{Verdict: Missed, Reason: p.whyGivenUp(*b), First: b.First, Last: b.Last, Count: b.Count}
		p.s.account(table, r)
		missed(r.Count, r.Reason)
		p.s.Backlog = nil
		d.First = b.First
	}
	after := p.s.Cursor
	kept := Backlog{First: newest, Last: newest, Count: 1}
	if job.Policy.CatchUp.Mode != CatchUpNone {
		for _, edge := range p.edges() {
			if old := lastDue(job, table, after, edge.before); !old.IsZero() {
				old = earlier(old, newest)
				miss(after, old, edge.why)
				after = old
			}
		}
		if after.Before(newest) {
			p.s.Backlog = &kept
			newest = newest.Add(-time.Second)
		}
	}
	miss(after, newest, ReasonCatchUp)
	p.s.Cursor = kept.Last
	out := p.decide(KindMiss)
	out.First, out.Last, out.Instants, out.Excluded, out.Verdict, out.Reason = d.First, d.Last, d.Instants, d.Excluded, d.Verdict, d.Reason
	return out
}

// lastLate is the newest instant that was found late and that the calendars do not exclude, or zero.
func (p *planner) lastLate() time.Time {
	late := lastDue(p.v.Job, p.v.Timetable, p.s.Cursor, p.at.Add(-OnTime-1))
	if late.IsZero() {
		return late
	}
	return p.v.Excluded.last(p.v.Timetable, p.s.Cursor, late)
}

// edge is an age beyond which an instant is not run any more, and why.
type edge struct {
	before time.Time // due at or before this
	why    Reason
}

// edges are the ages that a catch-up respects, the greatest first.
func (p *planner) edges() []edge {
	var list []edge
	if window := p.v.Job.Policy.CatchUp.Window; window > 0 {
		list = append(list, edge{p.at.Add(-window - 1), ReasonWindow})
	}
	if deadline := p.v.Job.Policy.StartDeadline; deadline > 0 {
		list = append(list, edge{p.at.Add(-deadline - 1), ReasonStartDeadline})
	}
	return list
}

// expired says whether the policy would not run the backlog any more, and why.
func (p *planner) expired(b Backlog) (Reason, bool) {
	if p.v.Job.Policy.CatchUp.Mode == CatchUpNone {
		return ReasonCatchUp, true
	}
	due := Due(p.v.Job, p.v.Timetable, b.Last)
	for _, e := range p.edges() {
		if !due.After(e.before) {
			return e.why, true
		}
		p.wakeBy(p.at.Add(due.Sub(e.before)))
	}
	return "", false
}

func (p *planner) whyGivenUp(b Backlog) Reason {
	if why, gone := p.expired(b); gone {
		return why
	}
	return ReasonCatchUp
}

// giveUpBacklog misses what waited too long, or what an edit of the policy gave up. What a calendar has
// come to exclude since it was put there is skipped: its change was made by a clock that is behind, and
// nothing is granted after the reply to it.
func (p *planner) giveUpBacklog() *Decision {
	b := p.s.Backlog
	if b == nil {
		return nil
	}
	kind, verdict := KindMiss, Missed
	why, gone := p.expired(*b)
	if p.v.Excluded.shut(b.Last) {
		kind, verdict, why, gone = KindSkip, Skipped, ReasonExcluded, true
	}
	if !gone {
		return nil
	}
	p.s.Backlog = nil
	p.s.account(p.v.Timetable, Range{Verdict: verdict, Reason: why, First: b.First, Last: b.Last, Count: b.Count})
	d := p.decide(kind)
	d.Instants, d.First, d.Last, d.Verdict, d.Reason = b.Count, b.First, b.Last, verdict, why
	return d
}

// drawBacklog begins the newest late instant, one at a time: not beside another attempt. It is not
// skipped for overlap; it waits. An on-time instant that is due has had its turn before: if it could
// not begin for want of room, or for an entry of which nothing is known, neither can this.
func (p *planner) drawBacklog() *Decision {
	b := p.s.Backlog
	if b == nil || !p.v.Room || len(p.s.Entries)+len(p.s.Retries) > 0 {
		return nil
	}
	due := Due(p.v.Job, p.v.Timetable, b.Last)
	if due.After(p.at) && !cutBacklogEarly { // it was found late by a clock that was ahead
		p.wakeBy(due)
		return nil
	}
	p.s.Backlog = nil
	given := b.Count - 1
	if given > 0 { // left by a policy that draws more than one
		before := p.v.Timetable.Last(b.First.Add(-time.Second), b.Last.Add(-time.Second))
		p.s.account(p.v.Timetable, Range{Verdict: Missed, Reason: ReasonCatchUp, First: b.First, Last: before, Count: given})
	}
	d := p.beginInstant(b.Last, due)
	d.Instants, d.First = b.Count, b.First
	return d
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
