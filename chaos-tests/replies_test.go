package chaos

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/quorumcron/quorumcron/chaos-tests/history"
)

// TestLostRepliesNeverFireTwice lets claims through to etcd and drops what it answers, just when jobs
// are due; then cuts a node off for longer than its leases live.
func TestLostRepliesNeverFireTwice(t *testing.T) {
	t.Parallel() // it mostly waits
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

	const rounds = 6 // on a busy machine some claims come too late for their round
	for i := range rounds {
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
	started, of := resolved(h)
	t.Logf("%d commands started after the reply to their claim had been lost, of %d", started, of)
	if started == 0 {
		t.Errorf("the replies to %d claims that were granted were lost, and none of them was started", of)
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
	if fell := line.fallen() - fell; fell > 0 {
		lost.Proof = fmt.Sprintf("%d bytes of replies fell", fell)
	}
	return lost
}

// resolved is how many claims of a node were granted while replies to it were dropped, by etcd's log, and how
// many of those were started once its line was whole again.
func resolved(h history.History) (started, of int) {
	if h.Etcd == nil {
		return 0, 0
	}
	granted := map[string]history.Fault{}
	for _, e := range h.Etcd.Events {
		for _, f := range h.Faults {
			if f.Kind == history.LostReplies && strings.HasPrefix(e.Key, "locks/") && !e.Deleted &&
				bytes.Contains(e.Value, []byte(f.Node)) && e.At.After(f.From) && e.At.Before(f.To) {
				granted[e.Key] = f
			}
		}
	}
	for _, l := range h.Lines {
		for key, f := range granted {
			if l.Event == history.Start && l.Node == f.Node && l.Wall().After(f.To) && strings.Contains(key, strings.Replace(l.Firing, "@", "/@", 1)+"/") {
				started++
			}
		}
	}
	return started, len(granted)
}
