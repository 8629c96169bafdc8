package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/quorumcron/quorumcron/scheduler"
)

// settleBound is how long anything may take once nothing is wrong any more: a hold and its margin, a
// fold on its own, and messages. Runs come on top.
func (w *world) settleBound() time.Duration {
	return w.ttl + w.grace + scheduler.LoseMargin + scheduler.FoldAfter + 5*time.Second
}

// audit looks for what is stuck, each minute. It asks nothing while something is wrong.
func (o *oracle) audit() {
	w := o.world
	calm := w.calm() - w.recovery()
	if calm <= 0 {
		return
	}
	full := slices.ContainsFunc(w.members, func(m *member) bool { return w.now-m.full < time.Minute })
	for _, j := range w.jobs {
		if j.rec == nil {
			continue
		}
		a := j.rec.account
		for _, e := range a.alive {
			o.outlived(e)
		}
		if why := o.unsettled(a, w.now-min(calm, w.settleBound()), full); why != "" && calm > w.settleBound() {
			o.broken(a, "stuck", "%s", why)
		}
		if r := j.rec; r.def.Tombstone() && len(a.open) == 0 &&
			w.wall().Sub(later(r.def.Deleted, r.filled.Settled)) > scheduler.SweepAfter+2*time.Minute && calm > 3*time.Minute {
			o.broken(a, "stuck", "%s is never swept", r.def.UID)
		}
	}
}

// slowest is how far the clock that is the farthest behind is off: at most 0.
func (w *world) slowest() (skew time.Duration) {
	for _, m := range w.members {
		skew = min(skew, m.skew)
	}
	return skew
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// unsettled says what of a job should have ended or been decided by then, and has not; "" is nothing.
// With full there may have been no room to begin anything.
func (o *oracle) unsettled(a *account, by time.Duration, full bool) string {
	w, r := o.world, a.rec
	for _, f := range a.open {
		g := f.last()
		owed := inRetries(r.filled, f.firing)
		switch {
		case g.run != nil && !g.run.over, g.quiet > by:
		case g.verdict != "" && (a.edited > by || o.rides(a, f)): // an edit may have ended its ride
		case owed && (r.def.Paused || full || f.due.After(w.epoch.Add(by))):
		case owed:
			return fmt.Sprintf("%s is owed an attempt since %s", w.trace.short(f.firing), w.trace.moment(g.quiet))
		default:
			return fmt.Sprintf("%s #%d is in flight since %s", w.trace.short(f.firing), len(f.attempts), w.trace.moment(g.quiet))
		}
	}
	if r.def.Paused || r.def.Tombstone() {
		return ""
	}
	wall := w.epoch.Add(by)
	wall = wall.Add(w.slowest()) // a clock that is behind, and believed, decides later
	next := a.calendar.next(r.filled.Cursor.Unix())
	if hour := time.Unix(next, 0).Add(scheduler.ExcludedAfter + onTimeBound); next != 0 && o.out(a, next) && hour.Before(wall) {
		return fmt.Sprintf("%s is excluded, and not decided", w.trace.short(scheduler.At(r.def.UID, time.Unix(next, 0))))
	}
	if next := o.nextOpen(a, r.filled.Cursor.Unix(), wall.Unix()); next != 0 {
		if due := time.Unix(next, 0).Add(a.schedule.Jitter); due.Add(scheduler.OnTime + onTimeBound).Before(wall) {
			return fmt.Sprintf("%s is not decided", w.trace.short(scheduler.At(r.def.UID, time.Unix(next, 0))))
		}
	}
	if full || len(a.open) > 0 {
		a.waiting = time.Time{}
		return ""
	}
	for _, t := range r.triggers {
		if t.Requested.Before(wall) {
			return fmt.Sprintf("trigger %s of %s waits since %s", t.ID, r.def.UID, w.trace.moment(t.Requested.Sub(w.epoch)))
		}
	}
	b := r.filled.Backlog
	if b == nil || b.Last.Add(a.schedule.Jitter).After(wall) {
		a.waiting = time.Time{}
		return ""
	}
	if a.waiting.Equal(b.Last) {
		return fmt.Sprintf("the backlog of %s waits, and nothing is in its way", r.def.UID)
	}
	a.waiting = b.Last
	return ""
}

// rides says whether the end of a firing waits in the state for the decision of the next instant: it is
// recorded, it is the last, and that instant is near. What is in the way of the instant is found by asking
// whether that is decided.
func (o *oracle) rides(a *account, f *opened) bool {
	r, g, wall := a.rec, f.last(), o.world.wall()
	for _, m := range o.world.members {
		wall = later(wall, o.world.wall().Add(m.skew)) // a clock that is ahead thinks it nearer
	}
	policy := r.def.Policy
	again := g.lost() && policy.OnLost == scheduler.OnLostRetry && len(f.attempts) < policy.Retry.MaxAttempts
	if deadline := policy.StartDeadline; deadline > 0 && wall.After(f.due.Add(deadline)) {
		again = false
	}
	if again || r.def.Paused || r.def.Tombstone() {
		return false
	}
	next := a.calendar.next(r.filled.Cursor.Unix())
	return next != 0 && !time.Unix(next, 0).After(wall.Add(scheduler.RideWithin))
}

// mend ends every fault.
func (w *world) mend() {
	if w.etcd.down {
		w.etcd.recover()
	}
	for _, m := range w.members {
		m.link.orders = nil
		m.crashes = nil
		m.heal()
		if !m.up && !m.draining {
			m.start()
		}
	}
	w.trouble(0)
}

// settle ends every fault and waits until all that was going on has come to its end. It says how long
// that took; that it takes too long is a broken promise.
func (w *world) settle() time.Duration {
	w.mend()
	from := w.now
	for _, m := range w.members {
		from = max(from, m.frozen, m.stalled)
	}
	longest := time.Duration(0)
	for _, j := range w.jobs {
		if j.rec != nil {
			longest = max(longest, w.behaviour(j.rec.def.Run.Handler.Payload).to)
			for _, e := range j.rec.account.alive {
				longest = max(longest, w.behaviour(j.rec.def.Run.Handler.Payload).to, e.lasts)
			}
		}
	}
	bound := from + w.recovery() + 2*w.settleBound() + scheduler.StepTrial + 2*longest + marksEvery + eventLost
	for w.now < bound && !w.stopped() {
		w.advance(time.Second)
		if w.unsettled(from) == "" {
			return w.now - from
		}
	}
	if !w.stopped() {
		why := w.unsettled(from)
		for _, j := range w.jobs {
			if j.rec != nil && w.oracle.unsettled(j.rec.account, from, false) != "" {
				w.oracle.broken(j.rec.account, "stuck", "%s, though nothing has been wrong for %s", why, w.now-from)
				break
			}
		}
	}
	return w.now - from
}

// unsettled says what of all that was going on at a moment has not ended.
func (w *world) unsettled(at time.Duration) string {
	for _, j := range w.jobs {
		if j.rec == nil {
			continue
		}
		a := j.rec.account
		if why := w.oracle.unsettled(a, at, false); why != "" {
			return why
		}
		for _, e := range a.alive {
			if e.since <= at {
				return fmt.Sprintf("%s #%d runs", w.trace.short(e.firing), e.attempt)
			}
		}
		if b := j.rec.filled.Backlog; b != nil && b.Last.Before(w.epoch.Add(at)) && !j.rec.def.Paused {
			return "the backlog of " + j.name.Name + " waits"
		}
	}
	return ""
}
