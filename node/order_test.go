package node

import (
	"fmt"
	"slices"
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

// These tests bring events in another order than usual: what a member learns late must not hide what
// it has learnt meanwhile, and no answer may be waited for that nobody takes in.

// startsAfter counts the starts of a job after a moment.
func (b *bubble) startsAfter(job scheduler.Job, moment time.Time) (n int) {
	for _, s := range b.witnessed() {
		if s.id.Job == job.Name && s.at.After(moment) {
			n++
		}
	}
	return n
}

func TestJobAppliedAnewFiresThoughAWriteOfTheFormerOneIsOnItsWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		defer b.close()
		m := b.join("only")
		b.ready()
		held := m.link.Hold(memetcd.WritesTo("/quorumcron/locks/"))
		job := b.apply(handlerJob("reborn", time.Second, "work", ""))
		<-held.Caught()
		if _, err := m.Delete(t.Context(), job.Name, 0); err != nil {
			t.Fatal(err)
		}
		reborn := b.apply(handlerJob("reborn", time.Second, "work", ""))
		if reborn.UID == job.UID {
			t.Fatal("it is the same job: the test proves nothing")
		}
		time.Sleep(100 * time.Millisecond) // its event
		if _, err := held.Land(); err != nil {
			t.Fatal(err)
		}
		landed := time.Now()
		time.Sleep(5 * time.Second)
		if n := b.startsAfter(reborn, landed); n < 4 {
			t.Errorf("%d starts in the 5 s after it was applied anew, want 4 or 5", n)
		}
		b.check()
	})
}

// count is how many keys there are below a part of the prefix.
func (b *bubble) count(below string) int64 {
	b.t.Helper()
	resp, err := b.etcd.Client(b.t.Context()).Get(b.t.Context(), "/quorumcron/"+below, clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		b.t.Fatal(err)
	}
	return resp.Count
}

// readsOf matches the linearizable read of one job: its definition, state and triggers.
func readsOf(job scheduler.JobName) func(memetcd.Call) bool {
	return func(c memetcd.Call) bool {
		txn := c.Txn()
		if txn == nil || len(txn.Compare) > 0 {
			return false
		}
		for _, op := range txn.Success {
			r, ok := op.Request.(*pb.RequestOp_RequestRange)
			if ok && strings.HasPrefix(string(r.RequestRange.Key), "/quorumcron/jobs/") && strings.HasSuffix(string(r.RequestRange.Key), job.String()) {
				return true
			}
		}
		return false
	}
}

// slowReload hides an edit from the owner of a job, so that its next claim is refused and it reads the
// job anew, and has that read take two seconds more to be answered. It returns when it has been read.
func (b *bubble) slowReload(owner *bubbleMember, job scheduler.JobName, edit func()) {
	b.t.Helper()
	var reading atomic.Bool
	owner.link.Inject(func(c memetcd.Call) memetcd.Fate {
		if !readsOf(job)(c) || !reading.CompareAndSwap(false, true) {
			return memetcd.Fate{}
		}
		return memetcd.Fate{ReplyDelay: 2 * time.Second}
	})
	owner.link.FreezeWatches()
	edit()
	deadline := time.Now().Add(15 * time.Second)
	for !reading.Load() {
		if time.Now().After(deadline) {
			b.t.Fatal("the job was not read anew: the test proves nothing")
		}
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(10 * time.Millisecond) // it has arrived
}

// another returns a member beside m.
func (b *bubble) another(m *bubbleMember) *bubbleMember {
	b.t.Helper()
	for _, o := range b.members {
		if o != m {
			return o
		}
	}
	b.t.Fatal("there is no other member")
	return nil
}

func TestLateReadHidesNoNewerDefinition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := three(t)
		defer b.close()
		job := b.apply(handlerJob("edited", time.Second, "work", ""))
		time.Sleep(2500 * time.Millisecond)
		owner := b.owner(job)
		other := b.another(owner)
		b.slowReload(owner, job.Name, func() {
			if _, err := other.Pause(t.Context(), job.Name, 0); err != nil {
				t.Fatal(err)
			}
		})
		if _, err := other.Resume(t.Context(), job.Name, 0); err != nil {
			t.Fatal(err)
		}
		owner.link.ThawWatches() // the resume is seen before the answer, which still says paused
		time.Sleep(3 * time.Second)
		answered := time.Now()
		time.Sleep(5 * time.Second)
		if n := b.startsAfter(job, answered); n < 4 {
			t.Errorf("%d starts in 5 s after the resume, want 4 or 5", n)
		}
		b.check()
		b.accounts(job, time.Now().Add(-2*time.Second))
	})
}

func TestLateReadHidesNoNewerTrigger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := three(t)
		defer b.close()
		job := b.apply(handlerJob("asked", 10*time.Second, "work", ""))
		time.Sleep(8 * time.Second)
		owner := b.owner(job)
		other := b.another(owner)
		b.slowReload(owner, job.Name, func() {
			edited := job
			edited.Labels = map[string]string{"team": "unseen"}
			if _, err := other.Apply(t.Context(), edited, 0); err != nil {
				t.Fatal(err)
			}
		})
		if _, err := other.Trigger(t.Context(), scheduler.TriggerRequest{Job: job.Name, RequestID: "r"}); err != nil {
			t.Fatal(err)
		}
		owner.link.ThawWatches() // the trigger is seen before the answer, which knows nothing of it
		time.Sleep(30 * time.Second)
		if n := b.count("triggers/"); n != 0 {
			t.Errorf("%d triggers still wait, want the one decided", n)
		}
		b.check()
	})
}

// TestAttemptOfARegainedShardIsSettled: while the shard was another's, this member's own attempt lost its
// lock. The handler does not heed its context, so that nothing but a look at the lock can tell.
func TestAttemptOfARegainedShardIsSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		defer b.close()
		a := b.join("a")
		b.ready()
		var jobs []scheduler.Job
		for i := range 8 {
			job := b.apply(handlerJob(fmt.Sprintf("stubborn-%d", i), time.Hour, "stubborn", ""))
			if _, err := a.Trigger(t.Context(), scheduler.TriggerRequest{Job: job.Name, RequestID: job.Name.Name}); err != nil {
				t.Fatal(err)
			}
			jobs = append(jobs, job)
		}
		time.Sleep(time.Second)
		other := b.join("b")
		b.ready()
		time.Sleep(time.Second)
		moved := slices.DeleteFunc(jobs, func(j scheduler.Job) bool { return b.owner(j) != other })
		if len(moved) == 0 {
			t.Fatal("no job has moved: the test proves nothing")
		}
		for _, l := range a.sessions.Status().Locks {
			if _, err := b.etcd.Client(t.Context()).Revoke(t.Context(), clientv3.LeaseID(l.ID)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		b.leave(other)
		for _, job := range moved {
			b.run(job, hold+scheduler.LoseMargin+2*time.Second, "LOST", func(r scheduler.Run) bool {
				return r.Last().Verdict == scheduler.Lost
			})
		}
		time.Sleep(11 * time.Minute) // until the handlers are done: a bubble leaves nobody behind
	})
}

// TestTriggerIsSeenThoughItOvertakesItsJob: definitions and triggers are watched apart, so that the event of
// a trigger may come before that of its job.
func TestTriggerIsSeenThoughItOvertakesItsJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		defer b.close()
		m := b.join("only")
		b.ready()
		b.apply(handlerJob("first", time.Hour, "work", "")) // brings the pool, and with it new snapshots
		time.Sleep(time.Second)
		const jobs = 40
		for i := range jobs {
			job := b.apply(handlerJob(fmt.Sprintf("new-%d", i), time.Hour, "work", ""))
			if _, err := m.Trigger(t.Context(), scheduler.TriggerRequest{Job: job.Name, RequestID: job.Name.Name}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(5 * time.Second)
		if n := len(b.witnessed()); n != jobs {
			t.Errorf("%d of %d triggers were started", n, jobs)
		}
	})
}
