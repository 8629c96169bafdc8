package itest

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorumcron/quorumcron/internal/devetcd"
)

// logged collects what is logged.
type logged struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func put(t *testing.T, c *clientv3.Client, key, value string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if _, err := c.Put(ctx, key, value); err != nil {
		t.Fatalf("put %s: %v", key, err)
	}
}

func wantValue(t *testing.T, c *clientv3.Client, key, want string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	r, err := c.Get(ctx, key)
	if err != nil {
		t.Fatalf("get %s: %v", key, err)
	}
	if len(r.Kvs) != 1 || string(r.Kvs[0].Value) != want {
		t.Errorf("get %s: got %v, want %s", key, r.Kvs, want)
	}
}

// Not parallel: it counts goroutines.
func TestServerLeavesNothingBehind(t *testing.T) {
	log := &logged{}
	cfg := devetcd.Config{Dir: t.TempDir(), Fsync: true, Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	before := runtime.NumGoroutine()
	began := time.Now()
	s, err := devetcd.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("ready after %v", time.Since(began))
	if _, err := devetcd.Start(t.Context(), cfg); !errors.Is(err, devetcd.ErrInUse) {
		t.Errorf("second server on the folder: got %v, want %v", err, devetcd.ErrInUse)
	}
	c := dial(t, s.Endpoint())
	watch := c.Watch(t.Context(), "a")
	put(t, c, "a", "1")
	<-watch
	began = time.Now()
	s.Close()
	s.Close()
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("close took %v with a watch open; etcd's own limit is over five seconds", took)
	}
	_ = c.Close()
	for range 100 {
		if runtime.NumGoroutine() <= before {
			break
		}
		<-time.After(20 * time.Millisecond) // what was woken by the close has yet to run
	}
	if after := runtime.NumGoroutine(); after > before {
		buf := make([]byte, 1<<20)
		t.Errorf("%d goroutines before, %d after:\n%s", before, after, buf[:runtime.Stack(buf, true)])
	}
	for _, bad := range []string{"level=ERROR", "level=WARN", "single port", "Server closed"} {
		if strings.Contains(log.String(), bad) {
			t.Errorf("the log says %q:\n%s", bad, log)
		}
	}
	if !strings.Contains(log.String(), "ready to serve client requests") {
		t.Errorf("the log says nothing of the server:\n%s", log)
	}
	again := start(t, cfg)
	wantValue(t, dial(t, again.Endpoint()), "a", "1")
}

func TestServerFailsToStartSoon(t *testing.T) {
	t.Parallel()
	file := t.TempDir() + "/file"
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		says string
		cfg  devetcd.Config
	}{
		{"a file in place of the folder", devetcd.Config{Dir: file}},
		{"an address of nobody", devetcd.Config{Dir: t.TempDir(), Client: "192.0.2.1:1"}},
		{"a member without a quorum", devetcd.Config{Dir: t.TempDir(), Name: "n1", Peer: "127.0.0.1:29997",
			Members: map[string]string{"n1": "127.0.0.1:29997", "n2": "127.0.0.1:29998", "n3": "127.0.0.1:29999"}}},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		if s, err := devetcd.Start(ctx, c.cfg); err == nil {
			s.Close()
			t.Errorf("%s: started", c.says)
		}
		cancel()
	}
}

func TestMemberProcessSurvivesAKill(t *testing.T) {
	t.Parallel()
	p, err := devetcd.StartProcess(t.Context(), devetcd.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Kill() })
	c, endpoint := dial(t, p.Endpoint()), p.Endpoint()
	put(t, c, "a", "1")
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := p.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p.Endpoint() != endpoint {
		t.Errorf("endpoint: got %s after the restart, want %s", p.Endpoint(), endpoint)
	}
	wantValue(t, c, "a", "1")
	if err := p.Freeze(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := c.Get(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("read of a frozen server: got %v, want %v", err, context.DeadlineExceeded)
	}
	if err := p.Thaw(); err != nil {
		t.Fatal(err)
	}
	wantValue(t, c, "a", "1")
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	<-p.Exited()
	if err := p.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantValue(t, c, "a", "1")
}

func TestClusterOfProcessesOutlivesAMember(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	all, err := devetcd.StartCluster(ctx, t.TempDir(), 3, devetcd.Config{Tick: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		t.Cleanup(func() { _ = p.Kill() })
	}
	c := dial(t, all[1].Endpoint())
	put(t, c, "a", "1")
	if err := all[0].Kill(); err != nil {
		t.Fatal(err)
	}
	wantValue(t, c, "a", "1")
	put(t, c, "a", "2")
	if err := all[0].Restart(ctx); err != nil {
		t.Fatal(err)
	}
	if err := all[2].Kill(); err != nil {
		t.Fatal(err)
	}
	wantValue(t, dial(t, all[0].Endpoint()), "a", "2")
}

func TestServerWithAPasswordAsksForIt(t *testing.T) {
	t.Parallel()
	cfg := devetcd.Config{Dir: t.TempDir(), Password: "secret"}
	for range 2 { // a new one, and one that goes on with its data
		s, err := devetcd.Start(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		stranger := dial(t, s.Endpoint())
		if _, err := stranger.Get(t.Context(), "a"); !errors.Is(err, rpctypes.ErrUserEmpty) {
			t.Errorf("without a password: %v, want %v", err, rpctypes.ErrUserEmpty)
		}
		root := dialAs(t, s.Endpoint(), "root", "secret")
		put(t, root, "a", "1")
		wantValue(t, root, "a", "1")
		_ = root.Close()
		_ = stranger.Close()
		s.Close()
	}
}
