package conformance

import (
	"context"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

func sessionTests() []Test {
	return []Test{
		{Name: "ASessionEndsWithItsLease", Alone: true, Run: sessionEnds,
			Says: "A session is done once its lease is gone; closing it takes the lease and its keys away."},
		{Name: "AnOrphanedLeaseLivesOnUntilItsTTL", Alone: true, Run: orphan,
			Says: "An orphaned session leaves the lease to expire; until then another session can take it up again."},
		{Name: "TheFirstToCampaignLeads", Run: election,
			Says: "Leaders follow each other in the order of their keys' creation, and a guard on the key of a former leader no longer holds."},
		{Name: "ADeadLeaderIsFollowed", Alone: true, Run: deadLeader,
			Says: "When the leader's lease expires the next in line leads, not before the TTL."},
		{Name: "ObserversSeeEveryLeader", Run: observe, Says: "Observing an election tells its leaders in order."},
		{Name: "AMutexIsHeldByASession", Run: mutex,
			Says: "A mutex is held by a session, not by a caller: the same session locks it twice, another not at all."},
	}
}

func session(t *testing.T, e *Env, opts ...concurrency.SessionOption) *concurrency.Session {
	t.Helper()
	s := must[*concurrency.Session](t, "new session")(concurrency.NewSession(e.Client, opts...))
	t.Cleanup(s.Orphan)
	return s
}

func closed(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	select {
	case <-c:
	case <-ctx.Done():
		t.Fatalf("%s: nothing happened", what)
	}
}

func sessionEnds(t *testing.T, e *Env) {
	s := session(t, e, concurrency.WithTTL(int(e.MinTTL)))
	must[*clientv3.LeaseRevokeResponse](t, "revoke")(e.Client.Revoke(t.Context(), s.Lease()))
	closed(t, "session without a lease", s.Done())
	s = session(t, e, concurrency.WithTTL(60))
	put(t, e.Client, e.Prefix+"a", "x", clientv3.WithLease(s.Lease()))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	want(t, "a after the close", value(t, e.Client, e.Prefix+"a"), "absent")
}

func orphan(t *testing.T, e *Env) {
	s := session(t, e, concurrency.WithTTL(int(e.MinTTL)))
	w := watch(t, e, e.Prefix+"a")
	put(t, e.Client, e.Prefix+"a", "x", clientv3.WithLease(s.Lease()))
	events(t, w, 1)
	s.Orphan()
	again := session(t, e, concurrency.WithTTL(int(e.MinTTL)), concurrency.WithLease(s.Lease()))
	r := must[*clientv3.LeaseTimeToLiveResponse](t, "time to live")(e.Client.TimeToLive(t.Context(), again.Lease()))
	want(t, "granted", r.GrantedTTL, e.MinTTL)
	again.Orphan()
	want(t, "event", describeAll(events(t, w, 1), e.Prefix), "DELETE a")
}

func campaign(t *testing.T, e *Env, s *concurrency.Session, name string) (*concurrency.Election, <-chan struct{}) {
	el, won := concurrency.NewElection(s, e.Prefix+"el"), make(chan struct{})
	go func() {
		if err := el.Campaign(t.Context(), name); err == nil {
			close(won)
		}
	}()
	return el, won
}

func election(t *testing.T, e *Env) {
	w := watch(t, e, e.Prefix+"el/", clientv3.WithPrefix())
	var all []*concurrency.Election
	var won []<-chan struct{}
	for _, name := range []string{"a", "b", "c"} {
		el, c := campaign(t, e, session(t, e), name)
		events(t, w, 1)
		all, won = append(all, el), append(won, c)
	}
	closed(t, "a leads", won[0])
	key, rev := all[0].Key(), all[0].Rev()
	mine := clientv3.Compare(clientv3.CreateRevision(key), "=", rev)
	r, err := commit(t, e.Client, guards(mine), ops(clientv3.OpPut(e.Prefix+"done", "a")), nil)
	if err != nil || !r.Succeeded {
		t.Fatalf("write of the leader: got %v, %v, want it to succeed", r, err)
	}
	leader := must[*clientv3.GetResponse](t, "leader")(all[2].Leader(t.Context()))
	want(t, "leader", string(leader.Kvs[0].Value), "a")
	select {
	case <-won[1]:
		t.Fatal("b leads beside a")
	default:
	}
	if err := all[0].Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	closed(t, "b leads", won[1])
	r, err = commit(t, e.Client, guards(mine), ops(clientv3.OpPut(e.Prefix+"done", "a again")), nil)
	if err != nil || r.Succeeded {
		t.Fatalf("write of a former leader: got %v, %v, want it refused", r, err)
	}
	if all[1].Rev() <= rev {
		t.Errorf("revision of the second leader: got %d, want more than %d", all[1].Rev(), rev)
	}
	if err := all[1].Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	closed(t, "c leads", won[2])
}

func deadLeader(t *testing.T, e *Env) {
	first, second := session(t, e, concurrency.WithTTL(int(e.MinTTL))), session(t, e)
	_, won := campaign(t, e, first, "a")
	closed(t, "a leads", won)
	w := watch(t, e, e.Prefix+"el/", clientv3.WithPrefix())
	_, won = campaign(t, e, second, "b")
	events(t, w, 1)
	last := must[*clientv3.LeaseKeepAliveResponse](t, "keep alive")(e.Client.KeepAliveOnce(t.Context(), first.Lease()))
	start := time.Now()
	first.Orphan()
	closed(t, "b leads", won)
	// The session may have renewed once more before it was orphaned, so this is the lower bound only.
	if took, ttl := time.Since(start), time.Duration(last.TTL)*time.Second; took < ttl || took > ttl+500*time.Millisecond+e.Slack {
		t.Errorf("b leads after %v, want after %v and half a second at most", took, ttl)
	}
}

func observe(t *testing.T, e *Env) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	a, won := campaign(t, e, session(t, e), "a")
	closed(t, "a leads", won)
	seen := a.Observe(ctx)
	want(t, "first leader", string((<-seen).Kvs[0].Value), "a")
	_, won = campaign(t, e, session(t, e), "b")
	if err := a.Resign(ctx); err != nil {
		t.Fatal(err)
	}
	closed(t, "b leads", won)
	want(t, "second leader", string((<-seen).Kvs[0].Value), "b")
}

func mutex(t *testing.T, e *Env) {
	one, two := session(t, e), session(t, e)
	first, again := concurrency.NewMutex(one, e.Prefix+"m"), concurrency.NewMutex(one, e.Prefix+"m")
	other := concurrency.NewMutex(two, e.Prefix+"m")
	for _, m := range []*concurrency.Mutex{first, again} {
		if err := m.TryLock(t.Context()); err != nil {
			t.Fatalf("lock by the holding session: %v", err)
		}
	}
	wantErr(t, "lock by another session", other.TryLock(t.Context()), concurrency.ErrLocked)
	if err := again.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := other.TryLock(t.Context()); err != nil {
		t.Fatalf("lock after the unlock: %v", err)
	}
	r, err := commit(t, e.Client, guards(first.IsOwner()), ops(clientv3.OpPut(e.Prefix+"done", "x")), nil)
	if err != nil || r.Succeeded {
		t.Errorf("write of a holder that does not know: got %v, %v, want it refused", r, err)
	}
}
