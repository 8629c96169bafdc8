package election_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorumcron/quorumcron/election"
	"github.com/quorumcron/quorumcron/internal/memetcd"
)

func TestAnswersPushTheLifeOfLocksOn(t *testing.T) {
	inBubble(t, func(t *testing.T, etcd *memetcd.Store) {
		p := start(t, etcd, "a")
		await[election.LockLeaseOpened](t, p, time.Second)
		lease := p.lock()
		if lease.Hold != ttl+grace {
			t.Errorf("hold %s, want %s", lease.Hold, ttl+grace)
		}
		for range 100 {
			time.Sleep(time.Second)
			now, life := p.clock().Elapsed, p.LockLife(lease.ID)
			if age := now - life.Sent; age > ttl/4 || age < 0 {
				t.Fatalf("K is %s old, want at most a quarter of the TTL", age)
			}
			if life.TTL != ttl || life.Grace != grace {
				t.Fatalf("life %+v, want TTL %s and grace %s", life, ttl, grace)
			}
		}
	})
}

// A reply that comes late says that the lease lives from when its keep-alive was sent, not from now.
func TestLateAnswerCountsFromWhenItWasSent(t *testing.T) {
	inBubble(t, func(t *testing.T, etcd *memetcd.Store) {
		p := start(t, etcd, "a")
		await[election.LockLeaseOpened](t, p, time.Second)
		lease := p.lock()
		opened := p.LockLife(lease.ID).Sent
		const under = 6 * time.Second
		p.link.Delay(0, under)
		for range 600 {
			time.Sleep(100 * time.Millisecond)
			now, life := p.clock().Elapsed, p.LockLife(lease.ID)
			if life.Sent > opened && life.Sent > now-under {
				t.Fatalf("K is %s old, want at least the %s that every answer takes", now-life.Sent, under)
			}
			if now-life.Sent > under+ttl/4+100*time.Millisecond && now-opened > under+ttl/2 {
				t.Fatalf("K is %s old: a slow link must not hold the later keep-alives up", now-life.Sent)
			}
		}
		none[election.LockLeaseLost](t, p)
	})
}

func TestClaimingStopsAtTwoThirdsOfTheTTL(t *testing.T) {
	inBubble(t, func(t *testing.T, etcd *memetcd.Store) {
		p := start(t, etcd, "a")
		await[election.LockLeaseOpened](t, p, time.Second)
		time.Sleep(time.Minute)
		id := p.Status().Locks[0].ID
		p.link.CutReplies()
		sent := p.LockLife(id).Sent
		until := p.LockLife(id).ClaimUntil()
		if until != sent+ttl*2/3 {
			t.Fatalf("claiming until K + %s, want two thirds of %s", until-sent, ttl)
		}
		time.Sleep(until - p.clock().Elapsed - time.Nanosecond)
		if lease, err := p.LockLease(p.clock()); err != nil {
			t.Errorf("just before the limit: %v", err)
		} else {
			p.Release(lease.ID)
		}
		none[election.LockLeaseDoubted](t, p)
		time.Sleep(time.Nanosecond)
		if _, err := p.LockLease(p.clock()); !errors.Is(err, election.ErrNoLockLease) {
			t.Errorf("at the limit: error %v, want ErrNoLockLease", err)
		}
		_, at := await[election.LockLeaseDoubted](t, p, time.Second)
		if late := p.clock().Elapsed - until - time.Since(at); late > time.Millisecond {
			t.Errorf("doubted %s after the limit, want at once", late)
		}
		time.Sleep(500 * time.Millisecond)
		if got := p.LockLife(id).Sent; got != sent {
			t.Errorf("K moved by %s without an answer", got-sent)
		}
		p.link.Mend()
		// The lease lived all the time: the requests had arrived.
		if renewed, _ := await[election.LockLeaseRenewed](t, p, 3*time.Second); renewed.ID != id {
			t.Errorf("lease %x renewed, want %x", renewed.ID, id)
		}
		p.lock()
		none[election.LockLeaseLost](t, p)
	})
}

func TestLock257OpensASecondLease(t *testing.T) {
	inBubble(t, func(t *testing.T, etcd *memetcd.Store) {
		p := start(t, etcd, "a")
		first, _ := await[election.LockLeaseOpened](t, p, time.Second)
		perLease := map[int64]int{}
		var second int64
		for i := range 257 {
			perLease[p.lock().ID]++
			if i == 256-64 {
				opened, _ := await[election.LockLeaseOpened](t, p, time.Second)
				second = opened.ID
			}
		}
		if perLease[first.ID] != 256 || perLease[second] != 1 {
			t.Errorf("locks per lease %v, want 256 under %x and 1 under %x", perLease, first.ID, second)
		}
		for id, n := range perLease {
			for range n {
				p.Release(id)
			}
		}
		time.Sleep(2 * time.Minute)
		if locks := p.Status().Locks; len(locks) != 1 || locks[0].ID != first.ID {
			t.Errorf("lock leases %+v, want the first only: a surplus one is given up", locks)
		}
		if leases := etcd.Leases(); len(leases) != 2 {
			t.Errorf("%d leases in etcd, want 2", len(leases))
		}
		none[election.LockLeaseLost](t, p)
	})
}

func TestBurstBeyondTheRoomIsServedWhenTheNextLeaseIsOpen(t *testing.T) {
	inBubble(t, func(t *testing.T, etcd *memetcd.Store) {
		p := start(t, etcd, "a")
		await[election.LockLeaseOpened](t, p, time.Second)
		granted := map[int64]int{}
		for len(granted) < 5 || granted[slices.Max(keys(granted))] < 10 {
			lease, err := p.LockLease(p.clock())
			if err != nil {
				await[election.LockLeaseOpened](t, p, time.Second)
				continue
			}
			granted[lease.ID]++
		}
		for id, n := range granted {
			if n > 256 {
				t.Errorf("%d locks under lease %x, want at most 256", n, id)
			}
		}
	})
}

func keys(m map[int64]int) []int64 {
	var all []int64
	for id := range m {
		all = append(all, id)
	}
	return all
}

func TestRefusedLockLeaseIsFoundLostAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, etcd *memetcd.Store) {
		p := start(t, etcd, "a", func(c *election.Config) { c.TTL = time.Minute })
		opened, _ := await[election.LockLeaseOpened](t, p, time.Second)
		lease := p.lock()
		life := p.LockLife(lease.ID)
		time.Sleep(5 * time.Second)
		if _, err := etcd.Client(t.Context()).Revoke(t.Context(), clientv3.LeaseID(lease.ID)); err != nil {
			t.Fatal(err)
		}
		p.Suspect(lease.ID) // what node does when its Begin is refused for the lease
		if lost, _ := await[election.LockLeaseLost](t, p, time.Second); lost.ID != opened.ID || lost.Held != 1 {
			t.Errorf("lost %+v, want lease %x with one lock", lost, opened.ID)
		}
		await[election.LockLeaseOpened](t, p, time.Second)
		if got := p.LockLife(lease.ID); got != life {
			t.Errorf("life of the lost lease %+v, want still %+v: its attempt counts on it", got, life)
		}
		p.Release(lease.ID)
		if got := p.LockLife(lease.ID); got.KillAt() > 0 {
			t.Errorf("life of a lease that nothing is held under %+v, want one that is over", got)
		}
	})
}

func TestRevokedLockLeaseIsReplacedWithAQuarterTTL(t *testing.T) {
	inBubble(t, func(t *testing.T, etcd *memetcd.Store) {
		p := start(t, etcd, "a", func(c *election.Config) { c.TTL = 6 * time.Second })
		opened, _ := await[election.LockLeaseOpened](t, p, time.Second)
		time.Sleep(time.Minute + 100*time.Millisecond)
		if _, err := etcd.Client(t.Context()).Revoke(t.Context(), clientv3.LeaseID(opened.ID)); err != nil {
			t.Fatal(err)
		}
		await[election.LockLeaseLost](t, p, 2*time.Second)
		await[election.LockLeaseOpened](t, p, 2*time.Second)
	})
}

func TestRetiredLeaseIsRevokedAndReplaced(t *testing.T) {
	inBubble(t, func(t *testing.T, etcd *memetcd.Store) {
		p := start(t, etcd, "a")
		await[election.LockLeaseOpened](t, p, time.Second)
		p.link.Cut()
		doubted, _ := await[election.LockLeaseDoubted](t, p, ttl)
		etcd.LoseQuorum() // so that the lease lives on
		p.Retire(doubted.ID)
		p.Retire(doubted.ID)
		p.Retire(4711)
		time.Sleep(time.Minute)
		if n := len(etcd.Leases()); n != 2 {
			t.Fatalf("%d leases, want 2 while etcd has no quorum", n)
		}
		p.link.Mend()
		etcd.RegainQuorum()
		opened, _ := await[election.LockLeaseOpened](t, p, 3*time.Second)
		time.Sleep(3 * time.Second)
		if slices.Contains(etcd.Leases(), clientv3.LeaseID(doubted.ID)) {
			t.Errorf("retired lease %x is still there", doubted.ID)
		}
		if lease := p.lock(); lease.ID != opened.ID {
			t.Errorf("lock under lease %x, want the new one %x", lease.ID, opened.ID)
		}
		none[election.LockLeaseRenewed](t, p)
	})
}

func TestListLocksShowsTheKeysOfEachLease(t *testing.T) {
	inBubble(t, func(t *testing.T, etcd *memetcd.Store) {
		p := start(t, etcd, "a")
		await[election.LockLeaseOpened](t, p, time.Second)
		lease := p.lock()
		for _, key := range []string{"locks/u/x/000", "locks/u/y/000"} {
			if _, err := p.client.Put(t.Context(), prefix+key, "", clientv3.WithLease(clientv3.LeaseID(lease.ID))); err != nil {
				t.Fatal(err)
			}
		}
		found, err := p.ListLocks(t.Context())
		want := []string{prefix + "locks/u/x/000", prefix + "locks/u/y/000"}
		if err != nil || len(found) != 1 || !slices.Equal(found[lease.ID], want) {
			t.Errorf("listed %v, %v; want %v under %x", found, err, want, lease.ID)
		}
		p.link.Refuse()
		if found, err := p.ListLocks(t.Context()); err == nil {
			t.Errorf("listed %v without a connection, want an error", found)
		}
		p.link.Mend()
		if _, err := etcd.Client(t.Context()).Revoke(t.Context(), clientv3.LeaseID(lease.ID)); err != nil {
			t.Fatal(err)
		}
		if found, err := p.ListLocks(t.Context()); err != nil || len(found) != 0 {
			t.Errorf("listed %v, %v after the lease was revoked; want nothing", found, err)
		}
		await[election.LockLeaseLost](t, p, 0)
	})
}

func TestLostKeepAlivesAreRepeatedInTime(t *testing.T) {
	inBubble(t, func(t *testing.T, etcd *memetcd.Store) {
		p := start(t, etcd, "a")
		await[election.LockLeaseOpened](t, p, time.Second)
		await[election.TermBegan](t, p, time.Second)
		p.forget()
		for range 50 {
			p.link.Reset()
			time.Sleep(700 * time.Millisecond)
		}
		if events := p.events(); len(events) != 0 {
			t.Errorf("told%s\nwant nothing: no connection was away for long", p.story())
		}
		p.lock()
	})
}

func TestReleaseTooOftenIsHarmless(t *testing.T) {
	inBubble(t, func(t *testing.T, etcd *memetcd.Store) {
		p := start(t, etcd, "a")
		opened, _ := await[election.LockLeaseOpened](t, p, time.Second)
		p.Release(opened.ID)
		p.Release(4711)
		p.lock()
		if held := p.Status().Locks[0].Held; held != 1 {
			t.Errorf("%d locks held, want 1", held)
		}
	})
}

func TestGrantCountsFromWhenItWasSent(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *memetcd.Store) {
		const latency = time.Second
		etcd := memetcd.New(memetcd.Config{Latency: latency})
		t.Cleanup(etcd.Close)
		p := start(t, etcd, "a")
		opened, at := await[election.LockLeaseOpened](t, p, 30*time.Second)
		if age := p.clock().Elapsed - time.Since(at) - p.LockLife(opened.ID).Sent; age < 2*latency {
			t.Errorf("K is %s old when the lease is opened, want the %s that the grant took", age, 2*latency)
		}
	})
}

func TestAnswersOutOfOrderNeverMoveTheLifeBack(t *testing.T) {
	inBubble(t, func(t *testing.T, etcd *memetcd.Store) {
		p := start(t, etcd, "a")
		opened, _ := await[election.LockLeaseOpened](t, p, time.Second)
		sent := p.LockLife(opened.ID).Sent
		for turn := range 600 {
			switch turn % 60 {
			case 0:
				p.link.Delay(0, 4500*time.Millisecond)
			case 30:
				p.link.Delay(0, 0)
			}
			time.Sleep(100 * time.Millisecond)
			now := p.LockLife(opened.ID).Sent
			if now < sent {
				t.Fatalf("K moved back by %s", sent-now)
			}
			sent = now
		}
	})
}

func TestRetireLeavesARenewedLeaseAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, etcd *memetcd.Store) {
		p := start(t, etcd, "a")
		await[election.LockLeaseOpened](t, p, time.Second)
		etcd.LoseQuorum()
		doubted, _ := await[election.LockLeaseDoubted](t, p, ttl)
		etcd.RegainQuorum()
		await[election.LockLeaseRenewed](t, p, 3*time.Second)
		lease := p.lock()
		p.Retire(doubted.ID) // decided before the renewal was known
		time.Sleep(time.Minute)
		if lease.ID != doubted.ID || !slices.Contains(etcd.Leases(), clientv3.LeaseID(lease.ID)) {
			t.Errorf("lease %x with a lock is gone", lease.ID)
		}
	})
}
