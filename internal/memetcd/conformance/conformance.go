// Package conformance states what the design relies on in etcd, as tests that a real server and the one
// in memory both have to pass. It judges nothing of ours; whoever has a cluster gives it as an Env and
// runs Tests. It starts no goroutine that outlives a test.
package conformance

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Env is the cluster under test.
type Env struct {
	// Client is a client without faults.
	Client *clientv3.Client
	// Prefix begins every key that the test may touch.
	Prefix string
	// MinTTL is the smallest lease in seconds.
	MinTTL int64
	// Slack is how much later than due something may happen here because the machine is busy.
	Slack time.Duration
	// Faulty makes a client on a link with faults.
	Faulty func(t *testing.T) Link
	// NewLeader has a new leader elected, or the only server started again.
	NewLeader func(t *testing.T)
	// NoSpace raises or clears the alarm.
	NoSpace func(t *testing.T, full bool)
}

// Link is a client's way to the cluster, with faults.
type Link interface {
	Client() *clientv3.Client
	// HoldRequests keeps what the client sends from now on from arriving.
	HoldRequests()
	// Caught waits until a request that contains marker is held. What the client sends after it, such
	// as that its caller has given up, is lost.
	Caught(t *testing.T, marker string)
	// Land lets the request that was caught arrive, and then breaks the connection.
	Land(t *testing.T)
	// HoldReplies keeps what the server sends from now on from arriving.
	HoldReplies()
	// Reset breaks the connection and ends the holding. What was held is lost.
	Reset()
}

// Test is one statement about etcd.
type Test struct {
	Name  string // the statement in short
	Says  string // and in full
	Alone bool   // it takes time or would disturb others: it needs a cluster of its own
	Quota int64  // of the cluster in bytes, which is then its own; 0 is the default
	Run   func(t *testing.T, e *Env)
}

// Tests are all statements, nested guards first.
func Tests() []Test {
	return slices.Concat(txnTests(), limitTests(), rangeTests(), watchTests(), leaseTests(), sessionTests(), sizeTests(), faultTests())
}

// patience is how long a test waits for what must happen.
const patience = 30 * time.Second

func must[T any](t *testing.T, what string) func(T, error) T {
	t.Helper()
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		return v
	}
}

// put puts a key and answers its revision.
func put(t *testing.T, c *clientv3.Client, key, value string, opts ...clientv3.OpOption) int64 {
	t.Helper()
	return must[*clientv3.PutResponse](t, "put "+key)(c.Put(t.Context(), key, value, opts...)).Header.Revision
}

func del(t *testing.T, c *clientv3.Client, key string, opts ...clientv3.OpOption) *clientv3.DeleteResponse {
	t.Helper()
	return must[*clientv3.DeleteResponse](t, "delete "+key)(c.Delete(t.Context(), key, opts...))
}

func get(t *testing.T, c *clientv3.Client, key string, opts ...clientv3.OpOption) *clientv3.GetResponse {
	t.Helper()
	return must[*clientv3.GetResponse](t, "get "+key)(c.Get(t.Context(), key, opts...))
}

// value answers the value of a key, or "absent".
func value(t *testing.T, c *clientv3.Client, key string) string {
	t.Helper()
	r := get(t, c, key)
	if len(r.Kvs) == 0 {
		return "absent"
	}
	return string(r.Kvs[0].Value)
}

func want[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func wantErr(t *testing.T, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: got error %v, want %v", what, got, want)
	}
}

// commit carries out one transaction.
func commit(t *testing.T, c *clientv3.Client, guards []clientv3.Cmp, then, otherwise []clientv3.Op) (*clientv3.TxnResponse, error) {
	t.Helper()
	return c.Txn(t.Context()).If(guards...).Then(then...).Else(otherwise...).Commit()
}

func ops(o ...clientv3.Op) []clientv3.Op      { return o }
func guards(g ...clientv3.Cmp) []clientv3.Cmp { return g }

func absent(key string) clientv3.Cmp { return clientv3.Compare(clientv3.CreateRevision(key), "=", 0) }
func exists(key string) clientv3.Cmp { return clientv3.Compare(clientv3.CreateRevision(key), ">", 0) }

// nested is the answer of the nested transaction at a place.
func nested(r *clientv3.TxnResponse, i int) *pb.TxnResponse { return r.Responses[i].GetResponseTxn() }

// next waits for a response of a watch.
func next(t *testing.T, w clientv3.WatchChan) clientv3.WatchResponse {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	select {
	case r, ok := <-w:
		if !ok {
			t.Fatal("the watch has ended")
		}
		return r
	case <-ctx.Done():
		t.Fatal("the watch says nothing")
	}
	return clientv3.WatchResponse{}
}

// events waits for n events of a watch.
func events(t *testing.T, w clientv3.WatchChan, n int) []*clientv3.Event {
	t.Helper()
	var all []*clientv3.Event
	for len(all) < n {
		r := next(t, w)
		if r.Err() != nil {
			t.Fatalf("watch: %v", r.Err())
		}
		all = append(all, r.Events...)
	}
	if len(all) > n {
		t.Fatalf("watch: got %d events, want %d: %v", len(all), n, all)
	}
	return all
}

// describe writes an event as one word, such as "PUT a=1@7".
func describe(ev *clientv3.Event, prefix string) string {
	s := ev.Type.String() + " " + string(ev.Kv.Key[len(prefix):])
	if ev.Type == clientv3.EventTypePut {
		s += "=" + string(ev.Kv.Value)
	}
	if ev.PrevKv != nil {
		s += " was " + string(ev.PrevKv.Value)
	}
	return s
}

func describeAll(evs []*clientv3.Event, prefix string) string {
	all := ""
	for i, ev := range evs {
		if i > 0 {
			all += ", "
		}
		all += describe(ev, prefix)
	}
	return all
}
