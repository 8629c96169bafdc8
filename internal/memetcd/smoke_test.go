package memetcd

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

func TestSessionElectionAndWatchRunInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{})
		defer s.Close()
		ctx := t.Context()
		a, b := s.Link("a"), s.Link("b")
		ca, cb := a.Client(ctx), b.Client(ctx)
		defer ca.Close()
		defer cb.Close()
		wch := cb.Watch(clientv3.WithRequireLeader(ctx), "x/", clientv3.WithPrefix(), clientv3.WithPrevKV())
		sa, err := concurrency.NewSession(ca, concurrency.WithTTL(10))
		if err != nil {
			t.Fatal(err)
		}
		sb, err := concurrency.NewSession(cb, concurrency.WithTTL(10))
		if err != nil {
			t.Fatal(err)
		}
		ea, eb := concurrency.NewElection(sa, "el"), concurrency.NewElection(sb, "el")
		if err := ea.Campaign(ctx, "a"); err != nil {
			t.Fatal(err)
		}
		won := make(chan time.Time, 1)
		go func() {
			if err := eb.Campaign(ctx, "b"); err == nil {
				won <- time.Now()
			}
		}()
		if _, err := ca.Put(ctx, "x/1", "v", clientv3.WithLease(sa.Lease())); err != nil {
			t.Fatal(err)
		}
		r := <-wch
		if len(r.Events) != 1 || string(r.Events[0].Kv.Value) != "v" {
			t.Fatalf("got %v", r)
		}
		time.Sleep(time.Hour)
		cut := time.Now()
		a.Cut()
		at := <-won
		t.Logf("b won %v after the cut", at.Sub(cut))
		r = <-wch
		t.Logf("%v", r.Events)
		<-sa.Done()
		t.Logf("a knew %v after the cut", time.Since(cut))
		tctx, cancel := context.WithTimeout(ctx, time.Second)
		_, err = ca.Get(tctx, "x")
		cancel()
		t.Logf("get: %v %T", err, err)
		time.Sleep(20 * time.Second)
		t.Logf("%+v", a.Counts())
		a.Mend()
		if _, err := ca.Get(ctx, "x"); err != nil {
			t.Fatal(err)
		}
		sb.Close()
		t.Logf("%+v", s.Stats())
	})
}
