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
	c.apply(begin.Add(22*time.Second), jobs...)

	// Four times, and until it is seen that a claim met it: on a busy machine claims come late.
	const least, most = 4, 8
	for i := 0; i < least || i < most && resolved(c.lines(), c.faults) == 0; i++ {
		due := time.Now().Truncate(time.Second).Add(time.Second)
		if i == 0 {
			due = begin.Add(3 * time.Second)
		}
		c.faults = append(c.faults, c.loseReplies(c.nodes[i%2], lines[i%2], due))
	}
	cutOff := onNode("F11", history.NodeCut, c.nodes[0], "black hole, then refused")
	mend := c.strike(onLines(cutOff, lines[:1], blackHole, 0, func(c counts) bool { return c.requests.held > 0 }))
	time.Sleep(ttl + 3*time.Second)
	lines[0].set(refuse)
	time.Sleep(time.Second)
	mend()
	c.nodes[0].ready(patience)

	h := c.settle(busyRecovery)
	c.judged(h, history.Needs{Required: 300, InFaults: 150, InFlight: 1})
	known := resolved(h.Lines, h.Faults)
	t.Logf("%d commands started after the reply to their claim had been lost", known)
	if known == 0 {
		t.Error("nothing is shown")
	}
}

// loseReplies lets what a node asks of etcd through just when jobs are due, and drops what is answered.
func (c *cluster) loseReplies(n *node, line *proxy, due time.Time) history.Fault {
	lost := onNode("F16", history.LostReplies, n, "around %s", due.Format(time.TimeOnly))
	sleepUntil(due.Add(-20 * time.Millisecond)) // requests pass, and claims with them
	fell := line.fallen()
	lost.From = time.Now()
	line.set(dropReplies)
	sleepUntil(due.Add(400 * time.Millisecond))
	line.set(pass)
	lost.To = time.Now()
	if bytes := line.fallen() - fell; bytes > 0 {
		lost.Proof = fmt.Sprintf("%d bytes of replies fell", bytes)
	}
	return lost
}

// resolved is how many commands started on a node once its line was whole again, for an instant around which
// replies had been lost: they had been claimed before.
func resolved(lines []history.Line, faults []history.Fault) int {
	n := 0
	for _, l := range lines {
		for _, f := range faults {
			if f.Kind == history.LostReplies && l.Event == history.Start && l.Node == f.Node &&
				l.Due().After(f.From) && l.Due().Before(f.To) && l.Wall().After(f.To) {
				n++
			}
		}
	}
	return n
}
