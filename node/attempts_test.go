package node

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorumcron/quorumcron/internal/memetcd"
	"github.com/quorumcron/quorumcron/scheduler"
)

// These tests ask that each attempt in flight is looked after: nothing that is told of one is taken for
// another's, and none is left that nobody would hear the end of.

// delayReplies has the first call of the link that matches answered so late.
func delayReplies(m *bubbleMember, by time.Duration, match func(memetcd.Call) bool) (delayed func() bool) {
	var done atomic.Bool
	m.link.Inject(func(c memetcd.Call) memetcd.Fate {
		if !match(c) || !done.CompareAndSwap(false, true) {
			return memetcd.Fate{}
		}
		return memetcd.Fate{ReplyDelay: by}
	})
	return done.Load
}

// TestTheEndOfAFormerAttemptIsNotTakenForTheNextOnes: the owner has found the end of its first attempt
// and begun the second before the answer to the first one's Finish comes. That answer must not have it
// forget the second, or what is due meanwhile waits until it is MISSED instead of being skipped.
func TestTheEndOfAFormerAttemptIsNotTakenForTheNextOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "2026-03-10T12:00:00Z", "only")
		defer s.close()
		m := s.members["only"]
		begun := delayReplies(m, 2*time.Second, begins) // too old to be started: LOST(never started)
		ended := delayReplies(m, 2500*time.Millisecond, ends)
		want := ticking("often", time.Second, "10s")
		want.Policy.OnLost = scheduler.OnLostRetry
		job := s.apply(want)
		second := s.await(10*time.Second, "second attempt", func(one sight) bool { return one.id.Attempt == 2 })
		if !begun() || !ended() {
			t.Fatalf("replies delayed: Begin %v, Finish %v: the test proves nothing", begun(), ended())
		}
		time.Sleep(9 * time.Second)
		got := s.verdicts(job)
		if got["SKIPPED(overlap)"] < 7 || len(got) != 1 {
			t.Errorf("verdicts %v while the second attempt of %s runs, want SKIPPED(overlap) for each instant", got, second.id.Firing)
		}
	})
}

// TestOwnerThatWasAwayAndBackFollowsTheAttemptsOfMeanwhile: it had followed the first attempt to its end.
// Another owner begins the second, of the same firing, and the rules bring the first one back in the same
// delivery that took it away. What it knew of the first attempt must not stand for the second.
func TestOwnerThatWasAwayAndBackFollowsTheAttemptsOfMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		defer b.close()
		b.join("a")
		b.join("b")
		runner := b.join("c")
		b.ready()
		var jobs []scheduler.Job
		for i := range 24 {
			want := handlerJob(fmt.Sprint("asked-", i), year, "slow", "20s")
			want.Policy.OnLost = scheduler.OnLostRetry
			jobs = append(jobs, b.apply(want))
		}
		time.Sleep(2 * time.Second)
		owner := b.members["a"]
		if owner.sessions.Status().Term.Key != "" { // the dispatcher hears of all changes
			owner = b.members["b"]
		}
		jobs = slices.DeleteFunc(jobs, func(job scheduler.Job) bool { return b.owner(job) != runner })
		for _, job := range jobs {
			b.ask(job)
		}
		time.Sleep(time.Second)
		if _, err := runner.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		jobs = slices.DeleteFunc(jobs, func(job scheduler.Job) bool { return b.owner(job) != owner })
		b.revokeLocks(runner)
		time.Sleep(hold - 2500*time.Millisecond) // the runner has told its attempts to end, and nobody has called them lost
		b.awayAndBack(owner)
		owner.unreachable = true // ask another who owns what
		jobs = slices.DeleteFunc(jobs, func(job scheduler.Job) bool {
			entries := b.stored(job).Entries
			return b.owner(job) != owner || len(entries) != 1 || entries[0].Attempt != 2 || entries[0].Member == owner.cfg.Name
		})
		owner.unreachable = false
		if len(jobs) == 0 {
			t.Fatal("no second attempt was begun in between: the test proves nothing")
		}
		time.Sleep(40 * time.Second)
		for _, job := range jobs {
			b.settled(job)
		}
	})
}

// awayAndBack has a member lose its shards and get them back, and hear of both at once.
func (b *bubble) awayAndBack(owner *bubbleMember) {
	b.t.Helper()
	drained := func(draining bool) {
		owner.draining.Store(draining)
		if err := owner.sessions.UpdateMember(b.t.Context(), func(m *scheduler.Member) { m.Draining = draining }); err != nil {
			b.t.Fatal(err)
		}
		time.Sleep(700 * time.Millisecond)
	}
	owner.link.DropEvents(-1, func(e *clientv3.Event) bool { return strings.HasPrefix(string(e.Kv.Key), "/quorumcron/rules/") })
	owner.stoppedClaiming.Store(true) // a claim would be refused, and make it look for what it has missed
	drained(true)
	owner.link.ClearRules()
	drained(false)
	owner.stoppedClaiming.Store(false)
}

// refuse has etcd refuse some of the calls of the link that match, the first being 1, as it refuses a
// transaction that is too large: definitely, so that nothing is sent again.
func refuse(m *bubbleMember, match func(memetcd.Call) bool, which ...int64) (refused func() bool) {
	var calls atomic.Int64
	m.link.Inject(func(c memetcd.Call) memetcd.Fate {
		if !match(c) || !slices.Contains(which, calls.Add(1)) {
			return memetcd.Fate{}
		}
		return memetcd.Fate{Err: rpctypes.ErrGRPCRequestTooLarge}
	})
	return func() bool { return calls.Load() >= slices.Max(which) }
}

// TestAttemptWhoseEndCannotBeWrittenIsLookedAfter: it is let go with its lock there and its entry in the
// state. The forgotten lock is closed, also if nothing else is held, and the owner hears of that.
func TestAttemptWhoseEndCannotBeWrittenIsLookedAfter(t *testing.T) {
	for _, others := range []bool{true, false} {
		t.Run(fmt.Sprint("others run: ", others), func(t *testing.T) { attemptWhoseEndIsRefused(t, others, 1) })
	}
	// The second Finish closes the lock of the first attempt, the third is the second attempt's: whoever
	// looked after the first one does not look after this.
	t.Run("twice", func(t *testing.T) { attemptWhoseEndIsRefused(t, false, 1, 3) })
}

func attemptWhoseEndIsRefused(t *testing.T, others bool, which ...int64) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		defer b.close()
		m := b.join("only")
		b.ready()
		if others {
			b.ask(b.apply(handlerJob("long", year, "slow", "2m")))
		}
		want := handlerJob("asked", year, "slow", "1s")
		want.Policy.OnLost = scheduler.OnLostRetry
		job := b.apply(want)
		time.Sleep(2 * time.Second)
		b.ask(job)
		time.Sleep(500 * time.Millisecond)
		refused := refuse(m, ends, which...)
		time.Sleep(time.Minute)
		if !refused() {
			t.Fatal("no Finish was refused: the test proves nothing")
		}
		b.settled(job)
		run := b.run(job, time.Second, "one attempt more than were lost", func(r scheduler.Run) bool { return len(r.Attempts) == len(which)+1 })
		for _, a := range run.Attempts[:len(which)] {
			if a.Verdict != scheduler.Lost || a.Reason != scheduler.ReasonMemberLost {
				t.Errorf("attempt %d is %s(%s), want LOST(member lost): it was started", a.Number, a.Verdict, a.Reason)
			}
		}
	})
}

// TestWhatIsKnownOfAnEndHoldsNoOutput: a member keeps the record of each job that has fired within the hour.
func TestWhatIsKnownOfAnEndHoldsNoOutput(t *testing.T) {
	f := scheduler.At("uid", time.Unix(0, 0))
	run := scheduler.Run{Firing: f, Output: []byte("many lines"), Attempts: []scheduler.Attempt{{Number: 1, Token: 7, Verdict: scheduler.Succeeded}}}
	known := &tracked{facts: map[scheduler.Firing]scheduler.Fact{}}
	known.learn(scheduler.Entry{Firing: f, Attempt: 1, Token: 7}, 0, &run, scheduler.Reading{Elapsed: time.Hour})
	if record := known.facts[f].Record; record == nil || record.Output != nil || record.Last().Verdict != scheduler.Succeeded {
		t.Errorf("got %+v, want the end without its output", record)
	}
	if run.Output == nil {
		t.Error("the record that is told to others has lost its output")
	}
}
