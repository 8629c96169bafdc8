package node

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/quorumcron/quorumcron/scheduler"
	"github.com/quorumcron/quorumcron/store"
)

// This file is what is looked after beside the firing path: locks that nobody holds (rule 3), watch
// events that were lost, and results that wait for etcd.

// watchLocks compares, every TTL while there are locks, the keys of the lock leases with what is held.
// A lock may be left though nothing is held any more: what was let go without knowing asks for a look,
// and so does a look that was not answered.
func (n *Node) watchLocks(ctx context.Context) {
	for sleep(ctx, n.cfg.SessionTTL) {
		asked := n.lockCheck.Swap(false)
		if (asked || !n.held.none()) && !n.closeForgotten(ctx) {
			n.lockCheck.Store(true)
		}
	}
}

// closeForgotten closes the locks of this process that nothing holds: Finish with LOST(never
// started). Without it a lock whose Begin was resolved by nobody would keep its job blocked for as
// long as the lease is kept alive. It reports whether all were looked at.
func (n *Node) closeForgotten(ctx context.Context) (all bool) {
	if cutOrphanRule {
		return true
	}
	held := n.held
	if cutListingFirst {
		held = newHoldings()
		for _, h := range n.held.all() {
			held.add(h)
		}
	}
	// The listing comes first and is compared with what is held at the moment of comparing: a lock
	// that was taken after the listing is not in it, and one whose Begin was on its way is held.
	listed, err := n.sessions.ListLocks(ctx)
	if all = err == nil; !all && ctx.Err() == nil {
		n.log.Debug("locks not listed", "err", err)
	}
	for _, keys := range listed {
		for _, key := range keys {
			firing, _, ok := n.store.ParseLock(key)
			if !ok || held.of(firing) {
				continue
			}
			if err := n.closeLock(ctx, held, key); err != nil {
				all = false
				if ctx.Err() == nil {
					n.log.Warn("forgotten lock not closed", "firing", firing.String(), "err", err)
				}
			}
		}
	}
	return all
}

// closeLock ends the attempt of a lock that nothing holds.
func (n *Node) closeLock(ctx context.Context, held *holdings, key string) error {
	lock, err := n.store.ReadLock(ctx, key)
	if err != nil || lock == nil || held.has(lock.Nonce) {
		return err
	}
	shard := scheduler.ShardOf(lock.Job)
	state, _, err := n.store.ReadState(ctx, shard, lock.Job)
	if err != nil {
		return err
	}
	entry := entryOf(state, lock.Firing)
	line := scheduler.Attempt{
		Number: lock.Attempt, Token: lock.Token, Member: lock.Member, Granted: entry.Granted,
		Verdict: scheduler.Lost, Reason: scheduler.ReasonNeverStarted,
		Message: "its grant was found without anybody holding it",
	}
	if why := n.held.whyUnwritten(lock.Nonce); why != nil {
		line.Reason, line.Message = scheduler.ReasonMemberLost, "it ran, and its end could not be recorded: "+why.Error()
	}
	run := withAttempts(scheduler.Run{
		Job: lock.Job, Firing: lock.Firing, Generation: entry.Generation, Slot: lock.Slot,
	}, entry.Past, line)
	recorded, err := n.store.Finish(ctx, store.Finish{
		Lock:  scheduler.Lock{Firing: lock.Firing, Part: lock.Part, Token: lock.Token, Nonce: lock.Nonce},
		Shard: shard, Job: lock.Job, Run: run, Slot: lock.Slot,
	})
	if err == nil {
		n.held.ended(lock.Nonce)
	}
	if err == nil && recorded {
		n.log.Warn("forgotten lock closed", "job", lock.Job.String(), "firing", lock.Firing.String(), "token", lock.Token)
		n.metrics.recorded(scheduler.Lost)
		n.runEvents.publish(scheduler.RunEvent{Run: run, Finished: true})
	}
	return err
}

const (
	// marksEvery is how often lost watch events are looked for.
	marksEvery = time.Minute
	// eventLost is how long an event may be missing before its shard is read anew.
	eventLost = 5 * time.Second
)

// watchMarks finds watches that have lost an event: the rules are newer than what was delivered, a shard
// was edited more often, or a trigger waits that is not known, and a few seconds later it is still so.
// Only those are read again, and jobs that were put aside. Claims that are refused because the rules have moved ask for a look at once.
func (n *Node) watchMarks(ctx context.Context) {
	for {
		select {
		case <-n.marksWanted:
		case <-time.After(marksEvery):
		case <-ctx.Done():
			return
		}
		marks, err := n.store.ReadMarks(ctx)
		var rules store.Rules
		if err == nil {
			rules, err = n.store.ReadRules(ctx)
		}
		if !sleep(ctx, eventLost) {
			return
		}
		if err != nil {
			n.wantMarks()
			continue
		}
		n.inbox.post(func(now scheduler.Reading) { n.compareMarks(ctx, marks, rules, now) })
	}
}

// compareMarks reads again what lags behind the marks.
func (n *Node) compareMarks(ctx context.Context, marks store.Marks, rules store.Rules, now scheduler.Reading) {
	if rules.Revision > n.view.rulesRevision || rules.Revision == 0 {
		n.log.Warn("watch event lost, rules read again", "rules", rules.Revision, "seen", n.view.rulesRevision)
		n.metrics.eventsLost.Inc()
		n.followRules(ctx)
	}
	for shard, f := range n.view.shards {
		if f.loaded && marks.Edits[shard] > f.edits {
			n.log.Warn("watch event lost, shard read again", "shard", int(shard), "edits", marks.Edits[shard], "seen", f.edits)
			n.metrics.eventsLost.Inc()
			f.stop()
			n.followShard(ctx, shard, marks.Revision)
		}
	}
	for _, w := range marks.Waiting {
		known := func(tr scheduler.Trigger) bool { return tr.ID == w.Trigger.ID }
		t := n.view.jobs[w.Job]
		if t == nil || t.busy || !n.view.loaded(t.shard) || t.strange[w.Trigger.ID] || slices.ContainsFunc(t.triggers, known) {
			continue
		}
		// It has been taken in the last seconds, or its event was lost.
		n.log.Debug("trigger not known, job read again", "job", w.Job.String(), "trigger", w.Trigger.ID)
		n.reload(ctx, t, now)
	}
	n.lookAtAside(ctx, now)
}

// spooledResult is what the spool keeps of a result: enough to write it as a late one.
type spooledResult struct {
	Finish store.Finish
}

// spoolLater keeps a result in the spool if it has not been recorded within the patience. The caller
// calls the returned function once, when it knows: it removes the result again if it was recorded,
// makes sure that it is kept if not, and reports whether it is.
func (n *Node) spoolLater(f store.Finish, patience time.Duration) func(recorded bool) (kept bool) {
	if n.spool == nil {
		return func(bool) bool { return false }
	}
	id := fmt.Sprintf("%s/%d", f.Lock.Firing, f.Lock.Token)
	put := make(chan bool, 1) // one answer, from the timer or from the caller
	keep := func() {
		data, err := json.Marshal(spooledResult{Finish: f})
		if err == nil {
			err = n.spool.Put(id, data)
		}
		if err != nil {
			n.log.Error("result not spooled", "firing", f.Lock.Firing.String(), "err", err)
		}
		put <- err == nil
	}
	timer := time.AfterFunc(patience, keep)
	return func(recorded bool) bool {
		switch {
		case recorded && timer.Stop():
			return false // it was never put
		case !recorded && timer.Stop():
			keep()
		}
		kept := <-put
		if kept && recorded {
			if err := n.spool.Delete(id); err != nil {
				n.log.Warn("recorded result not removed from the spool", "firing", f.Lock.Firing.String(), "err", err)
			}
		}
		return kept && !recorded
	}
}

// sendSpooled writes the results that an earlier process of this member could not. They are late by
// definition: that process's locks have been revoked.
func (n *Node) sendSpooled(ctx context.Context) {
	if n.spool == nil {
		return
	}
	entries, err := n.spool.All()
	if err != nil {
		n.log.Error("spool not read", "err", err)
		return
	}
	for _, e := range entries {
		var r spooledResult
		if err := json.Unmarshal(e.Data, &r); err != nil {
			n.log.Error("spooled result unreadable, dropped", "id", e.ID, "err", err)
		} else if recorded, late, err := n.end(ctx, r.Finish); err != nil {
			n.log.Warn("spooled result not recorded yet", "id", e.ID, "err", err)
			continue
		} else if late.Recorded {
			job := scheduler.Job{Name: r.Finish.Job, UID: r.Finish.Lock.Firing.UID}
			n.inbox.post(func(now scheduler.Reading) { n.stateSeen(ctx, job, late.State, late.StateRevision, now) })
		} else if !recorded {
			n.metrics.resultsDropped.Inc()
			n.log.Warn("late result dropped", "firing", r.Finish.Lock.Firing.String(), "why", late.Dropped)
		}
		if err := n.spool.Delete(e.ID); err != nil {
			n.log.Warn("spooled result not removed", "id", e.ID, "err", err)
		}
	}
}

// followCancels ends attempts that somebody asked to end (rule 13). A cancel that concerns nothing held
// here came too late: it is removed.
func (n *Node) followCancels(ctx context.Context) {
	_ = n.store.FollowQueue(ctx, n.cfg.Name, func(c store.Cancel) {
		if n.held.cancelAttempt(c.Firing, c.Token) {
			n.log.Info("attempt canceled", "job", c.Job.String(), "firing", c.Firing.String(), "caller", c.Caller)
			return
		}
		n.dropCancel(ctx, c.Firing)
	})
}

// dropCancel removes a cancel that came too late. What is left in spite of it goes when the queue is read
// again.
func (n *Node) dropCancel(ctx context.Context, f scheduler.Firing) {
	if err := n.store.DropCancel(ctx, n.cfg.Name, f); err != nil && ctx.Err() == nil {
		n.log.Debug("cancel not removed", "firing", f.String(), "err", err)
	}
}
