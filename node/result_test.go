package node

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorumcron/quorumcron/internal/memetcd"
	"github.com/quorumcron/quorumcron/scheduler"
)

// These tests are about what becomes of a result: how it is told, kept, and taken in.

// revokeLocks ends a member's lock leases as an operator, or a bug, would.
func (b *bubble) revokeLocks(m *bubbleMember) {
	b.t.Helper()
	for _, l := range m.sessions.Status().Locks {
		if _, err := b.etcd.Client(b.t.Context()).Revoke(b.t.Context(), clientv3.LeaseID(l.ID)); err != nil {
			b.t.Fatal(err)
		}
	}
}

func TestLateResultWhoseReplyIsLostBlocksNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		defer b.close()
		m := b.join("only")
		b.ready()
		job := b.apply(handlerJob("busy", time.Second, "slow", "3s"))
		first := b.run(job, 5*time.Second, "running", running)
		b.revokeLocks(m)
		m.link.DropReplies(1, func(c memetcd.Call) bool { // of the late result: it writes state and record
			return memetcd.WritesTo("/quorumcron/state/")(c) && memetcd.WritesTo("/quorumcron/runs/")(c)
		})
		b.run(job, 5*time.Second, "recorded late", func(r scheduler.Run) bool {
			return r.Firing == first.Firing && r.Last().Verdict == scheduler.Succeeded
		})
		if m.link.Counts().RepliesDropped == 0 {
			t.Fatal("no reply was dropped: the test proves nothing")
		}
		b.run(job, 2*time.Second, "running again", func(r scheduler.Run) bool {
			return running(r) && r.Firing != first.Firing
		})
	})
}

func TestCancelThatComesTooLateLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := three(t)
		defer b.close()
		job := b.apply(handlerJob("short", time.Hour, "slow", "2s"))
		receipt, err := b.any().Trigger(t.Context(), scheduler.TriggerRequest{Job: job.Name, RequestID: "r"})
		if err != nil {
			t.Fatal(err)
		}
		r := b.run(job, 5*time.Second, "running", running)
		m := b.members[r.Last().Member]
		finish := m.link.Hold(memetcd.WritesTo("/quorumcron/runs/"))
		<-finish.Caught() // the attempt has ended, its record is on its way
		if _, err := b.another(m).Cancel(t.Context(), receipt.Firing); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
		if _, err := finish.Land(); err != nil {
			t.Fatal(err)
		}
		b.run(job, 2*time.Second, "SUCCEEDED", func(r scheduler.Run) bool { return r.Last().Verdict == scheduler.Succeeded })
		time.Sleep(time.Second)
		if n := b.count("queue/"); n != 0 {
			t.Errorf("%d cancels are left in the queue, want none", n)
		}
	})
}

// TestCancelThatOvertakesTheAnswerOfABeginEndsTheAttempt: an attempt can be canceled as soon as it is granted,
// which others may see before its own member does.
func TestCancelThatOvertakesTheAnswerOfABeginEndsTheAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		defer b.close()
		m := b.join("only")
		b.ready()
		job := b.apply(handlerJob("asked", year, "slow", "1m"))
		time.Sleep(2 * time.Second)
		var begun atomic.Bool
		m.link.Inject(func(call memetcd.Call) memetcd.Fate {
			if !locking(call) || !begun.CompareAndSwap(false, true) {
				return memetcd.Fate{}
			}
			return memetcd.Fate{ReplyDelay: time.Second}
		})
		firing := b.ask(job)
		time.Sleep(100 * time.Millisecond)
		if b.token(firing) == 0 {
			t.Fatal("nothing was granted: the test proves nothing")
		}
		if _, err := m.Cancel(t.Context(), firing); err != nil {
			t.Fatal(err)
		}
		r := b.run(job, 5*time.Second, "ended", func(r scheduler.Run) bool { return r.Firing == firing && r.Last().Verdict != "" })
		if r.Last().Verdict != scheduler.Canceled {
			t.Errorf("it ended %s(%s), want CANCELED", r.Last().Verdict, r.Last().Reason)
		}
		if n := b.count("queue/"); n != 0 {
			t.Errorf("%d cancels are left in the queue, want none", n)
		}
	})
}

// TestCancelOfALostAttemptLeavesNothing: its member never hears of it, and may never come back.
func TestCancelOfALostAttemptLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := three(t)
		defer b.close()
		job := b.apply(handlerJob("long", time.Hour, "slow", "10m"))
		firing := b.ask(job)
		m := b.members[b.run(job, 5*time.Second, "running", running).Last().Member]
		b.crash(m)
		if _, err := b.any().Cancel(t.Context(), firing); err != nil || b.count("queue/") != 1 {
			t.Fatalf("cancel before the lock is gone: %v, %d in the queue; want 1", err, b.count("queue/"))
		}
		b.run(job, 20*time.Second, "LOST", func(r scheduler.Run) bool { return r.Last().Verdict == scheduler.Lost })
		if n := b.count("queue/"); n != 0 {
			t.Errorf("%d cancels are left in the queue, want none", n)
		}
	})
}

func TestResultOfAKilledNodeIsRecordedByItsNextLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		defer b.close()
		dir := t.TempDir()
		inFolder := func(c *Config) { c.DataDir = dir }
		m := b.join("only", inFolder)
		b.ready()
		job := b.apply(handlerJob("busy", 20*time.Second, "slow", "3s"))
		first := b.run(job, 25*time.Second, "running", running)
		m.link.Refuse()
		time.Sleep(4 * time.Second) // it ends, and nobody can be told
		b.crash(m)
		b.join("only", inFolder)
		b.ready()
		told := time.Now()
		b.run(job, time.Second, "SUCCEEDED", func(r scheduler.Run) bool {
			return r.Firing == first.Firing && r.Last().Verdict == scheduler.Succeeded
		})
		b.run(job, 25*time.Second, "running again", func(r scheduler.Run) bool {
			return running(r) && r.Firing != first.Firing
		})
		if n := b.startsAfter(job, told); n > 2 {
			t.Errorf("%d starts", n)
		}
		entries, err := b.members["only"].spool.All()
		if err != nil || len(entries) != 0 {
			t.Errorf("the spool still holds %d results: %v", len(entries), err)
		}
		b.check()
		b.accounts(job, time.Now().Add(-30*time.Second))
	})
}

func TestLostLeasesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		defer b.close()
		m := b.join("only")
		b.ready()
		b.apply(handlerJob("busy", time.Second, "slow", "700ms"))
		for range 5 {
			time.Sleep(5 * time.Second)
			b.revokeLocks(m)
			time.Sleep(hold)
			m.link.Cut()
			time.Sleep(ttl)
			m.link.Mend()
		}
		time.Sleep(hold + ttl)
		m.held.mu.Lock()
		defer m.held.mu.Unlock()
		if n := len(m.held.doubted); n != 0 {
			t.Errorf("%d leases are remembered as doubted, want none", n)
		}
	})
}
