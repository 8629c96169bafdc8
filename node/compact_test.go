package node

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorumcron/quorumcron/internal/memetcd"
	"github.com/quorumcron/quorumcron/scheduler"
)

func compacting(c *Config) { c.Compact = 5 * time.Minute }

// readable says whether the revision can still be read.
func (s *scene) readable(client *clientv3.Client, revision int64) bool {
	s.t.Helper()
	_, err := client.Get(s.t.Context(), "/", clientv3.WithRev(revision), clientv3.WithCountOnly())
	if err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
		s.t.Fatal(err)
	}
	return err == nil
}

func TestDispatcherKeepsTheHistoryOfAnInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "2026-03-10T12:00:00Z")
		s.add("a", compacting)
		s.add("b", compacting)
		s.ready()
		defer s.close()
		job := s.apply(ticking("tick", 10*time.Second, "50ms"))
		witness := s.etcd.Link("witness").Client(t.Context())
		defer witness.Close()
		revisions := map[int]int64{}
		for minute := range 30 {
			revisions[minute] = s.etcd.Rev()
			time.Sleep(time.Minute)
			for age := 1; age <= min(5, minute+1); age++ {
				if !s.readable(witness, revisions[minute+1-age]) {
					t.Errorf("minute %d: history of %d minutes ago is gone", minute+1, age)
				}
			}
			if minute >= 14 && s.readable(witness, revisions[minute+1-14]) {
				t.Errorf("minute %d: history of 14 minutes ago is still there", minute+1)
			}
		}
		s.crashDispatcher() // the next one begins anew
		compacted := s.etcd.Stats().Compactions
		if compacted < 4 {
			t.Errorf("%d compactions in half an hour, want one for each five minutes or so", compacted)
		}
		time.Sleep(4 * time.Minute)
		if n := s.etcd.Stats().Compactions; n != compacted {
			t.Errorf("%d compactions by a dispatcher that has been one for four minutes", n-compacted)
		}
		time.Sleep(10 * time.Minute)
		if n := s.etcd.Stats().Compactions; n == compacted {
			t.Error("the next dispatcher does not compact")
		}
		s.checkStarts()
		s.balance(job, s.wall().Add(-12*time.Second))
	})
}

func TestNobodyCompactsUnlessTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "2026-03-10T12:00:00Z", "a")
		defer s.close()
		s.apply(ticking("tick", 10*time.Second, "50ms"))
		time.Sleep(time.Hour)
		if n := s.etcd.Stats().Compactions; n != 0 {
			t.Errorf("%d compactions, want none", n)
		}
	})
}

// TestCompactionOfAFormerDispatcherChangesNothing holds its request until another dispatcher has gone
// further.
func TestCompactionOfAFormerDispatcherChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "2026-03-10T12:00:00Z")
		s.add("a", compacting)
		s.add("b", compacting)
		s.ready()
		defer s.close()
		job := s.apply(ticking("tick", 10*time.Second, "50ms"))
		former := s.dispatcher()
		held := former.link.Hold(func(c memetcd.Call) bool { return c.Method == "Compact" })
		<-held.Caught()
		former.link.Cut()
		time.Sleep(20 * time.Minute)
		former.link.Mend()
		if s.dispatcher() == former {
			t.Fatal("it is the dispatcher still, or again")
		}
		compacted, revision := s.etcd.Stats().Compactions, s.etcd.Rev()
		if compacted == 0 {
			t.Fatal("the other dispatcher has not compacted")
		}
		if _, err := held.Land(); !errors.Is(err, rpctypes.ErrGRPCCompacted) {
			t.Errorf("the old request was answered %v, want that it is compacted already", err)
		}
		if n := s.etcd.Stats().Compactions; n != compacted || s.etcd.Rev() < revision {
			t.Errorf("%d compactions by the old request", n-compacted)
		}
		time.Sleep(recovery)
		s.checkStarts()
		s.balance(job, s.wall().Add(-12*time.Second))
	})
}

// TestMemberThatWasAwayForLongerThanTheHistoryIsKept reads again what it has missed.
func TestMemberThatWasAwayForLongerThanTheHistoryIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "2026-03-10T12:00:00Z")
		s.add("a", compacting)
		s.add("b", compacting)
		s.ready()
		defer s.close()
		job, other := s.apply(ticking("tick", 10*time.Second, "50ms")), s.apply(ticking("other", 10*time.Second, "50ms"))
		away := s.members["a"]
		if s.dispatcher() == away {
			away = s.members["b"]
		}
		before := s.etcd.Rev()
		away.link.FreezeWatches()
		time.Sleep(5 * time.Minute)
		if _, err := s.dispatcher().Pause(t.Context(), job.Name, 0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Minute)
		witness := s.etcd.Link("witness").Client(t.Context())
		defer witness.Close()
		if s.readable(witness, before) || away.link.Counts().WatchesHeld == 0 {
			t.Fatal("its watches were not held past the compaction: the fault did not take hold")
		}
		away.link.ThawWatches()
		time.Sleep(marksEvery + eventLost + 5*time.Second)
		if _, err := s.dispatcher().Resume(t.Context(), job.Name, 0); err != nil {
			t.Fatal(err)
		}
		from := s.next(10*time.Second, recovery)
		s.until(from.Add(59 * time.Second))
		for _, j := range []scheduler.Job{job, other} {
			if n := len(between(s.seen(j), from, s.wall())); n != 6 {
				t.Errorf("job %s: %d starts in a minute after the watches were repaired, want 6", j.Name, n)
			}
			s.balance(j, s.wall().Add(-12*time.Second))
		}
		s.checkStarts()
	})
}
