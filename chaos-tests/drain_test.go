package chaos

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorumcron/quorumcron/chaos-tests/history"
)

// TestStoppingNodesLoseNothing stops a node and then the dispatcher by SIGTERM under load, each with
// commands under way: every instant has its run, and hardly one is later for it.
func TestStoppingNodesLoseNothing(t *testing.T) {
	c := start(t, 3)
	begin := time.Now().Truncate(time.Second)
	jobs := load(0)
	for i := range 20 {
		jobs = append(jobs, asked{name: fmt.Sprintf("long%02d", i), sleep: 4 * time.Second})
	}
	end := begin.Add(26 * time.Second)
	c.apply(end, jobs...)

	calm := span{from: begin.Add(2 * time.Second)}
	sleepUntil(begin.Add(2*time.Second + 900*time.Millisecond)) // what was due is done
	figures := c.measure()
	sleepUntil(begin.Add(9*time.Second + 900*time.Millisecond))
	atSixty := figures()
	calm.to = time.Now()

	dispatcher := c.dispatcher()
	victim := c.nodes[slices.IndexFunc(c.nodes, func(n *node) bool { return n != dispatcher })]
	c.triggerAll("long0")
	stopped := span{from: time.Now(), to: end}
	first := victim.drain()
	victim.ranOn("long", first)

	c.triggerAll("long1")
	dispatcher = c.dispatcher()
	second := dispatcher.drain()
	dispatcher.ranOn("long", second)

	h := c.settle(foldAlone + onTime)
	before, after := h.Lateness(calm.covers), h.Lateness(stopped.covers)
	if before.P99 > time.Second {
		t.Fatalf("the load is too much for this machine, and nothing is shown: p99 calm is %s, and healthy is 1 s", before.P99)
	}
	c.judged(h, history.Needs{Required: 600, InFlight: 2}) // no stop excuses anything
	// Where commands start half a second late while nothing is wrong, one may still run when the next is due.
	busy := before.P99 > 500*time.Millisecond
	for _, j := range h.Jobs {
		ran := slices.DeleteFunc(slices.Clone(j.Counters), func(c history.Counter) bool { return busy && c.Reason == "overlap" })
		if len(ran) != 1 || ran[0].Verdict != "SUCCEEDED" {
			t.Errorf("%s: an instant has no run: counted are %v, ranges %v", j.Name, j.Counters, j.Ranges)
		}
	}
	t.Log("calm:", before)
	t.Log("from the first stop on:", after)
	for what, s := range map[string]span{"in calm": calm, "after the first stop": {first, first.Add(3 * time.Second)}, "after the second": {second, second.Add(3 * time.Second)}} {
		if n := h.Lateness(s.covers).N; n < 100 {
			t.Fatalf("only %d starts %s: nothing is shown", n, what)
		}
	}
	if most := before.P99 + time.Second; after.Max > most {
		for _, v := range h.Late(func(history.Line) time.Duration { return most }) {
			t.Error(v)
		}
	}
	t.Logf("60 commands a second on three nodes: %s", atSixty(h))
	if ops := atSixty(h).operations(); !busy && ops > mostOperations*edges {
		t.Errorf("%.2f key operations for each firing, and %.1f is the most", ops, mostOperations)
	}
}

// triggerAll triggers each job whose name begins so, and waits until all of them run.
func (c *cluster) triggerAll(prefix string) {
	c.t.Helper()
	waiting := map[string]bool{}
	for _, firing := range c.triggerEach(prefix) {
		waiting[firing] = true
	}
	eventually(c.t, patience, "all triggered firings run", func() error {
		for _, l := range c.lines() {
			delete(waiting, l.Firing)
		}
		if len(waiting) > 0 {
			return fmt.Errorf("%d do not", len(waiting))
		}
		return nil
	})
}

// plannedStop is a kind of fault that excuses nothing.
const plannedStop = "planned-stop"

// drain stops a node by SIGTERM, and returns when: it must be not ready at once, and end well.
func (n *node) drain() (told time.Time) {
	n.c.t.Helper()
	told = time.Now()
	n.signal(syscall.SIGTERM)
	eventually(n.c.t, 2*time.Second, n.name+" not ready once it was told to stop", func() error {
		if ready, text := n.readiness(); ready {
			return fmt.Errorf("%q", text)
		}
		return nil
	})
	if code := n.exit(n.c.t, 30*time.Second+grace); code != 0 {
		n.c.t.Errorf("%s ended with exit code %d when it was told to stop", n.name, code)
	}
	stop := onNode("F05", plannedStop, n, "TERM, for good")
	stop.From, stop.Proof = told, fmt.Sprintf("ended by itself: %s", n.cmd.ProcessState)
	n.c.faults = append(n.c.faults, stop)
	n.c.t.Logf("%s ended %s after SIGTERM", n.name, time.Since(told).Round(time.Millisecond))
	return told
}

// ranOn checks that commands of jobs whose name begins so went on to their end after a moment.
func (n *node) ranOn(prefix string, since time.Time) {
	n.c.t.Helper()
	for _, l := range n.c.lines() {
		if l.Node == n.name && l.Event == history.End && strings.HasPrefix(l.Job, prefix) && l.Wall().After(since) {
			return
		}
	}
	n.c.t.Errorf("nothing ran on %s when it was told to stop: nothing is shown", n.name)
}

// span is a time from a moment to another.
type span struct{ from, to time.Time }

// covers counts a start by its instant, so that what is late still counts where it belongs.
func (s span) covers(l history.Line) bool {
	at := l.Due()
	return !at.Before(s.from) && at.Before(s.to)
}
