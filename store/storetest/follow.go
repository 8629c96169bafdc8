package storetest

import (
	"context"
	"fmt"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorumcron/quorumcron/scheduler"
	"github.com/quorumcron/quorumcron/store"
)

func followTests() []test {
	return []test{
		{"AShardIsListedAndThenFollowed", aShardIsFollowed},
		{"AShardWithManyJobsIsListedAtOneRevision", aLargeShardIsListed},
		{"WhatCannotBeReadIsQuarantined", whatCannotBeReadIsQuarantined},
		{"RulesArriveTogether", rulesArriveTogether},
		{"PoolsAreFollowed", poolsAreFollowed},
		{"AnEntryIsFollowedToItsRecord", anEntryIsFollowedToItsRecord},
		{"AnEntryIsFollowedUntilItsLockIsGone", anEntryIsFollowedUntilItsLockIsGone},
		{"MarksTellTheNewestChange", marksTellTheNewestChange},
	}
}

// inbox collects what a follower delivers.
type inbox[T any] struct {
	w    *world
	news chan T
}

// follow runs a follower until the test ends.
func follow[T any](w *world, run func(context.Context, func(T)) error) inbox[T] {
	w.Helper()
	in := inbox[T]{w, make(chan T, 1000)} // more than any test delivers
	ctx, cancel := context.WithCancel(w.ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = run(ctx, func(v T) { in.news <- v })
	}()
	w.Cleanup(func() { cancel(); <-ended })
	return in
}

// next waits for the next delivery that is of the kind.
func (in inbox[T]) next(what string, is func(T) bool) T {
	in.w.Helper()
	for {
		select {
		case v := <-in.news:
			if is(v) {
				return v
			}
		case <-in.w.ctx.Done():
			in.w.Fatalf("nothing came that is %s", what)
		}
	}
}

func any1[T any](T) bool { return true }

func aShardIsFollowed(w *world) {
	r := w.apply(job("a"), noon)
	name, shard := r.Job.Name, scheduler.ShardOf(r.Job.Name)
	in := follow(w, func(ctx context.Context, deliver func(store.ShardUpdate)) error {
		return w.store.FollowShard(ctx, shard, r.Job.Revision, deliver)
	})
	u := in.next("the snapshot", any1)
	if !u.Snapshot || u.Shard != shard || len(u.Jobs) != 1 || u.Jobs[0].Job.UID != r.Job.UID || u.Jobs[0].StateRevision != r.StateRevision || u.Revision < r.Job.Revision || u.Edits != 1 {
		w.Fatalf("got %+v, want a snapshot with the job and its state", u)
	}
	w.applied(job("a", hourly), noon.Add(time.Minute))
	u = in.next("the edit", any1)
	if u.Snapshot || len(u.Jobs) != 1 || u.Jobs[0].Job.Generation != 2 || !u.Jobs[0].State.Cursor.Equal(noon.Add(time.Minute)) || u.Edits != 2 {
		w.Errorf("got %+v, want the edit with the state whose books it closed", u)
	}
	t, err := w.trigger(name, "x", "ann")
	w.must(err)
	u = in.next("the trigger", any1)
	if len(u.Triggers) != 1 || u.Triggers[0].Job != name || u.Triggers[0].Trigger.ID != t.Firing.Trigger || u.Edits != 2 {
		w.Errorf("got %+v, want the trigger", u)
	}
	_, err = w.store.Cancel(w.ctx, name, t.Firing, "", at(noon))
	w.must(err)
	u = in.next("the trigger's end", any1)
	if len(u.TriggersGone) != 1 || u.TriggersGone[0].Trigger.ID != t.Firing.Trigger {
		w.Errorf("got %+v, want the trigger gone", u)
	}
	_, err = w.store.Delete(w.ctx, store.EditRequest{Name: name, Now: at(noon)})
	w.must(err)
	u = in.next("the tombstone", func(u store.ShardUpdate) bool { return len(u.Jobs) > 0 })
	if !u.Jobs[0].Job.Tombstone() {
		w.Errorf("got %+v, want the tombstone", u)
	}
	out, err := w.store.Settle(w.ctx, w.claim(u.Jobs[0], scheduler.Decision{Kind: scheduler.KindSweep, Job: name}, 0, ""))
	w.must(err)
	u = in.next("the sweep", any1)
	if !out.Committed || len(u.Gone) != 1 || u.Gone[0] != name {
		w.Errorf("got %+v, want the job gone", u)
	}
}

// inShard makes up n names that lie in one shard.
func inShard(shard scheduler.Shard, n int) []string {
	var names []string
	for i := 0; len(names) < n; i++ {
		if j := job(fmt.Sprintf("j%d", i)); scheduler.ShardOf(j.Name) == shard {
			names = append(names, j.Name.Name)
		}
	}
	return names
}

// aLargeShardIsListed: more jobs than one page holds.
func aLargeShardIsListed(w *world) {
	const shard, many = scheduler.Shard(7), 600
	names := inShard(shard, many)
	template := w.apply(job(names[0]), noon)
	definition, state := w.get(w.jobKey(template)), w.get(w.stateKey(template))
	for batch := range slices.Chunk(names[1:], 50) {
		var puts []clientv3.Op
		for _, name := range batch {
			path := shard.String() + "/default/" + name
			// The name is field 2 of the definition; a second one replaces the first.
			named := string(definition) + string(append([]byte{0x12, byte(len(name))}, name...))
			puts = append(puts, clientv3.OpPut(w.prefix+"jobs/"+path, named), clientv3.OpPut(w.prefix+"state/"+path, string(state)))
		}
		_, err := w.client.Txn(w.ctx).Then(puts...).Commit()
		w.must(err)
	}
	in := follow(w, func(ctx context.Context, deliver func(store.ShardUpdate)) error {
		return w.store.FollowShard(ctx, shard, 0, deliver)
	})
	u := in.next("the snapshot", any1)
	if len(u.Jobs) != many || len(u.Quarantined) != 0 {
		w.Fatalf("got %d jobs and %d quarantined, want %d and none", len(u.Jobs), len(u.Quarantined), many)
	}
	for _, r := range u.Jobs {
		if r.StateRevision == 0 {
			w.Fatalf("%s came without its state", r.Job.Name)
		}
	}
}

func whatCannotBeReadIsQuarantined(w *world) {
	names := inShard(7, 4)
	good, bad, stateless := w.apply(job(names[0]), noon), w.apply(job(names[1]), noon), w.apply(job(names[2]), noon)
	for _, key := range []string{w.jobKey(bad), "jobs/07/nonsense", "triggers/07/default/" + names[0] + "/x"} {
		_, err := w.client.Put(w.ctx, w.prefix+key, "\xff\xff")
		w.must(err)
	}
	_, err := w.client.Delete(w.ctx, w.prefix+w.stateKey(stateless))
	w.must(err)
	in := follow(w, func(ctx context.Context, deliver func(store.ShardUpdate)) error {
		return w.store.FollowShard(ctx, 7, 0, deliver)
	})
	u := in.next("the snapshot", any1)
	var keys []string
	for _, q := range u.Quarantined {
		keys = append(keys, q.Key)
	}
	slices.Sort(keys)
	want := []string{w.jobKey(bad), "jobs/07/nonsense", w.stateKey(stateless), "triggers/07/default/" + names[0] + "/x"}
	slices.Sort(want)
	if !slices.Equal(keys, want) {
		w.Errorf("quarantined:\ngot  %v\nwant %v", keys, want)
	}
	if len(u.Jobs) != 2 || u.Jobs[0].Job.Name != good.Job.Name && u.Jobs[1].Job.Name != good.Job.Name {
		w.Errorf("got jobs %+v, want the good one and the one without a state", u.Jobs)
	}
	fourth := w.apply(job(names[3]), noon)
	_, err = w.client.Put(w.ctx, w.prefix+w.jobKey(fourth), "\xff\xff")
	w.must(err)
	u = in.next("the damage done meanwhile", func(u store.ShardUpdate) bool { return len(u.Quarantined) > 0 })
	if u.Quarantined[0].Job != fourth.Job.Name || u.Quarantined[0].Err == nil {
		w.Errorf("got %+v, want %s quarantined", u.Quarantined, fourth.Job.Name)
	}
}

func rulesArriveTogether(w *world) {
	g := w.term()
	in := follow(w, w.store.FollowRules)
	first := in.next("the rules at the start", any1)
	if first.Revision == 0 || first.Revision != w.rules() || len(first.Assignments) != 0 {
		w.Fatalf("got %+v, want no assignments at %d", first, w.rules())
	}
	at := first.Revision
	for i := range 5 {
		owner := fmt.Sprintf("node-a#%d", i)
		var err error
		at, err = w.store.Publish(w.ctx, g, at, []scheduler.Assignment{assignment("all", owner), assignment("p1", owner), assignment("p2", owner)})
		w.must(err)
	}
	for {
		r := in.next("the last rules", any1)
		for _, pool := range []string{"all", "p1", "p2"} {
			if r.Assignments[pool].Members[0] != r.Assignments["all"].Members[0] {
				w.Fatalf("half of a change was delivered: %v", r.Assignments)
			}
		}
		if r.Revision == at {
			break
		}
	}
	_, err := w.client.Put(w.ctx, w.prefix+"rules/assignment/p2", "\xff")
	w.must(err)
	r := in.next("the damage", func(r store.Rules) bool { return len(r.Quarantined) > 0 })
	if len(r.Assignments) != 2 || r.Quarantined[0].Key != "rules/assignment/p2" {
		w.Errorf("got %+v, want the other two, and p2 quarantined", r)
	}
}

func assignment(pool, owner string) scheduler.Assignment {
	a := scheduler.Assignment{Pool: pool, Members: []string{owner}}
	for i := range a.Owners {
		a.Owners[i] = 1
	}
	return a
}

func poolsAreFollowed(w *world) {
	in := follow(w, w.store.FollowPools)
	p := in.next("the pool of all", any1)
	if len(p.Pools) != 1 || p.Pools[0].ID != scheduler.PoolAll || p.Pools[0].Handler != "" || len(p.Pools[0].Selector) != 0 {
		w.Fatalf("got %+v, want the pool of all", p)
	}
	r := w.apply(job("a", func(j *scheduler.Job) { j.Target.Selector = map[string]string{"zone": "eu"} }), noon)
	p = in.next("the new pool", func(p store.Pools) bool { return len(p.Pools) == 2 })
	want := scheduler.PoolOf(r.Job)
	i := slices.IndexFunc(p.Pools, func(p scheduler.Pool) bool { return p.ID == want.ID })
	if i < 0 || p.Pools[i].Selector["zone"] != "eu" || p.Pools[i].Handler != "work" {
		w.Errorf("got %+v, want %+v among them", p.Pools, want)
	}
}

func anEntryIsFollowedToItsRecord(w *world) {
	r, e, _ := w.running("a")
	in := follow(w, func(ctx context.Context, deliver func(store.EntryFact)) error {
		return w.store.FollowEntry(ctx, e, deliver)
	})
	if f := in.next("the lock", any1); f.Lock != e.Token || f.Record != nil || f.Attempt != 1 {
		w.Errorf("got %+v, want the lock", f)
	}
	w.finish(ended(r, e, scheduler.Succeeded))
	if f := in.next("the record", any1); f.Lock != 0 || f.Record == nil || f.Record.Last().Verdict != scheduler.Succeeded {
		w.Errorf("got %+v, want the record", f)
	}
}

func anEntryIsFollowedUntilItsLockIsGone(w *world) {
	_, e, lease := w.running("a")
	ended := make(chan error, 1)
	in := follow(w, func(ctx context.Context, deliver func(store.EntryFact)) error {
		err := w.store.FollowEntry(ctx, e, deliver)
		ended <- err
		return err
	})
	in.next("the lock", func(f store.EntryFact) bool { return f.Lock == e.Token })
	w.revoke(lease)
	in.next("the lock gone without a record", func(f store.EntryFact) bool { return f.Lock == 0 && f.Record == nil })
	select {
	case err := <-ended:
		w.must(err)
	case <-w.ctx.Done():
		w.Error("the follower goes on though nothing is left to follow")
	}
}

func marksTellTheNewestChange(w *world) {
	r := w.apply(job("a"), noon)
	t, err := w.trigger(r.Job.Name, "x", "")
	w.must(err)
	w.apply(job("b"), noon)
	m, err := w.store.ReadMarks(w.ctx)
	w.must(err)
	shard := scheduler.ShardOf(r.Job.Name)
	u := w.read(r.Job.Name)
	waiting := len(m.Waiting) == 1 && m.Waiting[0].Job == r.Job.Name && m.Waiting[0].Trigger == scheduler.Trigger{
		ID: t.Firing.Trigger, Revision: u.Triggers[0].Trigger.Revision,
	}
	if m.Edits[shard] != 1 || len(m.Edits) != 2 || !waiting || m.Revision < r.Job.Revision {
		w.Errorf("got %+v, want one edit in shard %s, and trigger %s", m, shard, t.Firing)
	}
}
