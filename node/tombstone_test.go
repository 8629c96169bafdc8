package node

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestDeletedJobIsSettledThoughItsPoolHasNoMemberLeft: whoever may run a job, any member may bury it. Else its
// name is taken for ever when the only machine that could run it is gone.
func TestDeletedJobIsSettledThoughItsPoolHasNoMemberLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "2026-03-10T12:00:00Z", "a")
		defer s.close()
		eu := s.add("eu", func(c *Config) { c.Labels = map[string]string{"zone": "eu"} })
		s.ready()
		job := rarely("report", "10m")
		job.Target.Selector = map[string]string{"zone": "eu"}
		job = s.apply(job)
		time.Sleep(2 * time.Second)
		s.trigger(job)
		s.die(eu) // for good
		if _, err := s.any().Delete(t.Context(), job.Name, 0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // R_busy, and some
		job.Target.Selector = nil
		again, err := s.any().Apply(t.Context(), job, 0)
		if err != nil || again.Job.UID == job.UID {
			t.Fatalf("applied again a minute after the death: %v; want a new job", err)
		}
		s.trigger(again.Job)
		s.checkStarts()
	})
}
