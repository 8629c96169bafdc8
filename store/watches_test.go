package store_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorumcron/quorumcron/scheduler"
	"github.com/quorumcron/quorumcron/store"
)

// shardView is what the updates of a shard add up to.
type shardView struct {
	mu          sync.Mutex // guards the fields below
	generations map[string]int64
	snapshots   int
	edits       int64 // delivered
}

// shows is the generation of job a, the number of snapshots, and how many edits were delivered.
func (v *shardView) shows() (generation int64, snapshots int, edits int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.generations["a"], v.snapshots, v.edits
}

func (v *shardView) take(u store.ShardUpdate) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if u.Snapshot {
		v.generations = map[string]int64{}
		v.snapshots++
	}
	v.edits = u.Edits
	for _, r := range u.Jobs {
		v.generations[r.Job.Name.Name] = r.Job.Generation
	}
	for _, n := range u.Gone {
		delete(v.generations, n.Name)
	}
}

// followShard follows the shard of a job until the test ends.
func (b *bench) followShard(name scheduler.JobName) *shardView {
	b.Helper()
	v := &shardView{}
	ctx, cancel := context.WithCancel(b.ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = b.store.FollowShard(ctx, scheduler.ShardOf(name), 0, v.take)
	}()
	b.Cleanup(func() { cancel(); <-ended })
	synctest.Wait()
	if _, snapshots, _ := v.shows(); snapshots != 1 {
		b.Fatalf("got %d snapshots at the start, want 1", snapshots)
	}
	return v
}

// change edits the job through the witness's eyes: by a store of its own on a way that is not broken.
func (b *bench) change(r store.JobRecord, label string) {
	b.Helper()
	other := store.New(b.watch, store.Config{Prefix: "/q/"})
	j := r.Job
	j.Labels = map[string]string{"label": label}
	_, err := other.Apply(b.ctx, store.ApplyRequest{Job: j, Now: at(noon)})
	b.must(err)
}

// within waits, in virtual time, until the view shows the generation, and says how long it took.
func (b *bench) within(limit time.Duration, v *shardView, generation int64) time.Duration {
	b.Helper()
	began := time.Now()
	for time.Since(began) < limit {
		synctest.Wait()
		if got, _, _ := v.shows(); got == generation {
			return time.Since(began)
		}
		time.Sleep(100 * time.Millisecond)
	}
	got, _, _ := v.shows()
	b.Fatalf("after %s the view shows generation %d, want %d", limit, got, generation)
	return 0
}

func TestAShardIsFollowedThroughACut(t *testing.T) {
	inBubble(t, func(b *bench) {
		r := b.apply("a")
		v := b.followShard(r.Job.Name)
		b.link.Cut()
		b.change(r, "one")
		time.Sleep(time.Minute)
		b.link.Mend()
		b.within(5*time.Second, v, 2)
	})
}

func TestAShardIsListedAgainAfterACompaction(t *testing.T) {
	inBubble(t, func(b *bench) {
		r := b.apply("a")
		v := b.followShard(r.Job.Name)
		b.link.FreezeWatches()
		for _, label := range []string{"one", "two", "three"} {
			b.change(r, label)
			r.Job.Labels = map[string]string{"label": label}
		}
		b.must(b.etcd.Compact(b.etcd.Rev()))
		b.link.Reset()
		b.link.ThawWatches()
		b.within(10*time.Second, v, 4)
		if _, snapshots, _ := v.shows(); snapshots < 2 {
			b.Error("it was not listed again, so the compaction never took hold")
		}
	})
}

// TestASilentWatchIsOpenedAgain: a watch that says nothing, while its connection lives, is not believed.
func TestASilentWatchIsOpenedAgain(t *testing.T) {
	inBubble(t, func(b *bench) {
		r := b.apply("a")
		v := b.followShard(r.Job.Name)
		time.Sleep(10 * time.Minute) // An idle watch is not a silent one.
		synctest.Wait()
		opened := b.etcd.Stats().WatchesOpened
		if _, snapshots, _ := v.shows(); snapshots != 1 || opened > 2 {
			b.Fatalf("an idle shard was listed %d times and watched %d times, want once and twice", snapshots, opened)
		}
		b.link.FreezeWatches()
		b.change(r, "one")
		time.Sleep(2 * time.Minute)
		b.link.ThawWatches()
		b.within(30*time.Second, v, 2)
		if again := b.etcd.Stats().WatchesOpened; again == opened {
			b.Errorf("%d watches were opened, as before: silence was believed", again)
		}
	})
}

func TestAWatchThatLostItsLeaderGoesOn(t *testing.T) {
	inBubble(t, func(b *bench) {
		r := b.apply("a")
		v := b.followShard(r.Job.Name)
		b.etcd.LoseQuorum()
		time.Sleep(30 * time.Second)
		b.etcd.RegainQuorum()
		b.change(r, "one")
		took := b.within(5*time.Second, v, 2)
		b.Logf("seen after %s", took)
	})
}

// TestALostEventShowsInTheMarks: etcd never delivers an event, and nothing else happens in the shard.
func TestALostEventShowsInTheMarks(t *testing.T) {
	inBubble(t, func(b *bench) {
		r := b.apply("a")
		v := b.followShard(r.Job.Name)
		b.link.DropEvents(1, func(e *clientv3.Event) bool { return strings.HasPrefix(string(e.Kv.Key), "/q/jobs/") })
		b.change(r, "one")
		time.Sleep(time.Minute)
		synctest.Wait()
		generation, _, delivered := v.shows()
		if b.link.Counts().EventsDropped != 1 || generation != 1 {
			b.Fatalf("dropped %d events, generation %d; the fault did not take hold", b.link.Counts().EventsDropped, generation)
		}
		m, err := b.store.ReadMarks(b.ctx)
		b.must(err)
		if edits := m.Edits[scheduler.ShardOf(r.Job.Name)]; edits <= delivered {
			b.Errorf("the mark tells of %d edits, and %d were delivered: nobody can tell that an event was lost", edits, delivered)
		}
		if again, _, _ := b.followShard(r.Job.Name).shows(); again != 2 {
			b.Errorf("a new follower shows generation %d, want 2", again)
		}
	})
}

// TestFollowersWaitForEtcd: started while etcd is away, they deliver when it comes, within the bounded
// back-off.
func TestFollowersWaitForEtcd(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.link.Refuse()
		rules := make(chan store.Rules, 10) // more than are expected
		ctx, cancel := context.WithCancel(b.ctx)
		ended := make(chan error, 1)
		go func() { ended <- b.store.FollowRules(ctx, func(r store.Rules) { rules <- r }) }()
		time.Sleep(10 * time.Minute)
		b.link.Mend()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if len(rules) != 1 || (<-rules).Revision == 0 {
			b.Errorf("got %d deliveries five seconds after etcd came back, want the rules", len(rules))
		}
		cancel()
		if err := <-ended; err != context.Canceled {
			b.Errorf("it ended with %v, want its context's end", err)
		}
	})
}

// TestAnEntryIsFollowedThroughACut: the lock's end happens while nobody can see it.
func TestAnEntryIsFollowedThroughACut(t *testing.T) {
	inBubble(t, func(b *bench) {
		r, f := b.grant("a")
		var facts []store.EntryFact
		ended := make(chan error, 1)
		go func() {
			ended <- b.store.FollowEntry(b.ctx, r.State.Entries[0], func(f store.EntryFact) { facts = append(facts, f) })
		}()
		synctest.Wait()
		b.link.Cut()
		other := store.New(b.watch, store.Config{Prefix: "/q/"})
		ctx, stop := context.WithCancel(b.ctx)
		stopped := make(chan error, 1)
		go func() { stopped <- other.Run(ctx) }()
		recorded, err := other.Finish(b.ctx, f)
		b.must(err)
		stop()
		b.must(<-stopped)
		time.Sleep(time.Minute)
		b.link.Mend()
		b.must(<-ended)
		last := facts[len(facts)-1]
		if !recorded || facts[0].Lock != f.Lock.Token || last.Record == nil || last.Record.Last().Verdict != scheduler.Succeeded {
			b.Errorf("got %+v, want the lock and then the record", facts)
		}
	})
}
