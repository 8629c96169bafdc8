package chaos

import (
	"fmt"
	"testing"
	"time"

	"github.com/quorumcron/quorumcron/chaos-tests/history"
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
	c.apply(begin.Add(20*time.Second), jobs...)

	const rounds, cut = 4, 400 * time.Millisecond
	round := func(i int) (node int, due time.Time) { return i % 2, begin.Add(time.Duration(3+i) * time.Second) }
	for i := range rounds {
		node, due := round(i)
		line := lines[node]
		sleepUntil(due.Add(-20 * time.Millisecond)) // requests pass, and claims with them
		fell := line.fallen()
		line.set(dropReplies)
		sleepUntil(due.Add(cut))
		line.set(pass)
		if line.fallen() == fell {
			t.Errorf("round %d: no reply was lost", i)
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
	// What started on the node once its line was whole again had been claimed before: the reply was lost.
	resolved := 0
	for i := range rounds {
		node, due := round(i)
		for _, l := range h.Lines {
			if l.Event == history.Start && l.Node == c.nodes[node].name && l.Due().Equal(due) && l.Lateness() >= cut {
				resolved++
			}
		}
	}
	t.Logf("%d commands started after the reply to their claim had been lost", resolved)
	if resolved == 0 {
		t.Error("nothing is shown")
	}
}
