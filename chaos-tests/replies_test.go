package chaos

import (
	"fmt"
	"testing"
	"time"
)

// TestLostRepliesNeverFireTwice lets claims through to etcd and drops what it answers, just when jobs
// are due; then cuts a node off for longer than its leases live.
func TestLostRepliesNeverFireTwice(t *testing.T) {
	c := newCluster(t)
	c.startEtcd()
	lines := []*proxy{newProxy(t, c.etcd.address), newProxy(t, c.etcd.address)}
	for i, p := range lines {
		c.startNodeAt(fmt.Sprintf("n%d", i+1), p.address)
	}
	for _, n := range c.nodes {
		n.ready(patience)
	}
	c.waitForShards()
	begin := time.Now().Truncate(time.Second)
	var jobs []asked
	for i := range 20 {
		jobs = append(jobs, asked{name: fmt.Sprintf("j%02d", i), period: time.Second})
	}
	c.apply(begin.Add(22*time.Second), jobs...)

	for round := range 4 {
		line, due := lines[round%2], begin.Add(time.Duration(3+round)*time.Second)
		sleepUntil(due.Add(-20 * time.Millisecond)) // requests pass, and claims with them
		fell := line.fallen()
		line.set(dropReplies)
		sleepUntil(due.Add(400 * time.Millisecond))
		line.set(pass)
		if line.fallen() == fell {
			t.Errorf("round %d: no reply was lost", round)
		}
	}
	sleepUntil(begin.Add(9*time.Second + 100*time.Millisecond))
	c.fault(c.nodes[0])
	lines[0].set(blackHole)
	time.Sleep(ttl + 3*time.Second)
	lines[0].set(refuse)
	time.Sleep(time.Second)
	lines[0].set(pass)
	c.nodes[0].ready(recovery)

	h := c.settle(busyRecovery)
	c.noViolations(h.Check())
	starts := 0
	for _, l := range h.Lines {
		if l.Event == "start" && l.Wall().After(begin.Add(2*time.Second)) && l.Wall().Before(begin.Add(8*time.Second)) {
			starts++
		}
	}
	t.Logf("%d commands started while replies were lost", starts)
	if starts < 40 {
		t.Error("that is too few to show anything")
	}
}
