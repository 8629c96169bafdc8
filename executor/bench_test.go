package executor

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"
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
				before := cpuOf(b, x.supervisor(b))
				b.ResetTimer()
				for b.Loop() {
					jobs <- command("/bin/true")
				}
				close(jobs)
				workers.Wait()
				cpu := cpuOf(b, x.supervisor(b)) - before
				b.ReportMetric(float64(cpu.Microseconds())/float64(b.N), "supervisor-µs/op")
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commands/s")
			})
		}
	}
}

// cpuOf is the processor time that a process has used, without that of its children.
func cpuOf(b *testing.B, pid int) time.Duration {
	b.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil {
		b.Fatal(err)
	}
	var total time.Duration
	for _, thread := range threads {
		var ns int64
		if text, err := os.ReadFile(thread); err == nil {
			fmt.Sscan(string(text), &ns)
		}
		total += time.Duration(ns)
	}
	return total
}
