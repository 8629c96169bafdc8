package node

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumcron/quorumcron/scheduler"
)

// TestANewOwnerAsksAtOnceForManyAttempts: what has ended rides on the next instant, so that a new owner
// finds an entry in nearly every job. It must not ask etcd for each.
func TestANewOwnerAsksAtOnceForManyAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "2026-03-10T12:00:00Z", "a")
		defer s.close()
		const jobs = 60
		var load []string
		for i := 0; len(load) < jobs; i++ { // of one shard
			if job := ticking(fmt.Sprint("job-", i), time.Minute, "1s"); scheduler.ShardOf(job.Name) == 7 {
				load = append(load, s.apply(job).Name.Name)
			}
		}
		s.until(s.next(time.Minute, 0).Add(10 * time.Second)) // all have ended, and none is folded
		for _, name := range load {
			if n := len(s.stored(ticking(name, time.Minute, "1s")).Entries); n != 1 {
				t.Fatalf("%d entries in the state of %s, want one: the test proves nothing", n, name)
			}
		}
		b := s.add("b")
		s.ready()
		if _, err := s.members["a"].Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if s.owner(ticking(load[0], time.Minute, "1s")) != b {
			t.Fatal("the jobs have not moved: the test proves nothing")
		}
		// Each of the 256 shards costs its snapshot, of four reads; what a member asks besides comes on top.
		const snapshots = 4 * 256
		if asked := b.link.Counts().Calls; asked > snapshots+jobs/2 {
			t.Errorf("%d calls to take over %d attempts, want at most %d", asked, jobs, snapshots+jobs/2)
		} else {
			t.Logf("%d calls to take over %d attempts", asked, jobs)
		}
		before := len(s.seen())
		s.until(s.next(time.Minute, 0).Add(5 * time.Second))
		if n := len(s.seen()) - before; n != jobs {
			t.Errorf("%d of %d jobs fired at their next instant", n, jobs)
		}
	})
}
