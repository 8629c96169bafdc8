package chaos

import (
	"fmt"
	"testing"
	"time"

	"github.com/quorumcron/quorumcron/chaos-tests/history"
)

// TestEverythingRestarts kills all nodes and etcd at once, and starts them on their old data: nothing
// fires twice, and what fell into the gap meets the catch-up policy of its job.
func TestEverythingRestarts(t *testing.T) {
	c := start(t, 2)
	begin := time.Now().Truncate(time.Second)
	end := begin.Add(24 * time.Second)
	var jobs []asked
	for i := range 10 {
		jobs = append(jobs,
			asked{name: fmt.Sprintf("latest%d", i), period: time.Second},
			asked{name: fmt.Sprintf("none%d", i), period: time.Second, catchUp: "none"})
	}
	for i := range 4 { // in flight when all dies
		jobs = append(jobs, asked{name: fmt.Sprintf("slow%d", i), period: time.Second, sleep: 700 * time.Millisecond})
	}
	c.apply(end, jobs...)

	sleepUntil(begin.Add(5*time.Second + 300*time.Millisecond))
	for _, n := range c.nodes {
		c.fault(n)
	}
	died := time.Now()
	for _, p := range []*process{c.nodes[0].process, c.nodes[1].process, c.etcd.process} {
		p.kill()
	}

	sleepUntil(died.Add(9 * time.Second))
	c.startEtcd()
	for _, n := range c.nodes {
		n.start()
	}
	for _, n := range c.nodes {
		n.ready(patience)
	}
	back := time.Now()
	t.Logf("all was away for %s", back.Sub(died).Round(10*time.Millisecond))

	h := c.settle(busyRecovery)
	c.noViolations(h.Check())
	late := lateStarts(h, died)
	for _, j := range h.Jobs {
		caught := late[j.Name]
		switch {
		case j.Name[:4] == "none" && len(caught) > 0:
			t.Errorf("%s catches nothing up, and ran %s for %s", j.Name, caught[0].Wall(), caught[0].Instant)
		case j.Name[:4] == "none":
			if missed(j, "catch-up policy") == 0 {
				t.Errorf("%s has missed nothing by its policy: %v", j.Name, j.Counters)
			}
		case len(caught) > 1:
			t.Errorf("%s ran %d instants late, and catches up the latest: %v", j.Name, len(caught), caught)
		case j.Name[:4] == "slow": // stood still until its lost attempt was surely dead
		case len(caught) == 0:
			t.Errorf("%s did not catch up the latest instant", j.Name)
		default:
			newest(t, j, caught[0])
		}
	}
}

// lateStarts are the starts after a moment of what was no longer on time, by job.
func lateStarts(h history.History, since time.Time) map[string][]history.Line {
	late := map[string][]history.Line{}
	for _, l := range h.Lines {
		// A decision taken just in time needs a moment until its command runs.
		if l.Event == history.Start && l.Wall().After(since) && l.Lateness() > onTime+700*time.Millisecond {
			late[l.Job] = append(late[l.Job], l)
		}
	}
	return late
}

func missed(j history.Job, reason string) int64 {
	for _, c := range j.Counters {
		if c.Verdict == "MISSED" && c.Reason == reason {
			return c.Count
		}
	}
	return 0
}

// newest checks that what was caught up is the newest of what came too late: the missed end just before it.
func newest(t *testing.T, j history.Job, caught history.Line) {
	t.Helper()
	before := caught.Due().Add(-time.Second)
	for _, r := range j.Ranges {
		if r.Verdict == "MISSED" && r.Reason == "catch-up policy" && r.Last.Equal(before) {
			return
		}
	}
	t.Errorf("%s caught up %s, and %s before it is not the last it missed: %v", j.Name, caught.Instant, before.Format(time.RFC3339), j.Ranges)
}
