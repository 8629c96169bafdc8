package itest

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorumcron/quorumcron/internal/devetcd"
	"github.com/quorumcron/quorumcron/internal/memetcd"
)

var seed = flag.Uint64("seed", 0, "seed of the random tests; 0 takes a new one")

// side is one of the two clusters that are given the same requests.
type side struct {
	client *clientv3.Client
	leases map[clientv3.LeaseID]string // its lease ids, by the names they have on both sides
	ids    []clientv3.LeaseID
}

// author makes up requests. It draws the same for both sides.
type author struct {
	r         *rand.Rand
	rev       int64 // the newest revision
	compacted int64
}

func (a *author) key() string {
	return string("abcd"[a.r.IntN(4)]) + []string{"", "/1", "/2", "/22"}[a.r.IntN(4)]
}

func (a *author) oldRevision() int64 {
	return max(1, a.compacted-2) + a.r.Int64N(a.rev-max(1, a.compacted-2)+4)
}

func (a *author) chance(percent int) bool { return a.r.IntN(100) < percent }

func (a *author) span() []clientv3.OpOption {
	switch a.r.IntN(6) {
	case 0:
		return []clientv3.OpOption{clientv3.WithPrefix()}
	case 1:
		return []clientv3.OpOption{clientv3.WithRange(a.key())}
	case 2:
		return []clientv3.OpOption{clientv3.WithFromKey()}
	}
	return nil
}

func (a *author) read() clientv3.Op {
	opts := a.span()
	if a.chance(30) {
		opts = append(opts, clientv3.WithRev(a.oldRevision()))
	}
	if a.chance(30) {
		opts = append(opts, clientv3.WithLimit(int64(a.r.IntN(4))))
	}
	if a.chance(20) {
		// Keys last, since the order of equal ones is nobody's promise.
		target := []clientv3.SortTarget{clientv3.SortByKey, clientv3.SortByKey, clientv3.SortByValue}[a.r.IntN(3)]
		if target == clientv3.SortByKey {
			opts = append(opts, clientv3.WithSort(target, []clientv3.SortOrder{clientv3.SortAscend, clientv3.SortDescend, clientv3.SortNone}[a.r.IntN(3)]))
		}
	}
	if a.chance(15) {
		opts = append(opts, clientv3.WithKeysOnly())
	}
	if a.chance(10) {
		opts = append(opts, clientv3.WithCountOnly())
	}
	if a.chance(20) {
		filter := []func(int64) clientv3.OpOption{clientv3.WithMinModRev, clientv3.WithMaxModRev, clientv3.WithMinCreateRev, clientv3.WithMaxCreateRev}
		opts = append(opts, filter[a.r.IntN(4)](a.oldRevision()))
	}
	return clientv3.OpGet(a.key(), opts...)
}

func (a *author) guard() clientv3.Cmp {
	key, result := a.key(), []string{"=", "=", "!=", "<", ">"}[a.r.IntN(5)]
	var c clientv3.Cmp
	switch a.r.IntN(4) {
	case 0:
		c = clientv3.Compare(clientv3.ModRevision(key), result, a.oldRevision())
	case 1:
		c = clientv3.Compare(clientv3.CreateRevision(key), result, []int64{0, a.oldRevision()}[a.r.IntN(2)])
	case 2:
		c = clientv3.Compare(clientv3.Version(key), result, a.r.Int64N(3))
	default:
		c = clientv3.Compare(clientv3.Value(key), result, fmt.Sprint(a.r.IntN(3)))
	}
	if a.chance(20) {
		c = c.WithPrefix()
	}
	return c
}

// op makes a request; a lease in it is looked up by number on each side.
func (a *author) op(depth int) func(s *side) clientv3.Op {
	switch n := a.r.IntN(10); {
	case n < 3:
		op := a.read()
		return func(*side) clientv3.Op { return op }
	case n < 6:
		return a.put(depth == 0)
	case n < 8 || depth == 3:
		opts := a.span()
		if a.chance(30) {
			opts = append(opts, clientv3.WithPrevKV())
		}
		op := clientv3.OpDelete(a.key(), opts...)
		return func(*side) clientv3.Op { return op }
	}
	return a.txn(depth + 1)
}

// put makes up a put. To ignore value or lease is for plain ones only: in a transaction, behind a
// delete from a key on, it has etcd 3.7.3 panic, and again on each start.
func (a *author) put(plain bool) func(s *side) clientv3.Op {
	key, value, lease := a.key(), fmt.Sprint(a.r.IntN(3)), -1
	var opts []clientv3.OpOption
	if plain && a.chance(10) {
		value, opts = "", append(opts, clientv3.WithIgnoreValue())
	}
	switch {
	case plain && a.chance(10):
		opts = append(opts, clientv3.WithIgnoreLease())
	case a.chance(30):
		lease = a.r.IntN(8)
	}
	if a.chance(30) {
		opts = append(opts, clientv3.WithPrevKV())
	}
	return func(s *side) clientv3.Op {
		opts := slices.Clone(opts)
		if lease >= 0 && len(s.ids) > 0 {
			opts = append(opts, clientv3.WithLease(s.ids[max(0, len(s.ids)-1-lease)]))
		}
		return clientv3.OpPut(key, value, opts...)
	}
}

func (a *author) txn(depth int) func(s *side) clientv3.Op {
	var guards []clientv3.Cmp
	for range a.r.IntN(3) {
		guards = append(guards, a.guard())
	}
	var branches [2][]func(*side) clientv3.Op
	for i := range branches {
		for range a.r.IntN(4) {
			branches[i] = append(branches[i], a.op(depth))
		}
	}
	return func(s *side) clientv3.Op {
		var made [2][]clientv3.Op
		for i := range branches {
			for _, f := range branches[i] {
				made[i] = append(made[i], f(s))
			}
		}
		return clientv3.OpTxn(guards, made[0], made[1])
	}
}

// answer writes down all that a response says, in words that do not depend on the side.
func (s *side) answer(b *strings.Builder, response any) {
	header := func(h *pb.ResponseHeader) { fmt.Fprintf(b, "@%d", h.GetRevision()) }
	switch r := response.(type) {
	case *pb.RangeResponse:
		fmt.Fprintf(b, "range(%d more=%v", r.Count, r.More)
		for _, kv := range r.Kvs {
			b.WriteString(" " + s.pair(kv))
		}
		b.WriteString(")")
		header(r.Header)
	case *pb.PutResponse:
		fmt.Fprintf(b, "put(%s)", s.pair(r.PrevKv))
		header(r.Header)
	case *pb.DeleteRangeResponse:
		fmt.Fprintf(b, "delete(%d", r.Deleted)
		for _, kv := range r.PrevKvs {
			b.WriteString(" " + s.pair(kv))
		}
		b.WriteString(")")
		header(r.Header)
	case *pb.TxnResponse:
		fmt.Fprintf(b, "txn(%v", r.Succeeded)
		for _, op := range r.Responses {
			b.WriteString(" ")
			switch o := op.Response.(type) {
			case *pb.ResponseOp_ResponseRange:
				s.answer(b, o.ResponseRange)
			case *pb.ResponseOp_ResponsePut:
				s.answer(b, o.ResponsePut)
			case *pb.ResponseOp_ResponseDeleteRange:
				s.answer(b, o.ResponseDeleteRange)
			case *pb.ResponseOp_ResponseTxn:
				s.answer(b, o.ResponseTxn)
			}
		}
		b.WriteString(")")
		header(r.Header)
	}
}

func (s *side) pair(kv *mvccpb.KeyValue) string {
	if kv == nil {
		return "-"
	}
	return fmt.Sprintf("%s=%q[%d %d %d %s]", kv.Key, kv.Value, kv.CreateRevision, kv.ModRevision, kv.Version, s.leases[clientv3.LeaseID(kv.Lease)])
}

func (s *side) do(ctx context.Context, op clientv3.Op) string {
	r, err := s.client.Do(ctx, op)
	if err != nil {
		return "error " + err.Error()
	}
	b := &strings.Builder{}
	switch {
	case r.Get() != nil:
		s.answer(b, (*pb.RangeResponse)(r.Get()))
	case r.Put() != nil:
		s.answer(b, (*pb.PutResponse)(r.Put()))
	case r.Del() != nil:
		s.answer(b, (*pb.DeleteRangeResponse)(r.Del()))
	default:
		s.answer(b, (*pb.TxnResponse)(r.Txn()))
	}
	return b.String()
}

// step makes up one request and answers how each side deals with it, and what it was.
func (a *author) step() (string, func(ctx context.Context, s *side) string) {
	switch n := a.r.IntN(100); {
	case n < 5:
		return "grant", func(ctx context.Context, s *side) string {
			r, err := s.client.Grant(ctx, 600)
			if err != nil {
				return err.Error()
			}
			s.leases[r.ID] = fmt.Sprintf("lease%d", len(s.ids))
			s.ids = append(s.ids, r.ID)
			return fmt.Sprintf("granted %d @%d", r.TTL, r.Revision)
		}
	case n < 8:
		i := a.r.IntN(4)
		return "revoke", func(ctx context.Context, s *side) string {
			if len(s.ids) == 0 {
				return ""
			}
			r, err := s.client.Revoke(ctx, s.ids[max(0, len(s.ids)-1-i)])
			if err != nil {
				return err.Error()
			}
			return fmt.Sprint("revoked @", r.Header.Revision)
		}
	case n < 11:
		i := a.r.IntN(4)
		return "time to live", func(ctx context.Context, s *side) string {
			if len(s.ids) == 0 {
				return ""
			}
			r, err := s.client.TimeToLive(ctx, s.ids[max(0, len(s.ids)-1-i)], clientv3.WithAttachedKeys())
			if err != nil {
				return err.Error()
			}
			slices.SortFunc(r.Keys, func(a, b []byte) int { return strings.Compare(string(a), string(b)) })
			return fmt.Sprintf("alive %v granted %d keys %s @%d", r.TTL > 0, r.GrantedTTL, r.Keys, r.Revision)
		}
	case n < 12:
		rev := a.oldRevision()
		return fmt.Sprint("compact ", rev), func(ctx context.Context, s *side) string {
			r, err := s.client.Compact(ctx, rev)
			if err != nil {
				return err.Error()
			}
			a.compacted = max(a.compacted, rev)
			return fmt.Sprint("compacted @", r.Header.Revision)
		}
	}
	op := a.op(0)
	return "request", func(ctx context.Context, s *side) string {
		o := op(s)
		return s.do(ctx, o)
	}
}

// TestRandomRequestsAreAnsweredAlike gives an embedded etcd and the one in memory the same requests,
// and expects the same answers, word by word, and the same history.
func TestRandomRequestsAreAnsweredAlike(t *testing.T) {
	t.Parallel()
	seed := *seed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("repeat with -seed=%d", seed)
	real := &side{client: dial(t, start(t, devetcd.Config{Dir: t.TempDir()}).Endpoint()), leases: map[clientv3.LeaseID]string{}}
	store := memetcd.New(memetcd.Config{})
	t.Cleanup(store.Close)
	fake := &side{client: store.Client(t.Context()), leases: map[clientv3.LeaseID]string{}}
	a := &author{r: rand.New(rand.NewPCG(seed, 0)), rev: 1}
	var watches []*twinWatch
	for i := range 2500 {
		if i%100 == 50 {
			watches = append(watches, openTwins(t, a, fmt.Sprint(i), real, fake))
		}
		what, ask := a.step()
		got, want := ask(t.Context(), fake), ask(t.Context(), real)
		if got != want {
			t.Fatalf("step %d, %s:\n in memory %s\n etcd      %s", i, what, got, want)
		}
		a.rev = store.Rev()
	}
	for _, key := range []string{"a", "b", "c", "d"} {
		for _, s := range []*side{fake, real} {
			if _, err := s.client.Put(t.Context(), key, "last"); err != nil {
				t.Fatal(err)
			}
			if _, err := s.client.Delete(t.Context(), key); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, w := range watches {
		w.compare(t, real, fake, a.rev)
	}
	if s := store.Stats(); s.NestedTxns == 0 || s.TxnsRefused == 0 || s.LeasesRevoked == 0 || s.Compactions == 0 {
		t.Errorf("the requests were too tame: %+v", s)
	}
}

// twinWatch is the same watch on both sides.
type twinWatch struct {
	what       string
	real, fake clientv3.WatchChan
}

// openTwins opens a watch from some revision, and waits until both have caught up with the past: a
// watch that has not can be overtaken by a compaction.
func openTwins(t *testing.T, a *author, name string, real, fake *side) *twinWatch {
	t.Helper()
	key := string("abcd"[a.r.IntN(4)])
	opts := []clientv3.OpOption{clientv3.WithPrefix(), clientv3.WithRev(max(1, a.compacted) + a.r.Int64N(a.rev-max(1, a.compacted)+1))}
	w := &twinWatch{what: key}
	if a.chance(50) {
		w.what += " prev"
		opts = append(opts, clientv3.WithPrevKV())
	}
	switch {
	case a.chance(20):
		w.what += " no deletes"
		opts = append(opts, clientv3.WithFilterDelete())
	case a.chance(20):
		w.what += " no puts"
		opts = append(opts, clientv3.WithFilterPut())
	}
	ctx := metadata.AppendToOutgoingContext(t.Context(), "watch", name)
	open := func(s *side) clientv3.WatchChan {
		c := s.client.Watch(ctx, key, opts...)
		out := make(chan clientv3.WatchResponse, 10_000) // never read before the end, more than ever come
		caughtUp := make(chan struct{})
		go func() {
			defer close(out)
			waiting := true
			for r := range c {
				if r.IsProgressNotify() && waiting {
					waiting = false
					close(caughtUp)
				}
				out <- r
			}
		}()
		ask := time.NewTicker(5 * time.Millisecond)
		defer ask.Stop()
		for {
			if err := s.client.RequestProgress(ctx); err != nil {
				t.Fatal(err)
			}
			select {
			case <-caughtUp:
				return out
			case <-ask.C:
			}
		}
	}
	w.real, w.fake = open(real), open(fake)
	return w
}

// compare reads both to their ends.
func (w *twinWatch) compare(t *testing.T, real, fake *side, last int64) {
	t.Helper()
	read := func(s *side, c clientv3.WatchChan) (all []string) {
		for {
			select {
			case r, ok := <-c:
				if !ok || r.Err() != nil {
					t.Fatalf("watch %s: ended with %v", w.what, r.Err())
				}
				for _, ev := range r.Events {
					all = append(all, fmt.Sprintf("%s %s was %s", ev.Type, s.pair(ev.Kv), s.pair(ev.PrevKv)))
					if ev.Kv.ModRevision > last {
						return all
					}
				}
			case <-time.After(30 * time.Second):
				t.Fatalf("watch %s: silent after %d events", w.what, len(all))
			}
		}
	}
	got, want := read(fake, w.fake), read(real, w.real)
	for i := range max(len(got), len(want)) {
		// A compaction may overtake an event on its way, and take the previous value away.
		if what, lost := strings.CutSuffix(want[min(i, len(want)-1)], "was -"); lost && i < min(len(got), len(want)) && strings.HasPrefix(got[i], what) {
			continue
		}
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			t.Fatalf("watch %s, event %d: in memory %v, etcd %v", w.what, i, got[min(i, len(got)):], want[min(i, len(want)):])
		}
	}
}
