package node

import (
	"context"
	"slices"

	"github.com/quorumcron/quorumcron/scheduler"
	"github.com/quorumcron/quorumcron/store"
)

// followRules starts the follower of the rules, in place of one before it.
func (n *Node) followRules(ctx context.Context) {
	if n.view.stopRules != nil {
		n.view.stopRules()
	}
	follow, stop := context.WithCancel(ctx)
	n.view.stopRules = stop
	n.followers.Go(func() {
		_ = n.store.FollowRules(follow, func(r store.Rules) {
			n.inbox.post(func(scheduler.Reading) { n.takeRules(ctx, r) })
		})
	})
}

// takeRules takes in the rules after a change: which shards are this member's, and under which
// revision claims are planned.
func (n *Node) takeRules(ctx context.Context, r store.Rules) {
	switch {
	case r.Revision == 0 && n.view.rulesRevision != 0:
		// Somebody has removed rules/head, which refuses every claim. The dispatcher puts it again.
		n.dispatching.noteRules(r)
		return
	case r.Revision < n.view.rulesRevision:
		return // of a follower that has been replaced
	}
	n.rules.Store(&r)
	n.dispatching.noteRules(r)
	v := n.view
	v.rulesRevision = r.Revision
	for _, t := range v.takeCalendars(r) {
		if t.unreadable != "" {
			n.log.Error("job put aside", "job", t.job.Name.String(), "err", t.unreadable)
		}
		v.agenda.Soon(t.job.Name)
	}
	n.own(ctx, r)
	for name := range v.fenced {
		delete(v.fenced, name)
		v.agenda.Soon(name)
	}
}

// own compares what the rules give this member with what it has. A shard that is gained, in any pool,
// is read anew at or after these rules, for a former owner may have written its states until then
// (rule 12); jobs of what is lost, and of what may have been in between, are forgotten.
func (n *Node) own(ctx context.Context, r store.Rules) {
	v := n.view
	self := n.memberID
	owned := map[poolShard]bool{}
	again := map[poolShard]bool{}
	gained := map[scheduler.Shard]bool{}
	kept := map[scheduler.Shard]bool{}
	named := false
	for pool, a := range r.Assignments {
		// With a version left out, or the pool taken away and made again, somebody else may have owned a
		// shard of ours in between.
		named = named || slices.Contains(a.Members, self)
		missed := r.Versions[pool]-v.versions[pool] > 1 || r.Versions[pool] < v.versions[pool]
		for s := range scheduler.ShardCount {
			shard := scheduler.Shard(s)
			if self == "" || a.Owner(shard) != self {
				continue
			}
			ps := poolShard{pool, shard}
			owned[ps] = true
			kept[shard] = true
			if !v.owned[ps] || missed && !cutReload {
				gained[shard] = true
				again[ps] = true
			}
		}
	}
	v.owned, v.versions = owned, r.Versions
	n.shardsOwned.Store(int64(len(owned)))
	n.assigned.Store(named)
	for shard, f := range v.shards {
		if !kept[shard] || gained[shard] {
			f.stop()
			delete(v.shards, shard)
		}
	}
	for name, t := range v.jobs {
		// What was known of attempts in flight is of no use if another owner may have ended some and
		// begun others: those are looked at anew.
		if ps := (poolShard{t.pool, t.shard}); !owned[ps] || again[ps] {
			v.forget(name)
		}
	}
	for shard := range gained {
		n.followShard(ctx, shard, r.Revision)
	}
}

// followShard starts the follower of a shard.
func (n *Node) followShard(ctx context.Context, shard scheduler.Shard, atLeast int64) {
	follow, stop := context.WithCancel(ctx)
	f := &followed{stop: stop}
	n.view.shards[shard] = f
	n.followers.Go(func() {
		// It ends only with its context.
		_ = n.store.FollowShard(follow, shard, atLeast, func(u store.ShardUpdate) {
			n.inbox.post(func(now scheduler.Reading) { n.takeShard(ctx, f, u, now) })
		})
	})
}

// loaded says whether the shard has been read since it was gained: before that a copy of a state may be
// older than a former owner's last write, and nothing is planned on it.
func (v *view) loaded(shard scheduler.Shard) bool {
	f := v.shards[shard]
	return f != nil && f.loaded
}

// shardsLoaded says whether every shard that is followed has been read once.
func (v *view) shardsLoaded() bool {
	for _, f := range v.shards {
		if !f.loaded {
			return false
		}
	}
	return true
}
