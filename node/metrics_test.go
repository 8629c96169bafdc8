package node

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// TestJitterIsNoLag: an operator is woken by the lag, and jitter is what the job asked for.
func TestJitterIsNoLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		defer b.close()
		metrics := prometheus.NewRegistry()
		b.join("a", func(c *Config) { c.Metrics = metrics })
		b.ready()
		job := handlerJob("report", time.Minute, "work", "")
		job.Schedule.Jitter = 50 * time.Second
		b.apply(job)
		time.Sleep(20 * time.Minute)
		families, err := metrics.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			if family.GetName() == "quorumcron_start_lag_seconds" {
				lag := family.GetMetric()[0].GetHistogram()
				if n := lag.GetSampleCount(); n < 18 || lag.GetSampleSum() > float64(n) {
					t.Errorf("%d starts with %.1f s of lag in all, want 19 or so, each within a second of when it was due", n, lag.GetSampleSum())
				}
				return
			}
		}
		t.Error("there is no quorumcron_start_lag_seconds")
	})
}
