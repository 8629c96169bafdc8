package node

import (
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorumcron/quorumcron/internal/memetcd"
	"github.com/quorumcron/quorumcron/scheduler"
)

// grantedAfter are the grants of a job that etcd committed after a revision.
func (s *scene) grantedAfter(job scheduler.Job, revision int64) []grant {
	var later []grant
	for _, g := range s.granted(job) {
		if g.token > revision {
			later = append(later, g)
		}
	}
	return later
}

func TestSA20_PauseHoldsThoughTheOwnersWatchIsDeaf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "2026-03-10T12:00:00Z", "a", "b")
		defer s.close()
		paused, other := s.apply(ticking("paused", time.Second, "50ms")), s.apply(ticking("other", time.Second, "50ms"))
		time.Sleep(3500 * time.Millisecond)
		owner := s.owner(paused)
		owner.link.FreezeWatches()
		edit, err := s.any().Pause(t.Context(), paused.Name, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.etcd.Compact(s.etcd.Rev()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(marksEvery + eventLost + 5*time.Second)
		if owner.link.Counts().WatchesHeld == 0 {
			t.Fatal("no watch was held up: the fault did not take hold")
		}
		if later := s.grantedAfter(paused, edit.Job.Revision); len(later) != 0 {
			t.Errorf("granted after the reply to the pause: %+v", later)
		}
		if s.metric("watch_events_lost_total", "") == 0 || s.alarmed("watch event lost") == 0 {
			t.Error("nobody was told that the watch is behind")
		}
		owner.link.ThawWatches()
		if _, err := s.any().Resume(t.Context(), paused.Name, 0); err != nil {
			t.Fatal(err)
		}
		from := s.next(time.Second, 5*time.Second)
		s.until(from.Add(9500 * time.Millisecond))
		for _, job := range []scheduler.Job{paused, other} {
			if n := len(between(s.seen(job), from, s.wall())); n != 10 {
				t.Errorf("job %s: %d starts in 10 s after the watch was repaired, want 10", job.Name, n)
			}
			s.balance(job, s.wall().Add(-2*time.Second))
		}
		s.checkStarts()
	})
}

// knows returns the definitions that the member plans by, with their revisions.
func (m *bubbleMember) knows() map[scheduler.JobName]int64 {
	answer := make(chan map[scheduler.JobName]int64, 1)
	m.inbox.post(func(scheduler.Reading) {
		all := map[scheduler.JobName]int64{}
		for name, t := range m.view.jobs {
			all[name] = t.job.Revision
		}
		answer <- all
	})
	return <-answer
}

// owned returns the definitions in etcd of the jobs that a member owns, with their revisions.
func (s *scene) owned(m *bubbleMember) map[scheduler.JobName]int64 {
	s.t.Helper()
	jobs, err := s.any().Jobs(s.t.Context(), scheduler.JobQuery{Limit: 10_000})
	if err != nil {
		s.t.Fatal(err)
	}
	all := map[scheduler.JobName]int64{}
	for _, view := range jobs {
		if view.Owner == m.cfg.Name {
			all[view.Job.Name] = view.Job.Revision
		}
	}
	return all
}

func TestSA21_MemberBehindACompactionReadsEverythingAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "2026-03-10T12:00:00Z", "a", "b", "c")
		defer s.close()
		jobs := s.many(100, 10*time.Second, "50ms")
		behind := s.owner(jobs[0])
		behind.link.Cut()
		behind.unreachable = true
		for round := range 10 {
			for i := range jobs {
				jobs[i].Labels = map[string]string{"round": fmt.Sprint(round)}
				jobs[i] = s.apply(jobs[i])
			}
		}
		for i := 90; i < 100; i++ {
			if _, err := s.any().Delete(t.Context(), jobs[i].Name, 0); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.etcd.Compact(s.etcd.Rev()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(ttl / 2) // it keeps its sessions and its shards
		compacted := s.etcd.Stats().WatchesCompacted
		behind.link.Mend()
		behind.unreachable = false
		time.Sleep(5 * time.Second)
		if s.etcd.Stats().WatchesCompacted == compacted {
			t.Fatal("no watch was cancelled for want of history: the fault did not take hold")
		}
		for name, m := range s.members {
			known := m.knows()
			for _, job := range jobs[90:] {
				delete(known, job.Name) // the tombstones
			}
			if want := s.owned(m); !maps.Equal(known, want) || len(want) == 0 {
				t.Errorf("member %s plans %d jobs, and %d that it owns are in etcd at other revisions", name, len(known), len(want))
			}
		}
		if n := s.metric("watch_resyncs_total", ""); n == 0 {
			t.Error("no resync was counted")
		}
		s.until(s.next(10*time.Second, 0).Add(time.Second))
		s.checkStarts()
		s.allSucceeded(jobs[:90], s.wall().Add(-time.Second))
	})
}

func TestSA22_LostEventsAreFoundWithinAMinuteAndStartNothingWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "2026-03-10T12:00:00Z", "only")
		defer s.close()
		m := s.members["only"]
		deleted := s.apply(ticking("deleted", time.Second, "50ms"))
		time.Sleep(2500 * time.Millisecond)
		m.link.DropEvents(1, func(e *clientv3.Event) bool { return strings.HasSuffix(string(e.Kv.Key), "/deleted") })
		m.link.DropEvents(1, func(e *clientv3.Event) bool { return strings.HasSuffix(string(e.Kv.Key), "/added") })
		edit, err := m.Delete(t.Context(), deleted.Name, 0)
		if err != nil {
			t.Fatal(err)
		}
		added := s.apply(ticking("added", time.Second, "50ms"))
		lost := s.wall()
		time.Sleep(10 * time.Second)
		if m.link.Counts().EventsDropped != 2 {
			t.Fatalf("%d events were dropped, want 2: the fault did not take hold", m.link.Counts().EventsDropped)
		}
		time.Sleep(marksEvery + eventLost - 10*time.Second)
		if later := s.grantedAfter(deleted, edit.Job.Revision); len(later) != 0 {
			t.Errorf("granted after the reply to the delete: %+v", later)
		}
		if _, known := m.knows()[added.Name]; !known {
			t.Errorf("after %s the member does not know the job", s.wall().Sub(lost))
		}
		from := s.next(time.Second, time.Second)
		s.until(from.Add(9500 * time.Millisecond))
		if n := len(between(s.seen(added), from, s.wall())); n != 10 {
			t.Errorf("%d starts in 10 s afterwards, want 10", n)
		}
		s.checkStarts()
		s.balance(added, s.wall().Add(-2*time.Second))
	})
}

// TestSA23_NothingIsDecidedFromAStaleRead looks at every request of the members: none asks for a read
// that a member of etcd may answer from what it remembers. (The in-memory etcd has one member, so a stale
// answer itself cannot be made here.)
func TestSA23_NothingIsDecidedFromAStaleRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "2026-03-10T12:00:00Z")
		defer s.close()
		var reads, stale atomic.Int64
		look := func(c memetcd.Call) memetcd.Fate {
			if r, ok := c.Request.(*pb.RangeRequest); ok {
				reads.Add(1)
				if r.Serializable {
					stale.Add(1)
				}
			}
			return memetcd.Fate{}
		}
		for _, name := range []string{"a", "b", "c"} {
			s.add(name).link.Inject(look)
		}
		s.ready()
		jobs := s.many(20, time.Second, "50ms")
		for range 5 {
			m := s.owner(jobs[0])
			m.link.Pause() // its member of etcd stops, and goes on with all it was sent
			m.unreachable = true
			time.Sleep(2 * ttl)
			m.link.Resume()
			m.unreachable = false
			time.Sleep(recovery)
		}
		if _, err := s.any().Status(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := s.any().Runs(t.Context(), scheduler.RunQuery{Limit: 100}); err != nil {
			t.Fatal(err)
		}
		if reads.Load() < 1000 || stale.Load() != 0 {
			t.Errorf("%d of %d reads may be answered stale", stale.Load(), reads.Load())
		}
		time.Sleep(busyRecovery)
		s.checkStarts()
		for _, job := range jobs {
			s.balance(job, s.wall().Add(-2*time.Second))
		}
	})
}
