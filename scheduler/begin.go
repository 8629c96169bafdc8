package scheduler

import (
	"slices"
	"time"
)

// The steps that grant attempts, or decide that none will be. They are claims.

// grantRetry grants the oldest owed attempt whose time has come. It has waited its turn, so it comes
// before anything that is newly due; but it waits for what is in flight, for no overlap is allowed. And
// it waits until it is due: the attempt before may have been granted by a clock that was ahead.
func (p *planner) grantRetry() *Decision {
	if !p.v.Room || len(p.s.Entries) > 0 {
		return nil
	}
	for _, r := range p.s.Retries {
		if at := later(r.NotBefore, r.due()); at.After(p.at) {
			p.wakeBy(at)
			continue
		}
		p.dropRetry(r.Firing)
		slot := r.Slot
		if cutRetrySlot {
			slot = p.s.takeSlot(p.v.Job)
		}
		return p.begin(Entry{Firing: r.Firing, Attempt: r.Attempt, Slot: slot, Past: r.Past, Due: r.due()})
	}
	return nil
}

// startDue begins, or skips for overlap, what is due on time: the oldest instant after the cursor, or
// the oldest waiting trigger if it was asked for earlier.
func (p *planner) startDue() *Decision {
	instant, due := p.nextDue()
	trigger := p.nextTrigger()
	if instant.IsZero() && trigger == nil {
		return nil
	}
	if d := p.missInstant(instant, due); d != nil {
		return d
	}
	blame, wait := p.inTheWay()
	free := len(blame) == 0 && !wait && p.v.Room
	if len(blame) == 0 && !free {
		if !instant.IsZero() {
			p.wakeBy(due.Add(OnTime + 1)) // then it is late
		}
		return nil
	}
	if trigger != nil && (instant.IsZero() || trigger.Requested.Before(due)) {
		if free {
			return p.beginTrigger(*trigger)
		}
		return p.refuseTrigger(*trigger, KindSkip, Skipped, ReasonOverlap, blame)
	}
	excluded := p.pass(instant)
	if free {
		d := p.beginInstant(instant, due)
		d.Excluded = excluded
		return d
	}
	p.s.account(p.v.Timetable, Range{Verdict: Skipped, Reason: ReasonOverlap, First: instant, Last: instant, Count: 1})
	d := p.about(p.decide(KindSkip), instant)
	d.Verdict, d.Reason, d.Blame, d.Excluded = Skipped, ReasonOverlap, blame, excluded
	return d
}

// pass moves the cursor to an instant that gets its verdict, and accounts those before it, which the
// calendars exclude. It returns how many they are.
func (p *planner) pass(instant time.Time) (excluded int64) {
	if p.v.Excluded != nil {
		_, excluded = p.s.accountBetween(&p.v, p.s.Cursor, instant.Add(-time.Second), Skipped, ReasonExcluded)
	}
	p.s.Cursor = instant
	return excluded
}

// skipExcluded decides the excluded instants that have waited for ExcludedAfter: nothing came that their
// verdict could ride on.
func (p *planner) skipExcluded() *Decision {
	if p.v.Excluded == nil {
		return nil
	}
	oldest := p.v.Timetable.Next(p.s.Cursor)
	if oldest.IsZero() || !p.v.Excluded.Excludes(oldest) {
		return nil
	}
	if due := oldest.Add(ExcludedAfter); due.After(p.at) {
		p.wakeBy(due)
		return nil
	}
	r := p.s.passExcluded(&p.v, p.at)
	d := p.decide(KindSkip)
	d.Instants, d.First, d.Last, d.Verdict, d.Reason = r.Count, r.First, r.Last, Skipped, ReasonExcluded
	return d
}

// nextDue is the oldest undecided instant that is not excluded, and when it is due, if that is not in the
// future. If the oldest of all is excluded there is no need to look further than for as long as its verdict
// may wait: then skipExcluded has the job planned again.
func (p *planner) nextDue() (instant, due time.Time) {
	var beyond time.Time
	if p.v.Excluded != nil {
		beyond = later(p.v.Timetable.Next(p.s.Cursor), p.at).Add(ExcludedAfter)
	}
	instant = p.v.Excluded.next(p.v.Timetable, p.s.Cursor, beyond)
	if instant.IsZero() {
		return time.Time{}, time.Time{}
	}
	due = Due(p.v.Job, p.v.Timetable, instant)
	if due.After(p.at) {
		p.wakeBy(due)
		return time.Time{}, time.Time{}
	}
	return instant, due
}

// nextTrigger is the oldest trigger that waits.
func (p *planner) nextTrigger() *Trigger {
	for i := range p.v.Triggers {
		if !p.consumed(p.v.Triggers[i]) {
			return &p.v.Triggers[i]
		}
	}
	return nil
}

// consumed says whether the state knows the firing of a trigger: its grant deleted the trigger, and the
// view of the triggers is behind.
func (p *planner) consumed(t Trigger) bool {
	f := Triggered(p.s.UID, t.ID)
	return p.s.knows(f) || p.v.State.knows(f)
}

// missInstant decides an on-time instant whose start deadline, shorter than OnTime, has passed.
func (p *planner) missInstant(instant, due time.Time) *Decision {
	deadline := p.v.Job.Policy.StartDeadline
	if instant.IsZero() || deadline <= 0 {
		return nil
	}
	if !p.at.After(due.Add(deadline)) {
		p.wakeBy(due.Add(deadline + 1))
		return nil
	}
	excluded := p.pass(instant)
	p.s.account(p.v.Timetable, Range{Verdict: Missed, Reason: ReasonStartDeadline, First: instant, Last: instant, Count: 1})
	d := p.about(p.decide(KindMiss), instant)
	d.Verdict, d.Reason, d.Excluded = Missed, ReasonStartDeadline, excluded
	return d
}

// inTheWay is what forbids another attempt: each entry and owed retry that a skip can be blamed on.
// wait says that something else is in the way of which nothing may be decided yet: an entry of which
// nothing is known blocks silently, and an ending one is waited for, so that a run that ends as the
// next falls due does not cost that one its turn.
func (p *planner) inTheWay() (blame []Blame, wait bool) {
	for _, e := range p.s.Entries {
		f, known := p.fact(e)
		if until := f.EndingSince + EndingWait; known && f.Ending && p.elapsed < until {
			p.wakeIn(until)
			wait = true
			continue
		}
		if !known {
			wait = wait || !cutOverlapMemory
			continue
		}
		blame = append(blame, Blame{Firing: e.Firing, Lock: f.Lock, Slot: e.Slot, Token: e.Token})
	}
	for _, r := range p.s.Retries {
		blame = append(blame, Blame{Firing: r.Firing, Slot: r.Slot})
	}
	return blame, wait
}

// beginInstant grants the first attempt of an instant.
func (p *planner) beginInstant(instant, due time.Time) *Decision {
	return p.about(p.begin(Entry{Firing: At(p.s.UID, instant), Attempt: 1, Slot: p.s.takeSlot(p.v.Job), Due: due}), instant)
}

// beginTrigger grants the first attempt of a triggered firing, and consumes the trigger.
func (p *planner) beginTrigger(t Trigger) *Decision {
	due := t.Requested
	if due.After(p.at) { // by a clock that is ahead of ours: a retry would wait until then
		due = p.at
	}
	d := p.begin(Entry{Firing: Triggered(p.s.UID, t.ID), Attempt: 1, Slot: p.s.takeSlot(p.v.Job), Due: due})
	d.Trigger, d.TriggerRevision = t.ID, t.Revision
	return d
}

// begin grants an attempt. Token, Member, Nonce and Hold are not known before it is sent: see
// Decision.Grant.
func (p *planner) begin(e Entry) *Decision {
	e.Generation, e.Granted = p.v.Job.Generation, p.at
	p.s.Entries = append(slices.Clip(p.s.Entries), e)
	d := p.decide(KindBegin)
	d.Firing, d.Attempt, d.Slot = e.Firing, e.Attempt, e.Slot
	return d
}

// about says that the decision gives one scheduled instant its attempt or verdict.
func (p *planner) about(d *Decision, instant time.Time) *Decision {
	d.Firing = At(p.s.UID, instant)
	d.Instants, d.First, d.Last = 1, instant, instant
	return d
}

// refuseTrigger consumes a trigger without granting anything.
func (p *planner) refuseTrigger(t Trigger, kind Kind, v Verdict, why Reason, blame []Blame) *Decision {
	p.s.accountTrigger(t, v, why)
	d := p.decide(kind)
	d.Firing, d.Trigger, d.TriggerRevision = Triggered(p.s.UID, t.ID), t.ID, t.Revision
	d.Verdict, d.Reason, d.Blame = v, why, blame
	return d
}

// skipTriggers refuses what was asked of a paused job.
func (p *planner) skipTriggers() *Decision {
	if t := p.nextTrigger(); t != nil {
		return p.refuseTrigger(*t, KindSkip, Skipped, ReasonPaused, nil)
	}
	return nil
}

// dropTriggers refuses what was asked of a job that is deleted. The delete consumed those it saw.
func (p *planner) dropTriggers() *Decision {
	if t := p.nextTrigger(); t != nil {
		return p.refuseTrigger(*t, KindSkip, Skipped, ReasonDeleted, nil)
	}
	return nil
}

// missTriggers refuses a trigger that waited beyond its start deadline.
func (p *planner) missTriggers() *Decision {
	deadline := p.v.Job.Policy.StartDeadline
	if deadline <= 0 {
		return nil
	}
	for _, t := range p.v.Triggers {
		if p.consumed(t) {
			continue
		}
		if p.at.After(t.Requested.Add(deadline)) {
			return p.refuseTrigger(t, KindMiss, Missed, ReasonStartDeadline, nil)
		}
		p.wakeBy(t.Requested.Add(deadline + 1))
	}
	return nil
}
