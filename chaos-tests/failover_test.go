package chaos

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/quorumcron/quorumcron/chaos-tests/history"
)

// load is sixty jobs, each due every second: most end at once, and slow ones live through half of it.
// A third keep so few runs that most of them are known by the counters alone.
func load(slow int) []asked {
	jobs := make([]asked, 60)
	for i := range jobs {
		jobs[i] = asked{name: fmt.Sprintf("j%02d", i), period: time.Second}
		if i < slow {
			jobs[i].sleep = 500 * time.Millisecond
		}
		if i%3 == 0 {
			jobs[i].kept = 10
		}
	}
	return jobs
}

// TestKilledNodesAreReplaced kills a node and then the dispatcher under load, and neither comes back.
func TestKilledNodesAreReplaced(t *testing.T) {
	c := start(t, 3)
	const slow, slowOnes = 15, "j" // those that live long enough to beat
	begin := time.Now().Truncate(time.Second)
	c.apply(begin.Add(41*time.Second), load(slow)...)

	sleepUntil(begin.Add(6*time.Second + 250*time.Millisecond))
	dispatcher := c.dispatcher()
	victim := c.nodes[slices.IndexFunc(c.nodes, func(n *node) bool { return n != dispatcher })]
	victim.isAmid(slowOnes)
	first := loss{node: victim.name, at: victim.die()}

	sleepUntil(begin.Add(20*time.Second + 250*time.Millisecond))
	dispatcher = c.dispatcher()
	dispatcher.isAmid(slowOnes)
	second := loss{node: dispatcher.name, at: dispatcher.die()}

	h := c.settle(busyRecovery)
	c.judged(h, history.Needs{Required: 1500, InFaults: 500, InFlight: 2})
	recovered(t, h, first, &second)
	recovered(t, h, second, nil)
	if s := c.status(); s.Unaccounted != "0" || s.ShardsOwned != 256 || s.Dispatcher != c.living()[0].name {
		t.Errorf("the status of the one node left is %+v", s)
	}
	t.Log("until the first kill:", h.Lateness(func(l history.Line) bool { return l.Wall().Before(first.at) }))
	t.Log("all the time:", h.Lateness(func(history.Line) bool { return true }))
}

// loss is a node that died.
type loss struct {
	node string
	at   time.Time
}

// byJob are the lines of commands, by job, in order of time.
func byJob(lines []history.Line) map[string][]history.Line {
	jobs := map[string][]history.Line{}
	for _, l := range lines {
		jobs[l.Job] = append(jobs[l.Job], l)
	}
	for _, of := range jobs {
		slices.SortFunc(of, func(a, b history.Line) int { return int(a.BootNS - b.BootNS) })
	}
	return jobs
}

// recovered checks how long the jobs of a dead node stood still: R, or R_busy for those whose attempt
// was in flight there: one that had not ended, or that was lost before it wrote a line. A second loss may meet a job that is not over the first yet: then it counts
// from that one.
func recovered(t *testing.T, h history.History, l loss, next *loss) {
	t.Helper()
	jobs, lost := byJob(h.Lines), map[string]bool{}
	for _, j := range h.Jobs {
		lost[j.Name] = slices.ContainsFunc(j.Counters, func(c history.Counter) bool { return c.Verdict == "LOST" })
	}
	var idle, busy []time.Duration
	for _, job := range slices.Sorted(maps.Keys(jobs)) {
		last := lastStart(jobs[job], l.at)
		if last.Node != l.node {
			continue // it was another node's, and stood still at no time
		}
		ended := slices.ContainsFunc(jobs[job], func(e history.Line) bool { return e.Nonce == last.Nonce && e.Event == history.End })
		inFlight := !ended || lost[job]
		gap, ok := firstStart(jobs[job], l.at)
		most := recovery
		if inFlight {
			most = busyRecovery
		}
		if next != nil && (!ok || l.at.Add(gap).After(next.at)) {
			most += next.at.Sub(l.at)
		}
		switch {
		case !ok:
			t.Errorf("%s never started again after %s died", job, l.node)
		case gap > most:
			t.Errorf("%s (in flight: %t) started again %s after %s had died, and %s is the most", job, inFlight, gap, l.node, most)
		}
		if inFlight {
			busy = append(busy, gap)
		} else {
			idle = append(idle, gap)
		}
	}
	if len(idle) == 0 || len(busy) == 0 {
		t.Errorf("%s had %d idle jobs and %d in flight when it died: the test shows nothing", l.node, len(idle), len(busy))
		return
	}
	t.Logf("%s died: its %d idle jobs fired again after at most %s, the %d in flight after at most %s", l.node,
		len(idle), slices.Max(idle).Round(time.Millisecond), len(busy), slices.Max(busy).Round(time.Millisecond))
}

// lastStart is a job's newest start until a moment.
func lastStart(lines []history.Line, until time.Time) history.Line {
	var last history.Line
	for _, l := range lines {
		if l.Event == history.Start && !l.Wall().After(until) {
			last = l
		}
	}
	return last
}

// firstStart is how long after a moment a job started first.
func firstStart(lines []history.Line, since time.Time) (time.Duration, bool) {
	for _, l := range lines {
		if l.Event == history.Start && l.Wall().After(since) {
			return l.Wall().Sub(since), true
		}
	}
	return 0, false
}
