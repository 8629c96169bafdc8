package scheduler

import (
	"slices"
)

// The steps that end what is in flight. They are ends: nothing holds them up.

// lose calls an entry lost whose lock is gone without a record, once its attempt is surely dead: its
// own member had to kill it before its hold was over.
func (p *planner) lose() *Decision {
	for i, e := range p.s.Entries {
		f, known := p.fact(e)
		if !known || f.Lock != 0 {
			continue
		}
		dead := f.GoneSince + e.Hold + LoseMargin
		if p.elapsed < dead && !cutLoseHold {
			p.wakeIn(dead)
			continue
		}
		lines := append(slices.Clip(e.Past), Attempt{
			Number: e.Attempt, Token: e.Token, Member: e.Member, Granted: e.Granted, Verdict: Lost, Reason: ReasonMemberLost,
		})
		p.s.end(p.v.Job, i, lines)
		p.endIfCancelled(e.Firing)
		if p.v.Job.Tombstone() {
			p.s.settle(p.at)
		}
		d := p.decide(KindLose)
		d.Firing, d.Attempt, d.Slot, d.SlotBelow = e.Firing, e.Attempt, e.Slot, e.Token
		d.Verdict, d.Reason = Lost, ReasonMemberLost
		d.Record = &Run{Job: p.v.Job.Name, Firing: e.Firing, Generation: e.Generation, Slot: e.Slot, Attempts: lines}
		return d
	}
	return nil
}

// endIfCancelled ends the firing at once if its start deadline forbids the retry just made.
func (p *planner) endIfCancelled(f Firing) {
	for _, r := range p.s.Retries {
		if r.Firing == f && r.cancelled(p.v.Job, p.at) {
			p.dropRetry(f)
			p.s.count(r.last().Verdict, r.last().Reason, 1)
			return
		}
	}
}

// endRetries writes that an owed retry is cancelled: its firing has its verdict now, and must not go
// on blocking others until something else is written.
func (p *planner) endRetries() *Decision {
	if p.cancelled {
		return p.decide(KindFold)
	}
	if deadline := p.v.Job.Policy.StartDeadline; deadline > 0 {
		for _, r := range p.v.State.Retries {
			p.wakeBy(r.due().Add(deadline + 1))
		}
	}
	return nil
}

// fold writes ended entries out of the state if nothing else did within FoldAfter, or will soon: one
// write more for each firing is a quarter of what it costs, and nothing depends on an entry whose record
// is there.
func (p *planner) fold() *Decision {
	overdue := false
	for _, e := range p.v.State.Entries {
		f := p.v.Facts[e.Firing]
		if !slices.Contains(p.folded, e.Firing) || p.rides(e.Firing) {
			continue
		}
		overdue = overdue || p.elapsed >= f.RecordedSince+FoldAfter
		p.wakeIn(f.RecordedSince + FoldAfter)
	}
	if !overdue {
		return nil
	}
	return p.decide(KindFold)
}

// rides says whether the end of f waits for the next instant, whose decision will carry it. One that is
// owed a further attempt does not: until the retry is in the state, nobody can see that it waits.
func (p *planner) rides(f Firing) bool {
	if p.v.EndsOnly || p.v.Job.Paused || slices.ContainsFunc(p.s.Retries, func(r PendingRetry) bool { return r.Firing == f }) {
		return false
	}
	next := p.v.Timetable.Next(p.s.Cursor)
	if next.IsZero() {
		return false
	}
	// Within OnTime of its being due something is written about it, whatever is in its way.
	return !Due(p.v.Job, p.v.Timetable, next).After(p.at.Add(RideWithin))
}

// foldNow does not wait: under a tombstone nothing else will be written that a fold could ride on.
func (p *planner) foldNow() *Decision {
	if len(p.folded) == 0 {
		return nil
	}
	return p.decide(KindFold)
}

// sweep removes a tombstone that has been settled for SweepAfter.
func (p *planner) sweep() *Decision {
	if len(p.s.Entries) > 0 || len(p.s.Retries) > 0 || len(p.v.Triggers) > 0 {
		return nil
	}
	if due := later(p.v.Job.Deleted, p.s.Settled).Add(SweepAfter); p.at.Before(due) {
		p.wakeBy(due)
		return nil
	}
	return p.decide(KindSweep)
}
