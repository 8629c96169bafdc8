package conformance

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

func rangeTests() []Test {
	return []Test{
		{Name: "RangesAreSortedLimitedAndCounted", Run: ranges,
			Says: "A range comes in the order of its keys or as sorted, cut at the limit, with the count of all of it."},
		{Name: "RevisionFiltersDoNotChangeTheCount", Run: filters,
			Says: "Filters on revisions leave keys out but not out of the count, and apply before the limit."},
		{Name: "KeysOnlyLosesTheLease", Run: keysOnly,
			Says: "A keys-only read has revisions and version but neither value nor lease."},
		{Name: "HistoryIsReadableUntilCompacted", Alone: true, Run: history,
			Says: "An old revision can be read until it is compacted, the compaction revision itself stays, the future cannot be read."},
		{Name: "PagesOfOneRevisionFitTogether", Run: pages,
			Says: "Pages read at one revision are one state, whatever is written meanwhile."},
		{Name: "ErrorsOfContextsAreTheirs", Run: contextErrors,
			Says: "A call whose context is over fails with the context's error."},
		{Name: "SwapsBySeveralClientsAreOneAfterTheOther", Run: swaps,
			Says: "Of several compare-and-swaps planned on one revision one is carried out."},
	}
}

func keysOf(kvs []*mvccpb.KeyValue, prefix string) string {
	var all []string
	for _, kv := range kvs {
		all = append(all, strings.TrimPrefix(string(kv.Key), prefix))
	}
	return strings.Join(all, " ")
}

func ranges(t *testing.T, e *Env) {
	p := e.Prefix
	put(t, e.Client, p+"c", "3")
	put(t, e.Client, p+"a", "1")
	put(t, e.Client, p+"b", "2")
	put(t, e.Client, p+"a", "9")
	for _, c := range []struct {
		says  string
		key   string
		opts  []clientv3.OpOption
		keys  string
		count int64
		more  bool
	}{
		{"prefix", p, []clientv3.OpOption{clientv3.WithPrefix()}, "a b c", 3, false},
		{"range", p + "a", []clientv3.OpOption{clientv3.WithRange(p + "c")}, "a b", 2, false},
		{"one key", p + "b", nil, "b", 1, false},
		{"missing", p + "bb", nil, "", 0, false},
		{"limit", p, []clientv3.OpOption{clientv3.WithPrefix(), clientv3.WithLimit(2)}, "a b", 3, true},
		{"limit that fits", p, []clientv3.OpOption{clientv3.WithPrefix(), clientv3.WithLimit(3)}, "a b c", 3, false},
		{"count only", p, []clientv3.OpOption{clientv3.WithPrefix(), clientv3.WithCountOnly()}, "", 3, false},
		{"down by key", p, []clientv3.OpOption{clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByKey, clientv3.SortDescend), clientv3.WithLimit(1)}, "c", 3, true},
		{"by creation", p, []clientv3.OpOption{clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend)}, "c a b", 3, false},
		{"down by modification", p, []clientv3.OpOption{clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByModRevision, clientv3.SortDescend)}, "a b c", 3, false},
		{"by value", p, []clientv3.OpOption{clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByValue, clientv3.SortAscend)}, "b c a", 3, false},
		{"by version, first", p, []clientv3.OpOption{clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByVersion, clientv3.SortDescend), clientv3.WithLimit(1)}, "a", 3, true},
		{"serializable", p, []clientv3.OpOption{clientv3.WithPrefix(), clientv3.WithSerializable()}, "a b c", 3, false},
		{"last created", p, clientv3.WithLastCreate(), "b", 3, true},
	} {
		r := get(t, e.Client, c.key, c.opts...)
		want(t, c.says, keysOf(r.Kvs, p), c.keys)
		want(t, c.says+": count", r.Count, c.count)
		want(t, c.says+": more", r.More, c.more)
	}
	_, err := e.Client.Get(t.Context(), "")
	wantErr(t, "empty key", err, rpctypes.ErrEmptyKey)
	_, err = e.Client.Put(t.Context(), "", "x")
	wantErr(t, "put of the empty key", err, rpctypes.ErrEmptyKey)
}

func filters(t *testing.T, e *Env) {
	p := e.Prefix
	first := put(t, e.Client, p+"a", "1")
	put(t, e.Client, p+"b", "1")
	last := put(t, e.Client, p+"c", "1")
	again := put(t, e.Client, p+"a", "2")
	for _, c := range []struct {
		says string
		opts []clientv3.OpOption
		keys string
		more bool
	}{
		{"modified from", []clientv3.OpOption{clientv3.WithMinModRev(last)}, "a c", false},
		{"modified to", []clientv3.OpOption{clientv3.WithMaxModRev(last)}, "b c", false},
		{"created to", []clientv3.OpOption{clientv3.WithMaxCreateRev(first)}, "a", false},
		{"created from", []clientv3.OpOption{clientv3.WithMinCreateRev(first + 1)}, "b c", false},
		{"modified from, cut", []clientv3.OpOption{clientv3.WithMinModRev(last), clientv3.WithLimit(1)}, "a", true},
		{"none", []clientv3.OpOption{clientv3.WithMinModRev(again + 1)}, "", false},
	} {
		r := get(t, e.Client, p, append(c.opts, clientv3.WithPrefix())...)
		want(t, c.says, keysOf(r.Kvs, p), c.keys)
		want(t, c.says+": count", r.Count, 3)
		want(t, c.says+": more", r.More, c.more)
	}
}

func keysOnly(t *testing.T, e *Env) {
	a := e.Prefix + "a"
	lease := must[*clientv3.LeaseGrantResponse](t, "grant")(e.Client.Grant(t.Context(), 60)).ID
	rev := put(t, e.Client, a, "1", clientv3.WithLease(lease))
	kv := get(t, e.Client, a, clientv3.WithKeysOnly()).Kvs[0]
	want(t, "value", len(kv.Value), 0)
	want(t, "lease", kv.Lease, 0)
	want(t, "mod revision", kv.ModRevision, rev)
	want(t, "create revision", kv.CreateRevision, rev)
	want(t, "version", kv.Version, 1)
	kv = get(t, e.Client, a).Kvs[0]
	want(t, "lease in a full read", clientv3.LeaseID(kv.Lease), lease)
}

func history(t *testing.T, e *Env) {
	a, b := e.Prefix+"a", e.Prefix+"b"
	first := put(t, e.Client, a, "1")
	second := put(t, e.Client, a, "2")
	gone := put(t, e.Client, b, "x")
	deleted := del(t, e.Client, b).Header.Revision
	last := put(t, e.Client, a, "3")
	want(t, "a at first", string(get(t, e.Client, a, clientv3.WithRev(first)).Kvs[0].Value), "1")
	want(t, "header of an old read", get(t, e.Client, a, clientv3.WithRev(first)).Header.Revision, last)
	want(t, "b before its delete", get(t, e.Client, b, clientv3.WithRev(gone)).Count, 1)
	_, err := e.Client.Get(t.Context(), a, clientv3.WithRev(last+1))
	wantErr(t, "read of the future", err, rpctypes.ErrFutureRev)
	_, err = e.Client.Compact(t.Context(), last+1)
	wantErr(t, "compaction of the future", err, rpctypes.ErrFutureRev)
	must[*clientv3.CompactResponse](t, "compact")(e.Client.Compact(t.Context(), deleted))
	want(t, "a at the compaction", string(get(t, e.Client, a, clientv3.WithRev(deleted)).Kvs[0].Value), "2")
	want(t, "b at the compaction", get(t, e.Client, b, clientv3.WithRev(deleted)).Count, 0)
	want(t, "a now", value(t, e.Client, a), "3")
	for _, rev := range []int64{first, second, gone} {
		_, err = e.Client.Get(t.Context(), a, clientv3.WithRev(rev))
		wantErr(t, "read below the compaction", err, rpctypes.ErrCompacted)
	}
	_, err = e.Client.Compact(t.Context(), deleted)
	wantErr(t, "the same compaction", err, rpctypes.ErrCompacted)
	_, err = commit(t, e.Client, nil, ops(clientv3.OpPut(a, "4"), clientv3.OpGet(b, clientv3.WithRev(gone))), nil)
	wantErr(t, "transaction that reads below the compaction", err, rpctypes.ErrCompacted)
	want(t, "a after it", value(t, e.Client, a), "3")
}

func pages(t *testing.T, e *Env) {
	const n = 700 // more than one chunk of any index
	for i := range n {
		put(t, e.Client, fmt.Sprintf("%s%04d", e.Prefix, (i*389)%n), "x")
	}
	from, rev, seen := e.Prefix, int64(0), 0
	for page := 0; ; page++ {
		r := get(t, e.Client, from, clientv3.WithRange(clientv3.GetPrefixRangeEnd(e.Prefix)), clientv3.WithLimit(64), clientv3.WithRev(rev), clientv3.WithKeysOnly())
		if page == 0 {
			rev = r.Header.Revision
		}
		for _, kv := range r.Kvs {
			want(t, "key", string(kv.Key), fmt.Sprintf("%s%04d", e.Prefix, seen))
			seen++
		}
		if !r.More {
			break
		}
		from = string(r.Kvs[len(r.Kvs)-1].Key) + "\x00"
		del(t, e.Client, fmt.Sprintf("%s%04d", e.Prefix, seen+5))
		put(t, e.Client, fmt.Sprintf("%s%04d+", e.Prefix, seen+5), "x")
	}
	want(t, "keys seen", seen, n)
}

func contextErrors(t *testing.T, e *Env) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := e.Client.Get(ctx, e.Prefix)
	wantErr(t, "cancelled", err, context.Canceled)
	ctx, cancel = context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	_, err = e.Client.Put(ctx, e.Prefix+"a", "x")
	wantErr(t, "too late", err, context.DeadlineExceeded)
	want(t, "a", value(t, e.Client, e.Prefix+"a"), "absent")
}

func swaps(t *testing.T, e *Env) {
	const clients, rounds = 4, 20
	a := e.Prefix + "a"
	won := make(chan int, clients)
	for range clients {
		go func() {
			n := 0
			defer func() { won <- n }()
			for range rounds {
				r, err := e.Client.Get(t.Context(), a)
				if err != nil {
					return
				}
				rev := int64(0)
				if len(r.Kvs) > 0 {
					rev = r.Kvs[0].ModRevision
				}
				x, err := e.Client.Txn(t.Context()).If(clientv3.Compare(clientv3.ModRevision(a), "=", rev)).Then(clientv3.OpPut(a, "x")).Commit()
				if err != nil {
					return
				}
				if x.Succeeded {
					n++
				}
			}
		}()
	}
	total := 0
	for range clients {
		total += <-won
	}
	if total == 0 {
		t.Fatal("nobody won")
	}
	want(t, "version", get(t, e.Client, a).Kvs[0].Version, int64(total))
}
