package chaos

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestANameIsTakenOnce starts a second process with the name of a live node, and one with its folder.
func TestANameIsTakenOnce(t *testing.T) {
	t.Parallel() // it mostly waits
	c := start(t, 1)
	n := c.nodes[0]

	folder := &node{c: c, name: "other", dataDir: n.dataDir, grpc: freeAddress(t), http: freeAddress(t), etcd: n.etcd}
	folder.start()
	name := &node{c: c, name: n.name, dataDir: filepath.Join(c.dir, "elsewhere"), grpc: freeAddress(t), http: freeAddress(t), etcd: n.etcd}
	name.process = startProcess(t, c.dir, "second", name.environment(), programs.quorumcron, name.arguments()...)

	if code := folder.exit(t, patience); code != 4 {
		t.Errorf("a second process on one folder ended with exit code %d, want 4", code)
	}
	if said := tail(folder.log, 3); !strings.Contains(said, n.dataDir) || !strings.Contains(said, "in use") {
		t.Errorf("a second process on one folder said %q, want the folder and that it is in use", said)
	}
	if code := name.exit(t, 2*ttl+patience); code != 4 {
		t.Errorf("a second process of one name ended with exit code %d, want 4", code)
	}
	if said := tail(name.log, 3); !strings.Contains(said, n.name) || !strings.Contains(said, "session") {
		t.Errorf("a second process of one name said %q, want the live session named", said)
	}
	if ready, text := n.readiness(); !ready {
		t.Errorf("the first process suffered: %s", text)
	}
}
