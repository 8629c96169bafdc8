package node

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumcron/quorumcron/executor"
	"github.com/quorumcron/quorumcron/internal/memetcd"
	"github.com/quorumcron/quorumcron/scheduler"
)

// With the bubble's TTL of 3 s and a grace of 5 s.
const (
	ttl      = 3 * time.Second
	hold     = ttl + 5*time.Second
	recovery = 2*ttl + 2*time.Second // R, with an etcd that has nothing to elect
)

// three starts members a, b and c.
func three(t *testing.T) *bubble {
	t.Helper()
	b := newBubble(t)
	for _, name := range []string{"a", "b", "c"} {
		b.join(name)
	}
	b.ready()
	return b
}

// owner is the member that owns the job.
func (b *bubble) owner(job scheduler.Job) *bubbleMember {
	b.t.Helper()
	view, err := b.any().Job(b.t.Context(), job.Name)
	if err != nil {
		b.t.Fatal(err)
	}
	m := b.members[view.Owner]
	if m == nil {
		b.t.Fatalf("job %s is owned by %q, which is no member", job.Name, view.Owner)
	}
	return m
}

// run waits until a run of the job satisfies the condition.
func (b *bubble) run(job scheduler.Job, within time.Duration, what string, ok func(scheduler.Run) bool) scheduler.Run {
	b.t.Helper()
	deadline := time.Now().Add(within)
	for {
		runs, err := b.any().Runs(b.t.Context(), scheduler.RunQuery{Namespace: "default", Job: job.Name.Name, Limit: 100})
		if err != nil {
			b.t.Fatal(err)
		}
		for _, r := range runs {
			if ok(r) {
				return r
			}
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("job %s: no run is %s after %s: %+v", job.Name, what, within, runs)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func running(r scheduler.Run) bool { return r.Last().Verdict == "" && r.Last().Token != 0 }

func TestJobsOfACrashedMemberFireElsewhereWithinR(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := three(t)
		defer b.close()
		job := b.apply(handlerJob("idle", time.Second, "work", ""))
		time.Sleep(3500 * time.Millisecond) // between two runs
		victim := b.owner(job)
		crashed := time.Now().UTC()
		b.crash(victim)
		time.Sleep(recovery + hold)
		first := time.Time{}
		for _, s := range b.witnessed() {
			if s.id.Member != victim.cfg.Name && s.at.After(crashed) && first.IsZero() {
				first = s.at
			}
		}
		if first.IsZero() || first.Sub(crashed) > recovery {
			t.Errorf("first start elsewhere at %s, %s after the crash; want within %s", first, first.Sub(crashed), recovery)
		}
		b.check()
		b.accounts(job, time.Now().Add(-2*time.Second))
	})
}

func TestLostAttemptEndsLostAndBlocksItsJobUntilItIsSurelyDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := three(t)
		defer b.close()
		job := b.apply(handlerJob("busy", 5*time.Second, "slow", "1h"))
		busy := b.run(job, 10*time.Second, "running", running)
		crashed := time.Now()
		b.crash(b.members[busy.Last().Member])
		lost := b.run(job, recovery+hold+scheduler.LoseMargin+time.Second, "LOST", func(r scheduler.Run) bool {
			return r.Firing == busy.Firing && r.Last().Verdict == scheduler.Lost
		})
		if after := time.Since(crashed); after < hold {
			t.Errorf("called lost %s after the crash, before its hold of %s had passed", after, hold)
		}
		if len(lost.Attempts) != 1 {
			t.Errorf("%d attempts with onLost fail, want 1", len(lost.Attempts))
		}
		next := b.run(job, 6*time.Second, "running again", running)
		if next.Last().Token <= busy.Last().Token {
			t.Errorf("token %d after %d: it must grow", next.Last().Token, busy.Last().Token)
		}
	})
}

func TestLostAttemptIsRetriedWithAHigherTokenIfAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := three(t)
		defer b.close()
		want := handlerJob("again", time.Hour, "slow", "20s")
		want.Policy.OnLost = scheduler.OnLostRetry
		job := b.apply(want)
		receipt, err := b.any().Trigger(t.Context(), scheduler.TriggerRequest{Job: job.Name, RequestID: "r1"})
		if err != nil {
			t.Fatal(err)
		}
		first := b.run(job, 5*time.Second, "running", running)
		b.crash(b.members[first.Last().Member])
		second := b.run(job, recovery+hold+5*time.Second, "on its second attempt", func(r scheduler.Run) bool {
			return running(r) && r.Last().Number == 2
		})
		if second.Firing != receipt.Firing || second.Last().Token <= first.Last().Token {
			t.Errorf("second attempt is %v with token %d, want firing %s and more than %d",
				second.Firing, second.Last().Token, receipt.Firing, first.Last().Token)
		}
		done := b.run(job, 30*time.Second, "SUCCEEDED", func(r scheduler.Run) bool { return r.Last().Verdict == scheduler.Succeeded })
		if len(done.Attempts) != 2 || done.Attempts[0].Verdict != scheduler.Lost {
			t.Errorf("attempts %+v, want one LOST and one SUCCEEDED", done.Attempts)
		}
	})
}

func TestPlannedRestartIsNotNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := three(t)
		defer b.close()
		var jobs []scheduler.Job
		for _, name := range []string{"j0", "j1", "j2", "j3", "j4", "j5", "j6", "j7", "j8", "j9"} {
			jobs = append(jobs, b.apply(handlerJob(name, time.Second, "work", "")))
		}
		time.Sleep(5 * time.Second)
		for _, name := range []string{"a", "b", "c"} {
			b.leave(b.members[name])
			time.Sleep(3 * time.Second)
			b.join(name)
			b.ready()
			time.Sleep(3 * time.Second)
		}
		for _, s := range b.witnessed() {
			if late := s.at.Sub(s.id.Firing.Instant()); late > time.Second {
				t.Errorf("firing %s of job %s started %s late", s.id.Firing, s.id.Job, late)
			}
		}
		for _, job := range jobs {
			view, err := b.any().Job(t.Context(), job.Name)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range view.State.Counters {
				if c.Verdict != scheduler.Succeeded {
					t.Errorf("job %s has %d %s(%s), want nothing but SUCCEEDED", job.Name, c.Count, c.Verdict, c.Reason)
				}
			}
			b.accounts(job, time.Now().Add(-2*time.Second))
		}
		b.check()
	})
}

func TestLastMemberStopsClaimingAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		defer b.close()
		only := b.join("only")
		b.ready()
		b.apply(handlerJob("tick", time.Second, "work", ""))
		time.Sleep(3500 * time.Millisecond)
		began := time.Now()
		b.leave(only)
		if took := time.Since(began); took > 500*time.Millisecond {
			t.Errorf("a member that is alone and idle took %s to stop", took)
		}
	})
}

func TestStopTellsAttemptsToEndAtTheDrainLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := three(t)
		defer b.close()
		job := b.apply(handlerJob("long", time.Hour, "slow", "1h"))
		if _, err := b.any().Trigger(t.Context(), scheduler.TriggerRequest{Job: job.Name, RequestID: "r"}); err != nil {
			t.Fatal(err)
		}
		r := b.run(job, 5*time.Second, "running", running)
		began := time.Now()
		b.leave(b.members[r.Last().Member]) // DrainTimeout is 5 s
		if took := time.Since(began); took < 5*time.Second || took > 8*time.Second {
			t.Errorf("the stop took %s, want about the drain limit of 5s", took)
		}
		ended := b.run(job, time.Second, "FAILED", func(r scheduler.Run) bool { return r.Last().Verdict == scheduler.Failed })
		if ended.Last().Reason != scheduler.ReasonStopping {
			t.Errorf("reason %q, want %q", ended.Last().Reason, scheduler.ReasonStopping)
		}
		for _, s := range b.witnessed() {
			if !errors.Is(s.cause, executor.ErrStopping) {
				t.Errorf("handler saw cause %v, want ErrStopping", s.cause)
			}
		}
	})
}

func TestStopIsBoundedThoughAHandlerIgnoresIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := three(t)
		defer b.close()
		job := b.apply(handlerJob("stubborn", time.Hour, "stubborn", ""))
		if _, err := b.any().Trigger(t.Context(), scheduler.TriggerRequest{Job: job.Name, RequestID: "r"}); err != nil {
			t.Fatal(err)
		}
		r := b.run(job, 5*time.Second, "running", running)
		began := time.Now()
		b.leave(b.members[r.Last().Member])
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("the stop took %s", took)
		}
		b.run(job, time.Minute, "LOST", func(r scheduler.Run) bool { return r.Last().Verdict == scheduler.Lost })
		time.Sleep(11 * time.Minute) // until the handler is done: a bubble leaves nobody behind
	})
}

func TestPartitionedMembersAttemptEndsBeforeAnotherStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := three(t)
		defer b.close()
		job := b.apply(handlerJob("busy", 10*time.Second, "slow", "1h"))
		first := b.run(job, 15*time.Second, "running", running)
		m := b.members[first.Last().Member]
		m.link.Cut()
		m.unreachable = true
		b.run(job, recovery+hold+20*time.Second, "running elsewhere", func(r scheduler.Run) bool {
			return running(r) && r.Firing != first.Firing
		})
		ended := b.witnessed()
		if len(ended) != 1 || !errors.Is(ended[0].cause, executor.ErrLockLost) {
			t.Fatalf("the cut-off member's attempt had not been told that its lock is lost: %+v", ended)
		}
		m.link.Mend()
		m.unreachable = false
		time.Sleep(time.Minute)
		b.ready()
		b.accounts(job, time.Now().Add(-20*time.Second))
	})
}

func TestAttemptOutlivesAShortPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := three(t)
		defer b.close()
		job := b.apply(handlerJob("busy", time.Hour, "slow", "20s"))
		if _, err := b.any().Trigger(t.Context(), scheduler.TriggerRequest{Job: job.Name, RequestID: "r"}); err != nil {
			t.Fatal(err)
		}
		first := b.run(job, 5*time.Second, "running", running)
		m := b.members[first.Last().Member]
		m.link.Cut()
		time.Sleep(1500 * time.Millisecond)
		m.link.Mend()
		done := b.run(job, 30*time.Second, "SUCCEEDED", func(r scheduler.Run) bool { return r.Last().Verdict == scheduler.Succeeded })
		if len(done.Attempts) != 1 {
			t.Errorf("%d attempts, want 1", len(done.Attempts))
		}
	})
}

func TestResultIsKeptWhileEtcdIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := three(t)
		defer b.close()
		job := b.apply(handlerJob("busy", time.Hour, "slow", "4s"))
		if _, err := b.any().Trigger(t.Context(), scheduler.TriggerRequest{Job: job.Name, RequestID: "r"}); err != nil {
			t.Fatal(err)
		}
		b.run(job, 5*time.Second, "running", running)
		b.etcd.LoseQuorum()
		time.Sleep(6 * time.Second) // it ends meanwhile; its lease lives on, for nobody can end it
		b.etcd.RegainQuorum()
		done := b.run(job, 10*time.Second, "SUCCEEDED", func(r scheduler.Run) bool { return r.Last().Verdict == scheduler.Succeeded })
		if took := done.Last().Finished.Sub(done.Last().Started); took != 4*time.Second {
			t.Errorf("the record says it took %s, want 4s", took)
		}
		b.ready()
	})
}

func TestLostRepliesOfClaimsStartNothingTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := three(t)
		defer b.close()
		job := b.apply(handlerJob("tick", 5*time.Second, "work", ""))
		time.Sleep(6 * time.Second)
		m := b.owner(job)
		for range 20 {
			m.link.DropReplies(1, memetcd.WritesTo("/quorumcron/locks/"))
			time.Sleep(5 * time.Second)
		}
		if m.link.Counts().RepliesDropped < 10 {
			t.Fatalf("only %d replies were dropped: the fault did not take hold", m.link.Counts().RepliesDropped)
		}
		time.Sleep(15 * time.Second)
		b.check()
		b.accounts(job, time.Now().Add(-12*time.Second))
	})
}

func TestClaimThatLandsLateIsNeverStartedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := three(t)
		defer b.close()
		job := b.apply(handlerJob("tick", 10*time.Second, "work", ""))
		time.Sleep(12 * time.Second)
		m := b.owner(job)
		for range 12 {
			m.link.CommitLate(1, 4*time.Second, memetcd.WritesTo("/quorumcron/locks/"))
			time.Sleep(10 * time.Second)
		}
		time.Sleep(30 * time.Second)
		b.check()
		b.accounts(job, time.Now().Add(-21*time.Second))
	})
}
