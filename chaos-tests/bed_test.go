package chaos

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/quorumcron/quorumcron/chaos-tests/collect"
	v1 "github.com/quorumcron/quorumcron/proto/quorumcron/v1"
)

// bed is a cluster made to be broken: three etcd members and three nodes of a test build (its fail
// points and clocks can be reached through files), with a proxy on each line between any two of them,
// and between users and nodes.
type bed struct {
	*cluster
	peers    map[string]*proxy            // by etcd member: where its peers reach it
	wires    map[string]map[string]*proxy // by node, then etcd member
	fronts   map[string]*proxy            // by node: where users reach it
	straight map[string]*grpc.ClientConn  // by node or etcd member, past all proxies
	users    map[string]*grpc.ClientConn  // by node, through its front
	watch    *collect.Watch               // everything that is written to etcd, past all proxies
	program  string                       // the test build
	disk     string                       // the small one that n3 has its data on; "" where none can be mounted
}

// reachable builds the test build, once.
var reachable = sync.OnceValues(func() (string, error) {
	path := filepath.Join(filepath.Dir(programs.quorumcron), "quorumcron-reachable")
	tags := "chaos"
	if os.Getenv(sabotaged) != "" {
		tags += ",sabotage"
	}
	build := exec.Command("go", "build", "-buildvcs=false", "-tags", tags, "-o", path, "./cmd/quorumcron")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the program with the tag chaos: %w\n%s", err, out)
	}
	return path, nil
})

// zoneOf is the label that some jobs select by.
func zoneOf(node string) string {
	if node == "n3" {
		return "b"
	}
	return "a"
}

// newBed is such a cluster, ready; settings are more of each etcd member's.
func newBed(t *testing.T, settings map[string]any) *bed {
	t.Helper()
	c := newCluster(t)
	b := &bed{
		cluster: c, peers: map[string]*proxy{}, wires: map[string]map[string]*proxy{}, fronts: map[string]*proxy{},
		straight: map[string]*grpc.ClientConn{}, users: map[string]*grpc.ClientConn{},
	}
	program, err := reachable()
	if err != nil {
		t.Fatal(err)
	}
	b.program = program
	b.placeMembers(settings)
	for _, e := range b.etcds() {
		e.start()
	}
	for _, e := range b.etcds() {
		e.healthy()
		b.straight[e.name] = dial(t, e.address)
	}
	if b.watch, err = collect.Start(t.Context(), strings.Split(b.endpoints(), ","), prefix); err != nil {
		t.Fatal(err)
	}
	b.receive()
	for _, name := range []string{"n1", "n2", "n3"} {
		n := b.addNode(name)
		b.nodes = append(b.nodes, n)
		if name == "n3" {
			b.disk = tinyDisk(t, n.dataDir)
		}
		n.start()
	}
	for _, n := range b.nodes {
		n.ready(patience)
	}
	b.waitForShards()
	return b
}

// addNode makes a place for a node, with lines of its own, and does not start it.
func (b *bed) addNode(name string) *node {
	b.t.Helper()
	b.wires[name] = map[string]*proxy{}
	var endpoints []string
	for _, e := range b.etcds() {
		p := newProxy(b.t, e.address)
		b.wires[name][e.name] = p
		endpoints = append(endpoints, p.address)
	}
	n := &node{
		c: b.cluster, name: name, dataDir: filepath.Join(b.dir, name), grpc: freeAddress(b.t), http: freeAddress(b.t),
		etcd: strings.Join(endpoints, ","), program: b.program, flags: []string{"--label", "zone=" + zoneOf(name), "--drain-timeout", "10s"},
	}
	n.env = []string{"CHAOS_FOLDER=" + n.reach()}
	if err := os.Mkdir(n.reach(), 0o700); err != nil {
		b.t.Fatal(err)
	}
	b.fronts[name] = newProxy(b.t, n.grpc)
	b.straight[name], b.users[name] = dial(b.t, n.grpc), dial(b.t, b.fronts[name].address)
	return n
}

// placeMembers gives three etcd members addresses, and proxies that their peers reach them through.
func (b *bed) placeMembers(settings map[string]any) {
	b.t.Helper()
	b.placeEtcd(3)
	reach := map[string]string{}
	for _, e := range b.etcds() {
		all := map[string]any{}
		b.decode(e.settings, &all)
		p := newProxy(b.t, all["Peer"].(string))
		p.whose = b.member
		b.peers[e.name], reach[e.name] = p, p.address
	}
	for _, e := range b.etcds() {
		more := map[string]any{"Members": reach}
		for name, value := range settings {
			more[name] = value
		}
		e.with(b.cluster, more)
	}
}

// member names the etcd member that a connection comes from.
func (b *bed) member(conn net.Conn) string {
	for _, e := range b.etcds() {
		if e.process != nil && ownsSocket(e.cmd.Process.Pid, conn) {
			return e.name
		}
	}
	return ""
}

func dial(t *testing.T, address string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// statusOf asks one node what it knows of the cluster, past the proxies.
func (b *bed) statusOf(n *node) (*v1.ClusterServiceStatusResponse, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	return v1.NewClusterServiceClient(b.straight[n.name]).Status(ctx, &v1.ClusterServiceStatusRequest{})
}

// settled is nil when all nodes but those left out are ready, agree on one dispatcher, and own all
// shards.
func (b *bed) settled(leftOut map[string]bool) error {
	dispatchers := map[string]bool{}
	asked := 0
	for _, n := range b.nodes {
		if leftOut[n.name] {
			continue
		}
		asked++
		if n.ended() {
			return fmt.Errorf("%s has ended with exit code %d", n.name, n.cmd.ProcessState.ExitCode())
		}
		if ready, text := n.readiness(); !ready {
			return fmt.Errorf("%s is not ready: %s", n.name, strings.TrimSpace(text))
		}
		s, err := b.statusOf(n)
		if err != nil {
			return fmt.Errorf("%s: %w", n.name, err)
		}
		if s.ShardsOwned != 256 || len(s.Members) != len(b.nodes) || s.Dispatcher == "" {
			return fmt.Errorf("%s sees %d shards owned, %d members, dispatcher %q", n.name, s.ShardsOwned, len(s.Members), s.Dispatcher)
		}
		dispatchers[s.Dispatcher] = true
	}
	if asked > 0 && len(dispatchers) != 1 {
		return fmt.Errorf("dispatchers %v", dispatchers)
	}
	return nil
}

// leading is the node that is dispatcher, as any node says.
func (b *bed) leading() (*node, error) {
	for _, n := range b.nodes {
		s, err := b.statusOf(n)
		if err != nil {
			continue
		}
		for _, other := range b.nodes {
			if other.name == s.Dispatcher {
				return other, nil
			}
		}
	}
	return nil, errors.New("no node names a dispatcher")
}
