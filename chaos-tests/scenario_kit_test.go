package chaos

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/quorumcron/quorumcron/chaos-tests/history"
)

// The scenarios of scenarios.md that need processes. Most are played in package node.

// with changes the settings of etcd's only member before it starts.
func (c *cluster) with(settings map[string]any) {
	c.t.Helper()
	c.placeEtcd(1)
	c.etcd.with(c, settings)
}

// with changes the settings of a member before it starts.
func (e *etcd) with(c *cluster, settings map[string]any) {
	c.t.Helper()
	all := map[string]any{}
	c.decode(e.settings, &all)
	for name, value := range settings {
		all[name] = value
	}
	text, err := json.Marshal(all)
	if err != nil {
		c.t.Fatal(err)
	}
	e.settings = string(text)
}

// startNodeWith starts a node with more flags than the usual ones.
func (c *cluster) startNodeWith(name string, flags ...string) *node {
	c.t.Helper()
	n := &node{c: c, name: name, dataDir: filepath.Join(c.dir, name), grpc: freeAddress(c.t), http: freeAddress(c.t), etcd: c.endpoints()}
	c.nodes = append(c.nodes, n)
	n.start(flags...)
	return n
}

// applyDocument hands in jobs that history knows nothing of.
func (c *cluster) applyDocument(documents ...map[string]any) {
	c.t.Helper()
	var all strings.Builder
	for _, document := range documents {
		text, err := json.Marshal(document)
		if err != nil {
			c.t.Fatal(err)
		}
		fmt.Fprintf(&all, "---\n%s\n", text)
	}
	c.mustRun(all.String(), "job", "apply", "-f", "-")
}

// verdicts are a job's counters, as "SKIPPED(overlap)".
func verdicts(j history.Job) map[string]int64 {
	sums := map[string]int64{}
	for _, c := range j.Counters {
		name := c.Verdict
		if c.Reason != "" {
			name += "(" + c.Reason + ")"
		}
		sums[name] += c.Count
	}
	return sums
}

// job is what the cluster shows of one job.
func (c *cluster) job(name string) history.Job {
	c.t.Helper()
	for _, j := range c.jobs() {
		if j.Name == name {
			return j
		}
	}
	c.t.Fatalf("no job is named %q", name)
	return history.Job{}
}

// startsOf are the starts of a job in [from, to), by when they were due.
func startsOf(lines []history.Line, job string, from, to time.Time) []history.Line {
	var found []history.Line
	for _, l := range lines {
		if l.Event == history.Start && l.Job == job && !l.Due().Before(from) && l.Due().Before(to) {
			found = append(found, l)
		}
	}
	return found
}

// says waits until the text that ask returns contains all words.
func (c *cluster) says(within time.Duration, what string, ask func() string, words ...string) {
	c.t.Helper()
	eventually(c.t, within, what, func() error {
		text := ask()
		for _, word := range words {
			if !strings.Contains(strings.ToLower(text), word) {
				return fmt.Errorf("said nothing of %q: %s", word, text)
			}
		}
		return nil
	})
}
