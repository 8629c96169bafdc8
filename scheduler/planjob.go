package scheduler

import (
	"slices"
	"time"
)

// PlanJob is the heart of the scheduler: the one write of the job's state to make now, or when to ask
// again. It is a function of its arguments alone. The same question before the first answer took
// effect has the same answer; performing an answer twice changes nothing, because its write compares
// the revision that it was planned on.
//
// An entry whose record was seen leaves the state with whatever is written next, and blocks nothing
// any more. Everything else is tried in the order of the steps below, and the first that has
// something to write ends the call.
//
//	tombstone  lose → end retries → fold at once → drop triggers → sweep
//	paused     lose → end retries → skip triggers → fold
//	else       lose → end retries → grant a retry → miss triggers → adopt late instants
//	           → begin or skip what is due → give up backlog → draw from backlog → skip excluded → fold
//	ends only  lose → end retries → fold (under a tombstone: at once → sweep)
func PlanJob(v View, now Reading) Plan {
	var p planner // it stays on the stack: a member plans each job several times for each firing
	p.begun(v, now)
	for _, s := range stepsOf(&v) {
		if d := p.take(s); d != nil {
			return Plan{Decision: d}
		}
	}
	return p.plan()
}

// step is one thing to try.
type step int

const (
	stepNone step = iota
	stepLose
	stepEndRetries
	stepGrantRetry
	stepMissTriggers
	stepSkipTriggers
	stepDropTriggers
	stepAdoptLate
	stepStartDue
	stepGiveUpBacklog
	stepDrawBacklog
	stepSkipExcluded
	stepFold
	stepFoldNow
	stepSweep
)

// stepsOf are the steps of a call in their order.
func stepsOf(v *View) [10]step {
	switch {
	case v.Job.Tombstone() && v.EndsOnly:
		return [10]step{stepLose, stepEndRetries, stepFoldNow, stepSweep}
	case v.Job.Tombstone():
		return [10]step{stepLose, stepEndRetries, stepFoldNow, stepDropTriggers, stepSweep}
	case v.EndsOnly:
		return [10]step{stepLose, stepEndRetries, stepFold}
	case v.Job.Paused:
		return [10]step{stepLose, stepEndRetries, stepSkipTriggers, stepFold}
	}
	return [10]step{stepLose, stepEndRetries, stepGrantRetry, stepMissTriggers, stepAdoptLate,
		stepStartDue, stepGiveUpBacklog, stepDrawBacklog, stepSkipExcluded, stepFold}
}

func (p *planner) take(s step) *Decision {
	switch s {
	case stepLose:
		return p.lose()
	case stepEndRetries:
		return p.endRetries()
	case stepGrantRetry:
		return p.grantRetry()
	case stepMissTriggers:
		return p.missTriggers()
	case stepSkipTriggers:
		return p.skipTriggers()
	case stepDropTriggers:
		return p.dropTriggers()
	case stepAdoptLate:
		return p.adoptLate()
	case stepStartDue:
		return p.startDue()
	case stepGiveUpBacklog:
		return p.giveUpBacklog()
	case stepDrawBacklog:
		return p.drawBacklog()
	case stepSkipExcluded:
		return p.skipExcluded()
	case stepFold:
		return p.fold()
	case stepFoldNow:
		return p.foldNow()
	case stepSweep:
		return p.sweep()
	}
	return nil
}

// planner is one call of PlanJob.
type planner struct {
	v       View
	at      time.Time     // what may be decided about: View.instant
	ahead   time.Duration // how far the wall clock is beyond at
	elapsed time.Duration

	// s is the state to be written: Fill of the planned one, with the folds that ride along.
	s      State
	folded []Firing
	// cancelled says that a retry owed by the planned state itself is among what was taken out.
	cancelled bool

	wake        time.Time // on the scale of at
	wakeElapsed time.Duration
}

// begun makes p the planner of this call.
func (p *planner) begun(v View, now Reading) {
	at := v.instant(now)
	p.v, p.at, p.ahead, p.elapsed, p.s = v, at, now.Wall.Sub(at), now.Elapsed, v.State.filled(v.StateRevision)
	if onTime := at.Add(-OnTime); cutCatchUpClock && p.s.Cursor.Before(onTime) {
		p.s.Cursor = wholeSecond(onTime)
	}
	p.rideAlong()
}

// rideAlong takes out of the state what any write takes out: entries whose record was seen, and
// retries that can never be granted any more.
func (p *planner) rideAlong() {
	for _, e := range p.s.Entries {
		if record := p.record(e); record != nil {
			p.s = ApplyEnd(p.s, p.v.Job, *record, e.Firing)
			p.folded = append(p.folded, e.Firing)
		}
	}
	for _, r := range p.s.Retries {
		if !r.cancelled(p.v.Job, p.at) {
			continue
		}
		p.dropRetry(r.Firing)
		p.s.count(r.last().Verdict, r.last().Reason, 1)
		if !slices.Contains(p.folded, r.Firing) {
			p.folded = append(p.folded, r.Firing)
			p.cancelled = true
		}
	}
	if p.v.Job.Tombstone() && len(p.folded) > 0 {
		p.s.settle(p.at)
	}
}

func (p *planner) dropRetry(f Firing) {
	p.s.Retries = slices.DeleteFunc(slices.Clone(p.s.Retries), func(r PendingRetry) bool { return r.Firing == f })
}

// fact is what is known of the very attempt of e, if anything.
func (p *planner) fact(e Entry) (Fact, bool) {
	if f, known := p.v.Facts[e.Firing]; known && f.Of(e) {
		return f, true
	}
	return Fact{}, false
}

// record is the record of the end of e, if it was seen.
func (p *planner) record(e Entry) *Run {
	f, _ := p.fact(e)
	return f.Record
}

// decide is a decision of this kind: the state as it now stands, with what rides along.
func (p *planner) decide(kind Kind) *Decision {
	return &Decision{Kind: kind, Job: p.v.Job.Name, Next: p.s, Folded: p.folded}
}

// wakeBy asks to be called again when the wall clock that is planned by reads t.
func (p *planner) wakeBy(t time.Time) {
	if t.After(p.at) && (p.wake.IsZero() || t.Before(p.wake)) {
		p.wake = t
	}
}

// wakeIn is wakeBy for the elapsed clock.
func (p *planner) wakeIn(elapsed time.Duration) {
	if elapsed > p.elapsed && (p.wakeElapsed == 0 || elapsed < p.wakeElapsed) {
		p.wakeElapsed = elapsed
	}
}

// plan is the answer when there is nothing to write.
func (p *planner) plan() Plan {
	out := Plan{Wake: p.wake, WakeElapsed: p.wakeElapsed}
	if !out.Wake.IsZero() {
		out.Wake = out.Wake.Add(p.ahead)
	}
	return out
}
