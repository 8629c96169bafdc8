package chaos

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorumcron/quorumcron/chaos-tests/history"
)

// TestANodeWaitsForEtcd starts a node where no etcd is: it waits, says why it is not ready, and goes on
// when there is one.
func TestANodeWaitsForEtcd(t *testing.T) {
	t.Parallel() // it mostly waits
	c := newCluster(t)
	c.placeEtcd(1)
	n := c.startNode("n1")
	eventually(t, patience, "not ready, with a reason that names etcd", func() error {
		switch ready, text := n.readiness(); {
		case ready:
			t.Fatal("ready without etcd")
		case !strings.Contains(text, "etcd"):
			return fmt.Errorf("said %q", text)
		}
		return nil
	})
	if code, text := httpGet("http://" + n.http + "/healthz"); code != 200 {
		t.Errorf("not alive while it waits: %d %s", code, text)
	}
	if _, stderr, code := c.run("", "job", "list", "--timeout", "2s"); code != 5 || stderr == "" {
		t.Errorf("`job list` without etcd ended with exit code %d, want 5, and said %q", code, stderr)
	}
	c.startEtcd()
	n.ready(recovery)
	c.waitForShards()
	begin := time.Now()
	c.apply(begin.Add(6*time.Second).Truncate(time.Second), asked{name: "tick", period: time.Second})
	c.judged(c.settle(onTime+foldAlone), history.Needs{Required: 2})
}

// TestEtcdGoesAway kills etcd for less than a lease, and freezes it for longer than any attempt may live
// without its lock.
func TestEtcdGoesAway(t *testing.T) {
	c := start(t, 1)
	n := c.nodes[0]
	begin := time.Now().Truncate(time.Second)
	c.apply(begin.Add(24*time.Second),
		asked{name: "tick", period: time.Second},
		asked{name: "goes-on", sleep: 5 * time.Second},
		asked{name: "short", sleep: 3 * time.Second},
		asked{name: "killed", sleep: time.Hour},
		asked{name: "stubborn", sleep: time.Hour, stubborn: true},
		asked{name: "finishes", sleep: 10 * time.Second, onSession: "finish"},
	)

	goesOn, incarnation := c.triggered("goes-on"), c.status().Members[0].Incarnation
	back := c.strike(c.etcdDown())
	time.Sleep(1500 * time.Millisecond)
	back()
	n.ready(patience) // how soon it fires again is judged below
	if now := c.status().Members[0].Incarnation; now != incarnation {
		t.Errorf("etcd was back before the lease ended, and the node joined anew: incarnation %s, before %s", now, incarnation)
	}

	// Each is sure to run when etcd stops; the short one last, so that it ends meanwhile.
	finishes, killed, stubborn := c.triggered("finishes"), c.triggered("killed"), c.triggered("stubborn")
	short := c.triggered("short")
	thaw := c.strike(c.memberFreeze(c.etcd, 12*time.Second))
	froze := c.faults[len(c.faults)-1].From
	eventually(t, hold, "not ready, with a reason", func() error {
		if ready, text := n.readiness(); ready || len(strings.TrimSpace(text)) < 20 {
			return fmt.Errorf("said %q", text)
		}
		return nil
	})
	sleepUntil(froze.Add(12 * time.Second))
	thawed := time.Now()
	thaw()
	n.ready(patience)

	h := c.settle(busyRecovery)
	c.judged(h, history.Needs{Required: 15, InFaults: 10})
	verdicts := map[string]string{}
	for _, r := range h.Runs {
		verdicts[r.Firing] = strings.TrimSpace(r.Verdict + " " + r.Reason)
	}
	for firing, want := range map[string]string{
		goesOn: "SUCCEEDED", short: "SUCCEEDED", finishes: "SUCCEEDED", killed: "FAILED lock lost", stubborn: "FAILED lock lost",
	} {
		if verdicts[firing] != want {
			t.Errorf("%s is %q, want %q", firing, verdicts[firing], want)
		}
	}
	// The last answered keep-alive was sent at most a quarter of the TTL before etcd froze.
	lives := map[string]life{}
	for _, l := range h.Lines {
		lives[l.Firing] = lives[l.Firing].and(l)
		if l.Event == history.Start && l.Wall().After(froze.Add(time.Second)) && l.Wall().Before(thawed) {
			t.Errorf("%s started at %s, while etcd was away since %s", l.Firing, l.Wall(), froze)
		}
	}
	for _, firing := range []string{goesOn, short, finishes} {
		if told := lives[firing].told; !told.IsZero() {
			t.Errorf("%s was told to stop %s after etcd froze", firing, told.Sub(froze))
		}
	}
	within := func(what string, after time.Duration, from, to time.Duration) {
		t.Helper()
		t.Logf("%s %s after etcd froze", what, after.Round(10*time.Millisecond))
		if after < from || after > to {
			t.Errorf("%s %s after etcd froze, want between %s and %s", what, after, from, to)
		}
	}
	const early, slack = ttl/4 + 200*time.Millisecond, time.Second // as C13 has it
	within("the one that obeys was told to stop", lives[killed].told.Sub(froze), hold-3*time.Second-early, hold-3*time.Second+slack)
	within("the stubborn one was told to stop", lives[stubborn].told.Sub(froze), hold-3*time.Second-early, hold-3*time.Second+slack)
	within("the stubborn one was killed", lives[stubborn].last.Sub(froze), hold-early, hold+slack)
}

// TestEtcdLosesItsLeader kills the leader of three members under load: firings are late by an election,
// and nothing else happens.
func TestEtcdLosesItsLeader(t *testing.T) {
	t.Parallel() // it mostly waits
	c := newCluster(t)
	c.startEtcds(3)
	for i := range 2 {
		c.startNode(fmt.Sprintf("n%d", i+1))
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
	c.apply(begin.Add(12*time.Second), jobs...)
	sleepUntil(begin.Add(4*time.Second + 900*time.Millisecond))
	c.strike(c.memberKill(c.leader(), syscall.SIGKILL, 0))

	h := c.settle(recovery)
	c.judged(h, history.Needs{Required: 120, InFaults: 60})
	c.noViolations(h.Late(func(history.Line) time.Duration { return recovery }))
	t.Log("etcd's leader died:", h.Lateness(func(history.Line) bool { return true }))
	// No node is at fault, so whatever started ran to its end. With the shortest TTL an election can take
	// longer than a grant may wait for its start: such a firing is never started, and says so.
	for _, r := range h.Runs {
		if r.Verdict != "SUCCEEDED" && r.Reason != "never started" {
			t.Errorf("%s is %s(%s), and only etcd lost a member", r.Firing, r.Verdict, r.Reason)
		}
	}
}

// life is what the lines of one firing say of its command.
type life struct{ told, last time.Time }

func (f life) and(l history.Line) life {
	if l.Event == history.Term {
		f.told = l.Wall()
	}
	if l.Wall().After(f.last) {
		f.last = l.Wall()
	}
	return f
}

// triggered triggers a job, waits until its command runs, and returns the firing.
func (c *cluster) triggered(job string) string {
	c.t.Helper()
	firing := c.trigger(job)
	eventually(c.t, patience, job+" runs", func() error {
		for _, l := range c.lines() {
			if l.Firing == firing {
				return nil
			}
		}
		return errNotYet
	})
	return firing
}
