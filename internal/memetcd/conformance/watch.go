package conformance

import (
	"context"
	"fmt"
	"testing"

	"google.golang.org/grpc/metadata"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

func watchTests() []Test {
	return []Test{
		{Name: "WatchesTellEveryChangeInOrder", Run: watchOrder,
			Says: "A watch tells every change of its keys once, in the order of revisions and of the operations within one, deletes with key and revision only."},
		{Name: "ATransactionIsToldInOneResponse", Run: watchTogether,
			Says: "What one transaction changes under one watch arrives in one response."},
		{Name: "PreviousValuesAreThoseBeforeTheRevision", Run: watchPrevious,
			Says: "With previous values an event carries what the key was before the revision, if it was."},
		{Name: "AWatchFromThePastTellsTheHistory", Run: watchPast,
			Says: "A watch from an old revision tells what happened since, then what happens."},
		{Name: "AWatchFromTheFutureWaits", Run: watchFuture,
			Says: "A watch from a revision to come tells nothing before it."},
		{Name: "ACompactedWatchIsCancelled", Alone: true, Run: watchCompacted,
			Says: "A watch from below the compaction is cancelled with the compaction's revision; one from that revision itself is not, and tells it."},
		{Name: "FiltersLeaveEventsOut", Run: watchFilters,
			Says: "A watch can leave out puts or deletes."},
		{Name: "ProgressIsToldOnRequest", Run: watchProgress,
			Says: "A progress request is answered with the current revision, but not while a watch of the stream waits for a revision to come."},
		{Name: "AWatchThatEndsClosesItsChannel", Run: watchEnds,
			Says: "A watch whose context ends closes its channel without an error; others on the stream go on."},
		{Name: "ManyWatchesShareAStream", Run: watchMany,
			Says: "Hundreds of watches with overlapping ranges each tell their own keys."},
	}
}

func watch(t *testing.T, e *Env, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	t.Helper()
	return e.Client.Watch(clientv3.WithRequireLeader(t.Context()), key, opts...)
}

func watchOrder(t *testing.T, e *Env) {
	w := watch(t, e, e.Prefix, clientv3.WithPrefix())
	one := watch(t, e, e.Prefix+"b")
	rev := put(t, e.Client, e.Prefix+"a", "1")
	put(t, e.Client, e.Prefix+"b", "2")
	_, err := commit(t, e.Client, nil, ops(
		clientv3.OpPut(e.Prefix+"z", "3"),
		clientv3.OpTxn(nil, ops(clientv3.OpDelete(e.Prefix+"b"), clientv3.OpPut(e.Prefix+"c", "4")), nil),
		clientv3.OpPut(e.Prefix+"a", "5"),
	), nil)
	if err != nil {
		t.Fatal(err)
	}
	del(t, e.Client, e.Prefix, clientv3.WithPrefix())
	evs := events(t, w, 9)
	want(t, "events", describeAll(evs, e.Prefix), "PUT a=1, PUT b=2, PUT z=3, DELETE b, PUT c=4, PUT a=5, DELETE a, DELETE c, DELETE z")
	for i, add := range []int64{0, 1, 2, 2, 2, 2, 3, 3, 3} {
		want(t, fmt.Sprintf("revision of event %d", i), evs[i].Kv.ModRevision, rev+add)
	}
	gone := evs[3].Kv
	want(t, "what a delete carries besides", gone.CreateRevision+gone.Version+gone.Lease+int64(len(gone.Value)), 0)
	want(t, "events of one key", describeAll(events(t, one, 2), e.Prefix), "PUT b=2, DELETE b")
}

func watchTogether(t *testing.T, e *Env) {
	w := watch(t, e, e.Prefix, clientv3.WithPrefix())
	var all []clientv3.Op
	for i := range 60 {
		all = append(all, clientv3.OpTxn(nil, ops(clientv3.OpPut(fmt.Sprintf("%s%02d", e.Prefix, i), "x"), clientv3.OpPut(fmt.Sprintf("%s%02d/y", e.Prefix, i), "x")), nil))
	}
	r, err := commit(t, e.Client, nil, all, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := next(t, w)
	want(t, "events in the response", len(got.Events), 120)
	want(t, "its revision", got.Header.Revision, r.Header.Revision)
}

func watchPrevious(t *testing.T, e *Env) {
	w := watch(t, e, e.Prefix, clientv3.WithPrefix(), clientv3.WithPrevKV())
	a := e.Prefix + "a"
	put(t, e.Client, a, "1")
	put(t, e.Client, a, "2")
	_, err := commit(t, e.Client, nil, ops(clientv3.OpDelete(a), clientv3.OpPut(e.Prefix+"b", "3")), nil)
	if err != nil {
		t.Fatal(err)
	}
	put(t, e.Client, a, "4")
	want(t, "events", describeAll(events(t, w, 5), e.Prefix), "PUT a=1, PUT a=2 was 1, DELETE a was 2, PUT b=3, PUT a=4")
}

func watchPast(t *testing.T, e *Env) {
	a := e.Prefix + "a"
	first := put(t, e.Client, a, "1")
	put(t, e.Client, a, "2")
	del(t, e.Client, a)
	put(t, e.Client, e.Prefix+"b", "3")
	w := watch(t, e, e.Prefix, clientv3.WithPrefix(), clientv3.WithRev(first+1), clientv3.WithPrevKV())
	want(t, "history", describeAll(events(t, w, 3), e.Prefix), "PUT a=2 was 1, DELETE a was 2, PUT b=3")
	put(t, e.Client, a, "4")
	want(t, "what follows", describeAll(events(t, w, 1), e.Prefix), "PUT a=4")
}

func watchFuture(t *testing.T, e *Env) {
	a := e.Prefix + "a"
	now := put(t, e.Client, a, "1")
	w := watch(t, e, a, clientv3.WithRev(now+2), clientv3.WithCreatedNotify())
	r := next(t, w)
	want(t, "created", r.Created, true)
	rev := put(t, e.Client, a, "2")
	for rev < now+2 { // other tests may be at work
		rev = put(t, e.Client, a, "3")
	}
	ev := events(t, w, 1)[0]
	want(t, "first revision told", ev.Kv.ModRevision, rev)
}

func watchCompacted(t *testing.T, e *Env) {
	a := e.Prefix + "a"
	first := put(t, e.Client, a, "1")
	put(t, e.Client, a, "2")
	gone := del(t, e.Client, a).Header.Revision
	must[*clientv3.CompactResponse](t, "compact")(e.Client.Compact(t.Context(), gone, clientv3.WithCompactPhysical()))
	w := watch(t, e, a, clientv3.WithRev(first))
	r := next(t, w)
	wantErr(t, "watch from below", r.Err(), rpctypes.ErrCompacted)
	want(t, "compact revision", r.CompactRevision, gone)
	want(t, "cancelled", r.Canceled, true)
	if _, open := <-w; open {
		t.Error("the channel of a cancelled watch is open")
	}
	w = watch(t, e, a, clientv3.WithRev(gone), clientv3.WithPrevKV())
	want(t, "watch from the compaction", describeAll(events(t, w, 1), e.Prefix), "DELETE a")
	put(t, e.Client, a, "3")
	want(t, "and on", describeAll(events(t, w, 1), e.Prefix), "PUT a=3")
}

func watchFilters(t *testing.T, e *Env) {
	puts := watch(t, e, e.Prefix, clientv3.WithPrefix(), clientv3.WithFilterDelete())
	dels := watch(t, e, e.Prefix, clientv3.WithPrefix(), clientv3.WithFilterPut())
	put(t, e.Client, e.Prefix+"a", "1")
	del(t, e.Client, e.Prefix+"a")
	put(t, e.Client, e.Prefix+"b", "2")
	want(t, "without deletes", describeAll(events(t, puts, 2), e.Prefix), "PUT a=1, PUT b=2")
	want(t, "without puts", describeAll(events(t, dels, 1), e.Prefix), "DELETE a")
}

func watchProgress(t *testing.T, e *Env) {
	c := e.Client
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(t.Context(), "stream", "own"))
	defer cancel()
	now := put(t, c, e.Prefix+"a", "1")
	w := c.Watch(ctx, e.Prefix, clientv3.WithPrefix(), clientv3.WithRev(now+1), clientv3.WithCreatedNotify())
	next(t, w)
	if err := c.RequestProgress(ctx); err != nil {
		t.Fatal(err)
	}
	other := put(t, c, "other/"+e.Prefix, "x") // only now the revision is there from which the watch was made
	if err := c.RequestProgress(ctx); err != nil {
		t.Fatal(err)
	}
	r := next(t, w)
	want(t, "is a progress notification", r.IsProgressNotify(), true)
	if r.Header.Revision < other {
		t.Errorf("progress at revision %d, want at least %d: the request before was not to be answered", r.Header.Revision, other)
	}
	put(t, c, e.Prefix+"a", "2")
	want(t, "event", describeAll(events(t, w, 1), e.Prefix), "PUT a=2")
}

func watchEnds(t *testing.T, e *Env) {
	ctx, cancel := context.WithCancel(t.Context())
	w, other := e.Client.Watch(ctx, e.Prefix+"a"), e.Client.Watch(t.Context(), e.Prefix+"a")
	cancel()
	for r := range w {
		if r.Err() != nil {
			t.Errorf("watch: %v", r.Err())
		}
	}
	put(t, e.Client, e.Prefix+"a", "1")
	want(t, "other watch", describeAll(events(t, other, 1), e.Prefix), "PUT a=1")
}

func watchMany(t *testing.T, e *Env) {
	const n = 300
	own, all := make([]clientv3.WatchChan, n), make([]clientv3.WatchChan, n)
	for i := range n {
		own[i] = watch(t, e, fmt.Sprintf("%s%03d/", e.Prefix, i), clientv3.WithPrefix())
		all[i] = watch(t, e, fmt.Sprintf("%s%03d", e.Prefix, i), clientv3.WithRange(fmt.Sprintf("%s%03d", e.Prefix, i+2)))
	}
	for i := range n + 1 {
		put(t, e.Client, fmt.Sprintf("%s%03d/x", e.Prefix, i), "v")
	}
	for i := range n {
		want(t, "own", describeAll(events(t, own[i], 1), e.Prefix), fmt.Sprintf("PUT %03d/x=v", i))
		want(t, "two", describeAll(events(t, all[i], 2), e.Prefix), fmt.Sprintf("PUT %03d/x=v, PUT %03d/x=v", i, i+1))
	}
}
