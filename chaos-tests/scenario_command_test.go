package chaos

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumcron/quorumcron/chaos-tests/history"
)

// TestSA39_CommandThatCannotStartFailsAtOnceAndBlocksNothing runs a program that does not exist.
func TestSA39_CommandThatCannotStartFailsAtOnceAndBlocksNothing(t *testing.T) {
	c := start(t, 1)
	from := time.Now().Truncate(time.Second).Add(2 * time.Second)
	end := from.Add(6 * time.Second)
	c.applyDocument(map[string]any{
		"name": "absent", "run": map[string]any{"command": map[string]any{"args": []string{"/no/such/program"}}},
		"schedule": map[string]any{"cron": []string{"* * * * * *"}, "start": from.Format(time.RFC3339), "end": end.Format(time.RFC3339)},
	})
	c.apply(end, asked{name: "beside", period: time.Second, start: from})
	h := c.settle(foldAlone)
	eventually(t, foldAlone+onTime, "all six counted", func() error {
		if v := verdicts(c.job("absent")); v["FAILED(start error)"] != 6 || len(v) != 1 {
			return fmt.Errorf("verdicts %v", v)
		}
		return nil
	})
	c.judged(h, history.Needs{Required: 5})
	for _, r := range c.runs() {
		if r.Job != "absent" {
			continue
		}
		if r.Verdict != "FAILED" || r.Reason != "start error" || r.EndTime.Sub(r.Instant) > 2*time.Second {
			t.Errorf("the firing of %s is %s(%s), %s after it was due", r.Instant, r.Verdict, r.Reason, r.EndTime.Sub(r.Instant))
		}
	}
}

// TestSA51_FullDiskCostsOutputAndNothingElse fills the disk that one of two nodes has its data on.
func TestSA51_FullDiskCostsOutputAndNothingElse(t *testing.T) {
	t.Parallel() // it mostly waits
	c := newCluster(t)
	disk := smallDisk(t, filepath.Join(c.dir, "n1"), "size=2m")
	c.startEtcd()
	c.startNode("n1")
	c.startNode("n2")
	for _, n := range c.nodes {
		n.ready(patience)
	}
	c.waitForShards()
	begin := time.Now().Truncate(time.Second)
	var jobs []asked
	for i := range 10 {
		jobs = append(jobs, asked{name: fmt.Sprintf("j%02d", i), period: time.Second})
	}
	end := begin.Add(14 * time.Second)
	c.apply(end, jobs...)
	var loudJobs []map[string]any
	for i := range 8 { // these have much to say
		loudJobs = append(loudJobs, map[string]any{
			"name": fmt.Sprintf("loud-%d", i*i), "history": map[string]any{"limit": 100},
			"run":      map[string]any{"command": map[string]any{"args": []string{"/bin/sh", "-c", "head -c 200000 /dev/zero | tr '\\0' x"}}},
			"schedule": map[string]any{"cron": []string{"* * * * * *"}, "end": end.Format(time.RFC3339)},
		})
	}
	c.applyDocument(loudJobs...)
	sleepUntil(begin.Add(4*time.Second + 500*time.Millisecond))
	emptied := c.strike(c.diskFull(c.nodes[0], disk, 0))
	full := time.Now()

	// Its session is in etcd, so that it goes on with all it owns; what it cannot write is output.
	sleepUntil(begin.Add(9 * time.Second))
	if s := c.status(); len(s.Members) != 2 {
		t.Errorf("%d members, want 2: the one with the full disk has its session", len(s.Members))
	}
	sleepUntil(end.Add(time.Second))
	emptied() // all that was due in between counts as under the fault
	plain, runs := c.settle(foldAlone+onTime), c.runs()
	plain.Jobs = slices.DeleteFunc(plain.Jobs, isLoud)
	plain.Runs = slices.DeleteFunc(plain.Runs, func(r history.Run) bool { return strings.HasPrefix(r.Job, "loud") })
	c.judged(plain, history.Needs{Required: 70, InFaults: 1})
	c.noViolations(plain.Late(func(history.Line) time.Duration { return onTime }))
	loud := 0
	for _, r := range runs {
		if r.Verdict != "SUCCEEDED" {
			t.Errorf("%s of %s on %s is %s(%s), want SUCCEEDED", r.Firing, r.Job, r.Member, r.Verdict, r.Reason)
		}
		if strings.HasPrefix(r.Job, "loud") && r.Member == "n1" && r.StartTime.After(full) {
			loud++
		}
	}
	if loud < 3 {
		t.Errorf("%d commands with output ran on the node with the full disk: too few to show anything", loud)
	}
	c.says(onTime, "a warning that output was cut for want of space", func() string { return tail(c.nodes[0].log, 100) }, "output cut", "no space left")
	c.nodes[0].drain()
}

func isLoud(j history.Job) bool { return strings.HasPrefix(j.Name, "loud") }
