package node

import (
	"context"
	"errors"
	"time"

	"github.com/quorumcron/quorumcron/executor"
	"github.com/quorumcron/quorumcron/scheduler"
	"github.com/quorumcron/quorumcron/store"
)

// firing is one decision on its way: everything that carrying it out needs, by value.
type firing struct {
	of            *tracked // what it is a write of; only the loop looks into it
	job           scheduler.Job
	shard         scheduler.Shard
	decision      scheduler.Decision
	stateRevision int64
	rulesRevision int64
	// Of a begin; the loop has taken them, fire gives them back.
	lease scheduler.LockLease
	held  *held
}

// fire is the life of one attempt: it claims it and, if it is granted, runs it and records its end.
// It reads top to bottom, waits for etcd and for the executor, and never touches the view: what it
// learns it posts. ctx is the node's, attempt the attempt's own.
func (n *Node) fire(ctx, attempt context.Context, f firing) {
	h := f.held
	defer h.cancel(nil)
	defer n.letGo(ctx, h)
	canceled := false // and the cancel is removed
	defer func() {
		if h.askedToEnd() && !canceled {
			n.dropCancel(ctx, h.firing)
		}
	}()

	// claim: one transaction puts state and lock, or nothing.
	begun := n.cfg.Clock()
	if failPoint("before-claim") {
		n.postAnswer(ctx, f, store.Outcome{})
		return
	}
	claim := n.newClaim(f, h.nonce)
	outcome, resolved := n.claim(ctx, f, claim)
	n.postAnswer(ctx, f, outcome)
	if !outcome.Committed || failPoint("after-claim") {
		return
	}
	lock := scheduler.Lock{Firing: f.decision.Firing, Token: outcome.Revision, Nonce: h.nonce}
	if cutHeldEarly {
		n.held.add(h)
	}
	h.granted(lock.Token)
	line := scheduler.Attempt{
		Number: f.decision.Attempt, Token: lock.Token, Member: n.cfg.Name, Granted: begun.Wall,
	}
	run := scheduler.Run{
		Job: f.job.Name, Firing: f.decision.Firing, Generation: f.job.Generation, Slot: f.decision.Slot,
	}
	entry := entryOf(claim.Decision.Next, f.decision.Firing)
	entry.Token = lock.Token

	// execute: unless the grant is too old to be sure of, or its session is doubted (rule 11).
	result := executor.Result{
		Verdict: scheduler.Lost, Reason: scheduler.ReasonNeverStarted,
		Message: "the grant was too old, or its session too doubtful, to start it",
	}
	if n.mayStart(ctx, h, begun, resolved) {
		if failPoint("before-exec") {
			return
		}
		n.runEvents.publish(scheduler.RunEvent{Run: withAttempts(run, entry.Past, line)})
		result = n.execute(attempt, f.job, h, lock, entry.Due)
		n.inbox.post(func(now scheduler.Reading) { n.attemptEnding(f.job, entry, now) })
	}

	// record: the verdict, by the transaction that deletes the lock.
	line.Started, line.Finished = result.Started, result.Finished
	line.Verdict, line.Reason = result.Verdict, result.Reason
	line.Message, line.ExitCode = result.Message, result.ExitCode
	run = withAttempts(run, entry.Past, line)
	run.Output, run.OutputBytes, run.OutputDropped = result.Output, result.OutputBytes, result.OutputDropped
	if cutFoldEarly {
		n.inbox.post(func(now scheduler.Reading) { n.recordSeen(f.job, entry, run, now) })
	}
	finish := store.Finish{
		Lock: lock, Shard: f.shard, Job: f.job.Name, Run: run, Slot: run.Slot,
		Canceled: errors.Is(context.Cause(attempt), executor.ErrCanceled),
	}
	canceled = n.record(ctx, f, entry, finish) && finish.Canceled
}

// mayStart says whether a grant is young and sure enough to be acted on. A grant that had to be
// resolved is judged like any other, by when its Begin was sent.
func (n *Node) mayStart(ctx context.Context, h *held, begun scheduler.Reading, resolved bool) bool {
	now := n.cfg.Clock()
	life := n.sessions.LockLife(h.lease)
	doubted := n.held.isDoubted(h.lease) && !cutSessionCheck
	if ctx.Err() != nil || doubted || !life.MayStart(begun.Elapsed, now.Elapsed) {
		n.log.Warn("grant not started", "job", h.job.String(), "firing", h.firing.String(),
			"age", now.Elapsed-begun.Elapsed, "resolved", resolved)
		return false
	}
	return true
}

// execute runs the attempt. The executor enforces the deadlines of the lock and the time limit.
func (n *Node) execute(ctx context.Context, job scheduler.Job, h *held, lock scheduler.Lock, due time.Time) executor.Result {
	started := n.cfg.Clock()
	token := lock.Token
	if cutTokenMemory {
		token = int64(h.attempt)
	}
	n.metrics.started(h, due, started)
	defer func() { n.metrics.ended(h, started, n.cfg.Clock()) }()
	return n.executor.Execute(ctx, executor.Attempt{
		Job: job.Name, Firing: h.firing, Generation: job.Generation, Number: h.attempt,
		Token: token, Member: n.cfg.Name, Parts: 1,
		Run: job.Run, Timeout: job.Policy.Timeout, OnSessionLost: job.Policy.OnSessionLost,
	}, func() scheduler.LockLife { return n.sessions.LockLife(h.lease) })
}

// newClaim completes a decision: its new entry, if it has one, is this process's.
func (n *Node) newClaim(f firing, nonce string) store.Claim {
	d := f.decision
	if d.Kind == scheduler.KindBegin {
		entries := append([]scheduler.Entry(nil), d.Next.Entries...)
		for i := range entries {
			if entries[i].Firing == d.Firing {
				entries[i].Member, entries[i].Nonce = n.cfg.Name, nonce
				entries[i].Hold = f.lease.Hold
			}
		}
		d.Next.Entries = entries
	}
	return store.Claim{
		Decision: d, Shard: f.shard, UID: f.job.UID, JobRevision: f.job.Revision,
		StateRevision: f.stateRevision, RulesRevision: f.rulesRevision, Lease: f.lease.ID, Nonce: nonce,
	}
}

// claim sends a claim and settles an unknown answer by rule 2, to the end: a claim is never
// forgotten, not even when the node is told to stop, for nobody else would close its lock before its
// lease ends. It gives up only with ctx, which ends when the node's time to stop has run out.
func (n *Node) claim(ctx context.Context, f firing, c store.Claim) (outcome store.Outcome, resolved bool) {
	answered := n.pulse.asked(n.cfg.Clock())
	defer func() { answered(n.cfg.Clock()) }()
	c.Refused = func(why error) { // an answer too: the engine lives, and it is etcd that is in trouble
		answered(n.cfg.Clock())
		answered = n.pulse.asked(n.cfg.Clock())
		n.pulse.refused(why)
	}
	outcome, err := n.store.Claim(ctx, c)
	unknown := errors.Is(err, scheduler.ErrUnknown)
	if unknown && cutUnknownGranted {
		return store.Outcome{Committed: true, Revision: c.StateRevision + 1}, false
	}
	if unknown && !cutUnknownRefused && !(cutUnknownForgotten && n.held.isDoubted(c.Lease)) {
		resolved = true
		n.log.Debug("claim unknown", "job", f.job.Name.String(), "decision", f.decision.String(), "err", err)
		outcome, err = n.store.Resolve(ctx, c)
	}
	if err != nil {
		if f.held != nil {
			f.held.unsure = true
		}
		if ctx.Err() == nil {
			n.log.Warn("claim failed", "job", f.job.Name.String(), "decision", f.decision.String(), "err", err)
		}
		return store.Outcome{}, resolved
	}
	n.pulse.served()
	if outcome.LeaseGone {
		n.sessions.Suspect(c.Lease)
	}
	return outcome, resolved
}

// write carries out a decision that grants nothing: Skip and Miss are claims, Lose, Fold and Sweep
// are not.
func (n *Node) write(ctx context.Context, f firing) {
	if f.decision.Kind == scheduler.KindSkip || f.decision.Kind == scheduler.KindMiss {
		outcome, _ := n.claim(ctx, f, n.newClaim(f, ""))
		n.postAnswer(ctx, f, outcome)
		return
	}
	answered := n.pulse.asked(n.cfg.Clock())
	outcome, err := n.store.Settle(ctx, n.newClaim(f, ""))
	answered(n.cfg.Clock())
	if err != nil && ctx.Err() == nil {
		n.log.Debug("settling failed", "job", f.job.Name.String(), "decision", f.decision.String(), "err", err)
	}
	if outcome.Committed && f.decision.Kind == scheduler.KindLose {
		n.log.Warn("attempt lost", "job", f.job.Name.String(), "firing", f.decision.Firing.String(),
			"attempt", f.decision.Attempt)
		n.runEvents.publish(scheduler.RunEvent{Run: *f.decision.Record, Finished: true})
	}
	n.postAnswer(ctx, f, outcome)
}

// postAnswer tells the loop how a write went. An outcome that is not known at all makes it read
// everything again.
func (n *Node) postAnswer(ctx context.Context, f firing, o store.Outcome) {
	if o.Committed {
		n.metrics.committed(f.decision)
	}
	n.inbox.post(func(now scheduler.Reading) {
		if f.decision.Kind == scheduler.KindBegin {
			n.view.room.claims--
		}
		n.answered(ctx, f, o, now)
	})
}

// recordPatience is how long a verdict waits for etcd in memory only; then it goes to the spool too,
// so that a restart does not lose it.
const recordPatience = 5 * time.Second

// record writes the end of an attempt: Finish while the lock is there, else as a late result (rule 6). It
// reports whether Finish was the way.
func (n *Node) record(ctx context.Context, f firing, entry scheduler.Entry, finish store.Finish) (finished bool) {
	spooled := n.spoolLater(finish, recordPatience)
	recorded, late, err := n.end(ctx, finish)
	if kept := spooled(err == nil); err != nil {
		f.held.unsure = true
		if !finish.Run.Last().Started.IsZero() {
			n.held.notWritten(f.held.nonce, err)
		}
		n.log.Warn("result not recorded yet", "job", f.job.Name.String(), "firing", finish.Lock.Firing.String(),
			"kept", kept, "err", err)
		return false
	}
	switch {
	case recorded, late.Recorded && late.StateRevision == 0: // the latter: by a copy whose answer was lost
		n.inbox.post(func(now scheduler.Reading) { n.recordSeen(f.job, entry, finish.Run, now) })
	case late.Recorded:
		n.log.Info("late result recorded", "job", f.job.Name.String(), "firing", finish.Lock.Firing.String())
		n.inbox.post(func(now scheduler.Reading) { n.stateSeen(ctx, f.job, late.State, late.StateRevision, now) })
	default:
		n.metrics.resultsDropped.Inc()
		n.log.Warn("late result dropped", "job", f.job.Name.String(), "firing", finish.Lock.Firing.String(),
			"attempt", entry.Attempt, "token", finish.Lock.Token, "verdict", finish.Run.Last().Verdict, "why", late.Dropped)
	}
	if recorded || late.Recorded {
		n.metrics.recorded(finish.Run.Last().Verdict)
	}
	n.runEvents.publish(scheduler.RunEvent{Run: finish.Run, Finished: true})
	return recorded
}

// end writes the end of an attempt, whichever way is open. It tries until it is known, or ctx ends.
func (n *Node) end(ctx context.Context, finish store.Finish) (recorded bool, late store.LateOutcome, err error) {
	if failPoint("before-verdict") {
		return false, late, errors.New("given up by a test build")
	}
	for {
		if recorded, err = n.store.Finish(ctx, finish); err != nil || recorded {
			return recorded, late, err
		}
		// Held is possible only if the lock came after the Finish that found none: a Begin that landed in
		// between. Then Finish is the way again.
		if late, err = n.store.FinishLate(ctx, finish); err != nil || !late.Held {
			return false, late, err
		}
	}
}

// letGo gives back what an attempt held, and wakes the loop for what waits for the room. If the entry is
// still in flight, and its end is not known, it is nobody's: the loop follows it as anybody's. A doubted
// lease under which nothing is left is given up, so that what may still be under way under it cannot
// commit.
func (n *Node) letGo(ctx context.Context, h *held) {
	n.held.remove(h)
	if h.unsure {
		n.lockCheck.Store(true)
	}
	n.sessions.Release(h.lease)
	if n.held.isDoubted(h.lease) && !n.held.under(h.lease) {
		n.sessions.Retire(h.lease)
		n.held.trust(h.lease) // nothing is granted under it any more, or it has been renewed
	}
	n.inbox.post(func(scheduler.Reading) { // the turn sees the room, too
		if t := n.view.jobs[h.job]; t != nil && t.job.UID == h.firing.UID {
			n.followEntries(ctx, t)
		}
	})
}

func withAttempts(run scheduler.Run, past []scheduler.Attempt, last scheduler.Attempt) scheduler.Run {
	run.Attempts = append(append([]scheduler.Attempt(nil), past...), last)
	return run
}

func entryOf(s scheduler.State, f scheduler.Firing) scheduler.Entry {
	for _, e := range s.Entries {
		if e.Firing == f {
			return e
		}
	}
	return scheduler.Entry{}
}
