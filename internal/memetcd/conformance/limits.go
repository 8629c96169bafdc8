package conformance

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

func limitTests() []Test {
	return []Test{
		{Name: "OperationsAreCountedAlongTheDeepestPath", Run: operationCount,
			Says: "At each level the longest of compares, then and else counts; the sum along a path of nested transactions may be 128, however many there are side by side."},
		{Name: "ARequestHoldsOneAndAHalfMiB", Run: requestBytes,
			Says: "A write of 1.5 MiB and its wrapping is refused as too large, by the client at 2 MiB, and nothing is applied; just below it is taken."},
	}
}

// gets are n reads, which may repeat a key.
func gets(key string, n int) []clientv3.Op {
	all := make([]clientv3.Op, n)
	for i := range all {
		all[i] = clientv3.OpGet(key)
	}
	return all
}

func operationCount(t *testing.T, e *Env) {
	a := e.Prefix + "a"
	compares := func(n int) []clientv3.Cmp {
		all := make([]clientv3.Cmp, n)
		for i := range all {
			all[i] = absent(a)
		}
		return all
	}
	side := func(n int, then []clientv3.Op) []clientv3.Op { // n nested transactions side by side
		all := make([]clientv3.Op, n)
		for i := range all {
			all[i] = clientv3.OpTxn(nil, then, nil)
		}
		return all
	}
	for _, c := range []struct {
		says      string
		guards    []clientv3.Cmp
		then      []clientv3.Op
		otherwise []clientv3.Op
		fits      bool
	}{
		{"128 operations", nil, gets(a, 128), nil, true},
		{"129 operations", nil, gets(a, 129), nil, false},
		{"129 in else, not taken", nil, nil, gets(a, 129), false},
		{"128 in each of compares, then and else", compares(128), gets(a, 128), gets(a, 128), true},
		{"129 compares", compares(129), nil, nil, false},
		{"64 nested with 64 each", nil, side(64, gets(a, 64)), nil, true},
		{"64 nested with 65 each", nil, side(64, gets(a, 65)), nil, false},
		{"125 nested with 3 each", nil, side(125, gets(a, 3)), nil, true},
		{"126 nested with 3 each", nil, side(126, gets(a, 3)), nil, false},
		{"outer compares count against the nested", compares(100), side(1, gets(a, 29)), nil, false},
		{"nested compares count as operations do", nil, ops(clientv3.OpTxn(compares(127), gets(a, 127), nil)), nil, true},
		{"one too many nested compares", nil, ops(clientv3.OpTxn(compares(128), nil, nil)), nil, false},
		{"three levels", nil, side(2, side(2, gets(a, 124))), nil, true},
		{"three levels, one too many", nil, side(2, side(2, gets(a, 125))), nil, false},
	} {
		_, err := commit(t, e.Client, c.guards, c.then, c.otherwise)
		if c.fits && err != nil {
			t.Errorf("%s: got %v, want it to fit", c.says, err)
		}
		if !c.fits {
			wantErr(t, c.says, err, rpctypes.ErrTooManyOps)
		}
	}
}

func requestBytes(t *testing.T, e *Env) {
	const limit = 3 << 19
	a := e.Prefix + "a"
	of := func(n int) string { return strings.Repeat("x", n) }
	start := put(t, e.Client, a, "small")
	_, err := e.Client.Put(t.Context(), a, of(limit))
	wantErr(t, "put of 1.5 MiB", err, rpctypes.ErrRequestTooLarge)
	_, err = commit(t, e.Client, nil, ops(clientv3.OpPut(a, of(limit/2)), clientv3.OpPut(a+"b", of(limit/2))), nil)
	wantErr(t, "transaction of 1.5 MiB", err, rpctypes.ErrRequestTooLarge)
	_, err = commit(t, e.Client, guards(absent(a)), ops(clientv3.OpPut(a, of(limit/2))), ops(clientv3.OpPut(a, of(limit/2))))
	wantErr(t, "1.5 MiB in both branches together", err, rpctypes.ErrRequestTooLarge)
	_, err = e.Client.Put(t.Context(), a, of(2<<20))
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("put of 2 MiB: got %v, want ResourceExhausted", err)
	}
	want(t, "revision", get(t, e.Client, a).Header.Revision, start)
	// What wraps a put is the key, some tags and lengths, and a request id of eight to ten bytes.
	if _, err = e.Client.Put(t.Context(), a, of(limit-len(a)-64)); err != nil {
		t.Errorf("put a little below 1.5 MiB: %v", err)
	}
	_, err = e.Client.Put(t.Context(), a, of(limit-len(a)-16))
	wantErr(t, "put a little above what the wrapping leaves", err, rpctypes.ErrRequestTooLarge)
	_, err = commit(t, e.Client, guards(exists(a)), ops(clientv3.OpPut(a, of(700_000)), clientv3.OpPut(a+"b", of(700_000))), nil)
	if err != nil {
		t.Errorf("transaction of 1.4 MB: %v", err)
	}
	del(t, e.Client, e.Prefix, clientv3.WithPrefix())
	_, err = commit(t, e.Client, nil, gets(fmt.Sprintf("%s%s", a, of(20_000)), 90), nil)
	if err != nil {
		t.Errorf("a read-only transaction is not limited by 1.5 MiB: %v", err)
	}
}
