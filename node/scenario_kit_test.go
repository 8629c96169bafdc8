package node

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorumcron/quorumcron/executor"
	"github.com/quorumcron/quorumcron/internal/memetcd"
	"github.com/quorumcron/quorumcron/scheduler"
)

// The scenario tests are sequences of events that broke other schedulers; chaos-tests/scenarios.md says
// which test is which, and where the right result is another one here.

// scene is a bubble that is watched from outside: by what its handlers saw, by what etcd committed, and
// by what an operator gets to see.
type scene struct {
	*bubble
	offset time.Duration  // of the cluster's time against the bubble's: a test chooses its date
	dead   sync.WaitGroup // members that were killed and have not ended yet
	skew   time.Duration  // how far a member's clock may be ahead: no start is earlier than this
	clocks map[string]*bentClock

	mu     sync.Mutex // guards all below
	starts []*sight
	grants []grant
	alarms []alarm
	gauges []*prometheus.Registry
	effect func(executor.Identity) // called by handlers with "effects" in their payload, twice a second
}

// bentClock is the clock of one member, with what a test does to it.
type bentClock struct {
	mu            sync.Mutex // guards all below
	wall, elapsed time.Duration
	stopped       *scheduler.Reading
}

// step sets the wall clock forward or, if negative, back.
func (c *bentClock) step(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall += by
}

// suspend stops both clocks, as a machine that sleeps does; wake has them jump to where they would be.
func (c *bentClock) suspend(now scheduler.Reading) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = &now
}

func (c *bentClock) wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = nil
}

// newScene starts members at a date and waits until they are ready.
func newScene(t *testing.T, from string, names ...string) *scene {
	t.Helper()
	return newSceneOn(t, memetcd.Config{}, from, names...)
}

func newSceneOn(t *testing.T, etcd memetcd.Config, from string, names ...string) *scene {
	t.Helper()
	begin, err := time.Parse(time.RFC3339, from)
	if err != nil {
		t.Fatal(err)
	}
	b := &bubble{t: t, etcd: memetcd.New(etcd), start: time.Now(), members: map[string]*bubbleMember{}}
	t.Cleanup(b.etcd.Close)
	s := &scene{bubble: b, offset: begin.Sub(b.start), clocks: map[string]*bentClock{}}
	s.more = map[string]Handler{"seen": s.handle}
	b.etcd.OnCommit(s.committed)
	for _, name := range names {
		s.add(name)
	}
	s.ready()
	return s
}

// close stops every member, and waits for those that were killed.
func (s *scene) close() {
	s.t.Helper()
	s.bubble.close()
	s.dead.Wait()
}

// die ends a member as kill -9 does: nothing that it sends arrives any more, and its handlers end. It
// takes no time, unlike crash.
func (s *scene) die(m *bubbleMember) {
	m.link.Refuse()
	m.Kill()
	delete(s.members, m.cfg.Name)
	s.dead.Go(func() {
		<-m.done
		m.end()
	})
}

// wall is the true time in the cluster.
func (s *scene) wall() time.Time { return time.Now().Add(s.offset).UTC() }

// until sleeps until the true time is the given one.
func (s *scene) until(moment time.Time) { time.Sleep(moment.Sub(s.wall())) }

// next is the next multiple of the period that is more than margin away.
func (s *scene) next(period, margin time.Duration) time.Time {
	return s.wall().Add(margin).Truncate(period).Add(period)
}

// add starts a member. It keeps the clock of an earlier life of that name.
func (s *scene) add(name string, change ...func(*Config)) *bubbleMember {
	s.t.Helper()
	clock := s.clocks[name]
	if clock == nil {
		clock = &bentClock{}
		s.clocks[name] = clock
	}
	registry := prometheus.NewRegistry()
	s.mu.Lock()
	s.gauges = append(s.gauges, registry)
	s.mu.Unlock()
	return s.join(name, append([]func(*Config){func(c *Config) {
		c.Clock = func() scheduler.Reading { return s.read(clock) }
		c.Metrics = registry
		c.Logger = slog.New(&alarmLog{scene: s, member: name, next: testLogger(name)})
	}}, change...)...)
}

func (s *scene) read(c *bentClock) scheduler.Reading {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped != nil {
		return *c.stopped
	}
	return scheduler.Reading{Wall: s.wall().Add(c.wall), Elapsed: time.Since(s.start) + time.Hour + c.elapsed}
}

// expressions are the schedules of ticking jobs.
var expressions = map[time.Duration]string{
	time.Second: "* * * * * *", 2 * time.Second: "*/2 * * * * *", 4 * time.Second: "*/4 * * * * *",
	5 * time.Second: "*/5 * * * * *", 10 * time.Second: "*/10 * * * * *", 30 * time.Second: "*/30 * * * * *",
	time.Minute: "* * * * *", 5 * time.Minute: "*/5 * * * *", time.Hour: "0 * * * *", 24 * time.Hour: "0 0 * * *",
}

func periodOf(job scheduler.Job) time.Duration {
	for period, e := range expressions {
		if len(job.Schedule.Cron) == 1 && job.Schedule.Cron[0] == e {
			return period
		}
	}
	panic("not a ticking job: " + job.Name.String())
}

// ticking is a job that is due at the multiples of a period and is watched by the witness.
func ticking(name string, period time.Duration, payload string) scheduler.Job {
	job := watched(name, payload)
	job.Schedule.Cron = []string{expressions[period]}
	if job.Schedule.Cron[0] == "" {
		panic("no expression for " + period.String())
	}
	return job
}

// once is a job that is due at one instant.
func once(name string, at time.Time, payload string) scheduler.Job {
	job := watched(name, payload)
	job.Schedule.At = []time.Time{at}
	return job
}

// rarely is a job that is due in years: it is triggered.
func rarely(name, payload string) scheduler.Job {
	job := watched(name, payload)
	job.Schedule.Cron = []string{"0 0 29 2 *"}
	return job
}

func watched(name, payload string) scheduler.Job {
	return scheduler.Job{
		Name:         scheduler.JobName{Namespace: "default", Name: name},
		HistoryLimit: 100,
		Run:          scheduler.Executable{Handler: &scheduler.HandlerCall{Name: "seen", Payload: payload}},
	}
}

// trigger asks for a firing of the job and waits until it has started.
func (s *scene) trigger(job scheduler.Job) sight {
	s.t.Helper()
	receipt, err := s.any().Trigger(s.t.Context(), scheduler.TriggerRequest{Job: job.Name, RequestID: fmt.Sprintf("%s-%d", job.Name.Name, time.Now().UnixNano())})
	if err != nil {
		s.t.Fatal(err)
	}
	return s.await(10*time.Second, "a start of "+receipt.Firing.String(), func(one sight) bool { return one.id.Firing == receipt.Firing })
}

// await waits for a start.
func (s *scene) await(within time.Duration, what string, wanted func(sight) bool) sight {
	s.t.Helper()
	for deadline := time.Now().Add(within); ; time.Sleep(5 * time.Millisecond) {
		all := s.seen()
		if i := slices.IndexFunc(all, wanted); i >= 0 {
			return all[i]
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("no %s within %s; there were %d starts", what, within, len(all))
		}
	}
}

// record is what the cluster shows of a firing.
func (s *scene) record(f scheduler.Firing) scheduler.Run {
	s.t.Helper()
	run, err := s.any().RunByFiring(s.t.Context(), f)
	if err != nil {
		s.t.Fatalf("run %s: %v", f, err)
	}
	return run
}

// dispatcherName is what a linearizable read of the election says.
func (s *scene) dispatcherName() string {
	s.t.Helper()
	resp, err := s.etcd.Client(s.t.Context()).Get(s.t.Context(), "/quorumcron/election/", clientv3.WithFirstCreate()...)
	if err != nil {
		s.t.Fatal(err)
	}
	if len(resp.Kvs) == 0 {
		return ""
	}
	return string(resp.Kvs[0].Value)
}

// dispatcher waits until a live member is dispatcher, and returns it.
func (s *scene) dispatcher() *bubbleMember {
	s.t.Helper()
	for deadline := time.Now().Add(recovery); ; time.Sleep(10 * time.Millisecond) {
		name := s.dispatcherName()
		if m := s.members[name]; m != nil {
			return m
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("the dispatcher is %q, which is no live member", name)
		}
	}
}

// revoke ends a lease from outside.
func (s *scene) revoke(lease int64) {
	s.t.Helper()
	if _, err := s.etcd.Client(s.t.Context()).Revoke(s.t.Context(), clientv3.LeaseID(lease)); err != nil {
		s.t.Fatalf("revoke %x: %v", lease, err)
	}
}

// lockLease is the lease under which a member puts locks.
func (m *bubbleMember) lockLease() int64 { return m.sessions.Status().Locks[0].ID }
