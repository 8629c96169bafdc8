package chaos

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/quorumcron/quorumcron/chaos-tests/history"
	v1 "github.com/quorumcron/quorumcron/proto/quorumcron/v1"
)

// asked is a job to apply, as a test says it.
type asked struct {
	name      string
	period    time.Duration // a second, ten seconds or a minute; 0 means only when triggered
	start     time.Time     // of the schedule; zero means at once
	sleep     time.Duration
	exit      int
	stubborn  bool   // goes on when it is told to stop
	child     bool   // leaves a child in a session of its own
	catchUp   string // latest when empty
	onLost    string
	onSession string // kill when empty
	kept      int    // history.limit; 100 when 0
	handler   string // a handler instead of the witness
}

var expressions = map[time.Duration]string{
	time.Second: "* * * * * *", 2 * time.Second: "*/2 * * * * *", 5 * time.Second: "*/5 * * * * *", 10 * time.Second: "*/10 * * * * *",
	time.Minute: "* * * * *",
}

// document is the job file of a job that ends at end.
func (a asked) document(end time.Time) map[string]any {
	schedule := map[string]any{"end": end.Format(time.RFC3339)}
	if a.period == 0 {
		schedule["cron"] = []string{"0 0 1 1 *"} // far away: it is triggered
		delete(schedule, "end")
	} else {
		schedule["cron"] = []string{expressions[a.period]}
	}
	if !a.start.IsZero() {
		schedule["start"] = a.start.Format(time.RFC3339)
	}
	env := map[string]string{}
	if a.sleep > 0 {
		env["WITNESS_SLEEP"] = a.sleep.String()
	}
	if a.exit != 0 {
		env["WITNESS_EXIT"] = fmt.Sprint(a.exit)
	}
	if a.stubborn {
		env["WITNESS_STUBBORN"] = "1"
	}
	if a.child {
		env["WITNESS_CHILD"] = "1"
	}
	run := map[string]any{"command": map[string]any{"args": []string{programs.witness}, "env": env}}
	if a.handler != "" {
		run = map[string]any{"handler": map[string]any{"name": a.handler}}
	}
	policy := map[string]any{}
	if a.catchUp != "" {
		policy["catchUp"] = map[string]any{"mode": a.catchUp}
	}
	if a.onLost != "" {
		policy["onLost"] = a.onLost
	}
	if a.onSession != "" {
		policy["onSessionLost"] = a.onSession
	}
	return map[string]any{
		"name": a.name, "schedule": schedule, "run": run, "policy": policy, "history": map[string]any{"limit": a.keep()},
	}
}

func (a asked) keep() int {
	if a.kept == 0 {
		return 100
	}
	return a.kept
}

// apply hands in jobs that end at end, and notes what is to be expected of them.
func (c *cluster) apply(end time.Time, jobs ...asked) {
	c.t.Helper()
	var documents bytes.Buffer
	for _, a := range jobs {
		text, err := json.Marshal(a.document(end))
		if err != nil {
			c.t.Fatal(err)
		}
		fmt.Fprintf(&documents, "---\n%s\n", text)
	}
	c.watchEtcd()
	applied := time.Now()
	c.mustRun(documents.String(), "job", "apply", "-f", "-")
	for _, a := range jobs {
		attempts := 1
		if a.onLost == "retry" {
			attempts = 3
		}
		c.plans = append(c.plans, history.Plan{
			Job: a.name, Period: a.period, Applied: applied, Acknowledged: time.Now(), Start: a.start, End: end, Attempts: attempts, Kept: a.keep(),
			Handler: a.handler != "", Finish: a.onSession == "finish",
		})
	}
}

// trigger asks for one firing of a job, and returns it.
func (c *cluster) trigger(job string) string {
	c.t.Helper()
	var answer struct{ Firing string }
	c.decode(c.mustRun("", "job", "trigger", job, "-o", "json"), &answer)
	for i := range c.plans {
		if c.plans[i].Job == job {
			c.plans[i].Triggers++
		}
	}
	return answer.Firing
}

// triggerEach asks for one firing of each job whose name begins so, faster than the command line starts, and
// returns them.
func (c *cluster) triggerEach(prefix string) []string {
	c.t.Helper()
	living := c.living()
	if len(living) == 0 {
		c.t.Fatal("no node is left to ask")
	}
	client := v1.NewJobServiceClient(dial(c.t, living[0].grpc))
	ctx, cancel := soon(patience)
	defer cancel()
	var firings []string
	for i := range c.plans {
		if p := &c.plans[i]; strings.HasPrefix(p.Job, prefix) {
			answer, err := client.Trigger(ctx, &v1.JobServiceTriggerRequest{Name: p.Job})
			if err != nil {
				c.t.Fatalf("trigger %s: %v", p.Job, err)
			}
			p.Triggers++
			firings = append(firings, answer.Firing)
		}
	}
	return firings
}

// run is one call of the command line against a node that lives.
func (c *cluster) run(stdin string, args ...string) (stdout, stderr string, code int) {
	c.t.Helper()
	living := c.living()
	if len(living) == 0 {
		c.t.Fatal("no node is left to ask")
	}
	return c.runAt(living[0], stdin, args...)
}

// runAt is one call of the command line against one node.
func (c *cluster) runAt(n *node, stdin string, args ...string) (stdout, stderr string, code int) {
	c.t.Helper()
	cmd := exec.Command(programs.quorumcron, append(args, "--server", n.grpc, "--timeout", "30s")...)
	cmd.Env = cleanEnvironment()
	cmd.Stdin = strings.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		c.t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

func (c *cluster) mustRun(stdin string, args ...string) string {
	c.t.Helper()
	stdout, stderr, code := c.run(stdin, args...)
	if code != 0 {
		c.t.Fatalf("quorumcron %s: exit code %d\n%s%s", strings.Join(args, " "), code, stdout, stderr)
	}
	return stdout
}

// ask is what a call that only reads is answered. An etcd that has no time for it now will have some later.
func (c *cluster) ask(args ...string) (stdout string) {
	c.t.Helper()
	eventually(c.t, busyRecovery+patience, "quorumcron "+strings.Join(args, " "), func() error {
		var stderr string
		var code int
		if stdout, stderr, code = c.run("", args...); code != 0 {
			return fmt.Errorf("exit code %d\n%s", code, stderr)
		}
		return nil
	})
	return stdout
}

func (c *cluster) decode(text string, into any) {
	c.t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		c.t.Fatalf("decode %.300s: %v", text, err)
	}
}

// status is `cluster status -o json`, as far as tests look.
type status struct {
	Dispatcher string
	Members    []struct {
		Name        string
		Incarnation string
		ShardsOwned int
	}
	ShardsOwned int
	Unaccounted string
	Ready       bool
	Quarantined []struct{ Key, Problem string }
}

func (c *cluster) status() status {
	c.t.Helper()
	var s status
	c.decode(c.ask("cluster", "status", "-o", "json"), &s)
	return s
}

// dispatcher is the node that is elected, as the nodes say.
func (c *cluster) dispatcher() *node {
	c.t.Helper()
	name := c.status().Dispatcher
	for _, n := range c.living() {
		if n.name == name {
			return n
		}
	}
	c.t.Fatalf("the dispatcher is %q, which is no living node", name)
	return nil
}

func (c *cluster) jobs() []history.Job {
	c.t.Helper()
	var list struct{ Jobs []history.Job }
	c.decode(c.ask("job", "list", "-o", "json"), &list)
	return list.Jobs
}

func (c *cluster) runs() []history.Run {
	c.t.Helper()
	var list struct{ Runs []history.Run }
	c.decode(c.ask("run", "list", "--limit", "100000", "-o", "json"), &list)
	return list.Runs
}

// settle waits until every instant of every job is counted, for at most so long after the last of them,
// and returns the whole history. What is not counted by then is for the checker to say.
func (c *cluster) settle(within time.Duration) history.History {
	c.t.Helper()
	last := time.Now()
	for _, p := range c.plans {
		if p.Period > 0 && p.End.After(last) {
			last = p.End
		}
	}
	sleepUntil(last)
	for deadline := last.Add(within); !c.counted() && time.Now().Before(deadline); {
		time.Sleep(200 * time.Millisecond)
	}
	return c.history()
}

// history is all that is known by now.
func (c *cluster) history() history.History {
	c.t.Helper()
	h := history.History{Plans: c.plans, Jobs: c.jobs(), Runs: c.runs(), Faults: c.faults}
	h.Lines, h.Etcd, h.Effects = c.lines(), c.written(), c.received()
	return h
}

func (c *cluster) counted() bool {
	c.t.Helper()
	jobs := map[string]history.Job{}
	for _, j := range c.jobs() {
		jobs[j.Name] = j
	}
	for _, p := range c.plans {
		j := jobs[p.Job]
		if j.Ended() < int64(len(p.Due(j.Created))+p.Triggers) {
			return false
		}
	}
	return true
}

// evidence are the checks that have something to look at wherever jobs were applied, ran, and are counted,
// and somebody watched etcd.
func evidence() []string {
	return []string{"C01", "C02", "C03", "C04", "C05", "C06", "C07", "C09", "C10", "C11", "C12"}
}

// judged fails the test unless a history is valid, and shows as much as is needed: every check of evidence
// unless the needs name others.
func (c *cluster) judged(h history.History, n history.Needs) {
	c.t.Helper()
	if n.Checks == nil {
		n.Checks = evidence()
	}
	j := h.Judge(n)
	if j.Verdict == history.Valid {
		return
	}
	c.noViolations(j.Findings)
	for _, d := range j.Doubts {
		c.t.Errorf("doubt: %s", d)
	}
	c.t.Errorf("the history is %s:\n%s", j.Verdict, h.Report(j))
}

// noViolations fails the test for everything that is wrong with a history, and says some of each check.
func (c *cluster) noViolations(found []history.Finding) {
	c.t.Helper()
	const most = 6
	said := map[string]int{}
	for _, v := range found {
		if said[v.Check]++; said[v.Check] <= most {
			c.t.Error(v)
		}
	}
	for _, check := range slices.Sorted(maps.Keys(said)) {
		if more := said[check] - most; more > 0 {
			c.t.Errorf("… and %d more of %s", more, check)
		}
	}
}
