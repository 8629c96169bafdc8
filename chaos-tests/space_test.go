package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/quorumcron/quorumcron/chaos-tests/history"
)

// space is what `cluster status -o json` says of etcd's size.
type space struct {
	Etcd struct {
		DbQuotaSharePercent int
		Space               string
	}
	Warnings []string
}

// spaceAt asks one node, which makes it look.
func (c *cluster) spaceAt(n *node) space {
	c.t.Helper()
	stdout, stderr, code := c.runAt(n, "", "cluster", "status", "-o", "json")
	if code != 0 {
		c.t.Fatalf("status of %s: exit code %d: %s", n.name, code, stderr)
	}
	var s space
	c.decode(stdout, &s)
	return s
}

// fillTo overwrites a key until etcd's file has a share of its quota, and has every node notice.
func (c *cluster) fillTo(kv keyValues, share int) {
	c.t.Helper()
	for c.spaceAt(c.nodes[0]).Etcd.DbQuotaSharePercent < share {
		kv.put("/ballast", bytes.Repeat([]byte("x"), 160<<10))
		time.Sleep(120 * time.Millisecond) // etcd reckons its size ten times a second
	}
	for _, n := range c.nodes {
		c.spaceAt(n)
	}
}

// makeRoom compacts etcd and defragments it.
func (c *cluster) makeRoom() {
	c.t.Helper()
	conn, err := grpc.NewClient(c.etcd.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		c.t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	kv := pb.NewKVClient(conn)
	now, err := kv.Range(ctx, &pb.RangeRequest{Key: []byte("/ballast")})
	if err == nil {
		_, err = kv.Compact(ctx, &pb.CompactionRequest{Revision: now.Header.Revision, Physical: true})
	}
	if err == nil {
		_, err = pb.NewMaintenanceClient(conn).Defragment(ctx, &pb.DefragmentRequest{})
	}
	if err != nil {
		c.t.Fatalf("make room: %v", err)
	}
}

// TestEtcdFillsUpAndSchedulesGoOn fills a real etcd, which compacts nothing, past both bounds.
func TestEtcdFillsUpAndSchedulesGoOn(t *testing.T) {
	c := newCluster(t)
	c.with(map[string]any{"QuotaBytes": 16 << 20, "Compact": -1})
	c.startEtcd()
	for i := range 2 {
		c.startNode(fmt.Sprintf("n%d", i+1))
	}
	for _, n := range c.nodes {
		n.ready(patience)
	}
	c.waitForShards()
	kv := dialKV(t, c.etcd.address)
	c.fillTo(kv, 60)
	begin := time.Now().Truncate(time.Second)
	jobs := []asked{{name: "manual"}}
	for i := range 6 {
		jobs = append(jobs, asked{name: fmt.Sprintf("j%d", i), period: time.Second, exit: i % 2})
	}
	c.apply(begin.Add(35*time.Second), jobs...)
	newJob := func() (string, int) {
		text, err := json.Marshal(asked{name: "new"}.document(begin))
		if err != nil {
			t.Fatal(err)
		}
		stdout, stderr, code := c.run(string(text), "job", "apply", "-f", "-")
		return stdout + stderr, code
	}
	shortened := func(job string) bool {
		var list struct {
			Runs []struct {
				Verdict   string
				Shortened bool
			}
		}
		c.decode(c.mustRun("", "run", "list", "--job", job, "--limit", "3", "-o", "json"), &list)
		for _, r := range list.Runs { // the newest that has ended
			if r.Verdict != "" {
				return r.Shortened
			}
		}
		return false
	}
	sleepUntil(begin.Add(3 * time.Second))
	if s := c.spaceAt(c.nodes[0]); s.Etcd.Space != "normal" || shortened("j0") {
		t.Fatalf("at the start etcd is %+v, and records are short %v", s, shortened("j0"))
	}

	c.fillTo(kv, 81)
	for _, n := range c.nodes {
		if s := c.spaceAt(n); s.Etcd.Space != "tight" || !strings.Contains(strings.Join(s.Warnings, " "), "short form") {
			t.Errorf("%s goes by %+v, want tight, and to be told so", n.name, s)
		}
	}
	for i := range 6 {
		job := fmt.Sprintf("j%d", i)
		eventually(t, onTime, "records of "+job+" in short form", func() error {
			if !shortened(job) {
				return fmt.Errorf("the newest one is not")
			}
			return nil
		})
	}
	firing := c.trigger("manual")
	c.says(patience, "a short record that says so", func() string { return c.mustRun("", "run", "show", firing) }, "succeeded", "shortened", "run logs "+firing)

	c.fillTo(kv, 91)
	if text, code := newJob(); code != 1 || !strings.Contains(text, "no room") || !strings.Contains(text, "--quota-backend-bytes") {
		t.Errorf("a new job was answered with exit code %d: %s", code, text)
	}
	if _, text, code := c.run("", "job", "trigger", "manual"); code != 1 || !strings.Contains(text, "no room") {
		t.Errorf("a trigger was answered with exit code %d: %s", code, text)
	}
	for _, verb := range []string{"pause", "resume"} {
		c.mustRun("", "job", verb, "manual")
	}
	if table := c.mustRun("", "cluster", "status"); !strings.Contains(table, "FULL") {
		t.Errorf("status does not say that etcd is full:\n%s", table)
	}
	if _, page := httpGet("http://" + c.nodes[1].http + "/metrics"); !strings.Contains(page, "\nquorumcron_etcd_db_quota_share 0.9") {
		t.Error("the share is not among the metrics of the second node")
	}

	sleepUntil(begin.Add(28 * time.Second)) // all of which fires below
	t.Logf("at the end %d %% of the quota is used", c.spaceAt(c.nodes[0]).Etcd.DbQuotaSharePercent)
	c.makeRoom()
	for _, n := range c.nodes {
		if s := c.spaceAt(n); s.Etcd.Space != "normal" {
			t.Errorf("with room again %s goes by %+v", n.name, s)
		}
	}
	if text, code := newJob(); code != 0 {
		t.Errorf("a new job was answered with exit code %d: %s", code, text)
	}
	c.trigger("manual") // whatever is due by now
	eventually(t, onTime+onTime, "whole records again", func() error {
		if shortened("manual") {
			return fmt.Errorf("the newest one is short")
		}
		return nil
	})
	h := c.settle(foldAlone + onTime)
	c.judged(h, history.Needs{Required: 120})
}
