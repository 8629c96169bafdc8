package chaos

import (
	"fmt"
	"testing"
	"time"

	"github.com/quorumcron/quorumcron/chaos-tests/history"
)

// What a firing may cost etcd, see docs/architecture.md, "Figures".
const (
	mostOperations = 4.0
	mostProposals  = 0.2
)

// The sums of etcd that tell what a firing costs: keys put and deleted, transactions, and entries of
// the log that the members agree on.
const (
	puts      = "etcd_mvcc_put_total"
	deletes   = "etcd_mvcc_delete_total"
	txns      = "etcd_mvcc_txn_total"
	proposals = "etcd_server_proposals_committed_total"
)

// cost is what etcd did between two moments.
type cost struct {
	firings                        int
	puts, deletes, txns, proposals float64
	took                           time.Duration
}

func (c cost) operations() float64 { return (c.puts + c.deletes) / float64(c.firings) }
func (c cost) perFiring() float64  { return c.proposals / float64(c.firings) }

// String has the figures of docs/architecture.md.
func (c cost) String() string {
	return fmt.Sprintf("%d firings in %s (%.0f a second): %.2f key operations (%.2f puts, %.2f deletes), %.3f transactions and %.3f proposals for each",
		c.firings, c.took.Round(10*time.Millisecond), float64(c.firings)/c.took.Seconds(), c.operations(),
		c.puts/float64(c.firings), c.deletes/float64(c.firings), c.txns/float64(c.firings), c.perFiring())
}

// measure begins to count. The first function it returns ends that; the second takes the history, which
// knows what ran meanwhile. Both moments should be when what was due is done, and nothing is due yet.
func (c *cluster) measure() func() func(history.History) cost {
	before, from := c.etcd.counters(puts, deletes, txns, proposals), time.Now()
	return func() func(history.History) cost {
		after, to := c.etcd.counters(puts, deletes, txns, proposals), time.Now()
		return func(h history.History) cost {
			during := cost{
				puts: after[puts] - before[puts], deletes: after[deletes] - before[deletes], txns: after[txns] - before[txns],
				proposals: after[proposals] - before[proposals], took: to.Sub(from),
			}
			for _, l := range h.Lines {
				if l.Event == history.Start && !l.Child && l.Wall().After(from) && l.Wall().Before(to) {
					during.firings++
				}
			}
			return during
		}
	}
}

// TestAThousandHandlersShareProposals has three members that embed the library fire a thousand handlers
// each second: etcd agrees once on what many of them do.
func TestAThousandHandlersShareProposals(t *testing.T) {
	c := start(t, 1)
	const jobs, members = 1000, 3
	for i := range members {
		name := fmt.Sprintf("h%d", i+1)
		n := &node{c: c, name: name}
		n.process = startProcess(t, c.dir, name, n.environment(), programs.handlers, "-name", name, "-etcd", c.etcd.address)
	}
	eventually(t, patience, "the handlers' members there", func() error {
		if n := len(c.status().Members); n != members+1 {
			return fmt.Errorf("%d members", n)
		}
		return nil
	})
	var load []asked
	for i := range jobs {
		load = append(load, asked{name: fmt.Sprintf("h%04d", i), period: time.Second, handler: "note", kept: 2})
	}
	end := time.Now().Truncate(time.Second).Add(22 * time.Second)
	c.apply(end, load...)
	if left := time.Until(end); left < 12*time.Second {
		t.Fatalf("applying %d jobs has left %s to measure", jobs, left)
	}

	sleepUntil(end.Add(-11*time.Second - 100*time.Millisecond)) // what was due is done
	measured := c.measure()
	sleepUntil(end.Add(-time.Second - 100*time.Millisecond))
	figures := measured()

	h := c.settle(foldAlone + onTime)
	c.noViolations(h.Check())
	t.Log("all the time:", h.Lateness(func(history.Line) bool { return true }))
	got := figures(h)
	t.Logf("%d handlers a second on three members: %s", jobs, got)
	if got.firings < 10*jobs*95/100 {
		t.Errorf("only %d of %d fired: nothing is shown", got.firings, 10*jobs)
	}
	if got.operations() > mostOperations {
		t.Errorf("%.2f key operations for each firing, and %.1f is the most", got.operations(), mostOperations)
	}
	if got.perFiring() > mostProposals {
		t.Errorf("%.3f proposals for each firing, and %.1f is the most", got.perFiring(), mostProposals)
	}
}
