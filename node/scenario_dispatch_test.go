package node

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumcron/quorumcron/scheduler"
)

// many applies jobs that tick, and waits until they have owners.
func (s *scene) many(n int, period time.Duration, payload string) []scheduler.Job {
	s.t.Helper()
	var jobs []scheduler.Job
	for i := range n {
		jobs = append(jobs, s.apply(ticking(fmt.Sprintf("tick-%d", i), period, payload)))
	}
	time.Sleep(time.Second)
	return jobs
}

// allSucceeded checks that every instant of the jobs was run, and nothing else happened.
func (s *scene) allSucceeded(jobs []scheduler.Job, through time.Time) {
	s.t.Helper()
	for _, job := range jobs {
		if v := s.balance(job, through); v["SUCCEEDED"] != sum(v) {
			s.t.Errorf("job %s: verdicts %v, want nothing but SUCCEEDED", job.Name, v)
		}
	}
}

func TestSA11_EveryMemberNamesTheSameDispatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "2026-03-10T12:00:00Z", "a", "b", "c")
		defer s.close()
		job := s.apply(ticking("tick", time.Second, "50ms"))
		time.Sleep(2 * time.Second)
		old := s.dispatcher()
		var observer *bubbleMember
		for _, m := range s.members {
			if m != old {
				observer = m
			}
		}
		observer.link.Cut()
		observer.unreachable = true
		time.Sleep(time.Second)
		s.leave(old) // changed while the observer cannot see it
		s.add(old.cfg.Name)
		time.Sleep(3 * ttl)
		if status, err := observer.Status(t.Context()); err != nil || len(status.Warnings) == 0 {
			t.Errorf("the observer that is cut off says %q and no warning, %v", status.Dispatcher, err)
		}
		observer.link.Mend()
		observer.unreachable = false
		time.Sleep(recovery)
		s.ready()
		for name, m := range s.members {
			status, err := m.Status(t.Context())
			if err != nil || status.Dispatcher != s.dispatcherName() || status.Dispatcher == "" {
				t.Errorf("member %s says that %q is the dispatcher, %v; etcd says %q", name, status.Dispatcher, err, s.dispatcherName())
			}
			for _, member := range status.Members {
				if member.Dispatcher != (member.Member.Name == status.Dispatcher) {
					t.Errorf("member %s says of %s that it is dispatcher: %v", name, member.Member.Name, member.Dispatcher)
				}
			}
			if _, err := m.Pause(t.Context(), job.Name, 0); err != nil {
				t.Errorf("pause by way of %s: %v", name, err)
			}
			if _, err := m.Resume(t.Context(), job.Name, 0); err != nil {
				t.Errorf("resume by way of %s: %v", name, err)
			}
		}
		if n := s.metric("is_dispatcher", ""); n != 1 {
			t.Errorf("%v members say that they are dispatcher", n)
		}
		s.checkStarts()
	})
}

func TestSA14_JobsDueDuringFailoverFireOnceEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "2026-03-10T12:00:00Z", "a", "b", "c")
		defer s.close()
		at := s.next(10*time.Second, 5*time.Second)
		var jobs []scheduler.Job
		for i := range 50 {
			jobs = append(jobs, s.apply(once(fmt.Sprintf("once-%d", i), at, "50ms")))
		}
		s.until(at.Add(-time.Second))
		s.die(s.dispatcher())
		time.Sleep(2 * recovery)
		for _, job := range jobs {
			s.want(job, map[string]int64{"SUCCEEDED": 1})
		}
		seen := s.seen()
		if len(seen) != 50 || latest(seen) > recovery || latest(seen) < time.Second {
			t.Errorf("%d starts, the latest %s late; want 50, some late and none later than %s", len(seen), latest(seen), recovery)
		}
		s.checkStarts()
	})
}

func TestSA15_LeadershipThatBouncesTenTimesRepeatsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "2026-03-10T12:00:00Z", "a", "b")
		defer s.close()
		jobs := s.many(20, time.Second, "50ms")
		terms := map[string]int{}
		for range 20 {
			m := s.dispatcher()
			terms[m.cfg.Name]++
			s.revoke(m.sessions.Status().MemberLease) // it loses the lead and its shards, and joins again
			for s.dispatcherName() == m.cfg.Name {
				time.Sleep(10 * time.Millisecond)
			}
			time.Sleep(2 * time.Second)
		}
		if terms["a"] != 10 || terms["b"] != 10 {
			t.Fatalf("terms %v: the lead did not bounce", terms)
		}
		time.Sleep(recovery)
		s.checkStarts()
		s.allSucceeded(jobs, s.wall().Add(-2*time.Second))
		if late := latest(s.seen()); late > 2*time.Second {
			t.Errorf("one start was %s late", late)
		}
	})
}

func TestSA16_MemberThatLeadsAgainGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "2026-03-10T12:00:00Z", "a")
		defer s.close()
		s.add("b")
		s.ready()
		jobs := s.many(10, time.Second, "50ms")
		phase := func(leader string) {
			t.Helper()
			if s.dispatcher().cfg.Name != leader {
				t.Fatalf("%s leads, want %s", s.dispatcherName(), leader)
			}
			from := s.next(time.Second, 2*time.Second)
			s.until(from.Add(9500 * time.Millisecond))
			for _, job := range jobs {
				if seen := between(s.seen(job), from, s.wall()); len(seen) != 10 || latest(seen) > time.Second {
					t.Errorf("job %s under %s: %d starts in 10 s, the latest %s late", job.Name, leader, len(seen), latest(seen))
				}
			}
		}
		phase("a")
		s.leave(s.members["a"])
		phase("b")
		s.add("a")
		s.ready()
		s.leave(s.members["b"])
		phase("a")
		s.checkStarts()
		s.allSucceeded(jobs, s.wall().Add(-2*time.Second))
	})
}

func TestSA17_MembersThatComeAndGoUnderLoadEndNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "2026-03-10T12:00:00Z", "a", "b", "c")
		defer s.close()
		jobs := s.many(200, time.Second, "50ms")
		s.leave(s.members["c"])
		time.Sleep(3 * time.Second)
		s.add("c")
		time.Sleep(3 * time.Second)
		s.die(s.members["c"])
		time.Sleep(recovery)
		s.add("c")
		s.ready()
		time.Sleep(busyRecovery - recovery)
		for name, m := range s.members {
			select {
			case err := <-m.done:
				t.Fatalf("member %s ended: %v", name, err)
			default:
			}
		}
		s.checkStarts()
		var decided int64
		for _, job := range jobs {
			decided += sum(s.balance(job, s.wall().Add(-2*time.Second)))
		}
		if decided < 5_000 {
			t.Errorf("only %d firings were decided", decided)
		}
	})
}

func TestSA18_AllJobsFireAfterAMemberLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "2026-03-10T12:50:00Z", "a", "b", "c", "d", "e")
		defer s.close()
		jobs := s.many(200, time.Hour, "50ms")
		first := s.next(time.Hour, 0)
		s.until(first.Add(time.Minute))
		leaver := s.members["c"]
		if n := len(s.seen()); n != 200 {
			t.Errorf("%d of 200 jobs fired with all members", n)
		}
		mine := 0
		for _, one := range s.seen() {
			if one.id.Member == leaver.cfg.Name {
				mine++
			}
		}
		if mine == 0 {
			t.Fatal("the member that leaves ran nothing: nothing is shown")
		}
		s.leave(leaver)
		s.until(first.Add(time.Hour + time.Minute))
		seen := between(s.seen(), first.Add(time.Hour), s.wall())
		if len(seen) != 200 || latest(seen) > time.Second {
			t.Errorf("%d of 200 jobs fired in the next hour, the latest %s late", len(seen), latest(seen))
		}
		s.checkStarts()
		s.allSucceeded(jobs, first.Add(time.Hour))
	})
}

func TestSA19_TwoMembersRunAMinuteJobOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "2026-03-10T12:00:30Z", "a", "b")
		defer s.close()
		job := s.apply(ticking("minute", time.Minute, "50ms"))
		s.until(s.next(time.Minute, 0).Add(29*time.Minute + 30*time.Second))
		if n := len(s.seen(job)); n != 30 || latest(s.seen(job)) > time.Second {
			t.Errorf("%d starts in 30 minutes, the latest %s late", n, latest(s.seen(job)))
		}
		s.checkStarts()
		s.want(job, map[string]int64{"SUCCEEDED": 30})
	})
}

func TestSA42_ThousandJobsDueAtOneInstantStartOnceEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "2026-03-10T12:00:00Z", "a", "b")
		defer s.close()
		for _, m := range s.members { // a network, so that it takes its time
			m.link.Delay(time.Millisecond, time.Millisecond)
		}
		at := s.next(time.Minute, 30*time.Second)
		var jobs []scheduler.Job
		for i := range 1000 {
			jobs = append(jobs, s.apply(once(fmt.Sprintf("once-%d", i), at, "50ms")))
		}
		s.until(at.Add(20 * time.Second))
		seen := s.seen()
		members := map[string]int{}
		for _, one := range seen {
			members[one.id.Member]++
		}
		if len(seen) != 1000 || latest(seen) > time.Second || len(members) != 2 {
			t.Errorf("%d starts on %v, the latest %s late; want 1000 on both", len(seen), members, latest(seen))
		}
		t.Logf("started late by: half %s, all %s", seen[len(seen)/2].late(), latest(seen))
		s.checkStarts()
		for _, job := range jobs {
			s.want(job, map[string]int64{"SUCCEEDED": 1})
		}
	})
}
