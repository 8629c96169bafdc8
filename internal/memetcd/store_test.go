package memetcd_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/quorumcron/quorumcron/internal/memetcd"
)

func TestWithoutQuorumNothingIsDecided(t *testing.T) {
	bubble(t, func(w *world) {
		lease, err := w.there.Grant(w.Context(), 10)
		w.wantErr("grant", err, nil)
		_, err = w.there.Put(w.Context(), "leased", "x", clientv3.WithLease(lease.ID))
		w.wantErr("put", err, nil)
		watch := w.there.Watch(clientv3.WithRequireLeader(w.Context()), "leased")
		w.store.LoseQuorum()
		start := time.Now()
		o := <-w.put("a", time.Hour)
		w.wantErr("put", o.err, rpctypes.ErrTimeout)
		w.want("it took", o.took, 7*time.Second)
		r := <-watch
		w.wantErr("watch that requires a leader", r.Err(), rpctypes.ErrNoLeader)
		_, err = w.there.Get(w.Context(), "leased", clientv3.WithSerializable())
		w.wantErr("serializable read", err, nil)
		_, err = w.there.Put(clientv3.WithRequireLeader(w.Context()), "b", "x")
		w.wantErr("put that requires a leader", err, rpctypes.ErrNoLeader)
		patient := w.put("c", time.Hour)
		time.Sleep(5 * time.Second)
		w.store.RegainQuorum()
		w.wantErr("put that was waiting", (<-patient).err, nil)
		ttl, err := w.there.TimeToLive(w.Context(), lease.ID)
		w.wantErr("time to live", err, nil)
		w.want("the lease has, after "+time.Since(start).String(), ttl.TTL, int64(11)) // and an election time-out
		w.want("what timed out", w.exists("a"), false)
		if w.store.Stats().NoQuorum == 0 {
			w.Error("no request found the quorum gone")
		}
	})
}

// Sessions hold through a loss of quorum that ends before their client gives them up.
func TestSessionsOutliveAShortLossOfQuorum(t *testing.T) {
	bubble(t, func(w *world) {
		s, err := concurrency.NewSession(w.here, concurrency.WithTTL(10))
		if err != nil {
			w.Fatal(err)
		}
		time.Sleep(time.Minute)
		w.store.LoseQuorum()
		time.Sleep(5 * time.Second)
		w.store.RegainQuorum()
		time.Sleep(time.Minute)
		select {
		case <-s.Done():
			w.Error("the session has ended")
		default:
		}
		w.want("expired", w.store.Stats().LeasesExpired, int64(0))
		w.wantErr("close", s.Close(), nil)
	})
}

func TestHistoryAndCountersTellWhatWasDone(t *testing.T) {
	bubble(t, func(w *world) {
		var seen []memetcd.Revision
		w.store.OnCommit(func(r memetcd.Revision) { seen = append(seen, r) })
		_, err := w.here.Put(w.Context(), "state", "1")
		w.wantErr("put", err, nil)
		before := w.store.Stats()
		claim := clientv3.OpTxn([]clientv3.Cmp{clientv3.Compare(clientv3.ModRevision("state"), "=", 2)},
			[]clientv3.Op{clientv3.OpPut("state", "2"), clientv3.OpPut("lock", "x")}, nil)
		r, err := w.here.Txn(w.Context()).Then(claim).Commit()
		w.wantErr("begin", err, nil)
		_, err = w.there.Txn(w.Context()).Then(clientv3.OpDelete("lock"), clientv3.OpPut("run", "x")).Commit()
		w.wantErr("finish", err, nil)
		after := w.store.Stats()
		w.want("key operations of a firing", after.Puts+after.Deletes-before.Puts-before.Deletes, int64(4))
		w.want("proposals of a firing", after.Proposals-before.Proposals, int64(2))
		history := w.store.History(r.Header.Revision)
		w.want("revisions", len(history), 2)
		w.want("by", history[0].By+" "+history[1].By, "broken whole")
		w.want("events", len(history[0].Events)+len(history[1].Events), 4)
		w.want("what was there before", string(history[0].Events[0].PrevKv.Value), "1")
		w.want("seen by the hook", len(seen), 3)
	})
}

// The real server panics too, on applying it, and again on each start.
func TestIgnoringWhatTheTransactionDeletedPanics(t *testing.T) {
	bubble(t, func(w *world) {
		w.wantErr("put", (<-w.put("a", time.Second)).err, nil)
		defer func() {
			if recover() == nil {
				w.Error("no panic")
			}
		}()
		_, _ = w.here.Txn(w.Context()).Then(clientv3.OpDelete("a", clientv3.WithFromKey()), clientv3.OpPut("a", "", clientv3.WithIgnoreValue())).Commit()
	})
}

func TestAutoCompactionKeepsTheLastMinutes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memetcd.New(memetcd.Config{AutoCompact: 5 * time.Minute})
		defer s.Close()
		c := s.Client(t.Context())
		for range 120 {
			time.Sleep(10 * time.Second)
			if _, err := c.Put(t.Context(), "a", "x"); err != nil {
				t.Fatal(err)
			}
		}
		history := s.History(0)
		if kept := time.Since(history[0].At); kept < 5*time.Minute || kept > 11*time.Minute {
			t.Errorf("history of %v is kept, want five to ten minutes", kept)
		}
		if _, err := c.Get(t.Context(), "a", clientv3.WithRev(3)); err == nil {
			t.Error("an old revision can be read")
		}
	})
}

func TestProgressIsToldUnaskedEachTenMinutes(t *testing.T) {
	bubble(t, func(w *world) {
		watch := w.here.Watch(w.Context(), "a", clientv3.WithProgressNotify())
		start := time.Now()
		w.wantErr("put", (<-w.put("b", time.Second)).err, nil)
		r := <-watch
		w.want("is progress", r.IsProgressNotify(), true)
		w.want("after", time.Since(start), 10*time.Minute)
		w.want("revision", r.Header.Revision, w.store.Rev())
	})
}

// TestDay is what the bubble tests of the node do to it: a day of three members with sessions, an
// election and two watches for each shard, and fifty jobs that fire every five minutes.
func TestDay(t *testing.T) {
	t.Parallel()
	start := time.Now()
	var stats memetcd.Stats
	synctest.Test(t, func(t *testing.T) {
		s := memetcd.New(memetcd.Config{AutoCompact: 5 * time.Minute})
		defer s.Close()
		for m := range 3 {
			member(t, s, m)
		}
		time.Sleep(24 * time.Hour)
		stats = s.Stats()
	})
	const firings = 50 * 24 * 11
	if stats.Txns < 2*firings || stats.WatchEvents < firings {
		t.Errorf("the day was too quiet: %+v", stats)
	}
	t.Logf("%d transactions, %d events to watches in %v", stats.Txns, stats.WatchEvents, time.Since(start))
}

func member(t *testing.T, s *memetcd.Store, m int) {
	name := fmt.Sprintf("member%d", m)
	c := s.Link(name).Client(t.Context())
	ctx, stop := context.WithCancel(t.Context())
	var leases []clientv3.LeaseID
	for range 2 {
		session, err := concurrency.NewSession(c, concurrency.WithTTL(10))
		if err != nil {
			t.Fatal(err)
		}
		leases = append(leases, session.Lease())
		go func() { _ = concurrency.NewElection(session, "election").Campaign(ctx, name) }()
	}
	t.Cleanup(stop)
	for shard := m; shard < 256; shard += 3 {
		for _, kind := range []string{"jobs", "triggers"} {
			w := c.Watch(clientv3.WithRequireLeader(ctx), fmt.Sprintf("%s/%02x/", kind, shard), clientv3.WithPrefix())
			go func() {
				for range w {
				}
			}()
		}
	}
	for job := m; job < 50; job += 3 {
		go func() {
			for pause(ctx, time.Duration(job*6)*time.Second+time.Duration(m)*time.Millisecond); pause(ctx, 5*time.Minute); {
				id := fmt.Sprintf("%s-%02d", name, job)
				fire(ctx, c, leases[1], id, fmt.Sprintf("triggers/%02x/%s", (job*3+m)%256, id))
			}
		}()
	}
}

func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// fire begins and finishes one attempt, with a trigger that the owner is told of.
func fire(ctx context.Context, c *clientv3.Client, lease clientv3.LeaseID, id, trigger string) {
	_, _ = c.Put(ctx, trigger, "go")
	value := string(make([]byte, 200))
	_, _ = c.Txn(ctx).Then(clientv3.OpTxn(
		[]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision("lock/"+id), "=", 0)},
		[]clientv3.Op{clientv3.OpPut("state/"+id, value), clientv3.OpPut("lock/"+id, "nonce", clientv3.WithLease(lease)), clientv3.OpDelete(trigger)}, nil)).Commit()
	pause(ctx, 2*time.Second)
	_, _ = c.Txn(ctx).Then(clientv3.OpTxn(
		[]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision("lock/"+id), ">", 0)},
		[]clientv3.Op{clientv3.OpDelete("lock/" + id), clientv3.OpPut("run/"+id, value)}, nil)).Commit()
}
