package node

import (
	"context"
	"fmt"
	"time"

	"github.com/quorumcron/quorumcron/scheduler"
	"github.com/quorumcron/quorumcron/store"
)

// maxSleep bounds the loop's timer: a wall clock that is set must be noticed within it.
const maxSleep = time.Second

// maxPlans bounds the plans of one turn, so that in a herd events are still taken in, and the watchdog
// sees the loop turn.
const maxPlans = 2000

// loop is the member's only planner. It owns the view and never waits for etcd: what must wait is
// done by firings and followers, which post what they learnt.
func (n *Node) loop(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.inbox.wake:
		case <-timer.C:
		}
		timer.Reset(n.turn(ctx))
	}
}

// turn takes in what was posted, plans what is due and says how long the loop may sleep.
func (n *Node) turn(ctx context.Context) time.Duration {
	now := n.cfg.Clock()
	n.pulse.turned(now)
	n.observeClock(now)
	for _, event := range n.inbox.take() {
		event(now)
	}

	if from, to, yes := n.store.WentBack(); yes {
		n.fail(fmt.Errorf("%w: it answers at revision %d, after %d", ErrHistory, to, from))
	}
	n.loaded.Store(n.view.shardsLoaded())
	n.callWaiting()
	for i, name := range n.view.agenda.Due(now) {
		if i < maxPlans {
			n.plan(ctx, name, now)
		} else {
			n.view.agenda.Soon(name)
		}
	}
	sleep := maxSleep
	if wait, ok := n.view.agenda.Wait(now); ok && wait < sleep {
		sleep = max(wait, 0)
	}
	if n.roomLeft() {
		sleep = 0
	}
	return sleep
}

// observeClock asks the step guard whether this reading may be planned by.
func (n *Node) observeClock(now scheduler.Reading) {
	verdict := n.stepGuard.Observe(now)
	if verdict.Event != "" {
		n.log.Warn("clock stepped", "event", verdict.Event)
	}
	if verdict.Trusted && !n.clock.Trusted { // what waited for the clock is due now
		for name := range n.view.jobs {
			n.view.agenda.Soon(name)
		}
	}
	n.clock = verdict
	n.trusted.Store(verdict.Trusted)
	n.believed.Store(&scheduler.Reading{Wall: verdict.Carried, Elapsed: now.Elapsed})
}

// plan asks for the next write of one job and sends it on its way.
func (n *Node) plan(ctx context.Context, name scheduler.JobName, now scheduler.Reading) {
	t := n.view.jobs[name]
	if t == nil || t.busy || t.stateRevision == 0 || t.unreadable != "" && !t.shut || !n.view.loaded(t.shard) {
		n.view.room.forget(name)
		return // an event brings it back
	}
	endsOnly := !n.clock.Trusted || n.stoppedClaiming.Load() || t.shut // a missing calendar holds up no verdict
	plan := scheduler.PlanJob(t.planning(true, endsOnly, n.clock.NotBeyond), now)
	var lease scheduler.LockLease
	room := true
	if d := plan.Decision; d != nil && d.Kind == scheduler.KindBegin {
		if lease, room = n.takeRoom(t.job, now); !room {
			plan = scheduler.PlanJob(t.planning(false, endsOnly, n.clock.NotBeyond), now)
		}
	}
	if room {
		n.view.room.forget(name)
	} else {
		n.view.room.wait(kindOf(t.job), name)
	}
	if plan.Decision != nil {
		n.send(ctx, t, *plan.Decision, lease)
		return
	}
	n.view.agenda.Set(name, plan.Wake, plan.WakeElapsed)
}

// send starts the goroutine that carries out a decision. It takes what it needs by value: the view
// belongs to the loop.
func (n *Node) send(ctx context.Context, t *tracked, d scheduler.Decision, lease scheduler.LockLease) {
	t.busy = true
	n.metrics.decisions.WithLabelValues(string(d.Kind)).Inc()
	n.log.Debug("decided", "job", d.Job.String(), "decision", d.String())
	f := firing{
		of: t, job: t.job, shard: t.shard, decision: d, lease: lease,
		stateRevision: t.stateRevision, rulesRevision: n.view.rulesRevision,
	}
	if d.Kind != scheduler.KindBegin {
		n.firings.Go(func() { n.write(ctx, f) })
		return
	}
	// The attempt's context ends by a cause alone: a stop lets attempts end first. It is held from before
	// its Begin is sent, so that the orphan check never takes a lock for forgotten whose answer is still
	// on its way, and so that the next job planned in this turn sees the room that this one takes.
	attempt, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	f.held = &held{
		job: t.job.Name, firing: d.Firing, attempt: d.Attempt, nonce: n.nonce(),
		lease: lease.ID, command: t.job.Run.Command != nil, cancel: cancel,
	}
	if !cutHeldEarly {
		n.held.add(f.held)
	}
	n.view.room.claims++
	n.firings.Go(func() { n.fire(ctx, attempt, f) })
}

// answered takes in the answer to a write of a job's state. Committed or refused, it brings what is
// there now.
func (n *Node) answered(ctx context.Context, f firing, o store.Outcome, now scheduler.Reading) {
	t, name := n.find(f.job), f.job.Name
	f.of.busy = false
	if t == nil {
		return
	}
	if f.wentBack(o) {
		n.fail(fmt.Errorf("%w: it holds less of job %s than was read before", ErrHistory, name))
		return
	}
	if o.Unreadable != nil {
		n.quarantine("state of the job", name, o.Unreadable)
		return
	}
	news := o.StateRevision != 0 && t.settle(o.State, o.StateRevision)
	for _, fact := range o.Facts {
		news = n.learnFact(t, fact, now) || news
	}
	switch {
	case o.Committed && f.decision.Kind == scheduler.KindSweep:
		n.view.forget(name)
		return
	case o.Committed:
		t.removeTrigger(f.decision.Trigger)
		if e, inFlight := t.entry(f.decision.Firing); inFlight && f.held != nil && e.Nonce == f.held.nonce {
			t.learn(e, e.Token, nil, now)
		}
	case t != f.of:
		// The shard was given up and is ours again: another write may be on its way, whose answer counts.
	case o.RulesMoved:
		if n.view.rulesRevision < o.Rules || o.Rules == 0 {
			n.view.fenced[name] = struct{}{} // planned again when the watch has caught up, or there are rules again
			n.wantMarks()
			return
		}
	case o.LeaseGone:
		// The lease is asked about (fire.go); its loss or renewal is an event that makes room again.
		n.view.agenda.Set(name, now.Wall.Add(refusalPause), now.Elapsed+refusalPause)
		return
	case !news || o.JobRevision != t.job.Revision:
		// Refused, and we know of nothing newer that says why: the definition or a trigger is out of
		// date. Everything is read again rather than guessed.
		n.reload(ctx, t, now)
		return
	}
	n.followEntries(ctx, t)
	n.view.agenda.Soon(name)
}

// wentBack says whether an answer shows that etcd holds less than was read from it before: the revision of a
// key never falls, but by a restore from a snapshot. 0 is a key that is gone.
func (f firing) wentBack(o store.Outcome) bool {
	older := func(now, planned int64) bool { return now != 0 && now < planned }
	return o.RulesMoved && older(o.Rules, f.rulesRevision) ||
		older(o.StateRevision, f.stateRevision) || older(o.JobRevision, f.job.Revision)
}

// fail ends the node with an error: it cannot go on. The first reason counts.
func (n *Node) fail(err error) {
	if n.failed.Swap(true) {
		return
	}
	n.log.Error("node cannot go on", "err", err)
	n.broken <- err
}

// wantMarks has lost watch events looked for now instead of within a minute.
func (n *Node) wantMarks() {
	select {
	case n.marksWanted <- struct{}{}:
	default:
	}
}

// refusalPause spaces the tries after a refusal that brought no news, so that it can never become a
// busy loop.
const refusalPause = 100 * time.Millisecond

// followEntries starts a follower for each attempt in flight of which more can be learnt (rule 12). Not
// for one that runs here, under a lease that is not doubted: fire tells of its end. But if nothing is
// known of it, because the shard was another's in between, it is looked at like anybody's.
func (n *Node) followEntries(ctx context.Context, t *tracked) {
	for _, e := range t.state.Entries {
		fact, known := t.facts[e.Firing]
		known = known && fact.Of(e)
		if _, following := t.follows[e.Firing]; following || known && (fact.Record != nil || n.held.sound(e.Nonce)) {
			continue
		}
		follow, stop := context.WithCancel(ctx)
		t.follows[e.Firing] = follower{token: e.Token, stop: stop}
		job, entry := t.job, e
		n.followers.Go(func() { n.followEntry(follow, job, entry) })
	}
}
