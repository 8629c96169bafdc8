package executor

import (
	"runtime"
	"sync"
	"testing"
)

// BenchmarkCommand is what one command costs from Execute to Result.
func BenchmarkCommand(b *testing.B) {
	for name, noCgroups := range map[string]bool{"cgroup": false, "plain": true} {
		for _, wide := range []int{1, 16} {
			b.Run(name+"/"+map[int]string{1: "alone", 16: "16-at-once"}[wide], func(b *testing.B) {
				x := newBench(b, func(c *Config) { c.noCgroups = noCgroups })
				x.supervisor(b)
				jobs := make(chan Attempt)
				var workers sync.WaitGroup
				for range wide {
					workers.Go(func() {
						for a := range jobs {
							if r := x.Execute(b.Context(), a, nil); r.Verdict != "SUCCEEDED" {
								b.Errorf("got %s: %s, want SUCCEEDED", r.Verdict, r.Message)
							}
						}
					})
				}
				runtime.GC()
				b.ResetTimer()
				for b.Loop() {
					jobs <- command("/bin/true")
				}
				close(jobs)
				workers.Wait()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commands/s")
			})
		}
	}
}
