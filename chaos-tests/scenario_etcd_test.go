package chaos

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumcron/quorumcron/chaos-tests/history"
)

// frozenLine is how long a client can go on sending to an etcd member that is frozen, and whose machine
// goes on acknowledging what it gets: gRPC pings after 10 s of silence, and waits 3 s.
const frozenLine = 13 * time.Second

// TestSA10_DispatcherThatDiesWhileEtcdsLeaderHangsIsReplaced freezes the leader of three etcd members,
// and kills the dispatcher a second later.
func TestSA10_DispatcherThatDiesWhileEtcdsLeaderHangsIsReplaced(t *testing.T) {
	t.Parallel() // it mostly waits
	c := newCluster(t)
	c.startEtcds(3)
	for i := range 3 {
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
	const dies = 6 * time.Second // after begin; there are starts to judge though its successor takes all the time it may
	c.apply(begin.Add(dies+recovery+frozenLine+7*time.Second), jobs...)
	sleepUntil(begin.Add(dies - 1100*time.Millisecond))
	leader := c.leader()
	dispatcher := c.dispatcher()
	thaw := c.strike(c.memberFreeze(leader, busyRecovery))
	time.Sleep(time.Second)
	died := dispatcher.die()
	eventually(t, recovery+frozenLine, "another dispatcher", func() error {
		var s status
		stdout, stderr, code := c.run("", "cluster", "status", "-o", "json")
		if code != 0 {
			return fmt.Errorf("exit code %d: %s", code, stderr)
		}
		if c.decode(stdout, &s); s.Dispatcher == "" || s.Dispatcher == dispatcher.name {
			return fmt.Errorf("the dispatcher is %q", s.Dispatcher)
		}
		return nil
	})
	t.Logf("another dispatcher %s after the death", time.Since(died).Round(10*time.Millisecond))

	h := c.settle(busyRecovery)
	thaw()
	c.judged(h, history.Needs{Required: 300, InFaults: 150})
	c.noViolations(h.Late(func(history.Line) time.Duration { return recovery + frozenLine }))
	if late := h.Lateness(func(l history.Line) bool { return l.Wall().After(died) }); late.N < 100 {
		t.Errorf("%d starts after the death: too few to show anything", late.N)
	}
}

// TestSA23_NodeAtAFrozenEtcdMemberDecidesNothingFromWhatItRemembers gives one node a single member of
// three to talk to, freezes that member again and again, and thaws it when the world has moved on.
func TestSA23_NodeAtAFrozenEtcdMemberDecidesNothingFromWhatItRemembers(t *testing.T) {
	t.Parallel() // it mostly waits
	c := newCluster(t)
	c.startEtcds(3)
	follower := c.others[0]
	if c.leader() == follower {
		follower = c.others[1]
	}
	c.startNodeAt("n1", follower.address)
	c.startNodeAt("n2", c.etcd.address)
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
	for i, frozen := range []time.Duration{700 * time.Millisecond, ttl + 2*time.Second} {
		sleepUntil(begin.Add(time.Duration(3+4*i)*time.Second + 800*time.Millisecond))
		thaw := c.strike(c.memberFreeze(follower, frozen))
		time.Sleep(frozen)
		thaw()
	}
	c.nodes[0].ready(patience)
	h := c.settle(busyRecovery)
	c.judged(h, history.Needs{Required: 250, InFaults: 100})
	nodes := map[string]int{}
	for _, l := range h.Lines {
		if l.Event == history.Start {
			nodes[l.Node]++
		}
	}
	if len(nodes) != 2 {
		t.Errorf("starts on %v, want some on both nodes", nodes)
	}
}

// TestSA25_NodeStartsAndAnswersWhileEtcdHasNoSpace fills etcd until it raises its alarm.
func TestSA25_NodeStartsAndAnswersWhileEtcdHasNoSpace(t *testing.T) {
	t.Parallel() // it mostly waits
	c := newCluster(t)
	c.with(map[string]any{"QuotaBytes": 4 << 20})
	c.startEtcd()
	n := c.startNode("n1")
	n.ready(patience)
	c.waitForShards()
	document := func(name string) string {
		return fmt.Sprintf(`{"name": %q, "schedule": {"cron": ["0 0 1 1 *"]}, "run": {"handler": {"name": "fill"}}}`, name)
	}
	c.mustRun(document("fill-0"), "job", "apply", "-f", "-")
	kv := dialKV(t, c.etcd.address)
	for i := 0; kv.tryPut("/ballast", []byte(strings.Repeat("x", 60<<10))) == nil; i++ {
		if i == 10_000 { // etcd reckons its size ten times a second
			t.Fatal("etcd is never full")
		}
	}
	if stdout, stderr, code := c.run(document("fill-1"), "job", "apply", "-f", "-"); code != 1 || !strings.Contains(strings.ToLower(stdout+stderr), "space") {
		t.Fatalf("an apply into a full etcd: exit code %d: %s%s", code, stdout, stderr)
	}
	n.die() // its leases are revoked at the restart, and new ones cannot be had
	n.start()
	c.says(patience, "not ready, for want of space", func() string { _, text := n.readiness(); return text }, "space")
	if list := c.mustRun("", "job", "list"); !strings.Contains(list, "fill-0") {
		t.Errorf("`job list` shows %.200s", list)
	}
	c.mustRun("", "run", "list")
	c.says(patience, "status with the alarm", func() string { return c.mustRun("", "cluster", "status") }, "nospace")
	time.Sleep(ttl)
	if n.ended() {
		t.Errorf("the node ended with exit code %d", n.cmd.ProcessState.ExitCode())
	}
	if code, text := httpGet("http://" + n.http + "/healthz"); code != 200 {
		t.Errorf("not alive: %d %s", code, text)
	}
}

// TestSA26_TokensThatExpireCostNothing switches etcd's authentication on, with tokens that live for
// five seconds and are not renewed by use, and changes a job every three: its exit code.
func TestSA26_TokensThatExpireCostNothing(t *testing.T) {
	c := newCluster(t)
	key, password := filepath.Join(c.dir, "token.key"), filepath.Join(c.dir, "password")
	for path, text := range map[string]string{key: "not a secret, but as long as one", password: "root's password"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c.with(map[string]any{"Password": "root's password", "AuthToken": "jwt,priv-key=" + key + ",sign-method=HS256,ttl=5s"})
	c.startEtcd()
	for i := range 2 {
		c.startNodeWith(fmt.Sprintf("n%d", i+1), "--etcd-username", "root", "--etcd-password-file", password)
	}
	for _, n := range c.nodes {
		n.ready(patience)
	}
	c.waitForShards()
	begin := time.Now().Truncate(time.Second)
	end := begin.Add(24 * time.Second)
	var jobs []asked
	for i := range 10 {
		jobs = append(jobs, asked{name: fmt.Sprintf("j%02d", i), period: time.Second})
	}
	changing := asked{name: "changing", period: time.Second}
	c.apply(end, append(jobs, changing)...)
	const changes, every = 6, 3 * time.Second
	changed := make([]time.Time, changes)
	for i := range changes {
		sleepUntil(begin.Add(time.Duration(i+1)*every + 500*time.Millisecond))
		changing.exit = 10 + i
		c.applyDocument(changing.document(end))
		changed[i] = time.Now()
	}
	h := c.settle(foldAlone + onTime)
	unwatched := slices.DeleteFunc(evidence(), func(check string) bool { return check == "C12" }) // etcd asks who watches
	c.judged(h, history.Needs{Required: 150, Checks: unwatched})
	if late := h.Lateness(func(history.Line) bool { return true }); late.P99 > time.Second {
		t.Errorf("late, and nothing is wrong: %s", late)
	}
	codes := map[int64]int{}
	for _, l := range h.Lines {
		if l.Event == history.End && l.Job == changing.name {
			codes[l.Due().Unix()] = l.Exit
		}
	}
	for i, at := range changed {
		next := at.Truncate(time.Second).Add(time.Second)
		for due := next; due.Before(next.Add(2 * time.Second)); due = due.Add(time.Second) {
			if got := codes[due.Unix()]; got != 10+i {
				t.Errorf("the firing of %s, after change %d, ended with exit code %d, want %d", due.Format(time.TimeOnly), i, got, 10+i)
			}
		}
	}
}
