package chaos

import (
	"fmt"
	"slices"
	"strings"
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
	eventually(t, patience, "a slow command under way", func() error {
		if !slices.ContainsFunc(c.nodes, func(n *node) bool { return n.amid("slow") != "" }) {
			return errNotYet
		}
		return nil
	})
	died := time.Now()
	var mend []func()
	for _, n := range c.nodes {
		mend = append(mend, c.strike(c.nodeKill(n, 9*time.Second)))
	}
	mend = append(mend, c.strike(c.etcdDown()))
	sleepUntil(died.Add(9 * time.Second))
	for i := range mend {
		mend[len(mend)-1-i]() // etcd first
	}
	for _, n := range c.nodes {
		n.ready(patience)
	}
	back := time.Now()
	t.Logf("all was away for %s", back.Sub(died).Round(10*time.Millisecond))

	h := c.settle(busyRecovery)
	c.judged(h, history.Needs{Required: 300, InFaults: 150, InFlight: 1})
	late := lateStarts(h, died)
	for _, j := range h.Jobs {
		caught := late[j.Name]
		switch {
		case strings.HasPrefix(j.Name, "none") && len(caught) > 0:
			t.Errorf("%s catches nothing up, and ran at %s for %s", j.Name, caught[0].Wall(), caught[0].Instant)
		case len(caught) > 1:
			t.Errorf("%s ran %d instants late, and catches up the latest alone: %v", j.Name, len(caught), caught)
		}
		if missed(j, "catch-up policy") == 0 {
			t.Errorf("%s has missed nothing by its policy: %v", j.Name, j.Counters)
		}
		if strings.HasPrefix(j.Name, "latest") {
			latestRan(t, j, h.Runs)
		}
	}
}

// lateStarts are the starts after a moment of what was certainly no longer on time, by job: a decision
// taken just in time needs a moment until its command runs.
func lateStarts(h history.History, since time.Time) map[string][]history.Line {
	late := map[string][]history.Line{}
	for _, l := range h.Lines {
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

// latestRan checks that the newest of what came too late ran: the instant just after those missed.
func latestRan(t *testing.T, j history.Job, runs []history.Run) {
	t.Helper()
	for _, m := range j.Ranges {
		if m.Verdict != "MISSED" || m.Reason != "catch-up policy" {
			continue
		}
		latest := m.Last.Add(time.Second)
		if !slices.ContainsFunc(runs, func(r history.Run) bool {
			return r.Job == j.Name && r.Instant.Equal(latest) && r.Verdict == "SUCCEEDED"
		}) {
			t.Errorf("%s missed all until %s, and did not catch up %s: %v", j.Name, m.Last, latest, j.Ranges)
		}
	}
}
