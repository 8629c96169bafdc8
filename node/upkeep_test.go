package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	"github.com/quorumcron/quorumcron/executor"
	"github.com/quorumcron/quorumcron/internal/memetcd"
	"github.com/quorumcron/quorumcron/proto/quorumcron/stored/v1"
	"github.com/quorumcron/quorumcron/scheduler"
	"github.com/quorumcron/quorumcron/store"
)

func TestKillEndsEverythingAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := three(t)
		defer b.close()
		job := b.apply(handlerJob("long", time.Hour, "slow", "1h"))
		if _, err := b.any().Trigger(t.Context(), scheduler.TriggerRequest{Job: job.Name, RequestID: "r"}); err != nil {
			t.Fatal(err)
		}
		r := b.run(job, 5*time.Second, "running", running)
		m := b.members[r.Last().Member]
		began := time.Now()
		m.stop() // the first SIGTERM
		time.Sleep(500 * time.Millisecond)
		m.Kill() // the second
		if err := <-m.done; err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("the second stop took effect after %s", took)
		}
		m.end()
		delete(b.members, m.cfg.Name)
	})
}

func TestLostEventOfAJobIsFoundByItsMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		defer b.close()
		m := b.join("only")
		b.ready()
		b.apply(handlerJob("first", time.Hour, "work", "")) // brings the pool of the handler, and with it new snapshots
		time.Sleep(2 * time.Second)
		m.link.DropEvents(1, func(e *clientv3.Event) bool { return strings.HasSuffix(string(e.Kv.Key), "/unseen") })
		b.apply(handlerJob("unseen", time.Second, "work", ""))
		time.Sleep(10 * time.Second)
		if m.link.Counts().EventsDropped == 0 {
			t.Fatal("no event was dropped: the fault did not take hold")
		}
		if len(b.witnessed()) != 0 {
			t.Fatal("the job fired though its event was lost: the test proves nothing")
		}
		time.Sleep(marksEvery + eventLost)
		if len(b.witnessed()) == 0 {
			t.Error("the job never fired")
		}
	})
}

func TestLostEventOfTheRulesIsFoundWhenClaimsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := three(t)
		defer b.close()
		job := b.apply(handlerJob("tick", time.Second, "work", ""))
		time.Sleep(3500 * time.Millisecond)
		owner := b.owner(job)
		owner.link.DropEvents(2, func(e *clientv3.Event) bool { return strings.Contains(string(e.Kv.Key), "/rules/") })
		b.join("d") // moves the rules
		time.Sleep(20 * time.Second)
		if owner.link.Counts().EventsDropped == 0 {
			t.Fatal("no event was dropped: the fault did not take hold")
		}
		last := b.witnessed()[len(b.witnessed())-1]
		if since := time.Since(last.at); since > 2*time.Second {
			t.Errorf("the job has not fired for %s", since)
		}
		b.check()
		b.accounts(job, time.Now().Add(-2*time.Second))
	})
}

// TestForgottenLockIsClosed puts a lock as a Begin would whose answer nobody waited for, under a lock
// lease that is kept alive: without the listing (rule 3) its job would be blocked for ever.
func TestForgottenLockIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		defer b.close()
		m := b.join("only")
		b.ready()
		job := b.apply(handlerJob("tick", 10*time.Second, "work", ""))
		time.Sleep(5 * time.Second)
		forgotten := m.grantBehindItsBack(t, job)
		time.Sleep(2*ttl + time.Second)
		r := b.run(job, time.Minute, "LOST", func(r scheduler.Run) bool {
			return r.Firing == forgotten && r.Last().Verdict == scheduler.Lost
		})
		if r.Last().Reason != scheduler.ReasonNeverStarted {
			t.Errorf("reason %q, want %q", r.Last().Reason, scheduler.ReasonNeverStarted)
		}
		time.Sleep(25 * time.Second)
		if len(b.witnessed()) == 0 {
			t.Error("the job is still blocked")
		}
	})
}

// grantBehindItsBack commits a Begin as a goroutine of the member would that then vanished.
func (m *bubbleMember) grantBehindItsBack(t *testing.T, job scheduler.Job) scheduler.Firing {
	t.Helper()
	inLoop := func(f func(tr *tracked, now scheduler.Reading)) {
		done := make(chan struct{})
		m.inbox.post(func(now scheduler.Reading) {
			defer close(done)
			f(m.view.jobs[job.Name], now)
		})
		<-done
	}
	inLoop(func(tr *tracked, _ scheduler.Reading) { tr.busy = true }) // keeps the loop's hands off
	receipt, err := m.Trigger(t.Context(), scheduler.TriggerRequest{Job: job.Name, RequestID: "forgotten"})
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	var f firing
	inLoop(func(tr *tracked, now scheduler.Reading) {
		lease, err := m.sessions.LockLease(now)
		if err != nil {
			t.Error(err)
			return
		}
		plan := scheduler.PlanJob(tr.planning(true, false, time.Time{}), now)
		f = firing{
			of: tr, job: tr.job, shard: tr.shard, decision: *plan.Decision, lease: lease,
			stateRevision: tr.stateRevision, rulesRevision: m.view.rulesRevision,
		}
	})
	outcome, err := m.store.Claim(t.Context(), m.newClaim(f, "a-forgotten-nonce"))
	if err != nil || !outcome.Committed {
		t.Fatalf("the forgotten Begin was not granted: %+v, %v", outcome, err)
	}
	m.sessions.Release(f.lease.ID)
	m.lockCheck.Store(true)
	follow, end := context.WithTimeout(t.Context(), 5*time.Minute) // or the member would wait for the test's end, and it for the member's
	t.Cleanup(end)
	m.inbox.post(func(now scheduler.Reading) { m.answered(follow, f, outcome, now) })
	return receipt.Firing
}

func TestWallClockStepStopsPlanningForAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		defer b.close()
		var step atomic.Int64
		m := b.join("only", func(c *Config) {
			c.Clock = func() scheduler.Reading {
				r := b.clock()
				r.Wall = r.Wall.Add(time.Duration(step.Load()))
				return r
			}
		})
		b.ready()
		b.apply(handlerJob("tick", time.Second, "work", ""))
		time.Sleep(3500 * time.Millisecond)
		step.Store(int64(time.Hour)) // somebody sets the clock an hour ahead
		stepped := time.Now()
		time.Sleep(50 * time.Second)
		for _, s := range b.witnessed() {
			if s.at.After(stepped.Add(time.Second)) {
				t.Fatalf("started %s after the step", s.at.Sub(stepped))
			}
		}
		if r := m.Ready(); r.Ready || !strings.Contains(strings.Join(r.Reasons(), " "), "clock") {
			t.Errorf("ready %v with reasons %v, want not ready because of the clock", r.Ready, r.Reasons())
		}
		time.Sleep(20 * time.Second)
		if s := b.witnessed(); !s[len(s)-1].at.After(stepped.Add(time.Minute)) {
			t.Error("it does not fire again after a minute without another step")
		}
	})
}

func TestStuckLoopLetsItsSessionsDie(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := three(t)
		defer b.close()
		job := b.apply(handlerJob("tick", time.Second, "work", ""))
		time.Sleep(3500 * time.Millisecond)
		stuck := b.owner(job)
		release := make(chan struct{})
		stuck.inbox.post(func(scheduler.Reading) { <-release })
		blocked := time.Now().UTC()
		time.Sleep(recovery + ttl)
		elsewhere := 0
		for _, s := range b.witnessed() {
			if s.at.After(blocked) && s.id.Member != stuck.cfg.Name {
				elsewhere++
			}
		}
		if elsewhere == 0 {
			t.Error("no other member took the job over from a member whose loop is stuck")
		}
		if stuck.Alive() == nil || stuck.Ready().Ready {
			t.Error("the stuck member says that it is alive and ready")
		}
		close(release)
		time.Sleep(20 * time.Second)
		if stuck.Alive() != nil || !stuck.Ready().Ready {
			t.Errorf("the member did not recover: %v", stuck.Ready().Reasons())
		}
		b.check()
	})
}

func TestCapacityHoldsBackAndIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		defer b.close()
		m := b.join("only", func(c *Config) { c.HandlerCapacity = 2 })
		b.ready()
		for _, name := range []string{"a", "b", "c", "d"} {
			b.apply(handlerJob(name, 10*time.Second, "slow", "2s"))
		}
		time.Sleep(11 * time.Second)
		if n := m.held.count(handlers); n != 2 {
			t.Errorf("%d attempts in flight, want the capacity of 2", n)
		}
		time.Sleep(5 * time.Second)
		if n := len(b.witnessed()); n != 4 {
			t.Errorf("%d starts for four jobs, want 4: what waited for room starts when there is some", n)
		}
		for _, s := range b.witnessed() {
			if late := s.at.Sub(s.id.Firing.Instant()); late > scheduler.OnTime {
				t.Errorf("firing %s started %s late", s.id.Firing, late)
			}
		}
	})
}

func TestHerdLosesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		defer b.close()
		m := b.join("only")
		b.ready()
		at := time.Now().Add(time.Minute).UTC().Truncate(time.Second)
		const jobs = 6000 // a dozen times what may be on its way at once
		for i := range jobs {
			job := handlerJob(fmt.Sprintf("h%d", i), 0, "work", "")
			job.Schedule = scheduler.Schedule{At: []time.Time{at}}
			b.apply(job)
		}
		m.link.Delay(100*time.Millisecond, 100*time.Millisecond)
		time.Sleep(time.Until(at) + time.Minute)
		if n := len(b.witnessed()); n != jobs {
			t.Errorf("%d of %d jobs due at one instant were started", n, jobs)
		}
		b.check()
	})
}

func TestQuorumLossFiresNothingAndCatchesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := three(t)
		defer b.close()
		latest := b.apply(handlerJob("latest", 10*time.Second, "work", ""))
		want := handlerJob("none", 10*time.Second, "work", "")
		want.Policy.CatchUp.Mode = scheduler.CatchUpNone
		none := b.apply(want)
		time.Sleep(15 * time.Second)
		b.etcd.LoseQuorum()
		lost := time.Now().UTC()
		time.Sleep(2 * time.Minute)
		b.etcd.RegainQuorum()
		back := time.Now().UTC()
		time.Sleep(30 * time.Second)
		made := map[scheduler.JobName]int{}
		for _, s := range b.witnessed() {
			if s.at.After(lost) && s.at.Before(back) {
				t.Errorf("firing %s of job %s started while nothing could be granted", s.id.Firing, s.id.Job)
			}
			if at := s.id.Firing.Instant(); at.After(lost) && at.Before(back.Add(-scheduler.OnTime)) {
				made[s.id.Job]++
			}
		}
		if made[latest.Name] != 1 || made[none.Name] != 0 {
			t.Errorf("made up: %v; want one of latest, none of none", made)
		}
		b.ready()
		for _, job := range []scheduler.Job{latest, none} {
			b.accounts(job, time.Now().Add(-12*time.Second))
		}
		b.check()
	})
}

func TestManyStartsAndStopsLeaveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		b.join("stays")
		b.ready()
		b.apply(handlerJob("tick", time.Second, "work", ""))
		for i := range 30 {
			m := b.join("comes")
			time.Sleep(time.Duration(i*37) * time.Millisecond) // stopped at every stage of its start
			if i%3 == 0 {
				m.Kill()
				<-m.done
				m.end()
				delete(b.members, "comes")
			} else {
				b.leave(m)
			}
		}
		b.check()
		b.close()
		if leases := b.etcd.Leases(); len(leases) > 10 { // those of the killed ones end by themselves
			t.Errorf("%d leases are left", len(leases))
		}
	})
}

func TestSecondRunIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		defer b.close()
		m := b.join("only")
		b.ready()
		if err := m.Run(context.Background()); err != ErrUsed {
			t.Errorf("second Run: %v, want ErrUsed", err)
		}
		defer func() {
			if recover() == nil {
				t.Error("Handle after Run did not panic")
			}
		}()
		m.Handle("late", func(context.Context, executor.Identity) error { return nil })
	})
}

// TestClusterOfANewerFormatIsNotJoined: what this version would write there, the others could not trust.
func TestClusterOfANewerFormatIsNotJoined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		defer b.close()
		meta, err := proto.Marshal(&storedv1.Meta{ClusterId: "newer", Format: store.FormatMax + 1})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.etcd.Client(t.Context()).Put(t.Context(), "/quorumcron/meta", string(meta)); err != nil {
			t.Fatal(err)
		}
		m := b.join("old")
		select {
		case err := <-m.done:
			if !errors.Is(err, ErrFormat) {
				t.Errorf("got error %v, want that the format is not supported", err)
			}
			m.end()
			delete(b.members, "old")
		case <-time.After(time.Minute):
			t.Error("it goes on")
		}
		if n := b.count("members/"); n != 0 {
			t.Errorf("%d members joined", n)
		}
	})
}

func TestConfigIsRefusedWithEverythingThatIsWrong(t *testing.T) {
	t.Parallel()
	_, err := New(Config{Name: "Not A Name", SessionTTL: time.Second, Grace: time.Second, Capacity: -1, Compact: time.Second, Commands: true,
		Prefix: "/mine", Labels: map[string]string{"zone ": "eu"}, DrainTimeout: 2 * time.Hour})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, field := range []string{"name", "client", "session TTL", "grace", "capacity", "compact", "commands", "prefix", "labels.zone ", "drain timeout"} {
		if !strings.Contains(err.Error(), field) {
			t.Errorf("error does not name %s: %v", field, err)
		}
	}
}

// TestASecondNodeOfARegistryIsRefused: a panic would take the embedding program with it.
func TestASecondNodeOfARegistryIsRefused(t *testing.T) {
	t.Parallel()
	etcd := memetcd.New(memetcd.Config{})
	defer etcd.Close()
	registry := prometheus.NewRegistry()
	labelled := func(name string) prometheus.Registerer {
		return prometheus.WrapRegistererWith(prometheus.Labels{"node": name}, registry)
	}
	cfg := Config{Name: "one", Client: etcd.Client(t.Context()), Metrics: labelled("one")}
	if _, err := New(cfg); err != nil {
		t.Fatal(err)
	}
	before := gathered(t, registry)
	if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), "a registry of its own") {
		t.Errorf("second node: %v, want it refused with a remedy", err)
	}
	if after := gathered(t, registry); after != before {
		t.Errorf("%d families after the refusal, want %d as before", after, before)
	}
	cfg.Metrics = labelled("two")
	if _, err := New(cfg); err != nil {
		t.Errorf("a second node with a label: %v", err)
	}
}

func gathered(t *testing.T, registry *prometheus.Registry) int {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return len(families)
}

// TestHandlersThatNoJobCanNameAreRefused: such a handler would be registered and never called.
func TestHandlersThatNoJobCanNameAreRefused(t *testing.T) {
	t.Parallel()
	etcd := memetcd.New(memetcd.Config{})
	defer etcd.Close()
	n, err := New(Config{Name: "one", Client: etcd.Client(t.Context())})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", "send report", "bericht-für-alle", strings.Repeat("x", 129)} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("Handle(%q) did not panic", name)
				}
			}()
			n.Handle(name, func(context.Context, executor.Identity) error { return nil })
		}()
	}
}
