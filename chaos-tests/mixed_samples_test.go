package chaos

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/quorumcron/quorumcron/chaos-tests/collect"
	"github.com/quorumcron/quorumcron/chaos-tests/history"
)

// observer asks each node every second what it says of itself and of the cluster, and etcd what lies in
// it, past all proxies.
type observer struct {
	b    *bed
	stop chan struct{}
	all  sync.WaitGroup

	mu       sync.Mutex // guards all below
	samples  []history.Sample
	statuses []history.Status
	spaces   []history.Space
	fsyncs   []fsync
}

// fsync is what a member of etcd said of its writes at a moment: its metrics.
type fsync struct {
	member   string
	at       time.Time
	pid      int
	exported string
}

// Intervals of observation.
const (
	sampleEvery = time.Second
	spaceEvery  = 2 * time.Second
	fsyncEvery  = 30 * time.Second
)

func observe(b *bed) *observer {
	o := &observer{b: b, stop: make(chan struct{})}
	for _, n := range b.nodes {
		o.every(sampleEvery, func() { o.sample(n) })
		o.every(sampleEvery, func() { o.status(n) })
	}
	o.every(spaceEvery, o.space)
	for _, e := range b.etcds() {
		o.every(fsyncEvery, func() { o.fsync(e) })
	}
	return o
}

// end stops observing, after a last look at etcd's writes.
func (o *observer) end() {
	close(o.stop)
	o.all.Wait()
	for _, e := range o.b.etcds() {
		o.fsync(e)
	}
}

func (o *observer) every(interval time.Duration, look func()) {
	o.all.Go(func() {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			look()
			select {
			case <-o.stop:
				return
			case <-tick.C:
			}
		}
	})
}

func (o *observer) sample(n *node) {
	s := history.Sample{At: time.Now(), Node: n.name}
	ready, text := n.readiness()
	if s.Ready = ready; !ready {
		s.Readyz = strings.TrimSpace(text)
	}
	if code, body := httpGet("http://" + n.http + "/metrics"); code == 200 {
		s.Metrics = collect.Metrics(body)
		maps.DeleteFunc(s.Metrics, func(name string, _ float64) bool { // a run may last for hours
			return !strings.HasPrefix(name, "quorumcron_") && !strings.HasPrefix(name, "process_") && name != "go_goroutines"
		})
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.samples = append(o.samples, s)
}

func (o *observer) status(n *node) {
	at := time.Now()
	answer, err := o.b.statusOf(n)
	if err != nil {
		return
	}
	s := history.Status{
		At: at, Node: n.name, Dispatcher: answer.Dispatcher, ShardsOwned: int(answer.ShardsOwned),
		Unaccounted: answer.Unaccounted, Ready: answer.Ready, Warnings: answer.Warnings,
	}
	for _, m := range answer.Members {
		s.Members = append(s.Members, history.MemberStatus{Name: m.Name, ShardsOwned: int(m.ShardsOwned)})
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.statuses = append(o.statuses, s)
}

// space is what any member of etcd says lies in it.
func (o *observer) space() {
	for _, e := range o.b.etcds() {
		s, err := o.spaceAt(e)
		if err != nil {
			continue
		}
		o.mu.Lock()
		o.spaces = append(o.spaces, s)
		o.mu.Unlock()
		return
	}
}

func (o *observer) spaceAt(e *etcd) (history.Space, error) {
	ctx, cancel := soon(time.Second)
	defer cancel()
	s := history.Space{At: time.Now()}
	conn := o.b.straight[e.name]
	status, err := pb.NewMaintenanceClient(conn).Status(ctx, &pb.StatusRequest{})
	if err != nil {
		return s, err
	}
	leases, err := pb.NewLeaseClient(conn).LeaseLeases(ctx, &pb.LeaseLeasesRequest{})
	if err != nil {
		return s, err
	}
	s.DatabaseBytes, s.Leases = status.DbSize, len(leases.Leases)
	for under, count := range map[string]*int{"locks/": &s.Locks, "members/": &s.Members} {
		end := []byte(prefix + under)
		end[len(end)-1]++
		answer, err := pb.NewKVClient(conn).Range(ctx, &pb.RangeRequest{Key: []byte(prefix + under), RangeEnd: end, CountOnly: true})
		if err != nil {
			return s, err
		}
		*count = int(answer.Count)
	}
	return s, nil
}

func (o *observer) fsync(e *etcd) {
	code, body := httpGet("http://" + e.address + "/metrics")
	if code != 200 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.fsyncs = append(o.fsyncs, fsync{e.name, time.Now(), e.cmd.Process.Pid, body})
}

// slowest is the worst fsync p99 of any member in any interval in which nothing befell the member: one
// that is frozen measures its own sleep.
func (o *observer) slowest(faults []history.Fault) time.Duration {
	last := map[string]fsync{}
	worst := time.Duration(0)
	for _, f := range o.fsyncs {
		before := last[f.member]
		last[f.member] = f
		befallen := slices.ContainsFunc(faults, func(x history.Fault) bool {
			return (x.Etcd == f.member || x.Node == "" && x.Etcd == "") && x.From.Before(f.at) && x.To.After(before.at)
		})
		if befallen || before.pid != f.pid {
			continue
		}
		if p99, known := collect.FsyncP99(before.exported, f.exported); known {
			worst = max(worst, p99)
		}
	}
	return worst
}
