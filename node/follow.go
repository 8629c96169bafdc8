package node

import (
	"context"
	"slices"
	"time"

	"github.com/quorumcron/quorumcron/scheduler"
	"github.com/quorumcron/quorumcron/store"
)

// This file is how facts come in: what followers and firings post, taken in by the loop.

// attemptEnding notes that an attempt has ended here and its verdict is on its way.
func (n *Node) attemptEnding(job scheduler.Job, e scheduler.Entry, now scheduler.Reading) {
	if t := n.find(job); t != nil {
		t.ending(e.Firing, e.Attempt, now)
	}
}

// recordSeen notes the record of an attempt's end, unless a later attempt is in flight by now: the loop
// may have found the record before fire heard of it, and what it knows of the later one must stay.
func (n *Node) recordSeen(job scheduler.Job, e scheduler.Entry, run scheduler.Run, now scheduler.Reading) {
	t := n.find(job)
	if t == nil {
		return
	}
	if present, inFlight := t.entry(e.Firing); inFlight && present.Attempt > e.Attempt {
		return
	}
	t.learn(e, 0, &run, now)
	n.view.agenda.Soon(job.Name)
}

// stateSeen notes a state that was written beside the loop (a late result).
func (n *Node) stateSeen(ctx context.Context, job scheduler.Job, state scheduler.State, revision int64, now scheduler.Reading) {
	if t := n.find(job); t != nil && revision != 0 && t.settle(state, revision) {
		n.followEntries(ctx, t)
		n.view.agenda.Soon(job.Name)
	}
}

// find returns what is tracked of this very job, by uid.
func (n *Node) find(job scheduler.Job) *tracked {
	if t := n.view.jobs[job.Name]; t != nil && t.job.UID == job.UID {
		return t
	}
	return nil
}

// learnFact takes in what was read of an attempt's lock and slot. It reports whether it was news.
func (n *Node) learnFact(t *tracked, f store.EntryFact, now scheduler.Reading) bool {
	e, inFlight := t.entry(f.Firing)
	if !inFlight || e.Attempt != f.Attempt || e.Token != f.Token {
		return false
	}
	if f.Unreadable != nil {
		n.log.Error("run record unreadable", "job", t.job.Name.String(), "firing", f.Firing.String(), "err", f.Unreadable)
	}
	before, known := t.facts[f.Firing]
	t.learn(e, f.Lock, f.Record, now)
	after := t.facts[f.Firing]
	return !known || before.Lock != after.Lock || (before.Record == nil) != (after.Record == nil)
}

// followEntry watches the lock of an attempt that another process runs (or a former life of this
// one), until its record is seen or it leaves the state.
func (n *Node) followEntry(ctx context.Context, job scheduler.Job, e scheduler.Entry) {
	err := n.store.FollowEntry(ctx, e, func(f store.EntryFact) {
		n.inbox.post(func(now scheduler.Reading) {
			if t := n.find(job); t != nil && n.learnFact(t, f, now) {
				n.view.agenda.Soon(job.Name)
			}
		})
	})
	if err != nil && ctx.Err() == nil {
		n.log.Warn("attempt no longer followed", "job", job.Name.String(), "firing", e.Firing.String(), "err", err)
	}
}

// reload reads definition, state and triggers of one job again. The job is busy meanwhile. Called in
// the loop.
func (n *Node) reload(ctx context.Context, t *tracked, now scheduler.Reading) {
	t.busy = true
	job, shard := t.job, t.shard
	wait := time.Duration(0)
	if t.reloaded != 0 && now.Elapsed-t.reloaded < refusalPause {
		wait = refusalPause
	}
	n.followers.Go(func() {
		for try := 0; ; try++ {
			if !sleep(ctx, wait) {
				return
			}
			u, err := n.store.ReadJob(ctx, shard, job.Name)
			if err == nil {
				n.inbox.post(func(now scheduler.Reading) { n.takeReload(ctx, t, u, now) })
				return
			}
			wait = min(refusalPause<<min(try, 4), time.Second)
		}
	})
}

// takeReload takes in what reload read, unless something newer is known by now: an answer that was long
// on its way must not hide an edit or a trigger that the watch has brought meanwhile.
func (n *Node) takeReload(ctx context.Context, t *tracked, u store.ShardUpdate, now scheduler.Reading) {
	t.busy, t.reloaded = false, now.Elapsed
	name := t.job.Name
	if n.view.jobs[name] != t {
		return
	}
	if u.Revision >= t.job.Revision {
		t.triggers = slices.DeleteFunc(t.triggers, func(tr scheduler.Trigger) bool { return tr.Revision <= u.Revision })
		n.takeUpdate(ctx, u, now)
	}
	n.view.agenda.Soon(name)
}

// takeShard takes in what a follower delivered, unless the shard has been given up or is being
// followed anew since then.
func (n *Node) takeShard(ctx context.Context, f *followed, u store.ShardUpdate, now scheduler.Reading) {
	if n.view.shards[u.Shard] != f {
		return
	}
	f.edits = u.Edits
	if u.Snapshot {
		if f.loaded { // its watch could not go on: history was compacted, or it was silent for too long
			n.metrics.resyncs.Inc()
		}
		f.loaded = true
		n.view.retain(u)
	}
	n.takeUpdate(ctx, u, now)
}

// takeUpdate takes in definitions, states and triggers.
func (n *Node) takeUpdate(ctx context.Context, u store.ShardUpdate, now scheduler.Reading) {
	for _, r := range u.Jobs {
		t, ours := n.view.define(u.Shard, r.Job)
		if !ours {
			continue
		}
		if r.StateRevision != 0 {
			t.settle(r.State, r.StateRevision)
		}
		for _, fact := range r.Facts {
			n.learnFact(t, fact, now)
		}
		if t.unreadable != "" && t.reported != t.unreadable {
			t.reported = t.unreadable
			if t.shut { // most often the rules are a moment behind
				n.log.Info("job waits for its calendar", "job", r.Job.Name.String(), "err", t.unreadable)
			} else {
				n.log.Error("job put aside", "job", r.Job.Name.String(), "err", t.unreadable)
			}
		}
		n.followEntries(ctx, t)
		n.view.agenda.Soon(r.Job.Name)
	}
	for _, name := range u.Gone {
		n.view.forget(name)
	}
	for _, w := range u.Triggers {
		if t := n.view.jobs[w.Job]; t != nil {
			t.addTrigger(w.Trigger)
			n.view.agenda.Soon(w.Job)
		}
	}
	for _, w := range u.TriggersGone {
		if t := n.view.jobs[w.Job]; t != nil {
			t.removeTrigger(w.Trigger.ID)
			n.view.agenda.Soon(w.Job)
		}
	}
	for _, q := range u.Quarantined {
		if t := n.view.jobs[q.Job]; q.Trigger == "" {
			n.quarantine(q.Key, q.Job, q.Err)
		} else if t != nil && !t.strange[q.Trigger] {
			if t.strange == nil {
				t.strange = map[string]bool{}
			}
			t.strange[q.Trigger] = true
			n.metrics.quarantined.Inc()
			n.log.Error("trigger unreadable, its job goes on", "job", q.Job.String(), "key", q.Key, "err", q.Err)
		}
	}
}

// quarantine puts a job aside whose records cannot be read. It is planned again when a readable
// definition comes, or when it is looked at again (lookAtAside); all other jobs go on.
func (n *Node) quarantine(key string, job scheduler.JobName, err error) {
	t, why := n.view.jobs[job], key+": "+err.Error()
	if t != nil {
		t.unreadable, t.shut = why, false // no calendar can mend that
		if t.reported == err.Error() {
			return
		}
		t.reported = err.Error()
	}
	n.log.Error("record unreadable, job put aside", "job", job.String(), "key", key, "err", err)
	n.metrics.quarantined.Inc()
}

// mostAside bounds how many jobs that were put aside are read again at a time.
const mostAside = 100

// lookAtAside reads jobs again that were put aside: nobody watches states, so that nothing tells of the
// repair of one.
func (n *Node) lookAtAside(ctx context.Context, now scheduler.Reading) {
	left := mostAside
	for _, t := range n.view.jobs { // in another order each time
		if t.unreadable == "" || t.busy || !n.view.loaded(t.shard) {
			continue
		}
		if left--; left < 0 {
			return
		}
		n.reload(ctx, t, now)
	}
}

// sleep waits, and reports whether the context still lives.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
