package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// TestGroupsKeepTheirRules sends random mixes and holds every group against the rules, reckoned here
// once more from what was sent.
func TestGroupsKeepTheirRules(t *testing.T) {
	t.Parallel()
	seed := Seed(t)
	for round := range 10 {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, uint64(round)))
			mix := newMix(r)
			inspector := &inspector{t: t, mix: mix, r: r, flying: map[string]int{}, refused: map[string]bool{}}
			p, stop := runPacker(t, inspector.commit)
			results := doAll(p, mix.ops...)
			stop()
			for i, got := range results {
				if got.err == nil && !got.applied && !got.leaseGone && !got.rulesMoved {
					t.Errorf("operation %d has no result: %+v", i, got)
				}
				if got.applied != (inspector.applied[mix.ops[i]] == 1) {
					t.Errorf("operation %d: told applied %v, was applied %d times", i, got.applied, inspector.applied[mix.ops[i]])
				}
			}
			if len(p.busy) != 0 {
				t.Errorf("jobs are left busy: %v", p.busy)
			}
		})
	}
}

// mix is a random set of operations, found again by their first guard, which is unique.
type mix struct {
	ops     []*op
	byGuard map[string]*op
}

func newMix(r *rand.Rand) *mix {
	m := &mix{byGuard: map[string]*op{}}
	for i := range 300 {
		uid := fmt.Sprint("job-", r.IntN(120))
		id := fmt.Sprint("id/", i)
		o := &op{uid: uid, writesState: r.IntN(2) == 0}
		if r.IntN(2) == 0 {
			o.rules = int64(40 + r.IntN(2))
			o.lease = int64(r.IntN(3))
		}
		o.cmps = append(o.cmps, unchanged(id, 1))
		for range r.IntN(5) {
			o.cmps = append(o.cmps, absent(fmt.Sprint("key/", r.IntN(60))))
		}
		written := map[string]bool{}
		for range 1 + r.IntN(4) {
			key := fmt.Sprint("key/", r.IntN(60))
			if written[key] {
				continue
			}
			written[key] = true
			value := strings.Repeat("x", r.IntN(200))
			if r.IntN(40) == 0 {
				value = strings.Repeat("x", 400<<10)
			}
			switch r.IntN(3) {
			case 0:
				o.then = append(o.then, clientv3.OpDelete(key))
			case 1:
				o.then = append(o.then, clientv3.OpTxn([]clientv3.Cmp{absent(key)}, []clientv3.Op{clientv3.OpPut(key, value)}, nil))
			default:
				o.then = append(o.then, clientv3.OpPut(key, value, clientv3.WithLease(clientv3.LeaseID(o.lease))))
			}
		}
		o.els = append(o.els, clientv3.OpGet(id))
		m.ops = append(m.ops, o)
		m.byGuard[id] = o
	}
	return m
}

// inspector answers groups at random and complains about those that break a rule.
type inspector struct {
	t   *testing.T
	mix *mix

	mu      sync.Mutex
	r       *rand.Rand
	flying  map[string]int
	refused map[string]bool // signatures that were refused as a whole
	applied map[*op]int
}

func (in *inspector) commit(_ context.Context, g sentGroup) (*clientv3.TxnResponse, error) {
	in.mu.Lock()
	ops := in.inspect(g)
	for _, o := range ops {
		if o.writesState {
			if in.flying[o.uid]++; in.flying[o.uid] > 1 {
				in.t.Errorf("two operations that write the state of %s are on their way", o.uid)
			}
		}
	}
	wait, fate := time.Duration(in.r.IntN(1000))*time.Microsecond, in.r.IntN(12)
	in.mu.Unlock()
	time.Sleep(wait)
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, o := range ops {
		if o.writesState {
			in.flying[o.uid]--
		}
	}
	switch fate {
	case 0, 1:
		in.refused[g.signature()] = true
		return nil, []error{rpctypes.ErrTooManyOps, rpctypes.ErrDuplicateKey, rpctypes.ErrRequestTooLarge}[in.r.IntN(3)]
	case 2:
		in.refused[g.signature()] = true
		return nil, rpctypes.ErrLeaseNotFound
	case 3:
		return nil, rpctypes.ErrTimeout
	}
	if in.applied == nil {
		in.applied = map[*op]int{}
	}
	for _, o := range ops {
		in.applied[o]++
	}
	return allow(g), nil
}

// inspect reckons every rule of groups from what was sent; in.mu is held.
func (in *inspector) inspect(g sentGroup) []*op {
	t := in.t
	if in.refused[g.signature()] {
		t.Errorf("a group that was refused as a whole was sent again as it was: %s", g.signature())
	}
	if n := countOf(g); n > mostOperations && len(g.then) > 1 {
		t.Errorf("a group counts %d operations", n)
	}
	var ops []*op
	bytes, jobs, leases := 0, map[string]bool{}, map[int64]bool{}
	writers, guards := map[string]int{}, map[string][]int{}
	for i, nested := range g.then {
		cmps, then, els := nested.Txn()
		o := in.mix.byGuard[string(cmps[0].KeyBytes())]
		ops = append(ops, o)
		if jobs[o.uid] {
			t.Errorf("two operations of %s share a group", o.uid)
		}
		jobs[o.uid] = true
		if o.lease != 0 {
			leases[o.lease] = true
		}
		if want := len(g.cmps) > 0; (o.rules > 0) != want || want && o.rules != ops[0].rules {
			t.Errorf("an operation planned under rules %d is in a group of %d", o.rules, ops[0].rules)
		}
		bytes += in.keysOf(i, cmps, append(slices.Clone(then), els...), writers, guards)
	}
	if len(leases) > 1 {
		t.Errorf("a group hangs on the leases %v", leases)
	}
	if bytes > mostBytes && len(g.then) > 1 {
		t.Errorf("a group has %d bytes", bytes)
	}
	for key, by := range guards {
		for _, i := range by {
			if w, written := writers[key]; written && w != i {
				t.Errorf("operation %d guards %s, which operation %d writes", i, key, w)
			}
		}
	}
	return ops
}

func (in *inspector) keysOf(i int, cmps []clientv3.Cmp, ops []clientv3.Op, writers map[string]int, guards map[string][]int) (bytes int) {
	for _, c := range cmps {
		guards[string(c.KeyBytes())] = append(guards[string(c.KeyBytes())], i)
	}
	for _, o := range ops {
		bytes += len(o.KeyBytes()) + len(o.ValueBytes())
		switch {
		case o.IsTxn():
			c, then, els := o.Txn()
			bytes += in.keysOf(i, c, append(slices.Clone(then), els...), writers, guards)
		case o.IsPut() || o.IsDelete():
			if w, written := writers[string(o.KeyBytes())]; written {
				in.t.Errorf("operations %d and %d write %s", w, i, o.KeyBytes())
			}
			if o.RangeBytes() != nil {
				in.t.Errorf("a range is deleted in a group: %s", o.KeyBytes())
			}
			writers[string(o.KeyBytes())] = i
		}
	}
	return bytes
}
