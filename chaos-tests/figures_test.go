package chaos

import (
	"fmt"
	"testing"
	"time"

	"github.com/quorumcron/quorumcron/chaos-tests/history"
)

// What a firing may cost etcd, see docs/architecture.md, "Figures". What is under way at the edges of a
// measurement may count for the wrong side.
const (
	mostOperations = 4.0
	mostProposals  = 0.2
	edges          = 1.01
)

// The sums of etcd that tell what a firing costs: keys put and deleted, transactions, and entries of
// the log that the members agree on.
const (
	puts      = "etcd_mvcc_put_total"
	deletes   = "etcd_mvcc_delete_total"
	txns      = "etcd_mvcc_txn_total"
	proposals = "etcd_server_proposals_committed_total"
)

// cost is what etcd did between two moments, and for how many firings: those that were skipped count,
// for they are decided and written as well.
type cost struct {
	firings, skipped               int
	puts, deletes, txns, proposals float64
	took                           time.Duration
}

func (c cost) operations() float64 { return (c.puts + c.deletes) / float64(c.firings) }
func (c cost) perFiring() float64  { return c.proposals / float64(c.firings) }

// String has the figures of docs/architecture.md.
func (c cost) String() string {
	return fmt.Sprintf("%d firings (%d skipped) in %s: %.2f key operations (%.2f puts, %.2f deletes), %.3f transactions and %.3f proposals for each",
		c.firings, c.skipped, c.took.Round(10*time.Millisecond), c.operations(),
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
			for _, j := range h.Jobs {
				for _, r := range j.Ranges {
					during.skipped += len(history.Instants(time.Second, later(r.First, from).Add(-time.Nanosecond), earlier(r.Last.Add(time.Nanosecond), to)))
				}
			}
			during.firings += during.skipped
			return during
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
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
	first := time.Now().Truncate(time.Second).Add(10 * time.Second) // applying goes faster while nothing fires
	end := first.Add(12 * time.Second)
	for i := range jobs {
		load = append(load, asked{name: fmt.Sprintf("h%04d", i), period: time.Second, start: first, handler: "note", kept: 2})
	}
	c.apply(end, load...)
	if time.Now().After(first) {
		t.Fatalf("applying %d jobs took %s: too long for this machine to show anything", jobs, time.Since(first)+10*time.Second)
	}

	// From before the first firing until all have ended, and are not yet folded alone: no edges.
	sleepUntil(first.Add(-200 * time.Millisecond))
	measured := c.measure()
	sleepUntil(end.Add(onTime))
	figures := measured()

	h := c.settle(foldAlone + onTime)
	c.noViolations(h.Check())
	t.Log("lateness:", h.Lateness(func(history.Line) bool { return true }))
	got := figures(h)
	t.Logf("%d handlers a second on three members: %s", jobs, got)
	if started := got.firings - got.skipped; started < jobs*12/2 {
		t.Errorf("only %d of %d started: nothing is shown", started, jobs*12)
	}
	if got.operations() > mostOperations*edges {
		t.Errorf("%.2f key operations for each firing, and %.1f is the most", got.operations(), mostOperations)
	}
	if got.perFiring() > mostProposals {
		t.Errorf("%.3f proposals for each firing, and %.1f is the most", got.perFiring(), mostProposals)
	}
}
