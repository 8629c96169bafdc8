package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumcron/quorumcron/executor"
	"github.com/quorumcron/quorumcron/scheduler"
)

const busyRecovery = recovery + hold + 2*time.Second // R_busy of the design

// cutOff runs a job that lasts a minute, and cuts its member off for so long. It returns the first start.
func (s *scene) cutOff(job scheduler.Job, away time.Duration) sight {
	s.t.Helper()
	first := s.trigger(job)
	m := s.members[first.id.Member]
	m.link.Cut()
	m.unreachable = true
	cut := s.wall()
	time.Sleep(ttl)
	if r := m.Ready(); r.Ready {
		s.t.Error("the member that is cut off says that it is ready")
	}
	time.Sleep(cut.Add(away).Sub(s.wall()))
	m.link.Mend()
	m.unreachable = false
	ended := s.seen(job)[0]
	if ended.id.Firing != first.id.Firing {
		s.t.Fatalf("the first start is of %s", ended.id.Firing)
	}
	if stopped := ended.done.Sub(cut); !slices.Contains([]string{"1m", "1m effects"}, first.id.Payload) {
		return first // it ignores what it is told
	} else if ended.done.IsZero() || stopped > hold || !errors.Is(ended.cause, executor.ErrLockLost) {
		s.t.Errorf("the command was told to stop %s after the cut with %v, want within TTL and grace, %s, with %v",
			stopped, ended.cause, hold, executor.ErrLockLost)
	}
	return first
}

func TestSA01_CutOffHolderStopsAndNobodyStartsASecondTime(t *testing.T) {
	t.Run("back before it is called lost, its result is recorded under its own token", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newScene(t, "2026-03-10T12:00:00Z", "a", "b", "c")
			defer s.close()
			job := s.apply(rarely("minute", "1m"))
			first := s.cutOff(job, 3*ttl)
			time.Sleep(time.Minute)
			got := s.record(first.id.Firing).Last()
			if got.Verdict != scheduler.Failed || got.Reason != scheduler.ReasonLockLost || got.Token != first.id.Token {
				t.Errorf("recorded %+v, want FAILED(lock lost) of token %d", got, first.id.Token)
			}
			s.want(job, map[string]int64{"FAILED(lock lost)": 1})
			if n := len(s.seen(job)); n != 1 {
				t.Errorf("%d starts, want 1", n)
			}
			s.checkStarts()
		})
	})
	t.Run("back before it is called lost, it is tried again where lost attempts are", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newScene(t, "2026-03-10T12:00:00Z", "a", "b", "c")
			defer s.close()
			want := rarely("minute", "1m")
			want.Policy.OnLost = scheduler.OnLostRetry
			job := s.apply(want)
			first := s.cutOff(job, 3*ttl)
			second := s.await(10*time.Second, "second attempt", func(one sight) bool { return one.id.Attempt == 2 })
			if second.id.Firing != first.id.Firing || second.id.Token <= first.id.Token {
				t.Errorf("second attempt of %s has token %d, want more than %d and firing %s",
					second.id.Firing, second.id.Token, first.id.Token, first.id.Firing)
			}
			time.Sleep(2 * time.Minute)
			lines := s.record(first.id.Firing).Attempts
			if len(lines) != 2 || lines[0].Reason != scheduler.ReasonLockLost || lines[1].Verdict != scheduler.Succeeded {
				t.Errorf("recorded %+v, want FAILED(lock lost) and then SUCCEEDED", lines)
			}
			s.want(job, map[string]int64{"SUCCEEDED": 1})
			s.checkStarts()
		})
	})
	t.Run("back after it was called lost, its result is dropped and counted", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newScene(t, "2026-03-10T12:00:00Z", "a", "b", "c")
			defer s.close()
			job := s.apply(rarely("minute", "1m"))
			first := s.cutOff(job, 30*time.Second)
			time.Sleep(time.Minute)
			got := s.record(first.id.Firing).Last()
			if got.Verdict != scheduler.Lost || got.Reason != scheduler.ReasonMemberLost || got.Token != first.id.Token {
				t.Errorf("recorded %+v, want LOST(member lost) of token %d", got, first.id.Token)
			}
			s.want(job, map[string]int64{"LOST(member lost)": 1})
			if n := s.metric("late_results_dropped_total", ""); n != 1 {
				t.Errorf("%v late results were counted as dropped, want 1", n)
			}
			if s.alarmed("attempt lost") != 1 || s.alarmed("late result dropped") != 1 {
				t.Errorf("nobody was told: %+v", s.alarms)
			}
			if n := len(s.seen(job)); n != 1 {
				t.Errorf("%d starts, want 1", n)
			}
			s.checkStarts()
		})
	})
	t.Run("retried, what the first attempt does after the second is refused by its token", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newScene(t, "2026-03-10T12:00:00Z", "a", "b", "c")
			defer s.close()
			var receiver fencedReceiver
			s.effect = receiver.take
			want := rarely("minute", "1m stubborn effects") // it goes on though it is told to stop
			want.Policy.OnLost = scheduler.OnLostRetry
			job := s.apply(want)
			first := s.cutOff(job, 30*time.Second)
			second := s.await(busyRecovery, "second attempt", func(one sight) bool { return one.id.Attempt == 2 })
			if second.id.Firing != first.id.Firing || second.id.Token <= first.id.Token {
				t.Errorf("second attempt of %s has token %d, want more than %d and firing %s",
					second.id.Firing, second.id.Token, first.id.Token, first.id.Firing)
			}
			time.Sleep(2 * time.Minute)
			s.want(job, map[string]int64{"SUCCEEDED": 1})
			receiver.check(t, first.id.Token, second.id.Token)
			s.checkStarts()
		})
	})
}

// fencedReceiver is what a job acts on: it remembers the highest token, and refuses lower ones.
type fencedReceiver struct {
	mu       sync.Mutex // guards all: handlers of several members call it
	highest  int64
	accepted []int64
	refused  []int64
}

func (r *fencedReceiver) take(id executor.Identity) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if id.Token < r.highest {
		r.refused = append(r.refused, id.Token)
		return
	}
	r.highest = id.Token
	r.accepted = append(r.accepted, id.Token)
}

// check says whether every effect of the first token after the second's first was refused, and whether
// there were any to refuse.
func (r *fencedReceiver) check(t *testing.T, first, second int64) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.IsSorted(r.accepted) || !slices.Contains(r.accepted, first) || !slices.Contains(r.accepted, second) {
		t.Errorf("effects were accepted in the order %v, want those of %d before those of %d", r.accepted, first, second)
	}
	if len(r.refused) == 0 || slices.ContainsFunc(r.refused, func(token int64) bool { return token != first }) {
		t.Errorf("refused were effects of %v, want some of %d and no others", r.refused, first)
	}
}

func TestSA02_ContenderWhoseSessionIsGoneStartsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "2026-03-10T12:00:00Z", "a", "b")
		defer s.close()
		job := s.apply(ticking("contended", 10*time.Second, "50ms"))
		s.await(11*time.Second, "first start", func(one sight) bool { return true })
		owner := s.owner(job)
		// The Begin is on its way when the session that it names ends; then it arrives.
		begin := owner.link.Hold(begins)
		due := s.next(10*time.Second, time.Second)
		<-begin.Caught()
		s.revoke(owner.lockLease())
		answer, err := begin.Land()
		if err == nil {
			t.Fatalf("etcd took the lock under a lease that is gone: %v", answer)
		}
		time.Sleep(time.Second)
		for _, one := range between(s.seen(job), due, s.wall()) {
			if one.at.Before(due.Add(10 * time.Millisecond)) {
				t.Errorf("started by a claim that was refused: %+v", one)
			}
		}
		// It waits for the run of a member that leaves, and its session ends while it waits.
		time.Sleep(15 * time.Second)
		long := s.apply(ticking("long", time.Minute, "20s"))
		first := s.await(time.Minute+time.Second, "long run", func(one sight) bool { return one.id.Job == long.Name })
		leaver := s.members[first.id.Member]
		leaver.cfg.DrainTimeout = time.Minute
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			leaver.stop()
			<-leaver.done
		}()
		delete(s.members, leaver.cfg.Name)
		time.Sleep(19*time.Second + 990*time.Millisecond)
		other := s.any()
		s.revoke(other.lockLease())
		<-stopped
		leaver.end()
		s.until(first.at.Add(time.Minute + 10*time.Second))
		s.checkStarts()
		if seen := s.seen(long); len(seen) != 2 || seen[1].id.Member != other.cfg.Name {
			t.Errorf("starts %+v, want the next one on %s, under a session that lives", seen, other.cfg.Name)
		}
		s.want(long, map[string]int64{"SUCCEEDED": 1})
	})
}

// impersonate has members plan as if they were another: they believe that they own what it owns, under
// the same rules, so that all of them claim every firing at the same moment.
func (s *scene) impersonate(victim *bubbleMember, members ...*bubbleMember) {
	s.t.Helper()
	id := make(chan string, 1)
	victim.inbox.post(func(scheduler.Reading) { id <- victim.memberID })
	self := <-id
	for _, m := range members {
		life, end := context.WithCancel(s.t.Context()) // what it follows as somebody else ends when it leaves
		m.impostor = end
		m.inbox.post(func(scheduler.Reading) {
			m.memberID = self
			m.own(life, *m.rules.Load())
		})
	}
	time.Sleep(100 * time.Millisecond)
}

// allOwn has all members believe that they own everything that the first one owns, which is everything
// because the others hand over what they have.
func (s *scene) allOwn(victim string) {
	s.t.Helper()
	var others []*bubbleMember
	for name, m := range s.members {
		if name != victim {
			if _, err := m.Drain(s.t.Context()); err != nil {
				s.t.Fatal(err)
			}
			others = append(others, m)
		}
	}
	time.Sleep(3 * time.Second)
	s.impersonate(s.members[victim], others...)
}

func TestSA03_FourMembersThatAllClaimStartEachFiringOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "2026-03-10T12:00:00Z", "a", "b", "c", "d")
		defer s.close()
		job := s.apply(ticking("daily", 10*time.Second, "50ms"))
		time.Sleep(time.Second)
		s.allOwn("a")
		const firings = 200
		from := s.next(10*time.Second, 0)
		s.until(from.Add((firings-1)*10*time.Second + 5*time.Second))
		seen := between(s.seen(job), from, s.wall())
		if len(seen) != firings {
			t.Errorf("%d starts of %d firings", len(seen), firings)
		}
		if late := latest(seen); late > time.Second {
			t.Errorf("one started %s late", late)
		}
		// The others were told that it is claimed elsewhere.
		if tries := s.metric("decisions_total", string(scheduler.KindBegin)); tries < 4*firings {
			t.Errorf("only %v claims were sent: the members did not compete", tries)
		}
		s.checkStarts()
		if v := s.balance(job, s.wall().Add(-5*time.Second)); len(v) != 1 {
			t.Errorf("verdicts %v, want only SUCCEEDED", v)
		}
	})
}

func TestSA04_ShortRunsUnderSkewedClocksStartOnceAndNotEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "2026-03-10T12:00:00Z")
		defer s.close()
		s.skew = 300 * time.Millisecond
		for name, offset := range map[string]time.Duration{"a": -s.skew, "b": 0, "c": s.skew} {
			s.clocks[name] = &bentClock{wall: offset}
			s.add(name)
		}
		s.ready()
		job := s.apply(ticking("short", 2*time.Second, "5ms"))
		time.Sleep(time.Second)
		s.allOwn("b")
		const firings = 200
		from := s.next(2*time.Second, time.Second)
		s.until(from.Add((firings-1)*2*time.Second + time.Second))
		seen := between(s.seen(job), from.Add(-s.skew), s.wall())
		if len(seen) != firings {
			t.Errorf("%d starts of %d firings", len(seen), firings)
		}
		s.checkStarts()
		if v := s.balance(job, s.wall().Add(-2*time.Second)); len(v) != 1 {
			t.Errorf("verdicts %v, want only SUCCEEDED", v)
		}
	})
}

func TestSA05_RunThatOutlivesThreeTTLsIsNotStartedBeside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "2026-03-10T12:00:00Z", "a", "b", "c")
		defer s.close()
		job := s.apply(ticking("long", 4*time.Second, (3 * ttl).String()))
		s.until(s.next(time.Minute, 0).Add(time.Minute + 3*time.Second))
		s.checkStarts()
		v := s.balance(job, s.wall().Add(-4*time.Second))
		if starts := int64(len(s.seen(job))); starts < 8 || v["SUCCEEDED"] < starts-1 || len(v) != 2 {
			t.Errorf("%d starts, verdicts %v; want every third instant SUCCEEDED, the others SKIPPED(overlap)", starts, v)
		}
		if v["SKIPPED(overlap)"] < 2*v["SUCCEEDED"] {
			t.Errorf("verdicts %v, want two SKIPPED(overlap) for each SUCCEEDED", v)
		}
	})
}

func TestSA43_ThreeMembersThatRaceForShortFiringsStartEachOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "2026-03-10T12:00:00Z", "a", "b", "c")
		defer s.close()
		var jobs []scheduler.Job
		for i := range 40 {
			jobs = append(jobs, s.apply(ticking(fmt.Sprintf("short-%d", i), time.Second, "1ms")))
		}
		time.Sleep(time.Second)
		s.allOwn("a")
		from := s.next(time.Second, time.Second)
		s.until(from.Add(100*time.Second - 500*time.Millisecond))
		if n := len(between(s.seen(), from, s.wall())); n != 4000 {
			t.Errorf("%d starts of 4000 firings", n)
		}
		if tries := s.metric("decisions_total", string(scheduler.KindBegin)); tries < 10_000 {
			t.Errorf("only %v claims were sent: the members did not race", tries)
		}
		s.checkStarts()
		for _, job := range jobs {
			s.balance(job, s.wall().Add(-2*time.Second))
		}
	})
}

func TestSA44_OneShotStartsOnceThoughTheDispatcherDiesAtThatMoment(t *testing.T) {
	for _, when := range []time.Duration{-10 * time.Millisecond, 0, 10 * time.Millisecond} {
		t.Run(when.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, "2026-03-10T12:00:00Z", "a", "b", "c")
				defer s.close()
				at := s.next(10*time.Second, 5*time.Second)
				var jobs []scheduler.Job
				for i := range 6 { // some are the dispatcher's own, some are not
					jobs = append(jobs, s.apply(once(fmt.Sprintf("once-%d", i), at, "1s")))
				}
				time.Sleep(time.Second)
				dispatcher := s.dispatcher()
				owned := 0
				for _, job := range jobs {
					if s.owner(job) == dispatcher {
						owned++
					}
				}
				if owned == 0 || owned == len(jobs) {
					t.Fatalf("the dispatcher owns %d of %d jobs: nothing is shown", owned, len(jobs))
				}
				s.until(at.Add(when))
				s.die(dispatcher)
				time.Sleep(2 * busyRecovery)
				for _, job := range jobs {
					seen := s.seen(job)
					if len(seen) != 1 {
						t.Errorf("job %s: %d starts, want 1: verdicts %v", job.Name, len(seen), s.verdicts(job))
						continue
					}
					if late := seen[0].late(); late > recovery {
						t.Errorf("job %s: started %s late, want within %s", job.Name, late, recovery)
					}
				}
				s.checkStarts()
			})
		})
	}
}
