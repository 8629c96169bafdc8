package conformance

import (
	"fmt"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

func txnTests() []Test {
	return []Test{
		{Name: "NestedGuardsSeeTheStateBefore", Run: nestedGuards,
			Says: "All guards of a transaction, also those of nested ones, see the state before it, not the writes around them."},
		{Name: "NestedTransactionsAnswerOneByOne", Run: nestedAnswers,
			Says: "Each nested transaction takes its own branch and says which; a refused one refuses nothing else; its header is empty."},
		{Name: "ReadsSeeTheWritesBeforeThem", Run: readsInside,
			Says: "A read inside a transaction sees the writes of the operations before it, nested ones too."},
		{Name: "OneTransactionIsOneRevision", Run: oneRevision,
			Says: "All writes of a transaction have the same revision, that of its header; created and modified revisions are equal for new keys."},
		{Name: "NothingWrittenIsNoRevision", Run: noRevision,
			Says: "Reads, refusals, deletes of missing keys make no revision; a put of the same value makes one."},
		{Name: "AKeyWrittenTwiceRefusesTheWhole", Run: duplicateKeys,
			Says: "A key put twice, or put and deleted, in branches that could both be taken refuses the transaction before anything is looked at."},
		{Name: "ThenAndElseMayPutTheSameKey", Run: thenAndElse,
			Says: "Then and else of one transaction may put the same key, and two deletes may cover the same key."},
		{Name: "ADeleteNestedAfterAPutIsNotSeen", Run: duplicateGaps,
			Says: "The check for duplicates has gaps: a nested delete after a nested put of the key, and a delete of everything from a key on. Both are carried out in order."},
		{Name: "ADeadLeaseFailsTheWhole", Run: deadLease,
			Says: "A put under a dead lease in a branch that is taken fails the whole transaction, in one that is not taken does nothing."},
		{Name: "AFailedTransactionHasNoEffect", Run: failedTxn,
			Says: "Key not found for ignore-value, a future or compacted revision in a read: the whole transaction fails and nothing of it is applied."},
		{Name: "AMissingKeyHasNoValue", Run: missingKey,
			Says: "A guard on the value of a missing key never holds; its revisions, version and lease are zero."},
		{Name: "AGuardOnARangeHoldsForAllOrNone", Run: rangeGuards,
			Says: "A guard on a range holds if it holds for every key; for an empty range it is asked of zeros."},
		{Name: "VersionsStartAnewAfterADelete", Run: versions,
			Says: "Version counts the puts since creation; after a delete, creation and version start anew."},
		{Name: "IgnoreKeepsValueOrLease", Run: ignore,
			Says: "Ignore-value keeps the value, ignore-lease the lease; a plain put lets go of the lease."},
		{Name: "PreviousValuesComeBack", Run: previous,
			Says: "Put and delete give back what was there, if asked for it."},
	}
}

func nestedGuards(t *testing.T, e *Env) {
	a, b, c := e.Prefix+"a", e.Prefix+"b", e.Prefix+"c"
	deep := clientv3.OpTxn(guards(absent(a), absent(b)), ops(clientv3.OpPut(c, "saw neither")), ops(clientv3.OpPut(c, "saw some")))
	inner := clientv3.OpTxn(guards(absent(a)), ops(clientv3.OpPut(b, "saw no a"), deep), ops(clientv3.OpPut(b, "saw a")))
	r, err := commit(t, e.Client, nil, ops(clientv3.OpPut(a, "1"), inner), nil)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "inner branch", nested(r, 1).Succeeded, true)
	want(t, "b", value(t, e.Client, b), "saw no a")
	want(t, "c", value(t, e.Client, c), "saw neither")
	r, err = commit(t, e.Client, nil, ops(clientv3.OpDelete(a), clientv3.OpTxn(guards(exists(a)), ops(clientv3.OpPut(b, "saw a")), nil)), nil)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "branch beside a delete", nested(r, 1).Succeeded, true)
	want(t, "b", value(t, e.Client, b), "saw a")
}

func nestedAnswers(t *testing.T, e *Env) {
	var all []clientv3.Op
	for i := range 6 {
		key := fmt.Sprintf("%s%d", e.Prefix, i)
		if i%2 == 0 {
			put(t, e.Client, key, "taken")
		}
		all = append(all, clientv3.OpTxn(guards(absent(key)), ops(clientv3.OpPut(key, "mine")), ops(clientv3.OpGet(key))))
	}
	r, err := commit(t, e.Client, guards(exists(e.Prefix+"0")), all, nil)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "outer", r.Succeeded, true)
	for i := range 6 {
		n := nested(r, i)
		want(t, fmt.Sprintf("nested %d", i), n.Succeeded, i%2 == 1)
		want(t, "revision in a nested header", n.Header.Revision, 0)
		if i%2 == 0 {
			kvs := n.Responses[0].GetResponseRange().Kvs
			if len(kvs) != 1 || string(kvs[0].Value) != "taken" {
				t.Errorf("nested %d: got %v, want the value that stood in its way", i, kvs)
			}
			continue
		}
		want(t, "revision of a nested put", n.Responses[0].GetResponsePut().Header.Revision, r.Header.Revision)
	}
	r, err = commit(t, e.Client, guards(absent(e.Prefix+"0")), all, ops(clientv3.OpTxn(nil, ops(clientv3.OpGet(e.Prefix+"1")), nil)))
	if err != nil {
		t.Fatal(err)
	}
	want(t, "refused outer", r.Succeeded, false)
	want(t, "nested in its else", nested(r, 0).Succeeded, true)
}

func readsInside(t *testing.T, e *Env) {
	a, b := e.Prefix+"a", e.Prefix+"b"
	put(t, e.Client, b, "old")
	r, err := commit(t, e.Client, nil, ops(
		clientv3.OpGet(e.Prefix, clientv3.WithPrefix()),
		clientv3.OpPut(a, "new"),
		clientv3.OpTxn(nil, ops(clientv3.OpDelete(b), clientv3.OpGet(e.Prefix, clientv3.WithPrefix())), nil),
		clientv3.OpGet(a),
	), nil)
	if err != nil {
		t.Fatal(err)
	}
	before, within, after := r.Responses[0].GetResponseRange(), nested(r, 2).Responses[1].GetResponseRange(), r.Responses[3].GetResponseRange()
	if len(before.Kvs) != 1 || string(before.Kvs[0].Key) != b {
		t.Errorf("first read: got %v, want b alone", before.Kvs)
	}
	if len(within.Kvs) != 1 || string(within.Kvs[0].Key) != a {
		t.Errorf("nested read: got %v, want a alone", within.Kvs)
	}
	if len(after.Kvs) != 1 || after.Kvs[0].ModRevision != r.Header.Revision {
		t.Errorf("last read: got %v, want a at revision %d", after.Kvs, r.Header.Revision)
	}
	want(t, "revision of the first read", before.Header.Revision, r.Header.Revision-1)
	want(t, "revision of the last read", after.Header.Revision, r.Header.Revision)
}

func oneRevision(t *testing.T, e *Env) {
	old := put(t, e.Client, e.Prefix+"3", "old")
	var all []clientv3.Op
	for i := range 3 {
		all = append(all, clientv3.OpPut(fmt.Sprintf("%s%d", e.Prefix, i), "x"))
	}
	all = append(all, clientv3.OpTxn(nil, ops(clientv3.OpPut(e.Prefix+"3", "new"), clientv3.OpPut(e.Prefix+"4", "x")), nil))
	r, err := commit(t, e.Client, nil, all, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range get(t, e.Client, e.Prefix, clientv3.WithPrefix()).Kvs {
		want(t, "mod revision of "+string(kv.Key), kv.ModRevision, r.Header.Revision)
		if string(kv.Key) != e.Prefix+"3" {
			want(t, "create revision of "+string(kv.Key), kv.CreateRevision, r.Header.Revision)
			continue
		}
		want(t, "create revision of the old key", kv.CreateRevision, old)
		want(t, "version of the old key", kv.Version, 2)
	}
}

func noRevision(t *testing.T, e *Env) {
	a := e.Prefix + "a"
	start := put(t, e.Client, a, "x")
	get(t, e.Client, a)
	want(t, "deleted", del(t, e.Client, e.Prefix+"nothing").Deleted, 0)
	r, err := commit(t, e.Client, guards(absent(a)), ops(clientv3.OpPut(a, "y")), ops(clientv3.OpGet(a), clientv3.OpDelete(e.Prefix+"nothing")))
	if err != nil {
		t.Fatal(err)
	}
	want(t, "revision after a refusal", r.Header.Revision, start)
	want(t, "revision of a delete of nothing", r.Responses[1].GetResponseDeleteRange().Header.Revision, start)
	want(t, "revision of a put of the same", put(t, e.Client, a, "x"), start+1)
}

func duplicateKeys(t *testing.T, e *Env) {
	a := e.Prefix + "a"
	putA, delA := clientv3.OpPut(a, "1"), clientv3.OpDelete(a)
	all := clientv3.OpDelete(e.Prefix, clientv3.WithPrefix())
	in := func(then, otherwise []clientv3.Op) clientv3.Op {
		return clientv3.OpTxn(guards(exists(a)), then, otherwise)
	}
	for _, c := range []struct {
		says string
		then []clientv3.Op
	}{
		{"put twice", ops(putA, clientv3.OpPut(a, "2"))},
		{"put and deleted", ops(putA, delA)},
		{"deleted and put", ops(delA, putA)},
		{"put under a deleted range", ops(all, putA)},
		{"put outside and in a nested branch", ops(putA, in(ops(putA), nil))},
		{"put outside and in a nested branch that is not taken", ops(in(nil, ops(putA)), putA)},
		{"put in two nested ones", ops(in(ops(putA), nil), in(ops(putA), nil))},
		{"put in then of one and else of another", ops(in(ops(putA), nil), in(nil, ops(putA)))},
		{"put nested and deleted outside", ops(in(ops(putA), nil), delA)},
		{"deleted in an earlier nested one and put in a later", ops(in(ops(delA), nil), in(ops(putA), nil))},
		{"a range deleted nested and put outside", ops(in(nil, ops(all)), putA)},
		{"put two levels down and at the top", ops(putA, in(ops(in(ops(putA), nil)), nil))},
	} {
		before := get(t, e.Client, a).Header.Revision
		_, err := commit(t, e.Client, nil, c.then, nil)
		wantErr(t, c.says, err, rpctypes.ErrDuplicateKey)
		_, err = commit(t, e.Client, guards(exists(a)), c.then, nil)
		wantErr(t, c.says+", not taken", err, rpctypes.ErrDuplicateKey)
		want(t, c.says+": revision", get(t, e.Client, a).Header.Revision, before)
	}
}

func thenAndElse(t *testing.T, e *Env) {
	a, b := e.Prefix+"a", e.Prefix+"b"
	r, err := commit(t, e.Client, nil, ops(
		clientv3.OpTxn(guards(exists(a)), ops(clientv3.OpPut(a, "then")), ops(clientv3.OpPut(a, "else"))),
		clientv3.OpDelete(b), clientv3.OpDelete(b, clientv3.WithRange(b+"z")),
		clientv3.OpTxn(nil, ops(clientv3.OpDelete(b)), nil),
	), ops(clientv3.OpPut(a, "outer else")))
	if err != nil {
		t.Fatal(err)
	}
	want(t, "taken", nested(r, 0).Succeeded, false)
	want(t, "a", value(t, e.Client, a), "else")
}

func duplicateGaps(t *testing.T, e *Env) {
	a, z := e.Prefix+"a", e.Prefix+"z"
	put(t, e.Client, a, "old")
	r, err := commit(t, e.Client, nil, ops(
		clientv3.OpTxn(nil, ops(clientv3.OpPut(a, "new")), nil),
		clientv3.OpTxn(nil, ops(clientv3.OpDelete(a)), nil),
	), nil)
	if err != nil {
		t.Fatalf("put nested, then deleted nested: %v", err)
	}
	want(t, "deleted", nested(r, 1).Responses[0].GetResponseDeleteRange().Deleted, 1)
	want(t, "a", value(t, e.Client, a), "absent")
	put(t, e.Client, z, "old")
	other := z + "\xff" // nothing of any other test is behind it
	if _, err = commit(t, e.Client, nil, ops(clientv3.OpPut(other, "1"), clientv3.OpDelete(other, clientv3.WithRange("\x00"))), nil); err != nil {
		t.Fatalf("put, then everything from it on deleted: %v", err)
	}
	want(t, "put and deleted from", value(t, e.Client, other), "absent")
	want(t, "the key before it", value(t, e.Client, z), "old")
}

func deadLease(t *testing.T, e *Env) {
	a, b := e.Prefix+"a", e.Prefix+"b"
	lease := must[*clientv3.LeaseGrantResponse](t, "grant")(e.Client.Grant(t.Context(), 60)).ID
	must[*clientv3.LeaseRevokeResponse](t, "revoke")(e.Client.Revoke(t.Context(), lease))
	start := put(t, e.Client, a, "old")
	leased := clientv3.OpPut(b, "leased", clientv3.WithLease(lease))
	_, err := commit(t, e.Client, nil, ops(clientv3.OpPut(a, "new"), clientv3.OpTxn(guards(absent(b)), ops(leased), nil)), nil)
	wantErr(t, "in a branch that is taken", err, rpctypes.ErrLeaseNotFound)
	want(t, "a", value(t, e.Client, a), "old")
	want(t, "revision", get(t, e.Client, a).Header.Revision, start)
	_, err = commit(t, e.Client, nil, ops(clientv3.OpPut(a, "new"), clientv3.OpTxn(guards(exists(b)), ops(leased), nil)), nil)
	if err != nil {
		t.Fatalf("in a branch that is not taken: %v", err)
	}
	want(t, "a", value(t, e.Client, a), "new")
	_, err = e.Client.Put(t.Context(), b, "x", clientv3.WithLease(lease))
	wantErr(t, "plain put", err, rpctypes.ErrLeaseNotFound)
}

func failedTxn(t *testing.T, e *Env) {
	a, b := e.Prefix+"a", e.Prefix+"b"
	start := put(t, e.Client, a, "old")
	change := clientv3.OpPut(a, "new")
	_, err := commit(t, e.Client, nil, ops(change, clientv3.OpPut(b, "", clientv3.WithIgnoreValue())), nil)
	wantErr(t, "ignore value of a missing key", err, rpctypes.ErrKeyNotFound)
	_, err = commit(t, e.Client, nil, ops(change, clientv3.OpTxn(nil, ops(clientv3.OpGet(a, clientv3.WithRev(start+1000))), nil)), nil)
	wantErr(t, "read of the future", err, rpctypes.ErrFutureRev)
	_, err = commit(t, e.Client, nil, ops(change, clientv3.OpGet("")), nil)
	wantErr(t, "empty key", err, rpctypes.ErrEmptyKey)
	want(t, "a", value(t, e.Client, a), "old")
	want(t, "revision", get(t, e.Client, a).Header.Revision, start)
}

func missingKey(t *testing.T, e *Env) {
	a := e.Prefix + "a"
	for _, c := range []struct {
		says  string
		guard clientv3.Cmp
		holds bool
	}{
		{"value equal to nothing", clientv3.Compare(clientv3.Value(a), "=", ""), false},
		{"value not equal", clientv3.Compare(clientv3.Value(a), "!=", "x"), false},
		{"created at zero", clientv3.Compare(clientv3.CreateRevision(a), "=", 0), true},
		{"modified at zero", clientv3.Compare(clientv3.ModRevision(a), "=", 0), true},
		{"modified before", clientv3.Compare(clientv3.ModRevision(a), "<", 5), true},
		{"version zero", clientv3.Compare(clientv3.Version(a), "=", 0), true},
		{"no lease", clientv3.Compare(clientv3.LeaseValue(a), "=", clientv3.NoLease), true},
	} {
		r, err := commit(t, e.Client, guards(c.guard), nil, nil)
		if err != nil {
			t.Fatalf("%s: %v", c.says, err)
		}
		want(t, c.says, r.Succeeded, c.holds)
	}
}

func rangeGuards(t *testing.T, e *Env) {
	rev := put(t, e.Client, e.Prefix+"a", "1")
	put(t, e.Client, e.Prefix+"b", "1")
	for _, c := range []struct {
		says  string
		guard clientv3.Cmp
		holds bool
	}{
		{"all values", clientv3.Compare(clientv3.Value(e.Prefix), "=", "1").WithPrefix(), true},
		{"one is newer", clientv3.Compare(clientv3.ModRevision(e.Prefix), "<", rev+1).WithPrefix(), false},
		{"none before", clientv3.Compare(clientv3.CreateRevision(e.Prefix), ">", rev-1).WithPrefix(), true},
		{"empty range, created", clientv3.Compare(clientv3.CreateRevision(e.Prefix+"c"), "=", 0).WithPrefix(), true},
		{"empty range, value", clientv3.Compare(clientv3.Value(e.Prefix+"c"), "=", "").WithPrefix(), false},
	} {
		r, err := commit(t, e.Client, guards(c.guard), nil, nil)
		if err != nil {
			t.Fatalf("%s: %v", c.says, err)
		}
		want(t, c.says, r.Succeeded, c.holds)
	}
}

func versions(t *testing.T, e *Env) {
	a := e.Prefix + "a"
	first := put(t, e.Client, a, "1")
	second := put(t, e.Client, a, "2")
	kv := get(t, e.Client, a).Kvs[0]
	want(t, "create revision", kv.CreateRevision, first)
	want(t, "mod revision", kv.ModRevision, second)
	want(t, "version", kv.Version, 2)
	d := del(t, e.Client, a)
	want(t, "revision of the delete", d.Header.Revision, second+1)
	third := put(t, e.Client, a, "3")
	kv = get(t, e.Client, a).Kvs[0]
	want(t, "create revision after a delete", kv.CreateRevision, third)
	want(t, "version after a delete", kv.Version, 1)
	want(t, "the old value", string(get(t, e.Client, a, clientv3.WithRev(first)).Kvs[0].Value), "1")
	want(t, "keys at the delete", len(get(t, e.Client, a, clientv3.WithRev(d.Header.Revision)).Kvs), 0)
}

func ignore(t *testing.T, e *Env) {
	a := e.Prefix + "a"
	one := must[*clientv3.LeaseGrantResponse](t, "grant")(e.Client.Grant(t.Context(), 60)).ID
	two := must[*clientv3.LeaseGrantResponse](t, "grant")(e.Client.Grant(t.Context(), 60)).ID
	keys := func(id clientv3.LeaseID) int {
		t.Helper()
		return len(must[*clientv3.LeaseTimeToLiveResponse](t, "time to live")(e.Client.TimeToLive(t.Context(), id, clientv3.WithAttachedKeys())).Keys)
	}
	lease := func() clientv3.LeaseID { t.Helper(); return clientv3.LeaseID(get(t, e.Client, a).Kvs[0].Lease) }
	put(t, e.Client, a, "1", clientv3.WithLease(one))
	put(t, e.Client, a, "2", clientv3.WithIgnoreLease())
	want(t, "lease kept", lease(), one)
	put(t, e.Client, a, "", clientv3.WithIgnoreValue(), clientv3.WithLease(two))
	want(t, "value kept", value(t, e.Client, a), "2")
	want(t, "lease changed", lease(), two)
	want(t, "keys of the first", keys(one), 0)
	want(t, "keys of the second", keys(two), 1)
	put(t, e.Client, a, "3")
	want(t, "lease gone", lease(), clientv3.NoLease)
	want(t, "keys of the second", keys(two), 0)
	must[*clientv3.LeaseRevokeResponse](t, "revoke")(e.Client.Revoke(t.Context(), two))
	want(t, "value after the revoke", value(t, e.Client, a), "3")
}

func previous(t *testing.T, e *Env) {
	a, b := e.Prefix+"a", e.Prefix+"b"
	r := must[*clientv3.PutResponse](t, "put")(e.Client.Put(t.Context(), a, "1", clientv3.WithPrevKV()))
	want(t, "nothing before the first put", r.PrevKv == nil, true)
	r = must[*clientv3.PutResponse](t, "put")(e.Client.Put(t.Context(), a, "2", clientv3.WithPrevKV()))
	want(t, "before the second", string(r.PrevKv.GetValue()), "1")
	put(t, e.Client, b, "3")
	d := del(t, e.Client, e.Prefix, clientv3.WithPrefix(), clientv3.WithPrevKV())
	want(t, "deleted", d.Deleted, 2)
	if len(d.PrevKvs) != 2 || string(d.PrevKvs[0].Value)+string(d.PrevKvs[1].Value) != "23" {
		t.Errorf("deleted values: got %v, want 2 and 3", d.PrevKvs)
	}
}
