package chaos

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/quorumcron/quorumcron/chaos-tests/history"
)

// TestCommandsDieWithTheirNode freezes a node, and kills another, each with a command that runs and
// has a child in a session of its own: the frozen one's are dead before another member starts the next
// firing, the killed one's at once.
func TestCommandsDieWithTheirNode(t *testing.T) {
	t.Parallel() // it mostly waits
	c := start(t, 2)
	c.apply(time.Now().Add(time.Hour).Truncate(time.Second), asked{name: "long", period: time.Second, sleep: time.Hour, child: true})
	first := c.running(func(l history.Line) bool { return true })
	frozen := c.node(first.Node)
	thaw := c.strike(c.nodeFreeze(frozen, hold))
	froze := c.faults[0].From

	eventually(t, hold+2*time.Second, "the frozen node's command and child dead", func() error { return c.dead(first) })
	t.Logf("the frozen node's command and child were dead after %s", time.Since(froze).Round(10*time.Millisecond))
	next := c.running(func(l history.Line) bool { return l.Node != first.Node })
	t.Logf("another node started the next firing after %s", next.Wall().Sub(froze).Round(10*time.Millisecond))
	if gap := next.Wall().Sub(froze); gap > busyRecovery {
		t.Errorf("the next firing started %s after the node had been frozen, and %s is the most", gap, busyRecovery)
	}
	thaw()
	frozen.ready(patience)

	killed := c.node(next.Node)
	killed.die()
	died := time.Now()
	eventually(t, time.Second, "the killed node's command and child dead", func() error { return c.dead(next) })
	t.Logf("the killed node's command and child were dead after %s", time.Since(died).Round(time.Millisecond))
	last := c.running(func(l history.Line) bool { return l.Node == first.Node && l.Wall().After(died) })
	if gap := last.Wall().Sub(died); gap > busyRecovery {
		t.Errorf("the next firing started %s after the node had been killed, and %s is the most", gap, busyRecovery)
	}

	// The job has no end, so not all instants are decided: what ran is judged all the same.
	h := c.history()
	h.Taken = time.Now()
	c.judged(h, history.Needs{Required: 20, InFaults: 20, InFlight: 2, Checks: append(evidence(), "C13")})
}

// running waits for a command that runs and has a child, and is of the wanted kind; it returns its start.
func (c *cluster) running(wanted func(history.Line) bool) history.Line {
	c.t.Helper()
	var found history.Line
	eventually(c.t, busyRecovery+patience, "a command runs", func() error {
		starts, children := map[string]history.Line{}, map[string]bool{}
		for _, l := range c.lines() {
			switch {
			case l.Child:
				children[l.Nonce] = true
			case l.Event == history.Start && wanted(l):
				starts[l.Nonce] = l
			}
		}
		for nonce, l := range starts {
			if children[nonce] {
				found = l
				return nil
			}
		}
		return errNotYet
	})
	return found
}

// dead is an error while a command, or a child of it, lives.
func (c *cluster) dead(start history.Line) error {
	c.t.Helper()
	var errs []error
	seen := map[int]bool{}
	for _, l := range c.lines() {
		if l.Nonce == start.Nonce && !seen[l.PID] && alive(l.PID) {
			errs = append(errs, fmt.Errorf("process %d of %s lives (child: %t)", l.PID, l.Firing, l.Child))
		}
		seen[l.PID] = true
	}
	return errors.Join(errs...)
}

func (c *cluster) node(name string) *node {
	c.t.Helper()
	for _, n := range c.nodes {
		if n.name == name {
			return n
		}
	}
	c.t.Fatalf("no node is named %q", name)
	return nil
}
