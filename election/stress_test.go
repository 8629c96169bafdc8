package election_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/quorumcron/quorumcron/election"
	"github.com/quorumcron/quorumcron/internal/memetcd"
	"github.com/quorumcron/quorumcron/scheduler"
)

// Real time and real parallelism: for the race detector.
func TestManyProcessesStartAndStopAtOnce(t *testing.T) {
	t.Parallel()
	etcd := memetcd.New(memetcd.Config{})
	t.Cleanup(etcd.Close)
	const processes = 8
	var group sync.WaitGroup
	for i := range processes {
		group.Go(func() {
			p := start(t, etcd, fmt.Sprintf("m%d", i))
			switch i % 3 {
			case 1:
				await[election.Joined](t, p, 30*time.Second)
			case 2:
				await[election.LockLeaseOpened](t, p, 30*time.Second)
			}
			p.halt(10 * time.Second)
		})
	}
	group.Wait()
	if leases := etcd.Leases(); len(leases) != 0 {
		t.Errorf("%d leases left, want none", len(leases))
	}
}

func TestEverythingIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	etcd := memetcd.New(memetcd.Config{})
	t.Cleanup(etcd.Close)
	p := start(t, etcd, "a", func(c *election.Config) { c.TTL = 3 * time.Second })
	await[election.LockLeaseOpened](t, p, 30*time.Second)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	var group sync.WaitGroup
	repeat := func(f func(turn int)) {
		group.Go(func() {
			for turn := 0; ctx.Err() == nil; turn++ {
				f(turn)
			}
		})
	}
	for range 2 {
		repeat(func(int) {
			if lease, err := p.LockLease(p.clock()); err == nil {
				_ = p.LockLife(lease.ID).TermAt()
				p.Suspect(lease.ID)
				p.Release(lease.ID)
			}
		})
	}
	repeat(func(int) { _, _ = p.ListLocks(ctx) })
	repeat(func(turn int) {
		_ = p.UpdateMember(ctx, func(m *scheduler.Member) { m.Draining = turn%2 == 0 })
	})
	repeat(func(int) {
		for _, lock := range p.Status().Locks {
			p.Retire(lock.ID)
		}
		rest(ctx, 20*time.Millisecond)
	})
	repeat(func(int) {
		p.Orphan("stress")
		rest(ctx, 10*time.Millisecond)
		p.Recover()
		rest(ctx, 30*time.Millisecond)
	})
	repeat(func(int) { _, _ = p.Dispatcher(ctx) })
	_ = p.FollowMembers(ctx, func([]scheduler.Member, int64) {})
	group.Wait()
	p.Recover()
	await[election.Joined](t, p, 30*time.Second)
	p.halt(10 * time.Second)
	if leases := etcd.Leases(); len(leases) != 0 {
		t.Errorf("%d leases left, want none", len(leases))
	}
}

func rest(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func TestStopAtAnyMomentLeavesNothing(t *testing.T) {
	for step := range 40 {
		inBubble(t, func(t *testing.T, etcd *memetcd.Store) {
			p := start(t, etcd, "a", func(*election.Config) {})
			p.link.Delay(30*time.Millisecond, 30*time.Millisecond)
			time.Sleep(time.Duration(step) * 10 * time.Millisecond)
			p.halt(closing)
			time.Sleep(ttl + time.Second)
			if leases := etcd.Leases(); len(leases) != 0 {
				t.Errorf("stopped after %d ms: %d leases left", step*10, len(leases))
			}
		})
	}
}

// closing is the most that a stop takes with a link that works.
const closing = time.Second
