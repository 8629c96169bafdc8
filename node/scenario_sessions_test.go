package node

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumcron/quorumcron/executor"
	"github.com/quorumcron/quorumcron/scheduler"
)

func TestSA06_LossOfAllLeasesAtOnceIsHandledByEveryMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "2026-03-10T12:00:00Z", "a", "b", "c")
		defer s.close()
		var jobs, long []scheduler.Job
		for i := range 20 {
			jobs = append(jobs, s.apply(ticking(fmt.Sprintf("tick-%d", i), time.Second, "50ms")))
		}
		for i := range 10 {
			long = append(long, s.apply(rarely(fmt.Sprintf("long-%d", i), "1m")))
		}
		time.Sleep(2 * time.Second)
		for _, job := range long {
			s.trigger(job)
		}
		s.etcd.LoseQuorum() // its leader hangs on its disk
		time.Sleep(2 * ttl)
		for name, m := range s.members {
			if r := m.Ready(); r.Ready || len(r.Reasons()) > 3 {
				t.Errorf("member %s: ready %v for %d reasons, want a few that say that etcd does not answer: %v", name, r.Ready, len(r.Reasons()), r.Reasons())
			}
		}
		alarms := len(s.alarms)
		s.etcd.RegainQuorum()
		for _, m := range s.members { // as etcd#15247 had it
			s.revoke(m.sessions.Status().MemberLease)
			s.revoke(m.lockLease())
		}
		back := s.wall()
		time.Sleep(recovery)
		s.ready()
		calm := s.wall()
		if n := len(s.alarms) - alarms; n == 0 || n > 7*len(s.members) { // one for each job would be thirty
			t.Errorf("%d alarms of %d members, want a few for each member and none for each of %d jobs: %+v",
				n, len(s.members), len(jobs)+len(long), s.alarms[alarms:])
		}
		time.Sleep(20 * time.Second)
		for _, job := range jobs {
			seen := between(s.seen(job), calm, s.wall().Add(-time.Second))
			if late := latest(seen); late > time.Second || len(seen) < 18 {
				t.Errorf("job %s: %d starts, the latest %s late, from %s after etcd was back", job.Name, len(seen), late, recovery)
			}
			s.balance(job, s.wall().Add(-2*time.Second))
		}
		time.Sleep(busyRecovery)
		for _, job := range long {
			seen := s.seen(job)
			if len(seen) != 1 || !errors.Is(seen[0].cause, executor.ErrLockLost) || seen[0].done.Sub(back) > hold {
				t.Errorf("job %s: %+v, want one start that is told to stop within %s after the loss of its lock", job.Name, seen, hold)
			}
		}
		s.checkStarts()
	})
}

func TestSA07_TakeoverWaitsForTheLeaseThatALeaderChangeRestarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "2026-03-10T12:00:00Z", "a", "b", "c")
		defer s.close()
		job := s.apply(ticking("idle", time.Second, "50ms"))
		time.Sleep(3500 * time.Millisecond)
		owner := s.owner(job)
		died := s.wall()
		s.die(owner)
		time.Sleep(ttl - 800*time.Millisecond)
		s.etcd.ChangeLeader() // just before the lease ends, which starts anew
		restarted := s.wall()
		time.Sleep(3 * recovery)
		after := between(s.seen(job), died, s.wall())
		if len(after) == 0 {
			t.Fatal("nobody took the job over")
		}
		first := after[0]
		if first.at.Before(restarted.Add(ttl)) {
			t.Errorf("taken over %s after the change of leader, while the dead member's lease of %s lived", first.at.Sub(restarted), ttl)
		}
		if took := first.at.Sub(died); took > recovery {
			t.Errorf("taken over %s after the death, want within 2 TTL and 2 s, %s", took, recovery)
		}
		s.checkStarts()
		s.balance(job, s.wall().Add(-2*time.Second))
		record := s.record(first.id.Firing).Last()
		if late := record.Started.Sub(first.id.Firing.Instant()); late != first.late() || late < time.Second {
			t.Errorf("the record says that the first start was %s late, and it was %s", late, first.late())
		}
	})
}

func TestSA08_RevokedSessionIsReplacedWithoutAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "2026-03-10T12:00:00Z", "a", "b", "c")
		defer s.close()
		tick := s.apply(ticking("tick", time.Second, "50ms"))
		goesOn, told := s.apply(rarely("goes-on", "5s")), s.apply(rarely("told", "1m"))
		time.Sleep(2 * time.Second)
		m := s.owner(tick)
		alive := func(what string) {
			t.Helper()
			select {
			case err := <-m.done:
				t.Fatalf("%s: the member ended: %v", what, err)
			default:
			}
			if r := m.Ready(); !r.Ready {
				t.Errorf("%s: not ready again after 2 s: %v", what, r.Reasons())
			}
		}

		// The member session: others take its shards until it has joined again; its runs go on.
		run := s.triggerOn(m, goesOn)
		incarnation := m.sessions.Status().Member.Incarnation
		s.revoke(m.sessions.Status().MemberLease)
		time.Sleep(2 * time.Second)
		alive("member session revoked")
		if again := m.sessions.Status().Member.Incarnation; again == incarnation || m.shardsOwned.Load() == 0 {
			t.Errorf("joined as incarnation %d after %d, with %d shards", again, incarnation, m.shardsOwned.Load())
		}
		time.Sleep(5 * time.Second)
		if got := s.record(run.id.Firing).Last(); got.Verdict != scheduler.Succeeded {
			t.Errorf("the run that was under way is %s(%s), want SUCCEEDED", got.Verdict, got.Reason)
		}

		// The session of its locks: its runs end by the rule for lost sessions.
		run = s.triggerOn(m, told)
		s.revoke(m.lockLease())
		revoked := s.wall()
		time.Sleep(2 * time.Second)
		alive("lock session revoked")
		time.Sleep(busyRecovery)
		last := s.sightOf(run.id.Firing)
		if last.cause == nil || last.done.Sub(revoked) > hold {
			t.Errorf("the command was told to stop %s after its lock was gone with %v, want within %s", last.done.Sub(revoked), last.cause, hold)
		}
		if got := s.record(run.id.Firing).Last(); got.Verdict != scheduler.Failed && got.Verdict != scheduler.Lost {
			t.Errorf("the run is %s(%s), want FAILED(lock lost) or LOST", got.Verdict, got.Reason)
		}
		if joined := m.sessions.Status().Member.Incarnation; joined == incarnation {
			t.Error("it never joined again")
		}
		s.checkStarts()
		s.balance(tick, s.wall().Add(-2*time.Second))
		if late := latest(s.seen(tick)); late > recovery {
			t.Errorf("one firing of the other job was %s late", late)
		}
	})
}

// triggerOn triggers the job until a firing of it runs on the member: its job is owned by whom it is.
func (s *scene) triggerOn(m *bubbleMember, job scheduler.Job) sight {
	s.t.Helper()
	for i := range 50 {
		named := job
		named.Name.Name = fmt.Sprintf("%s-%d", job.Name.Name, i)
		named = s.apply(named)
		time.Sleep(200 * time.Millisecond)
		if s.owner(named) == m {
			return s.trigger(named)
		}
	}
	s.t.Fatalf("member %s owns no job of fifty", m.cfg.Name)
	return sight{}
}

func TestSA09_MemberThatIsCutOffForGoodNoticesByItselfAndStopsItsCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "2026-03-10T12:00:00Z", "a", "b")
		defer s.close()
		job := s.apply(rarely("hour", "1h"))
		time.Sleep(time.Second)
		first := s.trigger(job)
		m := s.members[first.id.Member]
		m.link.Cut()
		m.unreachable = true
		cut := s.wall()
		time.Sleep(ttl)
		reasons := strings.Join(m.Ready().Reasons(), "; ")
		if m.Ready().Ready || !strings.Contains(reasons, "session") {
			t.Errorf("ready %v a TTL after the cut, for reasons %q", m.Ready().Ready, reasons)
		}
		time.Sleep(hold)
		last := s.seen(job)[0]
		if stopped := last.done.Sub(cut); last.done.IsZero() || stopped > hold || !errors.Is(last.cause, executor.ErrLockLost) {
			t.Errorf("the command was told to stop %s after the cut with %v, want within %s with %v", stopped, last.cause, hold, executor.ErrLockLost)
		}
		time.Sleep(busyRecovery)
		if got := s.record(first.id.Firing).Last(); got.Verdict != scheduler.Lost || got.Reason != scheduler.ReasonMemberLost {
			t.Errorf("the others say %s(%s), want LOST(member lost)", got.Verdict, got.Reason)
		}
		if s.alarmed("result not recorded yet")+s.alarmed("etcd") == 0 {
			t.Logf("alarms: %+v", s.alarms)
		}
		s.checkStarts()
		m.stop() // it ends though etcd is away for good
		left := time.Now()
		if err := <-m.done; err != nil || time.Since(left) > 20*time.Second {
			t.Errorf("it ended after %s with %v", time.Since(left), err)
		}
		m.end()
		delete(s.members, m.cfg.Name)
	})
}

func TestSA10_DispatcherThatDiesWhileEtcdHangsIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "2026-03-10T12:00:00Z", "a", "b", "c")
		defer s.close()
		at := s.next(10*time.Second, 6*time.Second)
		var jobs []scheduler.Job
		for i := range 9 {
			jobs = append(jobs, s.apply(once(fmt.Sprintf("once-%d", i), at, "50ms")))
		}
		s.until(at.Add(-3 * time.Second))
		s.etcd.LoseQuorum()
		time.Sleep(time.Second)
		dead := s.crashDispatcher()
		s.until(at.Add(2 * time.Second))
		s.etcd.RegainQuorum()
		back := s.wall()
		for s.dispatcherName() == dead {
			time.Sleep(10 * time.Millisecond)
		}
		// The dead one's lease starts anew in full with the new leader, and an election on top.
		if took := s.wall().Sub(back); took > recovery {
			t.Errorf("a new dispatcher after %s, want within %s", took, recovery)
		}
		s.until(back.Add(2 * recovery))
		for _, job := range jobs {
			seen := s.seen(job)
			if len(seen) != 1 || seen[0].at.Before(back) || seen[0].at.Sub(back) > recovery {
				t.Errorf("job %s: %+v, want one start within %s after etcd was back at %s", job.Name, seen, recovery, back)
			}
			s.want(job, map[string]int64{"SUCCEEDED": 1})
		}
		s.checkStarts()
	})
}

// crashDispatcher kills the dispatcher that was last elected, and returns its name.
func (s *scene) crashDispatcher() string {
	s.t.Helper()
	for name, m := range s.members {
		if m.sessions.Status().Term.CreateRevision != 0 {
			s.die(m)
			return name
		}
	}
	s.t.Fatal("no member believes that it is the dispatcher")
	return ""
}

func TestSA12_DispatcherThatCannotResignEndsAndCanLeadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "2026-03-10T12:00:00Z", "a", "b")
		defer s.close()
		job := s.apply(ticking("tick", time.Second, "50ms"))
		time.Sleep(2 * time.Second)
		m := s.dispatcher()
		name := m.cfg.Name
		m.link.Cut()
		cut := s.wall()
		m.stop()
		if err := <-m.done; err != nil {
			t.Errorf("it ended with %v", err)
		}
		const farewell = 3 * time.Second // to a session that etcd does not answer for
		if took := s.wall().Sub(cut); took > m.cfg.DrainTimeout+lastWords+farewell {
			t.Errorf("it ended after %s, want within the drain limit of %s, its last words and its farewell", took, m.cfg.DrainTimeout)
		}
		m.end()
		delete(s.members, name)
		s.until(cut.Add(ttl + time.Second))
		if s.dispatcherName() == name {
			t.Errorf("its key is still there %s after it was cut off, and its TTL is %s", s.wall().Sub(cut), ttl)
		}
		time.Sleep(recovery)
		s.add(name)
		s.ready()
		for other, m := range s.members {
			if other != name {
				s.leave(m)
			}
		}
		if again := s.dispatcher(); again.cfg.Name != name {
			t.Errorf("the dispatcher is %s, want %s again", again.cfg.Name, name)
		}
		from := s.next(time.Second, 2*time.Second)
		s.until(from.Add(9500 * time.Millisecond))
		if n := len(between(s.seen(job), from, s.wall())); n != 10 {
			t.Errorf("%d starts in 10 s under it, want 10", n)
		}
		s.checkStarts()
		s.balance(job, s.wall().Add(-2*time.Second))
	})
}

func TestSA13_ClusterGoesOnByItselfAfterTenSecondsWithoutQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "2026-03-10T12:00:00Z", "a", "b", "c")
		defer s.close()
		latestOne := s.apply(ticking("latest", time.Second, "50ms"))
		want := ticking("none", time.Second, "50ms")
		want.Policy.CatchUp.Mode = scheduler.CatchUpNone
		none := s.apply(want)
		time.Sleep(3500 * time.Millisecond)
		s.etcd.LoseQuorum()
		lost := s.wall()
		time.Sleep(10 * time.Second)
		s.etcd.RegainQuorum()
		back := s.wall()
		time.Sleep(recovery)
		s.ready() // nobody was restarted
		if s.dispatcher() == nil {
			t.Error("no dispatcher")
		}
		time.Sleep(10 * time.Second)
		for _, job := range []scheduler.Job{latestOne, none} {
			if n := len(between(s.seen(job), lost.Add(100*time.Millisecond), back)); n != 0 {
				t.Errorf("job %s: %d starts without a quorum", job.Name, n)
			}
			calm := between(s.seen(job), back.Add(recovery), s.wall())
			if len(calm) < 9 || latest(calm) > time.Second {
				t.Errorf("job %s: %d starts afterwards, the latest %s late", job.Name, len(calm), latest(calm))
			}
			late := 0
			for _, one := range s.seen(job) {
				if one.late() > scheduler.OnTime {
					late++
				}
			}
			v := s.balance(job, s.wall().Add(-2*time.Second))
			caughtUp := map[string]int{"latest": 1, "none": 0}[job.Name.Name]
			if late != caughtUp || v["MISSED(catch-up policy)"] < 3 || v["SUCCEEDED"]+v["SKIPPED(overlap)"]+v["MISSED(catch-up policy)"] != sum(v) {
				t.Errorf("job %s: %d starts over %s late, verdicts %v; want %d, the rest of the gap MISSED(catch-up policy)",
					job.Name, late, scheduler.OnTime, v, caughtUp)
			}
		}
		s.checkStarts()
	})
}
