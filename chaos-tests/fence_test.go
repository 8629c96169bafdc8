package chaos

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumcron/quorumcron/chaos-tests/history"
)

// TestEffectsOfASleepingMachineAreRefusedByTheirToken has a machine sleep, with all that runs on it, until
// the others have begun anew what it was in the middle of: under onLost retry another attempt of the same
// firing, under overlap skip the next instant. Then its commands wake up and go on. What they send is
// refused by who looks at tokens, and taken by who does not, after what is newer.
func TestEffectsOfASleepingMachineAreRefusedByTheirToken(t *testing.T) {
	t.Parallel() // it mostly waits
	c := newCluster(t)
	c.startEtcd()
	c.receive()
	for i := range 2 {
		c.startNode(fmt.Sprintf("n%d", i+1))
	}
	for _, n := range c.nodes {
		n.ready(patience)
	}
	c.waitForShards()
	const each, lives = 6, 4 * time.Second
	begin := time.Now()
	var jobs []asked
	for i := range each {
		jobs = append(jobs,
			asked{name: fmt.Sprintf("retried%d", i), sleep: lives, onLost: "retry"},
			asked{name: fmt.Sprintf("skipped%d", i), sleep: lives, period: time.Second})
	}
	c.apply(begin.Add(40*time.Second).Truncate(time.Second), jobs...)
	c.triggerEach("retried")

	sleeper := c.inTheMiddle("retried", "skipped")
	froze := time.Now()
	awake := c.strike(breakage{
		Fault:  onNode("F04", history.MachineFreeze, sleeper.n, "until others have begun anew what it was in the middle of"),
		inject: sleeper.sleep, proof: sleeper.asleep,
		heal: func() error { sleeper.wake(); return nil },
	})
	asleep := c.middleOn(sleeper.n)
	eventually(t, busyRecovery+patience, "others began anew what sleeps, and have sent effects", func() error {
		return superseded(asleep, c.received())
	})
	t.Logf("after %s others had begun anew all %d that sleep", time.Since(froze).Round(10*time.Millisecond), len(asleep))

	sleeper.wakeCommands()
	eventually(t, patience, "each of them has sent an effect", func() error {
		told := map[string]bool{}
		for _, l := range c.lines() {
			told[l.Nonce] = told[l.Nonce] || l.Event == history.Refused
		}
		for nonce, l := range asleep {
			if !told[nonce] {
				return fmt.Errorf("%s was refused nothing", l.Firing)
			}
		}
		return nil
	})
	awake()
	sleeper.n.ready(patience) // how soon it does its share again is judged below

	h := c.settle(busyRecovery)
	j := h.Judge(history.Needs{Required: 100, InFaults: 10, InFlight: 1, Refused: len(asleep), Checks: append(evidence(), "C08")})
	t.Logf("\n%s", h.Report(j))
	if j.Verdict != history.Valid {
		t.Errorf("%s", j.Verdict)
	}
	for nonce, l := range asleep {
		fenced(t, l, only(h.Effects, func(e history.Effect) bool { return e.Nonce == nonce }))
	}
}

// inTheMiddle is a machine that runs a command in the middle of its effects of one job at least of each
// name that begins so.
func (c *cluster) inTheMiddle(names ...string) *machine {
	c.t.Helper()
	var found *machine
	eventually(c.t, patience, fmt.Sprintf("a node runs commands of %v", names), func() error {
		for _, n := range c.nodes {
			if !slices.ContainsFunc(names, func(name string) bool { return n.amid(name) == "" }) {
				found = &machine{n: n}
				return nil
			}
		}
		return errNotYet
	})
	return found
}

// middleOn are the newest lines of commands on a node that have sent effects and have not ended, by nonce.
func (c *cluster) middleOn(n *node) map[string]history.Line {
	c.t.Helper()
	last, sent := map[string]history.Line{}, map[string]bool{}
	for _, l := range c.lines() {
		if l.Node == n.name {
			last[l.Nonce] = l
			sent[l.Nonce] = sent[l.Nonce] || l.Event == history.Done
		}
	}
	maps.DeleteFunc(last, func(nonce string, l history.Line) bool { return l.Event == history.End || !sent[nonce] })
	kinds := map[string]int{}
	for _, l := range last {
		kinds[strings.TrimRight(l.Job, "0123456789")]++
	}
	if len(kinds) != 2 {
		c.t.Fatalf("asleep are %v, and wanted are some of two kinds", kinds)
	}
	c.t.Logf("%s sleeps in the middle of %v", n.name, kinds)
	return last
}

// superseded is an error while the receiver has no effect of a job with a token above that of the line.
func superseded(asleep map[string]history.Line, effects []history.Effect) error {
	highest := map[string]int64{}
	for _, e := range effects {
		highest[e.Job] = max(highest[e.Job], e.Token)
	}
	for _, l := range asleep {
		if fmt.Sprint(highest[l.Job]) == l.Token {
			return fmt.Errorf("%s has the newest token still", l.Firing)
		}
	}
	return nil
}

// fenced checks the effects of one command that slept: first all were accepted by both ledgers, then the
// one refused and the other took each of them.
func fenced(t *testing.T, l history.Line, effects []history.Effect) {
	t.Helper()
	before, refused, taken := 0, 0, 0
	for _, e := range effects {
		stale := e.Token < e.Highest
		switch {
		case e.Ledger == history.Fenced && e.Accepted && !stale && refused == 0:
			before++
		case e.Ledger == history.Fenced && !e.Accepted && stale:
			refused++
		case e.Ledger == history.Plain && e.Accepted:
			if stale {
				taken++
			}
		default:
			t.Errorf("%s: an effect that nobody expects: %+v", l.Firing, e)
		}
	}
	if before == 0 || refused == 0 || taken != refused {
		t.Errorf("%s on %s: %d effects accepted before it slept, %d refused after, and %d taken by the ledger that does not look at tokens: "+
			"want some, some, and as many", l.Firing, l.Node, before, refused, taken)
	}
}
