package conformance

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

func faultTests() []Test {
	return []Test{
		{Name: "AnAbandonedTransactionCanCommitLate", Run: lateCommit,
			Says: "A transaction whose caller has given up can commit after a linearizable read has said that it has not."},
		{Name: "AFenceStopsALateTransaction", Run: fence,
			Says: "A write of what the guards of an abandoned transaction compare keeps it from ever committing."},
		{Name: "ALostReplyIsACommit", Run: lostReply,
			Says: "A transaction whose reply is lost has committed, and its caller gets nothing but its own deadline."},
		{Name: "ABrokenConnectionLeavesTheOutcomeOpen", Run: reset,
			Says: "When the connection breaks a write fails as unavailable, whether it was carried out or not, and is not repeated."},
		{Name: "AWatchSurvivesABrokenConnection", Run: watchReset,
			Says: "A watch goes on after a broken connection and tells every change once."},
		{Name: "ASilentLinkEndsTheSession", Alone: true, Run: silence,
			Says: "A session that hears nothing is done after its TTL, on its own clock; a guard on its key no longer holds then."},
	}
}

// abandoned starts a swap of a key on a link that holds it up, and gives up on it.
func abandoned(t *testing.T, link Link, key string, rev int64, marker string) {
	t.Helper()
	link.HoldRequests()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	result := make(chan error, 1)
	go func() {
		_, err := link.Client().Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", rev)).Then(clientv3.OpPut(key, marker)).Commit()
		result <- err
	}()
	link.Caught(t, marker)
	cancel()
	wantErr(t, "abandoned transaction", <-result, context.Canceled)
}

// warm makes the connection of a link.
func warm(t *testing.T, link Link, key string) {
	t.Helper()
	get(t, link.Client(), key)
}

func lateCommit(t *testing.T, e *Env) {
	a, link := e.Prefix+"a", e.Faulty(t)
	warm(t, link, a)
	w := watch(t, e, a)
	abandoned(t, link, a, 0, "late-one")
	want(t, "a by a linearizable read", value(t, e.Client, a), "absent")
	link.Land(t)
	want(t, "event", describeAll(events(t, w, 1), e.Prefix), "PUT a=late-one")
	want(t, "a after it landed", value(t, link.Client(), a), "late-one")
}

func fence(t *testing.T, e *Env) {
	a, b, link := e.Prefix+"a", e.Prefix+"b", e.Faulty(t)
	rev := put(t, e.Client, a, "state")
	warm(t, link, a)
	abandoned(t, link, a, rev, "late-two")
	r, err := commit(t, e.Client, guards(clientv3.Compare(clientv3.ModRevision(a), "=", rev)), ops(clientv3.OpPut(a, "state")), nil)
	if err != nil || !r.Succeeded {
		t.Fatalf("fence: got %v, %v, want it to succeed", r, err)
	}
	link.Land(t)
	warm(t, link, a)
	put(t, link.Client(), b, "x")
	want(t, "a", value(t, e.Client, a), "state")
}

func lostReply(t *testing.T, e *Env) {
	a, link := e.Prefix+"a", e.Faulty(t)
	warm(t, link, a)
	w := watch(t, e, a)
	link.HoldReplies()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	result := make(chan error, 1)
	go func() {
		_, err := link.Client().Put(ctx, a, "x")
		result <- err
	}()
	events(t, w, 1)
	select {
	case err := <-result:
		t.Fatalf("the caller has heard of it: %v", err)
	default:
	}
	cancel()
	wantErr(t, "put", <-result, context.Canceled)
	link.Reset()
	want(t, "a", value(t, link.Client(), a), "x")
}

func reset(t *testing.T, e *Env) {
	a, link := e.Prefix+"a", e.Faulty(t)
	warm(t, link, a)
	w := watch(t, e, a)
	result := make(chan error, 1)
	write := func(v string) {
		go func() {
			_, err := link.Client().Put(t.Context(), a, v)
			result <- err
		}()
	}
	link.HoldReplies()
	write("carried out")
	events(t, w, 1)
	link.Reset()
	if err := <-result; status.Code(err) != codes.Unavailable {
		t.Errorf("put that was carried out: got %v, want unavailable", err)
	}
	warm(t, link, a)
	link.HoldRequests()
	write("not-carried-out")
	link.Caught(t, "not-carried-out")
	link.Reset()
	if err := <-result; status.Code(err) != codes.Unavailable {
		t.Errorf("put that was lost: got %v, want unavailable", err)
	}
	warm(t, link, a)
	want(t, "a", value(t, e.Client, a), "carried out")
	want(t, "version", get(t, e.Client, a).Kvs[0].Version, 1)
}

func watchReset(t *testing.T, e *Env) {
	link := e.Faulty(t)
	w := link.Client().Watch(t.Context(), e.Prefix, clientv3.WithPrefix())
	put(t, e.Client, e.Prefix+"a", "1")
	want(t, "before", describeAll(events(t, w, 1), e.Prefix), "PUT a=1")
	link.HoldReplies()
	put(t, e.Client, e.Prefix+"a", "2")
	put(t, e.Client, e.Prefix+"a", "3")
	link.Reset()
	put(t, e.Client, e.Prefix+"a", "4")
	want(t, "after", describeAll(events(t, w, 3), e.Prefix), "PUT a=2, PUT a=3, PUT a=4")
}

func silence(t *testing.T, e *Env) {
	link := e.Faulty(t)
	ttl := max(e.MinTTL, 2)
	s := must[*concurrency.Session](t, "new session")(concurrency.NewSession(link.Client(), concurrency.WithTTL(int(ttl))))
	t.Cleanup(s.Orphan)
	// Before its first answer a session waits for five seconds, whatever its TTL.
	answers, err := link.Client().KeepAlive(t.Context(), s.Lease())
	if err != nil {
		t.Fatal(err)
	}
	<-answers
	key := e.Prefix + "a"
	rev := put(t, link.Client(), key, "x", clientv3.WithLease(s.Lease()))
	w := watch(t, e, key, clientv3.WithRev(rev+1))
	start := time.Now()
	link.HoldRequests()
	link.HoldReplies()
	closed(t, "session that hears nothing", s.Done())
	// The client looks once a second whether a TTL has passed since the last answer.
	if took, most := time.Since(start), time.Duration(ttl+1)*time.Second+e.Slack; took > most {
		t.Errorf("the session ended after %v, want %v at most", took, most)
	}
	want(t, "event", describeAll(events(t, w, 1), e.Prefix), "DELETE a")
	link.Reset()
	warm(t, link, key) // a write could meet the broken connection first
	r, err := commit(t, link.Client(), guards(clientv3.Compare(clientv3.CreateRevision(key), "=", rev)), ops(clientv3.OpPut(key, "y")), nil)
	if err != nil || r.Succeeded {
		t.Errorf("write under the old key: got %v, %v, want it refused", r, err)
	}
}
