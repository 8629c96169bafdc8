package node

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

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
