package node

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumcron/quorumcron/executor"
	"github.com/quorumcron/quorumcron/internal/memetcd"
	"github.com/quorumcron/quorumcron/scheduler"
	"github.com/quorumcron/quorumcron/store"
)

// bubble is a cluster of members on one in-memory etcd, inside a synctest bubble.
type bubble struct {
	t       *testing.T
	etcd    *memetcd.Store
	start   time.Time
	members map[string]*bubbleMember
	// more are handlers that a test brings itself, for the members that join after.
	more map[string]Handler

	mu     sync.Mutex // guards starts
	starts []start
}

// start is one call of the handler: the independent witness of what ran.
type start struct {
	id       executor.Identity
	at, done time.Time
	cause    error
}

type bubbleMember struct {
	*Node
	// impostor ends what a member that was made to believe it is another follows; nil for honest ones.
	impostor context.CancelFunc
	link     *memetcd.Link
	// unreachable says that its link is cut, so that it is not asked.
	unreachable bool
	stop        context.CancelFunc
	end         context.CancelFunc // of its client
	done        chan error
}

func newBubble(t *testing.T) *bubble {
	t.Helper()
	b := &bubble{t: t, etcd: memetcd.New(memetcd.Config{}), start: time.Now(), members: map[string]*bubbleMember{}}
	t.Cleanup(b.etcd.Close)
	return b
}

// clock reads the bubble's clock; elapsed is reckoned from its start.
func (b *bubble) clock() scheduler.Reading {
	return scheduler.Reading{Wall: time.Now().UTC(), Elapsed: time.Since(b.start) + time.Hour}
}

// join starts a member that registers the handlers "work" (50 ms) and "slow" (its payload, a duration).
func (b *bubble) join(name string, change ...func(*Config)) *bubbleMember {
	b.t.Helper()
	link := b.etcd.Link(name)
	clientCtx, end := context.WithCancel(context.Background())
	cfg := Config{
		Name: name, Client: link.Client(clientCtx), SessionTTL: 3 * time.Second, Clock: b.clock,
		DrainTimeout: 5 * time.Second, Logger: testLogger(name),
	}
	for _, c := range change {
		c(&cfg)
	}
	n, err := New(cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	// A silent watch is opened again after a minute instead of 15 s: five hundred watches of three
	// members, asked for their progress all day, would be most of what such a day costs.
	n.store = store.New(cfg.Client, store.Config{Prefix: n.cfg.Prefix, Logger: n.log, SilentAfter: time.Minute})
	n.Handle("work", b.handler(func(executor.Identity) time.Duration { return 50 * time.Millisecond }))
	n.Handle("slow", b.handler(func(id executor.Identity) time.Duration {
		d, _ := time.ParseDuration(id.Payload)
		return d
	}))
	n.Handle("stubborn", func(context.Context, executor.Identity) error { // ignores its context
		time.Sleep(10 * time.Minute)
		return nil
	})
	for name, h := range b.more {
		n.Handle(name, h)
	}
	ctx, stop := context.WithCancel(context.Background())
	m := &bubbleMember{Node: n, link: link, stop: stop, end: end, done: make(chan error, 1)}
	b.members[name] = m
	go func() { m.done <- n.Run(ctx) }()
	return m
}

func (b *bubble) handler(duration func(executor.Identity) time.Duration) Handler {
	return func(ctx context.Context, id executor.Identity) error {
		s := start{id: id, at: time.Now().UTC()}
		select {
		case <-ctx.Done():
			s.cause = context.Cause(ctx)
		case <-time.After(duration(id)):
		}
		s.done = time.Now().UTC()
		b.mu.Lock()
		b.starts = append(b.starts, s)
		b.mu.Unlock()
		return s.cause
	}
}

// leave stops a member and waits for it.
func (b *bubble) leave(m *bubbleMember) {
	b.t.Helper()
	m.unmask()
	m.stop()
	if err := <-m.done; err != nil {
		b.t.Errorf("member %s: %v", m.cfg.Name, err)
	}
	m.end()
	delete(b.members, m.cfg.Name)
}

// crash ends a member as kill -9 would for etcd: nothing it sends arrives any more.
func (b *bubble) crash(m *bubbleMember) {
	b.t.Helper()
	m.unmask()
	m.link.Refuse()
	m.Kill()
	<-m.done
	m.end()
	delete(b.members, m.cfg.Name)
}

func (m *bubbleMember) unmask() {
	if m.impostor != nil {
		m.impostor()
	}
}

// close stops every member.
func (b *bubble) close() {
	b.t.Helper()
	for _, m := range b.members {
		b.leave(m)
	}
	synctest.Wait()
}

// ready waits until every member is.
func (b *bubble) ready() {
	b.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for _, m := range b.members {
		for !m.Ready().Ready {
			if time.Now().After(deadline) {
				b.t.Fatalf("member %s is not ready: %v", m.cfg.Name, m.Ready().Reasons())
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// any returns some member that can be asked.
func (b *bubble) any() *bubbleMember {
	for _, m := range b.members {
		if !m.unreachable {
			return m
		}
	}
	b.t.Fatal("no member")
	return nil
}

func (b *bubble) apply(job scheduler.Job) scheduler.Job {
	b.t.Helper()
	edit, err := b.any().Apply(b.t.Context(), job, 0)
	if err != nil {
		b.t.Fatalf("apply %s: %v", job.Name, err)
	}
	return edit.Job
}

// witnessed returns a copy of what the handlers saw.
func (b *bubble) witnessed() []start {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]start(nil), b.starts...)
}

// handlerJob is a job that runs a handler every so often.
func handlerJob(name string, every time.Duration, handler, payload string) scheduler.Job {
	return scheduler.Job{
		Name:     scheduler.JobName{Namespace: "default", Name: name},
		Schedule: scheduler.Schedule{Every: every},
		Run:      scheduler.Executable{Handler: &scheduler.HandlerCall{Name: handler, Payload: payload}},
	}
}

func testLogger(member string) *slog.Logger {
	if os.Getenv("QUORUMCRON_TEST_LOG") == "" {
		return nil
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})).With("m", member)
}

// accounts checks one job after the fact: every instant in (from, through] that origin + k·every names
// has exactly one verdict, and no firing was started more often than allowed. It returns how many
// instants there were.
func (b *bubble) accounts(job scheduler.Job, through time.Time) (instants int64) {
	b.t.Helper()
	view, err := b.any().Job(b.t.Context(), job.Name)
	if err != nil {
		b.t.Fatal(err)
	}
	s := view.State
	if s.Cursor.Before(through) {
		b.t.Errorf("job %s: cursor %s is behind %s", job.Name, s.Cursor, through)
	}
	for at := job.Schedule.Origin.Add(job.Schedule.Every); !at.After(s.Cursor); at = at.Add(job.Schedule.Every) {
		instants++
	}
	var ended int64
	for _, c := range s.Counters {
		ended += c.Count
	}
	open := int64(len(s.Entries) + len(s.Retries))
	if s.Backlog != nil {
		open += s.Backlog.Count
	}
	if ended+open != instants {
		b.t.Errorf("job %s: %d instants up to %s, but %d verdicts and %d open: %v", job.Name, instants, s.Cursor, ended, open, describe(s))
	}
	return instants
}

func describe(s *scheduler.State) string {
	return fmt.Sprintf("counters %v, ranges %v, entries %v, backlog %v", s.Counters, s.Ranges, s.Entries, s.Backlog)
}

// leaveAllButOne stops members until one is left.
func (b *bubble) leaveAllButOne() {
	b.t.Helper()
	for _, m := range b.members {
		if len(b.members) > 1 {
			b.leave(m)
		}
	}
}

// check looks at what the handlers saw: one start for each firing, no overlap within a job, nothing
// early.
func (b *bubble) check() {
	b.t.Helper()
	starts := map[scheduler.Firing]start{}
	last := map[scheduler.JobName]start{}
	for _, s := range b.witnessed() { // in order of ends
		if other, twice := starts[s.id.Firing]; twice {
			b.t.Errorf("firing %s started twice: %s on %s, %s on %s", s.id.Firing, other.at, other.id.Member, s.at, s.id.Member)
		}
		starts[s.id.Firing] = s
		if s.at.Before(s.id.Firing.Instant()) {
			b.t.Errorf("firing %s started early, at %s", s.id.Firing, s.at)
		}
		if prev, ok := last[s.id.Job]; ok && s.at.Before(prev.done) {
			b.t.Errorf("job %s overlaps itself: %s ended %s, %s started %s", s.id.Job, prev.id.Firing, prev.done, s.id.Firing, s.at)
		}
		last[s.id.Job] = s
	}
}
