package election_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorumcron/quorumcron/election"
	"github.com/quorumcron/quorumcron/internal/memetcd"
	"github.com/quorumcron/quorumcron/scheduler"
)

const (
	prefix = "/quorumcron/"
	ttl    = 10 * time.Second
	grace  = 5 * time.Second
)

// inBubble runs a test in virtual time on an etcd in memory.
func inBubble(t *testing.T, test func(t *testing.T, etcd *memetcd.Store)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		etcd := memetcd.New(memetcd.Config{})
		t.Cleanup(func() {
			etcd.Close()
			time.Sleep(time.Minute) // for goroutines of closed clients; one that stays fails the bubble
		})
		test(t, etcd)
	})
}

// bootClock is a clock whose machine has been up for an hour.
func bootClock() func() scheduler.Reading {
	booted := time.Now().Add(-time.Hour)
	return func() scheduler.Reading {
		return scheduler.Reading{Wall: time.Now(), Elapsed: time.Since(booted)}
	}
}

// told is an event and when it was told.
type told struct {
	election.Event
	at time.Time
}

// process is one process with sessions, on a link of its own.
type process struct {
	*election.Sessions
	t      *testing.T
	name   string
	link   *memetcd.Link
	client *clientv3.Client
	clock  func() scheduler.Reading

	stop  context.CancelFunc
	ended chan struct{}
	err   error // of Run; read it after ended

	mu   sync.Mutex // guards what follows
	told []told
	news chan struct{} // closed and replaced with each event
}

// start starts a process. It ends with the test, if not before.
func start(t *testing.T, etcd *memetcd.Store, name string, edit ...func(*election.Config)) *process {
	t.Helper()
	// Not the test's context: that ends before the cleanups, and the clients must outlive Run.
	ctx, closeClient := context.WithCancel(context.Background())
	p := &process{t: t, name: name, link: etcd.Link(name), ended: make(chan struct{}), news: make(chan struct{}), clock: bootClock()}
	p.client = p.link.Client(ctx)
	config := election.Config{
		Client: p.client,
		Member: scheduler.Member{Name: name, Capacity: 4, GRPCAddress: name + ":7460", FormatMin: 1, FormatMax: 1},
		TTL:    ttl, Grace: grace,
		Clock:  p.clock,
		Notify: p.notify,
	}
	for _, e := range edit {
		e(&config)
	}
	p.clock = config.Clock
	sessions, err := election.New(config)
	if err != nil {
		t.Fatalf("new sessions: %v", err)
	}
	p.Sessions = sessions
	run, stop := context.WithCancel(ctx)
	p.stop = stop
	go func() {
		defer close(p.ended)
		p.err = sessions.Run(run)
	}()
	t.Cleanup(func() {
		stop()
		<-p.ended
		_ = p.client.Close()
		closeClient()
	})
	return p
}

func (p *process) notify(event election.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.told = append(p.told, told{event, time.Now()})
	close(p.news)
	p.news = make(chan struct{})
}

// events returns what was told so far.
func (p *process) events() []told {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.told)
}

// forget drops what was told so far, so that await waits for something new.
func (p *process) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.told = nil
}

// await waits for the next event of a type, at most within, and returns it with its time.
func await[E election.Event](t *testing.T, p *process, within time.Duration) (E, time.Time) {
	t.Helper()
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	for seen := 0; ; {
		p.mu.Lock()
		for ; seen < len(p.told); seen++ {
			if event, ok := p.told[seen].Event.(E); ok {
				at := p.told[seen].at
				p.told = slices.Delete(p.told, seen, seen+1)
				p.mu.Unlock()
				return event, at
			}
		}
		news := p.news
		p.mu.Unlock()
		select {
		case <-news:
		case <-deadline.C:
			t.Fatalf("%s: no %s within %s; told: %s", p.name, reflect.TypeFor[E](), within, p.story())
		}
	}
}

// none asserts that no event of a type was told since the last forget.
func none[E election.Event](t *testing.T, p *process) {
	t.Helper()
	for _, event := range p.events() {
		if _, ok := event.Event.(E); ok {
			t.Errorf("%s: got %T, want none; told: %s", p.name, event.Event, p.story())
			return
		}
	}
}

func (p *process) story() string {
	story := ""
	for _, event := range p.events() {
		story += fmt.Sprintf("\n\t%s %T%+v", event.at.Format("15:04:05.000"), event.Event, event.Event)
	}
	return story
}

// halt stops a process and waits for its end, at most within.
func (p *process) halt(within time.Duration) {
	p.t.Helper()
	p.stop()
	begun := time.Now()
	<-p.ended
	if took := time.Since(begun); took > within {
		p.t.Errorf("%s: stopping took %s, want at most %s", p.name, took, within)
	}
	if p.err != nil {
		p.t.Errorf("%s: Run returned %v, want nil after a stop", p.name, p.err)
	}
}

// failed waits for Run to return an error that is want.
func (p *process) failed(want error) error {
	p.t.Helper()
	<-p.ended
	if !errors.Is(p.err, want) {
		p.t.Fatalf("%s: Run returned %v, want %v", p.name, p.err, want)
	}
	return p.err
}

// lease takes a lock under a lease, or fails the test.
func (p *process) lock() scheduler.LockLease {
	p.t.Helper()
	lease, err := p.LockLease(p.clock())
	if err != nil {
		p.t.Fatalf("%s: lock lease: %v", p.name, err)
	}
	return lease
}

// value reads a key through a client without faults.
func get(t *testing.T, etcd *memetcd.Store, key string) (value string, created int64) {
	t.Helper()
	resp, err := etcd.Client(t.Context()).Get(t.Context(), key)
	if err != nil {
		t.Fatalf("get %s: %v", key, err)
	}
	if len(resp.Kvs) == 0 {
		return "", 0
	}
	return string(resp.Kvs[0].Value), resp.Kvs[0].CreateRevision
}
