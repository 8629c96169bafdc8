package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorumcron/quorumcron/scheduler"
)

// sentGroup is a transaction as the packer sent it.
type sentGroup struct {
	cmps      []clientv3.Cmp
	then, els []clientv3.Op
}

// signature names the operations of a group.
func (g sentGroup) signature() string {
	var keys []string
	for _, o := range g.then {
		cmps, _, _ := o.Txn()
		keys = append(keys, string(cmps[0].KeyBytes()))
	}
	return strings.Join(keys, " ")
}

// fakeKV answers transactions with a function.
type fakeKV struct {
	clientv3.KV
	commit func(context.Context, sentGroup) (*clientv3.TxnResponse, error)
}

type fakeTxn struct {
	kv  *fakeKV
	ctx context.Context
	sentGroup
}

func (kv *fakeKV) Txn(ctx context.Context) clientv3.Txn { return &fakeTxn{kv: kv, ctx: ctx} }

func (t *fakeTxn) If(cmps ...clientv3.Cmp) clientv3.Txn   { t.cmps = cmps; return t }
func (t *fakeTxn) Then(ops ...clientv3.Op) clientv3.Txn   { t.then = ops; return t }
func (t *fakeTxn) Else(ops ...clientv3.Op) clientv3.Txn   { t.els = ops; return t }
func (t *fakeTxn) Commit() (*clientv3.TxnResponse, error) { return t.kv.commit(t.ctx, t.sentGroup) }

// allow answers that every operation of the group was applied.
func allow(g sentGroup) *clientv3.TxnResponse {
	resp := &clientv3.TxnResponse{Header: &etcdserverpb.ResponseHeader{Revision: 100}, Succeeded: true}
	for range g.then {
		resp.Responses = append(resp.Responses, &etcdserverpb.ResponseOp{Response: &etcdserverpb.ResponseOp_ResponseTxn{
			ResponseTxn: &etcdserverpb.TxnResponse{Succeeded: true},
		}})
	}
	return resp
}

// runPacker starts a packer in the bubble; the function returned stops it and waits.
func runPacker(t *testing.T, commit func(context.Context, sentGroup) (*clientv3.TxnResponse, error)) (*packer, func()) {
	t.Helper()
	p := newPacker(&fakeKV{commit: commit}, "head", 3*time.Second)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := p.run(ctx, 2); err != nil {
			t.Errorf("run: %v", err)
		}
	}()
	return p, func() { cancel(); <-ended }
}

// serially makes a commit that takes a millisecond and lets one group at a time be looked at.
func serially(look func(sentGroup) (*clientv3.TxnResponse, error)) func(context.Context, sentGroup) (*clientv3.TxnResponse, error) {
	var mu sync.Mutex
	return func(_ context.Context, g sentGroup) (*clientv3.TxnResponse, error) {
		time.Sleep(time.Millisecond)
		mu.Lock()
		defer mu.Unlock()
		return look(g)
	}
}

func end(uid string) *op {
	return &op{
		uid:  uid,
		cmps: []clientv3.Cmp{createdAt("lock/"+uid, 7)},
		then: []clientv3.Op{clientv3.OpDelete("lock/" + uid), clientv3.OpPut("run/"+uid, "v")},
		els:  []clientv3.Op{clientv3.OpGet("run/" + uid)},
	}
}

func claim(uid string, rules, lease int64) *op {
	return &op{
		uid: uid, writesState: true, rules: rules, lease: lease,
		cmps: []clientv3.Cmp{unchanged("state/"+uid, 5), absent("lock/" + uid)},
		then: []clientv3.Op{clientv3.OpPut("state/"+uid, "v"), clientv3.OpPut("lock/"+uid, "v", clientv3.WithLease(clientv3.LeaseID(lease)))},
		els:  []clientv3.Op{clientv3.OpGet("state/" + uid)},
	}
}

// doAll has all operations done at once and returns their results.
func doAll(p *packer, ops ...*op) []opResult {
	results := make([]opResult, len(ops))
	var callers sync.WaitGroup
	for i, o := range ops {
		callers.Go(func() { results[i] = p.do(context.Background(), o) })
	}
	callers.Wait()
	return results
}

func TestWhatGathersIsOneGroup(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var sizes []int
		p, stop := runPacker(t, serially(func(g sentGroup) (*clientv3.TxnResponse, error) {
			sizes = append(sizes, len(g.then))
			return allow(g), nil
		}))
		defer stop()
		var callers sync.WaitGroup
		for i := range 2 { // One operation for each worker of the window.
			callers.Go(func() { p.do(t.Context(), end(fmt.Sprint("first-", i))) })
			synctest.Wait()
		}
		for i := range 50 {
			callers.Go(func() { p.do(t.Context(), end(fmt.Sprint("job-", i))) })
		}
		callers.Wait()
		if want := []int{1, 1, 50}; !slices.Equal(sizes, want) {
			t.Errorf("got groups of %v, want %v", sizes, want)
		}
	})
}

func TestClaimsCarryTheRulesGuardAndEndsNone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var claimed, ended []sentGroup
		p, stop := runPacker(t, serially(func(g sentGroup) (*clientv3.TxnResponse, error) {
			if len(g.cmps) > 0 {
				claimed = append(claimed, g)
			} else {
				ended = append(ended, g)
			}
			return allow(g), nil
		}))
		defer stop()
		doAll(p, claim("a", 40, 1), claim("b", 41, 1), end("c"))
		if len(claimed) != 2 || len(ended) != 1 {
			t.Fatalf("got %d groups with a guard and %d without, want 2 and 1", len(claimed), len(ended))
		}
		for _, g := range claimed {
			if len(g.cmps) != 1 || len(g.then) != 1 || string(g.cmps[0].KeyBytes()) != "head" {
				t.Errorf("got guards %v over %d claims, want the head's over one", g.cmps, len(g.then))
			}
		}
	})
}

func TestAMovedRuleRefusesEveryClaimOfTheGroup(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, stop := runPacker(t, func(context.Context, sentGroup) (*clientv3.TxnResponse, error) {
			return &clientv3.TxnResponse{
				Header: &etcdserverpb.ResponseHeader{Revision: 90},
				Responses: []*etcdserverpb.ResponseOp{{Response: &etcdserverpb.ResponseOp_ResponseRange{
					ResponseRange: &etcdserverpb.RangeResponse{Kvs: []*mvccpb.KeyValue{{ModRevision: 55}}},
				}}},
			}, nil
		})
		defer stop()
		for _, r := range doAll(p, claim("a", 40, 1), claim("b", 40, 1)) {
			if !r.rulesMoved || r.head != 55 || r.err != nil || r.applied {
				t.Errorf("got %+v, want moved rules at 55", r)
			}
		}
	})
}

func TestADeadLeaseRefusesOnlyWhatHangsOnIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		p, stop := runPacker(t, serially(func(g sentGroup) (*clientv3.TxnResponse, error) {
			seen = append(seen, g.signature())
			if strings.Contains(g.signature(), "dead") {
				return nil, rpctypes.ErrLeaseNotFound
			}
			return allow(g), nil
		}))
		defer stop()
		plug := []*op{claim("plug-1", 40, 0), claim("plug-2", 40, 0)}
		skip := claim("skip", 40, 0)
		results := doAll(p, append(plug, claim("dead-1", 40, 9), claim("dead-2", 40, 9), skip)...)
		if r := results[4]; !r.applied {
			t.Errorf("the skip beside the dead lease: got %+v, want applied", r)
		}
		for _, r := range results[2:4] {
			if !r.leaseGone || r.err != nil || r.applied {
				t.Errorf("a claim under the dead lease: got %+v, want the lease gone", r)
			}
		}
		for i, s := range seen {
			if slices.Contains(seen[:i], s) {
				t.Errorf("group %q was sent again as it was: %q", s, seen)
			}
		}
	})
}

func TestTooManyOperationsLowersTheLimitForGood(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const allowed = 40
		refused := 0
		p, stop := runPacker(t, serially(func(g sentGroup) (*clientv3.TxnResponse, error) {
			if countOf(g) > allowed {
				refused++
				return nil, rpctypes.ErrTooManyOps
			}
			return allow(g), nil
		}))
		defer stop()
		var ops []*op
		for i := range 400 {
			ops = append(ops, end(fmt.Sprint("job-", i)))
		}
		for i, r := range doAll(p, ops...) {
			if !r.applied {
				t.Fatalf("operation %d: got %+v, want applied", i, r)
			}
		}
		first, limit := refused, p.stats().Limit
		if first == 0 || limit > allowed {
			t.Fatalf("refused %d groups, limit %d; want some, and at most %d", first, limit, allowed)
		}
		for i := range ops {
			ops[i] = end(fmt.Sprint("again-", i))
		}
		doAll(p, ops...)
		if refused != first {
			t.Errorf("%d more groups were refused after the limit had been learnt", refused-first)
		}
	})
}

// countOf counts a transaction as etcd does.
func countOf(g sentGroup) int {
	var deep func(cmps []clientv3.Cmp, branches ...[]clientv3.Op) int
	deep = func(cmps []clientv3.Cmp, branches ...[]clientv3.Op) int {
		n, nested := len(cmps), 0
		for _, ops := range branches {
			n = max(n, len(ops))
			for _, o := range ops {
				if o.IsTxn() {
					c, then, els := o.Txn()
					nested = max(nested, deep(c, then, els))
				}
			}
		}
		return n + nested
	}
	return deep(g.cmps, g.then, g.els)
}

func TestOneOperationThatIsTooLargeFailsAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, stop := runPacker(t, serially(func(g sentGroup) (*clientv3.TxnResponse, error) {
			if strings.Contains(g.signature(), "large") {
				return nil, rpctypes.ErrRequestTooLarge
			}
			return allow(g), nil
		}))
		defer stop()
		results := doAll(p, end("plug-1"), end("plug-2"), end("a"), end("large"), end("b"), end("c"))
		for i, r := range results {
			if i == 3 {
				if !errors.Is(r.err, scheduler.ErrExhausted) {
					t.Errorf("the large one: got %+v, want a definite error", r)
				}
			} else if !r.applied {
				t.Errorf("operation %d: got %+v, want applied", i, r)
			}
		}
	})
}

func TestATimedOutGroupIsUnknownForEveryMember(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, stop := runPacker(t, func(ctx context.Context, _ sentGroup) (*clientv3.TxnResponse, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		defer stop()
		began := time.Now()
		for _, r := range doAll(p, end("a"), end("b"), end("c"), claim("d", 40, 1)) {
			if !errors.Is(r.err, scheduler.ErrUnknown) {
				t.Errorf("got %+v, want an unknown outcome", r)
			}
		}
		if took := time.Since(began); took > 7*time.Second {
			t.Errorf("took %s: the calls have no deadline", took)
		}
		if p.stats().Unknown == 0 {
			t.Error("no unknown group was counted")
		}
	})
}

func TestACancelledCallerNeverCancelsTheSharedCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		var groups atomic.Int64
		p, stop := runPacker(t, func(ctx context.Context, g sentGroup) (*clientv3.TxnResponse, error) {
			groups.Add(1)
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-answer:
				return allow(g), nil
			}
		})
		defer stop()
		ctx, cancel := context.WithCancel(t.Context())
		var impatient, patient, waiting, third opResult
		var callers sync.WaitGroup
		callers.Go(func() { impatient = p.do(ctx, end("a")) })
		synctest.Wait()
		callers.Go(func() { patient = p.do(t.Context(), end("b")) })
		synctest.Wait()
		callers.Go(func() { waiting = p.do(ctx, end("c")) })
		callers.Go(func() { third = p.do(t.Context(), end("d")) })
		synctest.Wait()
		cancel()
		synctest.Wait()
		close(answer)
		callers.Wait()
		if !errors.Is(impatient.err, scheduler.ErrUnknown) {
			t.Errorf("the caller that left: got %+v, want unknown", impatient)
		}
		if errors.Is(waiting.err, scheduler.ErrUnknown) || !errors.Is(waiting.err, scheduler.ErrUnavailable) {
			t.Errorf("the caller that left before it was sent: got %+v, want a definite refusal", waiting)
		}
		if !patient.applied || !third.applied {
			t.Errorf("the callers that stayed: got %+v and %+v, want applied", patient, third)
		}
		if n := groups.Load(); n != 3 {
			t.Errorf("got %d groups, want 3: what was withdrawn was sent all the same", n)
		}
	})
}

func TestAStoppedPackerRefusesAndWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, stop := runPacker(t, func(_ context.Context, g sentGroup) (*clientv3.TxnResponse, error) {
			time.Sleep(time.Second)
			return allow(g), nil
		})
		var results []opResult
		var callers sync.WaitGroup
		callers.Go(func() { results = doAll(p, end("a"), end("a"), end("a")) })
		synctest.Wait()
		stop()
		callers.Wait()
		applied, refused := 0, 0
		for _, r := range results {
			switch {
			case r.applied:
				applied++
			case errors.Is(r.err, scheduler.ErrUnavailable) && !errors.Is(r.err, scheduler.ErrUnknown):
				refused++
			}
		}
		if applied != 2 || refused != 1 {
			t.Errorf("got %d applied and %d refused of %+v, want the two that were sent and the one that was not", applied, refused, results)
		}
		if r := p.do(t.Context(), end("b")); !errors.Is(r.err, errStopped) {
			t.Errorf("after the stop: got %+v, want it refused", r)
		}
	})
}
