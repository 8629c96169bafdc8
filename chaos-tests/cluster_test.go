package chaos

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorumcron/quorumcron/chaos-tests/collect"
	"github.com/quorumcron/quorumcron/chaos-tests/history"
)

// The times of docs/guarantees.md with the shortest TTL: R bounds how long a dead node's jobs stand
// still, hold how long an attempt may live on without its lock.
const (
	ttl          = 3 * time.Second
	grace        = 5 * time.Second
	hold         = ttl + grace
	recovery     = 2*ttl + 2*time.Second + 2*time.Second
	busyRecovery = recovery + hold + 2*time.Second
	onTime       = 5 * time.Second // later than this an instant is for the catch-up policy
	patience     = 30 * time.Second
	foldAlone    = 10 * time.Second // after this an end is counted even if nothing else happens
)

// cluster is etcd and nodes, each a process of its own, and what was asked of them.
type cluster struct {
	t      *testing.T
	dir    string
	etcd   *etcd   // the only member, or the first
	others []*etcd // the others, if it has more
	nodes  []*node
	plans  []history.Plan
	faults []history.Fault
	log    *collect.Watch // of all that is written to etcd, once a job was applied

	receiver, ledgers string // where commands send their effects, and what it wrote down; "" for nowhere
}

// receive starts the receiver that the commands of nodes started from now on send their effects to.
func (c *cluster) receive() {
	c.t.Helper()
	c.receiver, c.ledgers = freeAddress(c.t), filepath.Join(c.dir, "receiver.log-of-effects")
	startProcess(c.t, c.dir, "receiver", nil, programs.receiver, "-listen", c.receiver, "-log", c.ledgers)
	eventually(c.t, patience, "the receiver answers", func() error {
		conn, err := net.DialTimeout("tcp", c.receiver, time.Second)
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

// received are the effects that came there, by both ledgers.
func (c *cluster) received() []history.Effect {
	c.t.Helper()
	if c.receiver == "" {
		return nil
	}
	log, err := os.Open(c.ledgers)
	if err != nil {
		c.t.Fatal(err)
	}
	defer log.Close()
	effects, err := history.ReadEffects(log)
	if err != nil {
		c.t.Fatal(err)
	}
	return effects
}

// newCluster makes a place for a cluster. When the test ends nothing is left of it, and a process that
// should have died and did not fails the test.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	realProcesses(t)
	c := &cluster{t: t, dir: t.TempDir()}
	t.Cleanup(c.sweep) // runs after the cleanups of all processes, which are started later
	return c
}

// sweep makes sure that nothing with our folder in its environment lives on.
func (c *cluster) sweep() {
	deadline := time.Now().Add(3 * time.Second)
	for {
		left := c.leftovers()
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			for pid, what := range left {
				c.t.Errorf("process %d outlived its node: %s", pid, what)
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (c *cluster) leftovers() map[int]string {
	left := map[int]string{}
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range all {
		environ, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(environ, []byte(c.dir)) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err == nil && alive(pid) {
			command, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
			left[pid] = strings.ReplaceAll(string(command), "\x00", " ")
		}
	}
	return left
}

// start is a cluster that is ready: one etcd member and so many nodes.
func start(t *testing.T, nodes int) *cluster {
	t.Helper()
	c := newCluster(t)
	c.startEtcd()
	for i := range nodes {
		c.startNode(fmt.Sprintf("n%d", i+1))
	}
	for _, n := range c.nodes {
		n.ready(patience)
	}
	c.waitForShards()
	return c
}

// waitForShards waits until the whole keyspace has owners, and is spread over all nodes.
func (c *cluster) waitForShards() {
	c.t.Helper()
	eventually(c.t, patience, "all shards owned", func() error {
		s := c.status()
		if s.ShardsOwned != 256 {
			return fmt.Errorf("%d shards are owned", s.ShardsOwned)
		}
		if len(s.Members) != len(c.living()) {
			return fmt.Errorf("%d members", len(s.Members))
		}
		for _, m := range s.Members {
			if m.ShardsOwned == 0 {
				return fmt.Errorf("%s owns nothing", m.Name)
			}
		}
		return nil
	})
}

func (c *cluster) living() []*node {
	var living []*node
	for _, n := range c.nodes {
		if !n.ended() {
			living = append(living, n)
		}
	}
	return living
}

// node is a node process, with a folder, addresses and a side-effect log that it keeps.
type node struct {
	*process
	c          *cluster
	name       string
	dataDir    string
	grpc, http string
	etcd       string   // where it finds etcd: a proxy, for some
	program    string   // empty is the program as users have it
	env        []string // besides what the witness needs
	flags      []string // besides the usual ones
}

// startNode starts a node on the cluster's etcd, and does not wait for it.
func (c *cluster) startNode(name string) *node {
	c.t.Helper()
	return c.startNodeAt(name, c.endpoints())
}

func (c *cluster) startNodeAt(name, etcd string) *node {
	c.t.Helper()
	n := &node{c: c, name: name, dataDir: filepath.Join(c.dir, name), grpc: freeAddress(c.t), http: freeAddress(c.t), etcd: etcd}
	c.nodes = append(c.nodes, n)
	n.start()
	return n
}

// start runs the node, on its old data if it has any.
func (n *node) start(flags ...string) {
	n.c.t.Helper()
	program := n.program
	if program == "" {
		program = programs.quorumcron
	}
	n.process = startProcess(n.c.t, n.c.dir, n.name, n.environment(), program, n.arguments(append(n.flags, flags...)...)...)
}

func (n *node) arguments(flags ...string) []string {
	return append([]string{
		"start", "--name", n.name, "--data-dir", n.dataDir, "--etcd-endpoints", n.etcd,
		"--grpc-addr", n.grpc, "--http-addr", n.http, "--session-ttl", ttl.String(),
	}, flags...)
}

// environment tells the witness, past the scheduler, where it is.
func (n *node) environment() []string {
	env := []string{"WITNESS_LOG=" + n.effects(), "WITNESS_NODE=" + n.name}
	if n.c.receiver != "" {
		env = append(env, "WITNESS_RECEIVER="+n.c.receiver)
	}
	return append(env, n.env...)
}

func (n *node) effects() string { return filepath.Join(n.c.dir, n.name+".effects") }

// die kills the node for good as kill -9 does, and notes that it is to blame for what is lost.
func (n *node) die() time.Time {
	n.c.t.Helper()
	n.c.strike(n.c.nodeKill(n, 0))
	return time.Now()
}

// readiness is what /readyz says.
func (n *node) readiness() (ready bool, text string) {
	code, body := httpGet("http://" + n.http + "/readyz")
	return code == http.StatusOK, body
}

func (n *node) ready(within time.Duration) {
	n.c.t.Helper()
	eventually(n.c.t, within, n.name+" ready", func() error {
		if n.ended() {
			n.c.t.Fatalf("%s ended while it started: exit code %d", n.name, n.cmd.ProcessState.ExitCode())
		}
		if ready, text := n.readiness(); !ready {
			return fmt.Errorf("%s", text)
		}
		return nil
	})
}

// httpGet returns code 0 and the error when nobody answers.
func httpGet(url string) (int, string) {
	client := http.Client{Timeout: 2 * time.Second}
	answer, err := client.Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err.Error()
	}
	return answer.StatusCode, string(body)
}

// lines are all that the commands wrote, on all nodes.
func (c *cluster) lines() []history.Line {
	c.t.Helper()
	files, _ := filepath.Glob(filepath.Join(c.dir, "*.effects"))
	var all []history.Line
	for _, path := range files {
		f, err := os.Open(path)
		if err != nil {
			c.t.Fatal(err)
		}
		lines, err := history.ReadLines(f)
		f.Close()
		if err != nil {
			c.t.Fatalf("read %s: %v", path, err)
		}
		all = append(all, lines...)
	}
	return all
}
