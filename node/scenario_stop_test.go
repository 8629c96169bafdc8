package node

import (
	"testing"
	"testing/synctest"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorumcron/quorumcron/scheduler"
)

func TestSA49_StoppedMemberKeepsItsSessionUntilItsRunEnds(t *testing.T) {
	patient := func(c *Config) { c.DrainTimeout = 90 * time.Second }
	t.Run("among others: they take over within the hand-over", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newScene(t, "2026-03-10T12:00:00Z", "b")
			defer s.close()
			m := s.add("a", patient)
			s.ready()
			idle := s.many(20, time.Second, "50ms")
			long := s.triggerOn(m, rarely("long", "60s"))
			stopped := s.wall()
			m.stop()
			time.Sleep(handOver + 100*time.Millisecond)
			if m.Ready().Ready {
				t.Error("it says that it is ready")
			}
			handed := s.wall()
			s.until(long.at.Add(59 * time.Second))
			resp, err := s.etcd.Client(t.Context()).Get(t.Context(), "/quorumcron/locks/"+long.id.Firing.UID, clientv3.WithPrefix())
			if err != nil || len(resp.Kvs) != 1 || resp.Kvs[0].CreateRevision != long.id.Token {
				t.Errorf("the lock of the run is gone while it runs: %v, %v", resp, err)
			}
			if err := <-m.done; err != nil {
				t.Error(err)
			}
			ended := s.wall()
			m.end()
			delete(s.members, "a")
			if after := ended.Sub(long.at.Add(time.Minute)); after < 0 || after > time.Second {
				t.Errorf("it ended %s after its run, want at once", after)
			}
			run := s.record(long.id.Firing)
			if len(run.Attempts) != 1 || run.Last().Verdict != scheduler.Succeeded || s.sightOf(long.id.Firing).cause != nil {
				t.Errorf("the run: %+v, and it saw %v; want one attempt that SUCCEEDED", run, s.sightOf(long.id.Firing).cause)
			}
			for _, one := range s.seen(idle...) {
				if one.id.Member == "a" && one.at.After(handed) {
					t.Errorf("it claimed %s %s after it was told to stop", one.id.Firing.Key(), one.at.Sub(stopped))
				}
			}
			s.checkStarts()
			s.allSucceeded(idle, s.wall().Add(-2*time.Second))
			if late := latest(s.seen(idle...)); late > time.Second {
				t.Errorf("one firing was %s late because of the stop", late)
			}
		})
	})
	t.Run("alone: it claims nothing more", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newScene(t, "2026-03-10T12:00:00Z")
			defer s.close()
			m := s.add("only", patient)
			s.ready()
			idle := s.many(20, time.Second, "50ms")
			long := s.trigger(s.apply(rarely("long", "60s")))
			stopped := s.wall()
			m.stop()
			if err := <-m.done; err != nil {
				t.Error(err)
			}
			m.end()
			delete(s.members, "only")
			for _, one := range s.seen(idle...) {
				if one.at.After(stopped) {
					t.Errorf("it claimed %s %s after it was told to stop", one.id.Firing.Key(), one.at.Sub(stopped))
				}
			}
			s.add("next")
			s.ready()
			if got := s.record(long.id.Firing).Last(); got.Verdict != scheduler.Succeeded {
				t.Errorf("the run is %s(%s), want SUCCEEDED", got.Verdict, got.Reason)
			}
		})
	})
}

func TestSA50_StopsAroundDueInstantsLoseAndRepeatNothing(t *testing.T) {
	rng := random(t)
	synctest.Test(t, func(t *testing.T) {
		names := []string{"a", "b", "c"}
		s := newScene(t, "2026-03-10T12:00:00Z", names...)
		defer s.close()
		jobs := s.many(20, time.Second, "50ms")
		for range 60 { // of twenty jobs each
			for _, m := range s.members {
				m.link.Delay(2*time.Millisecond, 2*time.Millisecond)
			}
			name := names[rng.IntN(len(names))]
			s.until(s.next(time.Second, 200*time.Millisecond).Add(time.Duration(rng.IntN(200)-100) * time.Millisecond))
			s.leave(s.members[name])
			s.add(name)
			s.ready()
		}
		time.Sleep(2 * time.Second)
		s.until(s.next(time.Second, 0).Add(500 * time.Millisecond)) // in the half of a second in which nothing ends
		s.checkStarts()
		s.allSucceeded(jobs, s.wall().Add(-2*time.Second))
		if late := latest(s.seen()); late > time.Second {
			t.Errorf("one firing was %s late because of a stop", late)
		}
		t.Logf("%d starts, the latest %s late", len(s.seen()), latest(s.seen()))
	})
}
