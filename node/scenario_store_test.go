package node

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorumcron/quorumcron/internal/memetcd"
	"github.com/quorumcron/quorumcron/scheduler"
)

// size is what etcd keeps: the keys there are, and the versions of them that are not compacted yet.
func (s *scene) size() (keys int64, versions int) {
	s.t.Helper()
	resp, err := s.etcd.Client(s.t.Context()).Get(s.t.Context(), "/quorumcron/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		s.t.Fatal(err)
	}
	for _, r := range s.etcd.History(0) {
		versions += len(r.Events)
	}
	return resp.Count, versions
}

func TestSA24_WhatEtcdKeepsLevelsOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSceneOn(t, memetcd.Config{AutoCompact: 30 * time.Second}, "2026-03-10T12:00:00Z", "a", "b")
		defer s.close()
		const jobs, limit = 15, 5
		for i := range jobs {
			job := ticking(fmt.Sprintf("tick-%d", i), time.Second, "50ms")
			job.HistoryLimit = limit
			s.apply(job)
		}
		time.Sleep(80 * time.Second)
		keys, versions := s.size()
		for range 2 {
			time.Sleep(time.Minute)
			later, laterVersions := s.size()
			if later > keys+jobs || float64(laterVersions) > 1.1*float64(versions) {
				t.Errorf("%d keys and %d versions, and a minute before %d and %d: it grows", later, laterVersions, keys, versions)
			}
		}
		// A definition, a state and its records for each job, and what is there once for all.
		if most := int64(jobs*(2+limit+2) + 50); keys > most {
			t.Errorf("%d keys, want at most %d", keys, most)
		}
		if n := len(s.seen()); n < 2500 {
			t.Errorf("only %d runs", n)
		}
		runs, err := s.any().Runs(t.Context(), scheduler.RunQuery{Namespace: "default", Job: "tick-0", Limit: 1000})
		if err != nil || len(runs) < limit || len(runs) > limit+3 {
			t.Errorf("%d runs of a job are kept, %v; want its limit of %d and what is in flight", len(runs), err, limit)
		}
		s.checkStarts()
	})
}

func TestSA25_NodesStartAndAnswerWhileEtcdHasNoSpace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "2026-03-10T12:00:00Z", "a", "b")
		defer s.close()
		job := s.apply(ticking("tick", 10*time.Second, "50ms"))
		s.await(11*time.Second, "start", func(sight) bool { return true })
		time.Sleep(time.Second)
		long := s.triggerOn(s.members["a"], rarely("long", "30s"))
		s.etcd.SetNoSpace(true)
		full := s.wall()
		s.die(s.members["b"])
		s.add("b") // a restart
		s.add("c") // a new one
		time.Sleep(time.Minute)
		for name, m := range s.members {
			select {
			case err := <-m.done:
				t.Fatalf("member %s ended: %v", name, err)
			default:
			}
			if view, err := m.Job(t.Context(), job.Name); err != nil || view.Job.UID != job.UID {
				t.Errorf("member %s shows the job as %v, %v", name, view.Job.Name, err)
			}
			if runs, err := m.Runs(t.Context(), scheduler.RunQuery{Limit: 10}); err != nil || len(runs) == 0 {
				t.Errorf("member %s shows %d runs, %v", name, len(runs), err)
			}
			reasons := strings.Join(m.Ready().Reasons(), "; ")
			status, err := m.Status(t.Context())
			if err != nil || status.ClusterID == "" || !strings.Contains(strings.ToLower(reasons), "space") {
				t.Errorf("member %s does not say why: ready %v: %q; its status is of cluster %q, %v", name, m.Ready().Ready, reasons, status.ClusterID, err)
			}
		}
		s.etcd.SetNoSpace(false)
		time.Sleep(recovery)
		s.ready()
		from := s.next(10*time.Second, recovery)
		s.until(from.Add(35 * time.Second))
		if n := len(between(s.seen(job), full.Add(100*time.Millisecond), s.wall().Add(-time.Minute))); n != 0 {
			t.Errorf("%d starts while nothing could be granted", n)
		}
		if n := len(between(s.seen(job), from, s.wall())); n != 4 {
			t.Errorf("%d starts in 35 s after there was space, want 4", n)
		}
		if one := s.sightOf(long.id.Firing); one.cause != nil || s.record(long.id.Firing).Last().Verdict != scheduler.Succeeded {
			t.Errorf("a command that ran meanwhile was told to stop: %v, and its record says %s", one.cause, s.record(long.id.Firing).Last().Verdict)
		}
		s.checkStarts()
		s.balance(job, s.wall().Add(-10*time.Second))
	})
}

func TestSA32_DailyJobStartsOnceThoughEtcdStandsStillAcrossIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "2026-03-10T23:59:00Z", "a", "b", "c")
		defer s.close()
		job := s.apply(ticking("daily", 24*time.Hour, "50ms"))
		due := s.next(24*time.Hour, 0)
		s.until(due.Add(-5 * time.Second))
		s.etcd.LoseQuorum()
		s.until(due.Add(45 * time.Second))
		s.etcd.RegainQuorum()
		s.until(due.Add(2 * time.Minute))
		s.want(job, map[string]int64{"SUCCEEDED": 1})
		seen := s.seen(job)
		if len(seen) != 1 || seen[0].late() < 45*time.Second || seen[0].late() > 45*time.Second+recovery {
			t.Fatalf("%+v, want one start about 45 s late", seen)
		}
		record := s.record(seen[0].id.Firing).Last()
		if !record.Started.Equal(seen[0].at) {
			t.Errorf("the record says that it started at %s, and it did at %s", record.Started, seen[0].at)
		}
		s.checkStarts()
	})
}

func TestSA52_AllJobsFireAfterEtcdWentAwayFiveTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "2026-03-10T12:00:00Z", "a", "b", "c")
		defer s.close()
		jobs := s.many(100, 10*time.Second, "50ms")
		for i := range 5 {
			s.etcd.LoseQuorum()
			for _, m := range s.members {
				m.link.Refuse()
			}
			time.Sleep(time.Duration(2+i) * time.Second)
			for _, m := range s.members {
				m.link.Mend()
			}
			s.etcd.RegainQuorum()
			time.Sleep(7 * time.Second)
		}
		s.ready()
		from := s.next(10*time.Second, 10*time.Second)
		s.until(from.Add(5 * time.Second))
		after := between(s.seen(), from, s.wall())
		if len(after) != 100 || latest(after) > time.Second {
			t.Errorf("%d of 100 jobs fired afterwards, the latest %s late", len(after), latest(after))
		}
		s.checkStarts()
		for _, job := range jobs {
			s.balance(job, s.wall().Add(-10*time.Second))
		}
	})
}
