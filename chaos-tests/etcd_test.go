package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quorumcron/quorumcron/chaos-tests/collect"
	"github.com/quorumcron/quorumcron/chaos-tests/history"
)

// etcd is a member in a process of its own, in a folder and at addresses that it keeps.
type etcd struct {
	*process
	t        *testing.T
	dir      string
	name     string
	address  string
	settings string
}

// startEtcd starts one member and waits until it serves. Its address is known before.
func (c *cluster) startEtcd() {
	c.t.Helper()
	c.placeEtcd(1)
	c.etcd.start()
	c.etcd.healthy()
}

// startEtcds starts a cluster of several members.
func (c *cluster) startEtcds(members int) {
	c.t.Helper()
	c.placeEtcd(members)
	for _, e := range c.etcds() {
		e.start()
	}
	for _, e := range c.etcds() {
		e.healthy()
	}
}

func (c *cluster) etcds() []*etcd { return append([]*etcd{c.etcd}, c.others...) }

// endpoints is where nodes find etcd.
func (c *cluster) endpoints() string {
	var all []string
	for _, e := range c.etcds() {
		all = append(all, e.address)
	}
	return strings.Join(all, ",")
}

// watchEtcd begins to note all that is written below the cluster's prefix, from its first revision on.
func (c *cluster) watchEtcd() {
	c.t.Helper()
	if c.log != nil || c.etcd == nil {
		return
	}
	log, err := collect.Start(c.t.Context(), strings.Split(c.endpoints(), ","), "/quorumcron/")
	if err != nil {
		c.t.Fatal(err)
	}
	c.log = log
}

// written is all that was written to etcd; nil when nobody watched, or etcd lets nobody watch.
func (c *cluster) written() *history.EtcdLog {
	if c.log == nil {
		return nil
	}
	const most = 5 * time.Second
	ctx, cancel := context.WithTimeout(c.t.Context(), most)
	defer cancel()
	log := c.log.Stop(ctx)
	if c.log = nil; len(log.Events) == 0 {
		return nil
	}
	return log
}

// placeEtcd gives the members their addresses, once.
func (c *cluster) placeEtcd(members int) {
	c.t.Helper()
	if c.etcd != nil {
		return
	}
	peers := map[string]string{}
	for i := range members {
		peers[fmt.Sprintf("etcd%d", i+1)] = freeAddress(c.t)
	}
	for i := range members {
		e := &etcd{t: c.t, dir: c.dir, name: fmt.Sprintf("etcd%d", i+1), address: freeAddress(c.t)}
		settings := map[string]any{
			"Dir": filepath.Join(c.dir, e.name), "Fsync": true, "Name": e.name, "Client": e.address, "Peer": peers[e.name],
		}
		if members > 1 {
			settings["Members"] = peers
		}
		text, err := json.Marshal(settings)
		if err != nil {
			c.t.Fatal(err)
		}
		if e.settings = string(text); i == 0 {
			c.etcd = e
		} else {
			c.others = append(c.others, e)
		}
	}
}

// start runs the member, on its old data if it has any.
func (e *etcd) start() {
	e.t.Helper()
	e.process = startProcess(e.t, e.dir, e.name, []string{"QUORUMCRON_TEST_ETCD_MEMBER=" + e.settings}, programs.etcd)
	started := e.process
	e.t.Cleanup(func() { // of what failed on a disk like that nothing can be said
		if !e.t.Failed() || e.process != started {
			return
		}
		if code, exported := httpGet("http://" + e.address + "/metrics"); code == http.StatusOK {
			p99, _ := collect.FsyncP99("", exported)
			e.t.Logf("99 of 100 fsyncs of %s took at most %s; beyond %s no test of real processes shows anything", e.name, p99, history.SlowestFsync)
		}
	})
}

// healthy waits until it has answered a linearizable read.
func (e *etcd) healthy() {
	e.t.Helper()
	eventually(e.t, patience, "etcd healthy", func() error {
		code, body := httpGet("http://" + e.address + "/health")
		if code != http.StatusOK {
			return fmt.Errorf("%d %s", code, body)
		}
		return nil
	})
}

// leader is the member that the others follow.
func (c *cluster) leader() *etcd {
	c.t.Helper()
	const leads = "etcd_server_is_leader"
	for _, e := range c.etcds() {
		if !e.ended() && e.counters(leads)[leads] == 1 {
			return e
		}
	}
	c.t.Fatal("etcd has no leader")
	return nil
}

// counters reads etcd's own sums, by the name of the metric.
func (e *etcd) counters(names ...string) map[string]float64 {
	e.t.Helper()
	code, body := httpGet("http://" + e.address + "/metrics")
	if code != http.StatusOK {
		e.t.Fatalf("etcd's metrics: %d %s", code, body)
	}
	sums := map[string]float64{}
	for line := range strings.Lines(body) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		for _, wanted := range names {
			if name == wanted {
				v, err := strconv.ParseFloat(value, 64)
				if err != nil {
					e.t.Fatalf("etcd's metric %q: %v", line, err)
				}
				sums[name] = v
			}
		}
	}
	for _, name := range names {
		if _, ok := sums[name]; !ok {
			e.t.Fatalf("etcd has no metric %s", name)
		}
	}
	return sums
}
