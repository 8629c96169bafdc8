package sim

import (
	"slices"
	"time"

	"github.com/quorumcron/quorumcron/scheduler"
)

// onTimeBound is how late an instant may be decided while nothing is wrong: the messages, the difference
// of the clocks, and the second that an overlap decision waits for an attempt that is ending.
const onTimeBound = 3 * time.Second

// claimed checks what every claim promises, before it is written.
func (o *oracle) claimed(r *record, c *claim) {
	a, d := r.account, c.decision
	if owner := o.world.etcd.rules.assignment.Owner(r.job.shard); owner != c.byID && o.world.without != CutIncarnation {
		o.broken(a, "owner", "%s claims for %s, which %q owns", c.byID, r.def.UID, owner)
	}
	if c.defRev != r.defRev {
		o.broken(a, "edit", "%s of %s is planned under a definition that was replaced", d.Kind, r.def.UID)
	}
	planned := c.now.Elapsed - c.by.boot
	if c.by.began < c.by.stepped && planned >= c.by.stepped && planned < c.by.stepped+scheduler.StepTrial {
		o.broken(a, "clock", "%s claims for %s %s after its clock jumped", c.by.name, r.def.UID, planned-c.by.stepped)
	}
	o.lateness(r, c)
	o.reasons(r, c)
	var consumed []scheduler.Trigger
	if d.Trigger != "" {
		consumed = []scheduler.Trigger{{ID: d.Trigger}}
	}
	o.write(r, &d.Next, string(d.Kind), c, consumed)
}

// lateness checks that instants are decided in time as long as nothing is wrong.
func (o *oracle) lateness(r *record, c *claim) {
	a, w := r.account, o.world
	if a.calendar == nil || !c.decision.Next.Cursor.After(r.filled.Cursor) {
		return
	}
	first := o.nextOpen(a, r.filled.Cursor.Unix(), c.decision.Next.Cursor.Unix())
	if first == 0 {
		return // all of it is excluded: unsettled has a bound for that
	}
	late := w.wall().Sub(time.Unix(first, 0)) - a.schedule.Jitter
	w.late(late)
	// After an edit instants can be late from the beginning; and a clock that is off, and believed, is late
	// or early for good.
	if late > onTimeBound && w.now-a.edited > late && w.agreed() && w.calm() > late+w.recovery() && w.now-c.by.full > late+onTimeBound {
		o.broken(a, "late", "%s is decided %s after it was due, and nothing is wrong",
			w.trace.short(scheduler.At(r.def.UID, time.Unix(first, 0))), late.Round(time.Millisecond))
	}
}

// reasons checks that what is not run is not run for a good reason.
func (o *oracle) reasons(r *record, c *claim) {
	a, d := r.account, c.decision
	if d.Kind == scheduler.KindSkip && d.Reason == scheduler.ReasonOverlap {
		inTheWay := slices.ContainsFunc(a.open, func(f *opened) bool {
			return f.last().verdict == "" || inRetries(r.filled, f.firing) || inRetries(&d.Next, f.firing)
		})
		if !inTheWay {
			o.broken(a, "blame", "%s is skipped for overlap with what has ended", d.Firing)
		}
	}
	if d.Kind != scheduler.KindMiss || !d.Next.Cursor.After(r.filled.Cursor) {
		return
	}
	due := scheduler.Due(*r.def, r.table, d.Next.Cursor)
	late := c.now.Wall.Sub(due)
	deadline := r.def.Policy.StartDeadline
	if late <= scheduler.OnTime && (deadline == 0 || late <= deadline) {
		o.broken(a, "missed on time", "%s %s after it was due", o.world.trace.short(scheduler.At(r.def.UID, d.Next.Cursor)), late)
	}
}

// granted checks one grant: x is the entry that next has and the account has not.
func (o *oracle) granted(r *record, next *scheduler.State, x *scheduler.Entry, c *claim, why string) {
	a := r.account
	f := a.find(x.Firing)
	if c == nil || c.decision.Kind != scheduler.KindBegin || x.Token != 0 {
		o.broken(a, "grant", "%s is in flight by %s", o.world.trace.short(x.Firing), why)
		return
	}
	policy := r.def.Policy
	switch {
	case f == nil && x.Attempt != 1:
		o.broken(a, "second grant", "%s #%d, though it has its verdict", o.world.trace.short(x.Firing), x.Attempt)
	case f == nil:
		o.first(r, x, c)
	case x.Attempt != len(f.attempts)+1:
		o.broken(a, "second grant", "%s #%d after #%d", o.world.trace.short(x.Firing), x.Attempt, len(f.attempts))
	case !f.last().lost() || policy.OnLost != scheduler.OnLostRetry || x.Attempt > policy.Retry.MaxAttempts:
		o.broken(a, "second grant", "%s #%d, though #%d ended %s and the policy is %s", o.world.trace.short(x.Firing), x.Attempt, len(f.attempts), f.last().verdict, policy.OnLost)
	case x.Slot != f.slot:
		o.broken(a, "slot", "%s #%d has another than the attempt before", o.world.trace.short(x.Firing), x.Attempt)
	}
	if f == nil {
		f = &opened{firing: x.Firing, due: x.Due, slot: x.Slot}
		a.open = append(a.open, f)
	}
	switch {
	case x.Generation != r.def.Generation:
		o.broken(a, "edit", "%s is granted under generation %d, in force is %d", o.world.trace.short(x.Firing), x.Generation, r.def.Generation)
	case r.def.Paused:
		o.broken(a, "pause", "%s is granted", o.world.trace.short(x.Firing))
	case r.def.Tombstone():
		o.broken(a, "deleted", "%s is granted", o.world.trace.short(x.Firing))
	case !x.Firing.Manual() && c.now.Wall.Before(f.due):
		o.broken(a, "early", "%s is granted by a clock that reads %s", o.world.trace.short(x.Firing), c.now.Wall.Format(time.TimeOnly))
	case policy.StartDeadline > 0 && c.now.Wall.After(f.due.Add(policy.StartDeadline)):
		o.broken(a, "start deadline", "%s #%d is granted %s after it was due", o.world.trace.short(x.Firing), x.Attempt, c.now.Wall.Sub(f.due))
	case o.world.etcd.rev <= a.token:
		o.broken(a, "token", "%s #%d has %d, after %d", o.world.trace.short(x.Firing), x.Attempt, o.world.etcd.rev, a.token)
	case len(next.Entries)+len(next.Retries) > 1:
		o.broken(a, "overlap", "%s is granted while another firing is in flight", o.world.trace.short(x.Firing))
	case len(r.locks) > 0:
		o.broken(a, "overlap", "%s is granted while %s has its lock", o.world.trace.short(x.Firing), o.world.trace.short(r.locks[0].firing))
	}
	a.token = o.world.etcd.rev
	f.attempts = append(f.attempts, grant{token: a.token, granted: o.world.now, quiet: o.world.now})
	if x.Attempt > 1 {
		o.world.count("retry")
	}
}

// first checks the first grant of a firing: it is one that nobody has decided about yet.
func (o *oracle) first(r *record, x *scheduler.Entry, c *claim) {
	a, before := r.account, r.filled
	if x.Firing.Manual() {
		if !slices.ContainsFunc(r.triggers, func(t scheduler.Trigger) bool { return t.ID == x.Firing.Trigger }) {
			o.broken(a, "second grant", "%s, whose trigger is gone", o.world.trace.short(x.Firing))
		}
		return
	}
	at := x.Firing.Scheduled
	waited := before.Backlog != nil && before.Backlog.Last.Unix() == at
	switch due := scheduler.Due(*r.def, r.table, x.Firing.Instant()); {
	case !waited && (at <= before.Cursor.Unix() || at > c.decision.Next.Cursor.Unix()):
		o.broken(a, "second grant", "%s, though its instant was decided before", o.world.trace.short(x.Firing))
	case a.calendar.count(at-1, at) != 1:
		o.broken(a, "grant", "%s is no instant of the schedule", o.world.trace.short(x.Firing))
	case !waited && o.out(a, at):
		o.broken(a, "calendar", "%s is granted, though a calendar excludes it", o.world.trace.short(x.Firing))
	case at <= a.since:
		o.broken(a, "edit", "%s is granted under a definition that came after it", o.world.trace.short(x.Firing))
	case !x.Due.Equal(due) || due.Unix() < at || due.Sub(x.Firing.Instant()) > a.schedule.Jitter:
		o.broken(a, "early", "%s is said to be due %s", o.world.trace.short(x.Firing), x.Due)
	}
}

// recorded takes in the record of an attempt's end, before it is written.
func (o *oracle) recorded(r *record, run *scheduler.Run) {
	a, last := r.account, run.Last()
	g := a.attempt(run.Firing, last.Number)
	if g == nil || g.verdict != "" {
		o.broken(a, "second verdict", "%s #%d: %s, after it had one", o.world.trace.short(run.Firing), last.Number, last.Verdict)
		return
	}
	if old := r.run(run.Slot); old != nil && old.Firing != run.Firing && a.find(old.Firing) != nil {
		o.broken(a, "slot", "the record of %s destroys that of %s, which is still needed", o.world.trace.short(run.Firing), o.world.trace.short(old.Firing))
	}
	if len(run.Attempts) != last.Number || last.Token != g.token {
		o.broken(a, "record", "of %s #%d has %d lines and token %d", o.world.trace.short(run.Firing), last.Number, len(run.Attempts), last.Token)
	}
	e := g.run
	switch {
	case last.Reason == scheduler.ReasonNeverStarted && e != nil:
		o.broken(a, "untrue", "%s #%d is LOST(never started), and it was started", o.world.trace.short(run.Firing), last.Number)
	case last.Reason == scheduler.ReasonMemberLost && e != nil && !e.over && !e.frozen:
		o.broken(a, "untrue", "%s #%d is LOST(member lost), and it runs", o.world.trace.short(run.Firing), last.Number)
	case last.Verdict != scheduler.Lost && (e == nil || !e.over || e.verdict != last.Verdict):
		o.broken(a, "untrue", "%s #%d is %s, and did not end so", o.world.trace.short(run.Firing), last.Number, last.Verdict)
	}
	g.verdict, g.reason = last.Verdict, last.Reason
}

// lockGone takes in that a lock went with its lease.
func (o *oracle) lockGone(l *lock) {
	g := l.rec.account.attempt(l.firing, l.attempt)
	if g == nil || g.token != l.created {
		return
	}
	g.unlocked = o.world.now
	if e := g.run; e != nil && !e.over {
		e.unlocked = o.world.now
	}
}

// started checks one process start.
func (o *oracle) started(e *execution) {
	a, w := e.rec.account, o.world
	g := a.attempt(e.firing, e.attempt)
	w.count("start")
	switch {
	case a.find(e.firing) == nil || g != nil && g.verdict != "":
		o.broken(a, "start", "of %s #%d after its verdict", w.trace.short(e.firing), e.attempt)
	case g == nil || g.token != e.token:
		o.broken(a, "start", "of %s #%d without a grant", w.trace.short(e.firing), e.attempt)
	case g.run != nil:
		o.broken(a, "start", "of %s #%d, a second time", w.trace.short(e.firing), e.attempt)
	case w.now-e.sent > w.ttl/2:
		o.broken(a, "start", "of %s #%d by a grant that is %s old", w.trace.short(e.firing), e.attempt, w.now-e.sent)
	}
	for _, other := range a.alive {
		if !other.frozen {
			o.broken(a, "overlap", "%s starts on %s while %s runs on %s", w.trace.short(e.firing), e.by.name, w.trace.short(other.firing), other.by.name)
		}
	}
	if g != nil {
		g.run = e
	}
	a.alive = append(a.alive, e)
}

// stopped takes in the end of a process: with a verdict, or killed with its member.
func (o *oracle) stopped(e *execution, v scheduler.Verdict, why scheduler.Reason) {
	a, w := e.rec.account, o.world
	e.over, e.verdict = true, v
	a.alive = slices.DeleteFunc(a.alive, func(other *execution) bool { return other == e })
	if g := a.attempt(e.firing, e.attempt); g != nil {
		g.quiet = w.now
	}
	o.outlived(e)
}

// outlived checks that a process does not run on when the attempt can be called lost. While its machine
// stands it does nothing; when that goes on the supervisor's deadline comes at once.
func (o *oracle) outlived(e *execution) {
	w := o.world
	if e.unlocked == 0 || w.now < e.thaw {
		return
	}
	over := w.now - e.unlocked
	if e.thaw > e.unlocked {
		over = w.now - e.thaw
	}
	if e.thaw-e.unlocked > w.ttl+w.grace {
		over += w.ttl + w.grace - maxSleep
	}
	if over > w.ttl+w.grace {
		o.broken(e.rec.account, "outlived", "%s #%d ran on %s for %s after its lock was gone", w.trace.short(e.firing), e.attempt, e.by.name, over)
	}
}
