package node

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumcron/quorumcron/scheduler"
)

// These tests each hold one guard of the loop: taken out, they fail.

// bent joins a member whose wall clock is ahead by what is stored.
func (b *bubble) bent(name string, ahead *atomic.Int64) *bubbleMember {
	return b.join(name, func(c *Config) {
		c.Clock = func() scheduler.Reading {
			r := b.clock()
			r.Wall = r.Wall.Add(time.Duration(ahead.Load()))
			return r
		}
	})
}

// TestEditUnderAClockThatIsAheadSwallowsNothing: the books are closed no further than the clock was last
// believed, whoever serves the edit.
func TestEditUnderAClockThatIsAheadSwallowsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		defer b.close()
		var ahead atomic.Int64
		m := b.bent("only", &ahead)
		b.ready()
		job := b.apply(handlerJob("edited", 10*time.Second, "work", ""))
		time.Sleep(25 * time.Second)
		ahead.Store(int64(time.Hour))
		time.Sleep(2 * time.Second)
		job.Schedule.Every = 5 * time.Second
		if _, err := m.Apply(t.Context(), job, 0); err != nil {
			t.Fatal(err)
		}
		ahead.Store(0) // somebody sets it right again
		edited := time.Now()
		time.Sleep(scheduler.StepTrial + 30*time.Second)
		if n := b.startsAfter(job, edited); n < 4 {
			t.Errorf("%d starts in the half minute after the clock is believed again, want 5 or 6", n)
		}
	})
}

// calls is how many requests a member sends to etcd in a while.
func (b *bubble) calls(m *bubbleMember, in time.Duration) int64 {
	before := m.link.Counts().Calls
	time.Sleep(in)
	return m.link.Counts().Calls - before
}

// TestRefusedClaimsWaitForTheRules: a member whose watch of the rules is behind does not try again and
// again meanwhile.
func TestRefusedClaimsWaitForTheRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := three(t)
		defer b.close()
		job := b.apply(handlerJob("tick", time.Second, "work", ""))
		time.Sleep(2500 * time.Millisecond)
		status, err := b.any().Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; b.owner(job).cfg.Name == status.Dispatcher; i++ { // it must not be its own watch that is behind
			job = b.apply(handlerJob(fmt.Sprintf("tick-%d", i), time.Second, "work", ""))
		}
		time.Sleep(2500 * time.Millisecond)
		owner := b.owner(job)
		quiet := b.calls(owner, 4*time.Second)
		owner.link.FreezeWatches()
		b.join("d") // moves the rules
		time.Sleep(time.Second)
		if more := b.calls(owner, 4*time.Second); more > quiet+10 {
			t.Errorf("%d calls in 4 s while its claims are refused, %d before", more, quiet)
		}
		owner.link.ThawWatches()
		thawed := time.Now()
		time.Sleep(2500 * time.Millisecond)
		if b.startsAfter(job, thawed) < 2 {
			t.Error("the job does not fire again when the watch has caught up")
		}
	})
}

// TestJobThatCannotBeReadCostsNothing: it is put aside, and not tried again and again.
func TestJobThatCannotBeReadCostsNothing(t *testing.T) {
	for _, folder := range []string{"jobs", "state"} {
		t.Run(folder, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t)
				defer b.close()
				m := b.join("only")
				b.ready()
				job := b.apply(handlerJob("bad", time.Second, "work", ""))
				time.Sleep(2500 * time.Millisecond)
				key := fmt.Sprintf("/quorumcron/%s/%02x/%s", folder, uint8(scheduler.ShardOf(job.Name)), job.Name)
				if _, err := b.etcd.Client(t.Context()).Put(t.Context(), key, "\xff\xff not that"); err != nil {
					t.Fatal(err)
				}
				put := time.Now()
				time.Sleep(2 * time.Second)
				if calls := b.calls(m, 10*time.Second); calls > 40 {
					t.Errorf("%d calls in 10 s by a member whose only job cannot be read", calls)
				}
				if n := b.startsAfter(job, put); n != 0 {
					t.Errorf("%d starts of a job that cannot be read", n)
				}
			})
		})
	}
}

// TestClaimUnderARevokedLeaseIsTriedAgain: no event tells the job that there is another lease.
func TestClaimUnderARevokedLeaseIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		defer b.close()
		m := b.join("only")
		b.ready()
		job := b.apply(handlerJob("hourly", time.Hour, "work", ""))
		time.Sleep(time.Until(job.Schedule.Origin.Add(time.Hour)) - 10*time.Millisecond)
		b.revokeLocks(m)
		time.Sleep(2 * time.Second)
		if len(b.witnessed()) != 1 {
			t.Errorf("%d starts, want one within 2 s of its instant", len(b.witnessed()))
		}
	})
}

// TestRefusedSkipTellsOfALostEnd: the event of the end of a lock was lost, and the next instant blames an
// attempt that is gone.
func TestRefusedSkipTellsOfALostEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := three(t)
		defer b.close()
		job := b.apply(handlerJob("busy", 5*time.Second, "slow", "1h"))
		first := b.run(job, 10*time.Second, "running", running)
		victim := b.members[first.Last().Member]
		if _, err := victim.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		owner := b.owner(job) // another, which watches the lock
		dropped := dropNext(owner, 1, "/locks/")
		b.crash(victim)
		b.run(job, recovery+hold+scheduler.LoseMargin+7*time.Second, "LOST", func(r scheduler.Run) bool {
			return r.Firing == first.Firing && r.Last().Verdict == scheduler.Lost
		})
		if !dropped() {
			t.Fatal("the event was not dropped: the test proves nothing")
		}
	})
}

// TestJobWhoseStateWasRepairedComesBack: nobody watches states, so that nothing tells of the repair.
func TestJobWhoseStateWasRepairedComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "2026-03-10T12:00:00Z", "only")
		defer s.close()
		job := s.apply(ticking("bad", time.Second, "50ms"))
		time.Sleep(2500 * time.Millisecond)
		etcd := s.etcd.Client(t.Context())
		key := fmt.Sprintf("/quorumcron/state/%02x/%s", uint8(scheduler.ShardOf(job.Name)), job.Name)
		before, err := etcd.Get(t.Context(), key)
		if err != nil || len(before.Kvs) != 1 {
			t.Fatalf("no state: %v", err)
		}
		if _, err := etcd.Put(t.Context(), key, "\xff\xff not that"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		if n := s.metric("records_quarantined_total", ""); n != 1 {
			t.Errorf("the record was reported %v times in five minutes, want once", n)
		}
		if _, err := etcd.Put(t.Context(), key, string(before.Kvs[0].Value)); err != nil {
			t.Fatal(err)
		}
		repaired := s.wall()
		// An attempt that it names has another token by this way of repairing, and is called lost first.
		within := marksEvery + eventLost + hold + scheduler.LoseMargin + 5*time.Second
		time.Sleep(within)
		if n := len(between(s.seen(job), repaired, s.wall())); n == 0 {
			t.Errorf("no start in %s after its state was repaired", within)
		}
	})
}

// TestRequestIDOutlivesAClockThatSteps: a dispatcher whose clock is a day ahead for a moment must not forget
// what was served a minute ago.
func TestRequestIDOutlivesAClockThatSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		defer b.close()
		var ahead atomic.Int64
		m := b.bent("only", &ahead)
		b.ready()
		job := b.apply(handlerJob("asked", 24*time.Hour, "work", ""))
		request := scheduler.TriggerRequest{Job: job.Name, RequestID: "deploy-1"}
		first, err := m.Trigger(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(housekeeping - 5*time.Second)
		ahead.Store(int64(25 * time.Hour))
		time.Sleep(10 * time.Second) // the dispatcher keeps house meanwhile
		ahead.Store(0)
		again, err := m.Trigger(t.Context(), request)
		if err != nil || !again.Repeated || again.Firing != first.Firing {
			t.Errorf("the repeat is answered with %+v, %v; want %s again", again, err, first.Firing)
		}
	})
}
