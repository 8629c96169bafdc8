package conformance

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

func leaseTests() []Test {
	return []Test{
		{Name: "ShortLeasesAreMadeLonger", Run: smallestLease,
			Says: "A lease below the smallest TTL, one and a half election time-outs in whole seconds, is granted with that."},
		{Name: "AnExpiredLeaseTakesItsKeys", Alone: true, Run: leaseExpires,
			Says: "A lease that is not renewed takes all its keys in one revision, in their order, not before its TTL and soon after."},
		{Name: "KeepAlivesKeepALease", Alone: true, Run: keepAlive,
			Says: "A lease kept alive outlives its TTL; its channel closes when it is gone."},
		{Name: "ADeadLeaseIsNotFound", Run: deadLeases,
			Says: "Renewing or revoking a lease that is gone says so; asking for its time answers minus one."},
		{Name: "ALeaseKnowsItsKeys", Run: leaseKeys,
			Says: "Time-to-live with keys lists what is attached now: a key put again under another lease or none, or deleted, is not."},
		{Name: "ARevokedLeaseTakesItsKeys", Run: leaseRevoked,
			Says: "A revoke deletes the lease's keys in one revision; without keys it makes no revision."},
		{Name: "LeasesAreListed", Run: leaseList, Says: "All live leases are listed."},
		{Name: "ANewLeaderRestartsLeasesInFull", Alone: true, Run: leaseRestarts,
			Says: "After a change of leader every lease has its full TTL again."},
		{Name: "NoSpaceRefusesPutsAlone", Alone: true, Run: noSpace,
			Says: "Without space puts, transactions with a put in any branch and new leases are refused; deletes, reads, keep-alives and revokes go on."},
	}
}

func grant(t *testing.T, e *Env, ttl int64) *clientv3.LeaseGrantResponse {
	t.Helper()
	return must[*clientv3.LeaseGrantResponse](t, "grant")(e.Client.Grant(t.Context(), ttl))
}

func smallestLease(t *testing.T, e *Env) {
	for _, ttl := range []int64{-1, 0, 1, e.MinTTL} {
		want(t, fmt.Sprintf("TTL granted for %d", ttl), grant(t, e, ttl).TTL, e.MinTTL)
	}
	want(t, "TTL granted for 60", grant(t, e, 60).TTL, 60)
	_, err := e.Client.Grant(t.Context(), 9_000_000_001)
	wantErr(t, "TTL of three centuries", err, rpctypes.ErrLeaseTTLTooLarge)
}

func leaseExpires(t *testing.T, e *Env) {
	ttl := max(e.MinTTL, 2)
	start := time.Now()
	lease := grant(t, e, ttl).ID
	w := watch(t, e, e.Prefix, clientv3.WithPrefix())
	for _, k := range []string{"b", "a", "c"} {
		put(t, e.Client, e.Prefix+k, "x", clientv3.WithLease(lease))
	}
	put(t, e.Client, e.Prefix+"d", "x")
	events(t, w, 4)
	r := next(t, w)
	took := time.Since(start)
	want(t, "events", describeAll(r.Events, e.Prefix), "DELETE a, DELETE b, DELETE c")
	want(t, "last revision of the delete", r.Events[2].Kv.ModRevision, r.Events[0].Kv.ModRevision)
	low, high := time.Duration(ttl)*time.Second, time.Duration(ttl)*time.Second+500*time.Millisecond+e.Slack
	if took < low || took > high {
		t.Errorf("the lease of %v ended after %v, want up to %v", low, took, high)
	}
	_, err := e.Client.KeepAliveOnce(t.Context(), lease)
	wantErr(t, "renewal", err, rpctypes.ErrLeaseNotFound)
}

func keepAlive(t *testing.T, e *Env) {
	lease := grant(t, e, e.MinTTL).ID
	put(t, e.Client, e.Prefix+"a", "x", clientv3.WithLease(lease))
	ch, err := e.Client.KeepAlive(t.Context(), lease)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	for r := range ch { // it ends with the lease, or not at all
		want(t, "TTL", r.TTL, e.MinTTL)
		if time.Since(start) > time.Duration(2*e.MinTTL)*time.Second {
			break
		}
	}
	want(t, "a after two TTLs", value(t, e.Client, e.Prefix+"a"), "x")
	once := must[*clientv3.LeaseKeepAliveResponse](t, "keep alive once")(e.Client.KeepAliveOnce(t.Context(), lease))
	want(t, "TTL of one renewal", once.TTL, e.MinTTL)
	must[*clientv3.LeaseRevokeResponse](t, "revoke")(e.Client.Revoke(t.Context(), lease))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for open := true; open; {
		select {
		case _, open = <-ch:
		case <-ctx.Done():
			t.Fatal("the channel of a revoked lease stays open")
		}
	}
}

func deadLeases(t *testing.T, e *Env) {
	lease := grant(t, e, 60).ID
	must[*clientv3.LeaseRevokeResponse](t, "revoke")(e.Client.Revoke(t.Context(), lease))
	_, err := e.Client.Revoke(t.Context(), lease)
	wantErr(t, "second revoke", err, rpctypes.ErrLeaseNotFound)
	_, err = e.Client.KeepAliveOnce(t.Context(), lease)
	wantErr(t, "renewal", err, rpctypes.ErrLeaseNotFound)
	r := must[*clientv3.LeaseTimeToLiveResponse](t, "time to live")(e.Client.TimeToLive(t.Context(), lease, clientv3.WithAttachedKeys()))
	want(t, "time to live", r.TTL, -1)
	want(t, "keys", len(r.Keys), 0)
}

func leaseKeys(t *testing.T, e *Env) {
	one, two := grant(t, e, 60).ID, grant(t, e, 90).ID
	keys := func(id clientv3.LeaseID) string {
		t.Helper()
		r := must[*clientv3.LeaseTimeToLiveResponse](t, "time to live")(e.Client.TimeToLive(t.Context(), id, clientv3.WithAttachedKeys()))
		var all []string
		for _, k := range r.Keys {
			all = append(all, string(k[len(e.Prefix):]))
		}
		slices.Sort(all)
		return fmt.Sprint(all)
	}
	for _, k := range []string{"a", "b", "c", "d"} {
		put(t, e.Client, e.Prefix+k, "x", clientv3.WithLease(one))
	}
	want(t, "keys of the first", keys(one), "[a b c d]")
	put(t, e.Client, e.Prefix+"a", "y", clientv3.WithLease(two))
	put(t, e.Client, e.Prefix+"b", "y")
	del(t, e.Client, e.Prefix+"c")
	want(t, "keys of the first", keys(one), "[d]")
	want(t, "keys of the second", keys(two), "[a]")
	r := must[*clientv3.LeaseTimeToLiveResponse](t, "time to live")(e.Client.TimeToLive(t.Context(), two))
	want(t, "granted", r.GrantedTTL, 90)
	want(t, "keys unasked", len(r.Keys), 0)
	if r.TTL < 60 || r.TTL > 90 {
		t.Errorf("time to live: got %d, want about 89", r.TTL)
	}
}

func leaseRevoked(t *testing.T, e *Env) {
	lease, empty := grant(t, e, 60).ID, grant(t, e, 60).ID
	w := watch(t, e, e.Prefix, clientv3.WithPrefix())
	put(t, e.Client, e.Prefix+"b", "x", clientv3.WithLease(lease))
	put(t, e.Client, e.Prefix+"a", "x", clientv3.WithLease(lease))
	events(t, w, 2)
	must[*clientv3.LeaseRevokeResponse](t, "revoke")(e.Client.Revoke(t.Context(), lease))
	r := next(t, w)
	want(t, "events", describeAll(r.Events, e.Prefix), "DELETE a, DELETE b")
	want(t, "revision of both", r.Events[0].Kv.ModRevision, r.Events[1].Kv.ModRevision)
	must[*clientv3.LeaseRevokeResponse](t, "revoke the empty one")(e.Client.Revoke(t.Context(), empty))
	_, err := e.Client.Put(t.Context(), e.Prefix+"a", "x", clientv3.WithLease(lease))
	wantErr(t, "put", err, rpctypes.ErrLeaseNotFound)
}

func leaseList(t *testing.T, e *Env) {
	lease := grant(t, e, 60).ID
	listed := func() bool {
		r := must[*clientv3.LeaseLeasesResponse](t, "leases")(e.Client.Leases(t.Context()))
		return slices.Contains(r.Leases, clientv3.LeaseStatus{ID: lease})
	}
	want(t, "listed", listed(), true)
	must[*clientv3.LeaseRevokeResponse](t, "revoke")(e.Client.Revoke(t.Context(), lease))
	want(t, "listed after the revoke", listed(), false)
}

func leaseRestarts(t *testing.T, e *Env) {
	ttl := e.MinTTL + 2
	lease := grant(t, e, ttl).ID
	put(t, e.Client, e.Prefix+"a", "x", clientv3.WithLease(lease))
	remaining := func() int64 {
		t.Helper()
		return must[*clientv3.LeaseTimeToLiveResponse](t, "time to live")(e.Client.TimeToLive(t.Context(), lease)).TTL
	}
	// The expiry of a shorter lease tells that time has passed, on any clock.
	w := watch(t, e, e.Prefix+"clock")
	put(t, e.Client, e.Prefix+"clock", "x", clientv3.WithLease(grant(t, e, e.MinTTL).ID))
	events(t, w, 2)
	if left := remaining(); left >= ttl-1 {
		t.Fatalf("time to live: got %d of %d, want less by now", left, ttl)
	}
	e.NewLeader(t)
	if left := remaining(); left < ttl-1 {
		t.Errorf("time to live after a new leader: got %d, want all of %d", left, ttl)
	}
	want(t, "a", value(t, e.Client, e.Prefix+"a"), "x")
}

func noSpace(t *testing.T, e *Env) {
	a := e.Prefix + "a"
	lease := grant(t, e, 60).ID
	put(t, e.Client, a, "x", clientv3.WithLease(lease))
	e.NoSpace(t, true)
	_, err := e.Client.Put(t.Context(), a, "y")
	wantErr(t, "put", err, rpctypes.ErrNoSpace)
	_, err = commit(t, e.Client, guards(absent(a)), ops(clientv3.OpTxn(nil, nil, ops(clientv3.OpPut(a, "y")))), ops(clientv3.OpGet(a)))
	wantErr(t, "transaction with a put in no branch that is taken", err, rpctypes.ErrNoSpace)
	_, err = e.Client.Grant(t.Context(), 60)
	wantErr(t, "grant", err, rpctypes.ErrNoSpace)
	want(t, "a", value(t, e.Client, a), "x")
	if _, err = commit(t, e.Client, guards(exists(a)), ops(clientv3.OpDelete(e.Prefix+"b"), clientv3.OpGet(a)), nil); err != nil {
		t.Errorf("transaction that deletes: %v", err)
	}
	must[*clientv3.LeaseKeepAliveResponse](t, "keep alive")(e.Client.KeepAliveOnce(t.Context(), lease))
	alarms := must[*clientv3.AlarmResponse](t, "alarms")(e.Client.AlarmList(t.Context()))
	want(t, "alarms", len(alarms.Alarms), 1)
	must[*clientv3.LeaseRevokeResponse](t, "revoke")(e.Client.Revoke(t.Context(), lease))
	want(t, "a after the revoke", value(t, e.Client, a), "absent")
	e.NoSpace(t, false)
	put(t, e.Client, a, "z")
}
