package node

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumcron/quorumcron/scheduler"
)

func TestSA37_KilledMemberBlocksItsJobOnlyUntilItIsSurelyDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "2026-03-10T12:00:00Z", "a", "b", "c")
		defer s.close()
		job := s.apply(ticking("long", 10*time.Second, "50s"))
		first := s.await(11*time.Second, "start", func(sight) bool { return true })
		time.Sleep(15 * time.Second)
		died := s.wall()
		s.die(s.members[first.id.Member])
		lost := time.Time{}
		for lost.IsZero() && s.wall().Before(died.Add(2*busyRecovery)) {
			time.Sleep(100 * time.Millisecond)
			if s.record(first.id.Firing).Last().Verdict == scheduler.Lost {
				lost = s.wall()
			}
		}
		if took := lost.Sub(died); lost.IsZero() || took > busyRecovery || took < hold {
			t.Errorf("LOST %s after the kill, want within %s and not before its hold of %s", took, busyRecovery, hold)
		}
		next := s.await(11*time.Second, "start after the loss", func(one sight) bool { return one.at.After(lost) })
		if next.late() > time.Second {
			t.Errorf("the next firing started %s late", next.late())
		}
		v := s.balance(job, s.wall().Add(-10*time.Second))
		if v["LOST(member lost)"] != 1 || v["SKIPPED(overlap)"] < 2 || len(v) != 2 {
			t.Errorf("verdicts %v, want one LOST, and what fell due meanwhile SKIPPED(overlap)", v)
		}
		s.checkStarts()
	})
}

func TestSA38_LongRunsNeverOverlapThroughChangesOfTheDispatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "2026-03-10T12:00:00Z", "a", "b", "c")
		defer s.close()
		job := s.apply(ticking("long", 2*time.Second, "3s"))
		begin := s.next(2*time.Second, 0)
		for i, change := range []func(*bubbleMember){
			func(m *bubbleMember) { s.leave(m) },
			func(m *bubbleMember) { s.die(m) },
			func(m *bubbleMember) { s.revoke(m.sessions.Status().MemberLease) },
		} {
			s.until(begin.Add(time.Duration(i+1)*50*time.Second + 500*time.Millisecond))
			before := s.dispatcher()
			change(before)
			time.Sleep(recovery)
			if s.members[before.cfg.Name] == nil {
				s.add(before.cfg.Name)
			}
			if s.dispatcherName() == before.cfg.Name {
				t.Errorf("change %d: the dispatcher is still %s", i, before.cfg.Name)
			}
		}
		s.until(begin.Add(200 * time.Second))
		s.checkStarts()
		v := s.balance(job, s.wall().Add(-2*time.Second))
		if sum(v) < 95 || v["SKIPPED(overlap)"] < 30 || v["SUCCEEDED"] < 30 {
			t.Errorf("verdicts %v of 100 instants, want about half SUCCEEDED and half SKIPPED(overlap)", v)
		}
	})
}

func TestSA40_NothingOfADeadMemberIsInFlightForEver(t *testing.T) {
	rng := random(t)
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "2026-03-10T12:00:00Z", "a", "b")
		defer s.close()
		var jobs []scheduler.Job
		for i := range 6 {
			jobs = append(jobs, s.apply(ticking(fmt.Sprintf("tick-%d", i), 2*time.Second, "30ms")))
		}
		time.Sleep(time.Second)
		granted, started := 0, 0 // and then killed
		for range 30 {           // six jobs at a time
			for _, m := range s.members {
				m.link.Delay(10*time.Millisecond, 10*time.Millisecond) // a claim takes 20 ms, and its record too
			}
			victim := s.owner(jobs[rng.IntN(len(jobs))])
			s.until(s.next(2*time.Second, time.Second).Add(time.Duration(8+rng.IntN(60)) * time.Millisecond))
			for _, job := range jobs {
				g := s.granted(job)
				if last := g[len(g)-1]; last.by == victim.cfg.Name && s.wall().Sub(last.at) < 90*time.Millisecond {
					granted++
					if seen := s.seen(job); len(seen) > 0 && seen[len(seen)-1].id.Token == last.token {
						started++
					}
				}
			}
			died := s.wall()
			s.die(victim)
			s.until(died.Add(busyRecovery + 500*time.Millisecond))
			for _, job := range jobs {
				view, err := s.any().Job(t.Context(), job.Name)
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range view.State.Entries {
					if e.Member == victim.cfg.Name && !e.Granted.After(died) {
						t.Errorf("job %s: %s is in flight on %s, which died %s ago", job.Name, e.Firing.Key(), e.Member, s.wall().Sub(died))
					}
				}
			}
			s.add(victim.cfg.Name)
			s.ready()
		}
		t.Logf("%d killed between claim and record, %d of them after their start", granted, started)
		if granted-started < 5 || started < 20 {
			t.Errorf("%d kills between claim and record, %d after the start: too few to show anything", granted, started)
		}
		s.checkStarts()
		for _, job := range jobs {
			s.balance(job, s.wall().Add(-4*time.Second))
		}
	})
}

func TestSA41_OtherMemberGoesOnAfterADeathInMidRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "2026-03-10T12:00:00Z", "a", "b")
		defer s.close()
		busy := s.apply(ticking("busy", 10*time.Second, "5s"))
		idle := s.many(10, time.Second, "50ms")
		first := s.await(11*time.Second, "start", func(one sight) bool { return one.id.Job == busy.Name })
		time.Sleep(500 * time.Millisecond)
		died := s.wall()
		s.die(s.members[first.id.Member])
		s.until(died.Add(busyRecovery + 20*time.Second))
		for _, job := range idle {
			after := between(s.seen(job), died.Add(100*time.Millisecond), s.wall())
			if len(after) == 0 || after[0].at.Sub(died) > recovery || latest(after) > recovery {
				t.Errorf("job %s, which was not running: %d starts, the latest %s late, want the first within %s", job.Name, len(after), latest(after), recovery)
			}
		}
		after := between(s.seen(busy), died, s.wall())
		if len(after) == 0 || after[0].at.Sub(died) > busyRecovery+10*time.Second || after[0].late() > time.Second {
			t.Errorf("the job that was running: %+v, want its next firing on time, from %s after the death on", after, busyRecovery)
		}
		if v := s.balance(busy, s.wall().Add(-10*time.Second)); v["LOST(member lost)"] != 1 {
			t.Errorf("verdicts %v, want one LOST", v)
		}
		s.checkStarts()
	})
}

// crashPoint is a moment in the life of an attempt at which its member dies.
type crashPoint struct {
	name string
	kill func(s *scene, m *bubbleMember, job scheduler.Job)
	// What must have come of it, without and with onLost: retry.
	starts, startsRetried   int
	verdict, verdictRetried string
}

var crashPoints = []crashPoint{
	{name: "before its claim arrives", kill: func(s *scene, m *bubbleMember, _ scheduler.Job) {
		claim := m.link.Hold(begins)
		<-claim.Caught()
		s.die(m)
		claim.Lose()
	}, starts: 1, startsRetried: 1, verdict: "SUCCEEDED", verdictRetried: "SUCCEEDED"}, // another member claims it
	{name: "before its claim arrives, which it does later", kill: func(s *scene, m *bubbleMember, _ scheduler.Job) {
		claim := m.link.Hold(begins)
		<-claim.Caught()
		s.die(m)
		_, _ = claim.Land()
	}, starts: 0, startsRetried: 1, verdict: "LOST(member lost)", verdictRetried: "SUCCEEDED"},
	{name: "after its claim, before it knows and executes", kill: func(s *scene, m *bubbleMember, job scheduler.Job) {
		m.link.Delay(0, 100*time.Millisecond)
		for len(s.granted(job)) == 0 {
			time.Sleep(time.Millisecond)
		}
		s.die(m)
	}, starts: 0, startsRetried: 1, verdict: "LOST(member lost)", verdictRetried: "SUCCEEDED"},
	{name: "after it has executed", kill: func(s *scene, m *bubbleMember, job scheduler.Job) {
		for len(s.seen(job)) == 0 {
			time.Sleep(time.Millisecond)
		}
		s.die(m)
	}, starts: 1, startsRetried: 2, verdict: "LOST(member lost)", verdictRetried: "SUCCEEDED"},
	{name: "after the exit, before the terminal write arrives", kill: func(s *scene, m *bubbleMember, _ scheduler.Job) {
		end := m.link.Hold(ends)
		<-end.Caught()
		s.die(m)
		end.Lose()
	}, starts: 1, startsRetried: 2, verdict: "LOST(member lost)", verdictRetried: "SUCCEEDED"},
	{name: "after the terminal write, before it knows", kill: func(s *scene, m *bubbleMember, _ scheduler.Job) {
		end := m.link.Hold(ends)
		<-end.Caught()
		s.die(m)
		_, _ = end.Land()
	}, starts: 1, startsRetried: 1, verdict: "SUCCEEDED", verdictRetried: "SUCCEEDED"},
}

func TestSA45_CrashAtAnyPointStartsNothingTwiceAndEndsAlike(t *testing.T) {
	for _, point := range crashPoints {
		for _, onLost := range []scheduler.OnLost{scheduler.OnLostFail, scheduler.OnLostRetry} {
			t.Run(point.name+", on lost "+string(onLost), func(t *testing.T) {
				starts, verdict := point.starts, point.verdict
				if onLost == scheduler.OnLostRetry {
					starts, verdict = point.startsRetried, point.verdictRetried
				}
				for range 2 { // the same on every repetition
					synctest.Test(t, func(t *testing.T) { crashAt(t, point, onLost, starts, verdict) })
				}
			})
		}
	}
}

func crashAt(t *testing.T, point crashPoint, onLost scheduler.OnLost, starts int, verdict string) {
	s := newScene(t, "2026-03-10T12:00:00Z", "a", "b")
	defer s.close()
	at := s.next(10*time.Second, 5*time.Second)
	want := once("once", at, "200ms")
	want.Policy.OnLost = onLost
	job := s.apply(want)
	time.Sleep(2 * time.Second)
	victim := s.owner(job)
	s.until(at.Add(-time.Millisecond))
	point.kill(s, victim, job)
	died := s.wall()
	if died.Sub(at) > 2*time.Second {
		t.Fatalf("it died %s after the instant: not at the point", died.Sub(at))
	}
	time.Sleep(busyRecovery + 10*time.Second)
	seen := s.seen(job)
	if len(seen) != starts {
		t.Errorf("%d starts, want %d", len(seen), starts)
	}
	if !slices.IsSortedFunc(seen, func(a, b sight) int { return int(a.id.Token - b.id.Token) }) {
		t.Errorf("the tokens do not rise: %+v", seen)
	}
	s.want(job, map[string]int64{verdict: 1})
	view, err := s.any().Job(t.Context(), job.Name)
	if err != nil || len(view.State.Entries)+len(view.State.Retries) != 0 {
		t.Errorf("in flight: %+v, %+v, %v", view.State.Entries, view.State.Retries, err)
	}
	s.checkStarts()
}
