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
	"github.com/quorumcron/quorumcron/store"
)

// These tests are each about one protection of the firing path: with it taken out they fail
// (chaos-tests/SABOTAGE.md). Faults are placed to the moment, not drawn.

const year = 365 * 24 * time.Hour

// locking matches the transactions that grant an attempt, or end one.
var locking = memetcd.WritesTo("/quorumcron/locks/")

// ask triggers a job that is not due by itself.
func (b *bubble) ask(job scheduler.Job) scheduler.Firing {
	b.t.Helper()
	receipt, err := b.any().Trigger(b.t.Context(), scheduler.TriggerRequest{Job: job.Name, RequestID: job.Name.Name})
	if err != nil {
		b.t.Fatal(err)
	}
	return receipt.Firing
}

// stored is the state of a job as it lies in etcd.
func (b *bubble) stored(job scheduler.Job) scheduler.State {
	b.t.Helper()
	s := store.New(b.etcd.Client(b.t.Context()), store.Config{})
	state, _, err := s.ReadState(b.t.Context(), scheduler.ShardOf(job.Name), job.Name)
	if err != nil {
		b.t.Fatal(err)
	}
	return state
}

// token is the create revision of the lock that a firing was granted with, 0 if it never was.
func (b *bubble) token(f scheduler.Firing) (token int64) {
	for _, r := range b.etcd.History(1) {
		for _, e := range r.Events {
			if string(e.Kv.Key) == "/quorumcron/locks/"+f.UID+"/"+f.Key()+"/000" && e.IsCreate() {
				token = e.Kv.CreateRevision
			}
		}
	}
	return token
}

// startsOf counts the starts of a firing that the handlers saw.
func (b *bubble) startsOf(f scheduler.Firing) (n int) {
	for _, s := range b.witnessed() {
		if s.id.Firing == f {
			n++
		}
	}
	return n
}

// settled complains unless the state has nothing in flight and one verdict.
func (b *bubble) settled(job scheduler.Job) {
	b.t.Helper()
	if s := b.stored(job); len(s.Entries) != 0 || len(s.Counters) != 1 || s.Counters[0].Count != 1 {
		b.t.Errorf("job %s: entries %+v and counters %v are left, want no entry and one verdict", job.Name, s.Entries, s.Counters)
	}
}

func TestUnknownClaimIsRunOnceUnderItsGrant(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault func(*memetcd.Link)
		took  func(memetcd.Counts) int64
	}{
		{"reply lost", func(l *memetcd.Link) { l.DropReplies(1, locking) }, func(c memetcd.Counts) int64 { return c.RepliesDropped }},
		{"request lost", func(l *memetcd.Link) { l.DropRequests(1, locking) }, func(c memetcd.Counts) int64 { return c.RequestsLost }},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t)
				defer b.close()
				m := b.join("only")
				b.ready()
				job := b.apply(handlerJob("asked", year, "work", ""))
				time.Sleep(2 * time.Second)
				c.fault(m.link)
				firing := b.ask(job)
				time.Sleep(time.Minute)
				if n := c.took(m.link.Counts()); n != 1 {
					t.Fatalf("%d claims were hit: the fault did not take hold", n)
				}
				seen := b.witnessed()
				if len(seen) != 1 {
					t.Fatalf("the firing was started %d times, want once", len(seen))
				}
				if token := b.token(firing); seen[0].id.Token != token {
					t.Errorf("it was started with token %d, and granted with %d", seen[0].id.Token, token)
				}
				b.settled(job)
			})
		})
	}
}

// TestGrantThatCannotBeTrustedIsNotStarted has the answer to a Begin come when it is too late to start.
func TestGrantThatCannotBeTrustedIsNotStarted(t *testing.T) {
	for _, c := range []struct {
		name  string
		reply time.Duration
		gone  bool
	}{
		{"its session is gone", ttl/2 - 100*time.Millisecond, true},
		{"it is old", ttl/2 + 500*time.Millisecond, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t)
				defer b.close()
				m := b.join("only")
				b.ready()
				job := b.apply(handlerJob("asked", year, "work", ""))
				time.Sleep(2 * time.Second)
				var granted atomic.Bool
				m.link.Inject(func(call memetcd.Call) memetcd.Fate {
					if !locking(call) || !granted.CompareAndSwap(false, true) {
						return memetcd.Fate{}
					}
					return memetcd.Fate{ReplyDelay: c.reply}
				})
				firing := b.ask(job)
				time.Sleep(10 * time.Millisecond)
				if b.token(firing) == 0 {
					t.Fatal("nothing was granted: the test proves nothing")
				}
				if c.gone {
					lease := clientv3.LeaseID(m.sessions.Status().Locks[0].ID)
					if _, err := b.etcd.Client(t.Context()).Revoke(t.Context(), lease); err != nil {
						t.Fatal(err)
					}
				}
				r := b.run(job, 20*time.Second, "ended", func(r scheduler.Run) bool { return r.Firing == firing && r.Last().Verdict != "" })
				if n := b.startsOf(firing); n != 0 || r.Last().Reason != scheduler.ReasonNeverStarted {
					t.Errorf("it was started %d times and ended %s(%s), want LOST(never started)", n, r.Last().Verdict, r.Last().Reason)
				}
			})
		})
	}
}

// TestLockTakenWhileLocksAreListedIsNotClosed: the listing shows a lock that was not there when it was
// asked for.
func TestLockTakenWhileLocksAreListedIsNotClosed(t *testing.T) {
	for _, c := range []struct {
		name  string
		reply time.Duration // how long the answer to the Begin takes
	}{
		{"granted meanwhile", 0},
		{"granted meanwhile and not answered yet", ttl/2 - 100*time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t)
				defer b.close()
				m := b.join("only")
				b.ready()
				long := b.apply(handlerJob("long", year, "slow", "1h")) // something is held, so that locks are listed
				job := b.apply(handlerJob("asked", year, "slow", "10s"))
				time.Sleep(2 * time.Second)
				b.ask(long)
				time.Sleep(time.Second)
				var listing atomic.Bool
				m.link.Inject(func(call memetcd.Call) memetcd.Fate {
					if r, ok := call.Request.(*pb.LeaseTimeToLiveRequest); ok && r.Keys && listing.CompareAndSwap(false, true) {
						return memetcd.Fate{RequestDelay: time.Second}
					}
					if locking(call) {
						return memetcd.Fate{ReplyDelay: c.reply}
					}
					return memetcd.Fate{}
				})
				for !listing.Load() {
					time.Sleep(10 * time.Millisecond)
				}
				time.Sleep(800 * time.Millisecond)
				firing := b.ask(job)
				time.Sleep(20 * time.Second)
				r := b.run(job, time.Second, "ended", func(r scheduler.Run) bool { return r.Firing == firing && r.Last().Verdict != "" })
				if r.Last().Verdict != scheduler.Succeeded || b.startsOf(firing) != 1 {
					t.Errorf("an attempt that was started %d times ended %s(%s), want once, SUCCEEDED",
						b.startsOf(firing), r.Last().Verdict, r.Last().Reason)
				}
			})
		})
	}
}

func TestEntryStaysUntilItsRecordIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		defer b.close()
		m := b.join("only")
		b.ready()
		job := b.apply(handlerJob("tick", 5*time.Second, "work", ""))
		time.Sleep(2 * time.Second)
		m.link.DropRequests(-1, memetcd.WritesTo("/quorumcron/runs/"))
		time.Sleep(20 * time.Second)
		state := b.stored(job)
		if n := b.count("runs/"); n != 0 {
			t.Fatalf("%d records were written: the fault did not take hold", n)
		}
		if len(state.Entries) != 1 || state.Entries[0].Firing.Instant().Sub(job.Schedule.Origin) != 5*time.Second {
			t.Errorf("entries %+v, want that of the first instant, whose end is not recorded", state.Entries)
		}
		for _, c := range state.Counters {
			if c.Verdict == scheduler.Succeeded {
				t.Errorf("%d firings are counted as SUCCEEDED, and no record says so", c.Count)
			}
		}
		m.link.ClearRules()
		time.Sleep(20 * time.Second)
		b.check()
		b.accounts(job, time.Now().Add(-6*time.Second))
	})
}

// TestUnknownClaimOfADoubtedSessionIsSettled: the Begin lands after its member has given up waiting, and
// while that has no answer about the lease that the Begin names.
func TestUnknownClaimOfADoubtedSessionIsSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		defer b.close()
		m := b.join("only")
		b.ready()
		long := b.apply(handlerJob("long", year, "slow", "1h")) // keeps the lease from being given up
		job := b.apply(handlerJob("asked", year, "work", ""))
		time.Sleep(2 * time.Second)
		b.ask(long)
		time.Sleep(time.Second)
		begin := m.link.Hold(locking)
		firing := b.ask(job)
		<-begin.Caught()
		m.link.CutReplies()
		time.Sleep(3200 * time.Millisecond)
		if !m.held.isDoubted(m.sessions.Status().Locks[0].ID) {
			t.Fatal("the session is not in doubt: the test proves nothing")
		}
		if _, err := begin.Land(); err != nil {
			t.Fatal(err)
		}
		if b.token(firing) == 0 {
			t.Fatal("the Begin was refused: the test proves nothing")
		}
		// It hears that the trigger has been consumed before it may claim again.
		m.stoppedClaiming.Store(true)
		m.link.Mend()
		time.Sleep(time.Second)
		m.stoppedClaiming.Store(false)
		time.Sleep(time.Minute)
		b.settled(job)
	})
}

// TestShardThatWasAnothersInBetweenIsReadAnew: its owner hears only of the second change, that it is the
// owner, as it was.
func TestShardThatWasAnothersInBetweenIsReadAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		defer b.close()
		b.join("a")
		b.join("b")
		b.ready()
		var jobs []scheduler.Job // some of their shards go and come back
		for i := range 16 {
			jobs = append(jobs, b.apply(handlerJob(fmt.Sprint("asked-", i), year, "slow", "1h")))
		}
		time.Sleep(2 * time.Second)
		owner := b.members["a"]
		if owner.sessions.Status().Term.Key != "" { // the dispatcher hears of all changes
			owner = b.members["b"]
		}
		jobs = slices.DeleteFunc(jobs, func(job scheduler.Job) bool { return b.owner(job) != owner })
		other := b.another(owner)
		drained := func(draining bool) {
			owner.draining.Store(draining)
			if err := owner.sessions.UpdateMember(t.Context(), func(m *scheduler.Member) { m.Draining = draining }); err != nil {
				t.Fatal(err)
			}
			time.Sleep(700 * time.Millisecond)
		}
		owner.link.DropEvents(-1, func(e *clientv3.Event) bool { return strings.HasPrefix(string(e.Kv.Key), "/quorumcron/rules/") })
		owner.stoppedClaiming.Store(true) // a claim would be refused, and make it look for what it has missed
		drained(true)
		for _, job := range jobs {
			b.ask(job)
		}
		time.Sleep(500 * time.Millisecond)
		owner.link.ClearRules()
		drained(false)
		owner.stoppedClaiming.Store(false)
		owner.unreachable = true // ask the other who owns what
		jobs = slices.DeleteFunc(jobs, func(job scheduler.Job) bool {
			entries := b.stored(job).Entries
			return b.owner(job) != owner || len(entries) != 1 || entries[0].Member != other.cfg.Name
		})
		owner.unreachable = false
		if len(jobs) == 0 {
			t.Fatal("no shard was the other's in between: the test proves nothing")
		}
		time.Sleep(eventLost)
		b.crash(other)
		time.Sleep(recovery + hold + 10*time.Second)
		for _, job := range jobs {
			b.settled(job)
		}
	})
}

func TestAttemptOfAMemberThatDiedGetsItsVerdict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := three(t)
		defer b.close()
		job := b.apply(handlerJob("asked", year, "slow", "1h"))
		time.Sleep(2 * time.Second)
		owner := b.owner(job)
		b.ask(job)
		time.Sleep(time.Second)
		if owner.held.none() {
			t.Fatal("nothing runs: the test proves nothing")
		}
		b.crash(owner)
		time.Sleep(busyRecovery)
		b.settled(job)
	})
}

func TestInstantsOfAnAbsenceAreAccountedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		defer b.close()
		m := b.join("only")
		b.ready()
		job := b.apply(handlerJob("tick", 10*time.Second, "work", ""))
		time.Sleep(15 * time.Second)
		b.leave(m)
		time.Sleep(2 * time.Minute)
		b.join("only")
		b.ready()
		time.Sleep(15 * time.Second)
		b.accounts(job, time.Now().Add(-11*time.Second))
	})
}

// TestClaimOfAFormerLifeIsRefused: the process dies while its Begin is on its way. Another one of its
// name is up before the lock lease of the first has ended.
func TestClaimOfAFormerLifeIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		defer b.close()
		former := b.join("only")
		b.ready()
		job := b.apply(handlerJob("asked", year, "work", ""))
		time.Sleep(2 * time.Second)
		begin := former.link.Hold(locking)
		b.ask(job)
		<-begin.Caught()
		member := clientv3.LeaseID(former.sessions.Status().MemberLease)
		former.link.Refuse()
		former.Kill()
		if _, err := b.etcd.Client(t.Context()).Revoke(t.Context(), member); err != nil {
			t.Fatal(err)
		}
		m := b.join("only")
		m.stoppedClaiming.Store(true) // it has read the state, and has not got round to its own claim
		time.Sleep(time.Second)
		if !m.assigned.Load() || !m.loaded.Load() {
			t.Fatal("the second process owns nothing yet: the test proves nothing")
		}
		if _, err := begin.Land(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(recovery + hold + 10*time.Second)
		if s := b.stored(job); len(s.Entries) != 0 {
			t.Errorf("the claim of a process that died left an entry that nobody settles: %+v", s.Entries)
		}
		<-former.done
		former.end()
	})
}
