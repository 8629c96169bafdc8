package chaos

import (
	"context"
	"fmt"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/quorumcron/quorumcron/chaos-tests/collect"
	"github.com/quorumcron/quorumcron/chaos-tests/history"
)

// TestTheWatchOfEtcdMissesNothing kills etcd under the watch, and compacts what it has seen: every write
// is in the log, in order. One that begins when history is compacted says which revisions it missed.
func TestTheWatchOfEtcdMissesNothing(t *testing.T) {
	c := newCluster(t)
	c.startEtcd()
	kv := dialKV(t, c.etcd.address)
	begin := func() *collect.Watch {
		w, err := collect.Start(t.Context(), []string{c.etcd.address}, "/p/")
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	first := begin()
	written := 0
	put := func(times int) {
		for range times {
			kv.put(fmt.Sprintf("/p/k%d", written), []byte("v"))
			written++
		}
		kv.put("/other", []byte("not below the prefix"))
	}
	put(50)
	c.etcd.kill()
	c.etcd.start()
	c.etcd.healthy()
	put(50)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	eventually(t, patience, "all noted before it is compacted", func() error {
		if seen, head := first.Seen(), kv.head(ctx); seen < head {
			return fmt.Errorf("seen up to %d of %d: %v", seen, head, first.Fault())
		}
		return nil
	})
	head := kv.compact(ctx)
	put(50)
	log := first.Stop(ctx)
	if len(log.Gaps) > 0 || log.Seen < log.Head {
		t.Errorf("the log has gaps %v, and ends at %d of %d", log.Gaps, log.Seen, log.Head)
	}
	var revision int64
	for i, e := range log.Events {
		if e.Key != fmt.Sprintf("k%d", i) || e.Revision <= revision || strings.HasPrefix(e.Key, "/") {
			t.Fatalf("event %d is of %s at revision %d, after %d", i, e.Key, e.Revision, revision)
		}
		revision = e.Revision
	}
	if len(log.Events) != written {
		t.Errorf("%d events, want %d", len(log.Events), written)
	}

	second := begin().Stop(ctx)
	if want := []history.Gap{{From: 1, To: head - 1}}; len(second.Gaps) != 1 || second.Gaps[0] != want[0] {
		t.Errorf("a watch that begins after the compaction has gaps %v, want %v", second.Gaps, want)
	}
	if n := len(second.Events); n < 50 || n >= written {
		t.Errorf("it has %d events, want those after the compaction", n)
	}
	if got := (history.History{Etcd: second}).Judge(history.Needs{}); got.Verdict != history.Inconclusive {
		t.Errorf("what it saw is judged %s, want inconclusive", got.Verdict)
	}
}

// compact makes etcd forget all revisions before the one it is at, and returns that.
func (kv keyValues) compact(ctx context.Context) int64 {
	kv.t.Helper()
	head := kv.head(ctx)
	if _, err := kv.client.Compact(ctx, &pb.CompactionRequest{Revision: head, Physical: true}); err != nil {
		kv.t.Fatal(err)
	}
	return head
}

// head is the revision that etcd is at.
func (kv keyValues) head(ctx context.Context) int64 {
	kv.t.Helper()
	answer, err := kv.client.Range(ctx, &pb.RangeRequest{Key: []byte("/")})
	if err != nil {
		kv.t.Fatal(err)
	}
	return answer.Header.GetRevision()
}

// TestTheWatchOfEtcdWaitsForNoMember freezes one of three members: what is written meanwhile is noted at
// once.
func TestTheWatchOfEtcdWaitsForNoMember(t *testing.T) {
	c := newCluster(t)
	c.startEtcds(3)
	w, err := collect.Start(t.Context(), strings.Split(c.endpoints(), ","), "/p/")
	if err != nil {
		t.Fatal(err)
	}
	leader := c.leader()
	var frozen *etcd
	for _, e := range c.etcds() {
		if e != leader {
			frozen = e
		}
	}
	kv := dialKV(t, leader.address)
	kv.put("/p/before", []byte("v"))
	frozen.freeze()
	for i := range 20 {
		kv.put(fmt.Sprintf("/p/k%d", i), []byte("v"))
	}
	head := kv.head(t.Context())
	eventually(t, patience, "all noted, though a member is frozen", func() error {
		if seen := w.Seen(); seen < head {
			return fmt.Errorf("seen up to %d of %d: %v", seen, head, w.Fault())
		}
		return nil
	})
	frozen.thaw()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if log := w.Stop(ctx); len(log.Events) != 21 || len(log.Gaps) > 0 || log.Seen < log.Head {
		t.Errorf("%d events, want 21; gaps %v, seen %d of %d", len(log.Events), log.Gaps, log.Seen, log.Head)
	}
}
