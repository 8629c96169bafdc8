package node

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorumcron/quorumcron/scheduler"
)

// These tests lose watch events, as servers with bugs did, and then deliver a later one: an event that
// hides that another was lost must not hide it for ever.

// lost is how long a lost event may stay unnoticed: what looks for them looks once a minute, and waits a
// few seconds for events that are merely late.
const lost = marksEvery + eventLost + 5*time.Second

// dropNext drops the next n events whose keys contain the part, and returns what says whether it did.
func dropNext(m *bubbleMember, n int, part string) (dropped func() bool) {
	before := m.link.Counts().EventsDropped
	m.link.DropEvents(n, func(e *clientv3.Event) bool { return strings.Contains(string(e.Kv.Key), part) })
	return func() bool { return m.link.Counts().EventsDropped-before == int64(n) }
}

// inZone is a job that only members of a zone may run.
func inZone(name string, labels map[string]string) scheduler.Job {
	job := handlerJob(name, time.Second, "work", "")
	job.Target.Selector = labels
	return job
}

func TestLostAssignmentIsFoundThoughTheNextOneArrives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		defer b.close()
		b.join("a")
		b.ready() // it is the dispatcher: one that has missed what it published itself finds out at once
		m := b.join("b", func(c *Config) { c.Labels = map[string]string{"zone": "eu", "disk": "ssd"} })
		b.ready()
		time.Sleep(5 * time.Second)
		dropped := dropNext(m, 2, "/rules/") // the assignment of the new pool, and the head
		first := b.apply(inZone("first", map[string]string{"zone": "eu"}))
		time.Sleep(2 * time.Second)
		if !dropped() {
			t.Fatal("the events were not dropped: the test proves nothing")
		}
		b.apply(inZone("second", map[string]string{"disk": "ssd"}))
		time.Sleep(lost)
		if b.startsAfter(first, b.start) == 0 {
			t.Error("the job whose assignment was lost never fired")
		}
	})
}

func TestLostEventOfAJobIsFoundThoughTheNextOneArrives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		defer b.close()
		m := b.join("only")
		b.ready()
		names := sameShard(3)
		b.apply(handlerJob(names[0], time.Hour, "work", ""))
		time.Sleep(2 * time.Second)
		dropped := dropNext(m, 1, "/jobs/")
		first := b.apply(handlerJob(names[1], time.Second, "work", ""))
		time.Sleep(time.Second)
		if !dropped() {
			t.Fatal("the event was not dropped: the test proves nothing")
		}
		b.apply(handlerJob(names[2], time.Hour, "work", ""))
		time.Sleep(lost)
		if b.startsAfter(first, b.start) == 0 {
			t.Error("the job whose event was lost never fired")
		}
	})
}

// sameShard returns names of jobs of one shard.
func sameShard(n int) (names []string) {
	byShard := map[scheduler.Shard][]string{}
	for i := 0; ; i++ {
		job := handlerJob("job-"+strings.Repeat("x", i%40)+string(rune('a'+i%26)), 0, "", "")
		s := scheduler.ShardOf(job.Name)
		byShard[s] = append(byShard[s], job.Name.Name)
		if len(byShard[s]) == n {
			return byShard[s]
		}
	}
}

func TestLostEventOfATriggerIsFoundThoughTheNextOneArrives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		defer b.close()
		m := b.join("only")
		b.ready()
		job := b.apply(handlerJob("asked", time.Hour, "work", ""))
		time.Sleep(2 * time.Second)
		dropped := dropNext(m, 1, "/triggers/")
		for _, id := range []string{"lost", "seen"} {
			if _, err := m.Trigger(t.Context(), scheduler.TriggerRequest{Job: job.Name, RequestID: id}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if !dropped() {
			t.Fatal("the event was not dropped: the test proves nothing")
		}
		time.Sleep(lost)
		if n := len(b.witnessed()); n != 2 {
			t.Errorf("%d starts, want both triggers", n)
		}
	})
}

func TestLostEventOfAMemberIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := three(t)
		defer b.close()
		job := b.apply(handlerJob("tick", time.Second, "work", ""))
		time.Sleep(3 * time.Second)
		victim := b.owner(job)
		for name, m := range b.members {
			if m != victim {
				m.link.DropEvents(1, func(e *clientv3.Event) bool {
					return strings.HasSuffix(string(e.Kv.Key), "/members/"+victim.cfg.Name)
				})
			}
			_ = name
		}
		b.crash(victim)
		time.Sleep(recovery + lost)
		crashed := time.Now()
		time.Sleep(10 * time.Second)
		if b.startsAfter(job, crashed) == 0 {
			t.Error("the jobs of a member whose end was not heard of are nobody's")
		}
	})
}

func TestLostEventOfAPoolIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		defer b.close()
		m := b.join("only", func(c *Config) { c.Labels = map[string]string{"zone": "eu"} })
		b.ready()
		dropped := dropNext(m, 1, "/pools/")
		job := b.apply(inZone("first", map[string]string{"zone": "eu"}))
		time.Sleep(lost)
		if !dropped() {
			t.Fatal("the event was not dropped: the test proves nothing")
		}
		if b.startsAfter(job, b.start) == 0 {
			t.Error("the job of a pool that the dispatcher has not heard of never fired")
		}
	})
}

// TestLostEndOfALockIsFound: nothing is due that would ask, but an attempt that is owed.
func TestLostEndOfALockIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := three(t)
		defer b.close()
		want := handlerJob("again", 24*time.Hour, "slow", "1h")
		want.Policy.OnLost = scheduler.OnLostRetry
		job := b.apply(want)
		if _, err := b.any().Trigger(t.Context(), scheduler.TriggerRequest{Job: job.Name, RequestID: "r"}); err != nil {
			t.Fatal(err)
		}
		first := b.run(job, 5*time.Second, "running", running)
		victim := b.members[first.Last().Member]
		if _, err := victim.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		owner := b.owner(job) // another, which has seen the lock and watches it
		if owner == victim {
			t.Fatal("the job has not moved: the test proves nothing")
		}
		owner.link.DropEvents(-1, func(e *clientv3.Event) bool {
			return e.Type == clientv3.EventTypeDelete && strings.Contains(string(e.Kv.Key), "/locks/")
		})
		b.crash(victim)
		b.run(job, recovery+hold+lost, "on its second attempt", func(r scheduler.Run) bool { return running(r) && r.Last().Number == 2 })
	})
}

func TestLostCancelIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := three(t)
		defer b.close()
		job := b.apply(handlerJob("long", 24*time.Hour, "slow", "1h"))
		receipt, err := b.any().Trigger(t.Context(), scheduler.TriggerRequest{Job: job.Name, RequestID: "r"})
		if err != nil {
			t.Fatal(err)
		}
		first := b.run(job, 5*time.Second, "running", running)
		dropped := dropNext(b.members[first.Last().Member], 1, "/queue/")
		if _, err := b.any().Cancel(t.Context(), receipt.Firing); err != nil {
			t.Fatal(err)
		}
		b.run(job, lost, "CANCELED", func(r scheduler.Run) bool { return r.Last().Verdict == scheduler.Canceled })
		if !dropped() {
			t.Fatal("the event was not dropped: the test proves nothing")
		}
	})
}

// TestDispatcherThatMissedItsOwnPublicationGoesOn: what it plans on has moved, and it looks why at once.
func TestDispatcherThatMissedItsOwnPublicationGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := three(t)
		defer b.close()
		time.Sleep(2 * time.Second)
		status, err := b.any().Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		dropped := dropNext(b.members[status.Dispatcher], 2, "/rules/") // the assignment of the pool of all, and the head
		b.join("d")
		time.Sleep(time.Second)
		if !dropped() {
			t.Fatal("the events were not dropped: the test proves nothing")
		}
		e := b.join("e")
		time.Sleep(eventLost + 5*time.Second)
		if !e.Ready().Ready {
			t.Errorf("a member that joined is not ready after %s: %v", eventLost+5*time.Second, e.Ready().Reasons())
		}
	})
}
