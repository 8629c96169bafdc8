package node

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumcron/quorumcron/scheduler"
)

// reasonCase causes one reason for which a firing is not run, on a job of its own.
type reasonCase struct {
	reason string // as Verdict(reason)
	job    scheduler.Job
	// Done while the owner's loop hangs, so that what is due is undecided.
	hanging func(s *scene, m *bubbleMember, job scheduler.Job) error
	count   int64 // how many firings must end so
}

func reasonCases() []reasonCase {
	tick := func(name string, change func(*scheduler.Job)) scheduler.Job {
		job := ticking(name, time.Second, "50ms")
		if change != nil {
			change(&job)
		}
		return job
	}
	trigger := func(s *scene, m *bubbleMember, job scheduler.Job) (scheduler.TriggerReceipt, error) {
		return m.Trigger(s.t.Context(), scheduler.TriggerRequest{Job: job.Name, RequestID: job.Name.Name})
	}
	return []reasonCase{
		{reason: "SKIPPED(overlap)", job: tick("overlap", func(j *scheduler.Job) { j.Run.Handler.Payload = "3500ms" }), count: 3},
		{reason: "SKIPPED(paused)", job: tick("paused", nil), count: 2, hanging: func(s *scene, m *bubbleMember, job scheduler.Job) error {
			_, err := m.Pause(s.t.Context(), job.Name, 0)
			time.Sleep(2 * time.Second)
			if err == nil {
				_, err = m.Resume(s.t.Context(), job.Name, 0)
			}
			return err
		}},
		{reason: "SKIPPED(edited)", job: tick("edited", nil), count: 2, hanging: func(s *scene, m *bubbleMember, job scheduler.Job) error {
			job.Schedule.Cron = []string{expressions[2*time.Second]}
			_, err := m.Apply(s.t.Context(), job, 0)
			return err
		}},
		{reason: "SKIPPED(deleted)", job: tick("deleted", nil), count: 3, hanging: func(s *scene, m *bubbleMember, job scheduler.Job) error {
			_, err := trigger(s, m, job) // a waiting trigger is one too
			if err == nil {
				_, err = m.Delete(s.t.Context(), job.Name, 0)
			}
			return err
		}},
		{reason: "SKIPPED(canceled)", job: rarely("canceled", "50ms"), count: 1, hanging: func(s *scene, m *bubbleMember, job scheduler.Job) error {
			receipt, err := trigger(s, m, job)
			if err == nil {
				_, err = m.Cancel(s.t.Context(), receipt.Firing)
			}
			return err
		}},
		{reason: "MISSED(start deadline)", job: tick("deadline", func(j *scheduler.Job) { j.Policy.StartDeadline = time.Second }), count: 2},
		{reason: "MISSED(catch-up policy)", job: tick("store", func(j *scheduler.Job) { j.Policy.CatchUp.Mode = scheduler.CatchUpNone }), count: 10},
		{reason: "MISSED(window)", job: tick("window", func(j *scheduler.Job) { j.Policy.CatchUp.Window = 10 * time.Second }), count: 5},
	}
}

// TestSA54_EachReasonHasItsCounterAndItsRecord causes each reason once: by a loop that hangs for three
// seconds, by edits meanwhile, and by an etcd that is away for twenty.
func TestSA54_EachReasonHasItsCounterAndItsRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "2026-03-10T12:00:00Z")
		defer s.close()
		m := s.add("only", func(c *Config) { c.SessionTTL = 30 * time.Second }) // hangs are no deaths here
		s.ready()
		cases := reasonCases()
		for i := range cases {
			cases[i].job = s.apply(cases[i].job)
		}
		s.until(s.next(time.Second, 5*time.Second).Add(500 * time.Millisecond))
		m.hang(3 * time.Second)
		for _, c := range cases {
			if c.hanging == nil {
				continue
			}
			go func() {
				time.Sleep(2200 * time.Millisecond) // two instants are due by then
				if err := c.hanging(s, m, c.job); err != nil {
					t.Errorf("%s: %v", c.reason, err)
				}
			}()
		}
		time.Sleep(10 * time.Second)
		s.etcd.LoseQuorum()
		time.Sleep(20 * time.Second)
		s.etcd.RegainQuorum()
		time.Sleep(10 * time.Second)
		s.ready()
		var missed int64
		for _, c := range cases {
			state, _, err := m.store.ReadState(t.Context(), scheduler.ShardOf(c.job.Name), c.job.Name)
			if err != nil {
				t.Fatal(err)
			}
			var counted, ranged int64
			counters := 0
			for _, k := range state.Counters {
				if verdictName(k.Verdict, k.Reason) == c.reason {
					counted, counters = k.Count, counters+1
				}
				if k.Verdict == scheduler.Missed {
					missed += k.Count
				}
			}
			for _, r := range state.Ranges {
				if verdictName(r.Verdict, r.Reason) == c.reason {
					ranged += r.Count
				}
			}
			if counters != 1 || counted < c.count || ranged == 0 || ranged > counted {
				t.Errorf("job %s: %d counters of %s with %d firings, and ranges with %d; want one with at least %d: %+v",
					c.job.Name, counters, c.reason, counted, ranged, c.count, state.Counters)
			}
		}
		if n := s.metric("firings_total", string(scheduler.Missed)); n != float64(missed) {
			t.Errorf("the metric says %v MISSED, the counters %d", n, missed)
		}
		if n := s.metric("firings_total", string(scheduler.Skipped)); n < 3 {
			t.Errorf("the metric says %v SKIPPED", n)
		}
		s.checkStarts()
	})
}
