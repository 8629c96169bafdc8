package itest

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorumcron/quorumcron/election"
	"github.com/quorumcron/quorumcron/internal/devetcd"
	"github.com/quorumcron/quorumcron/scheduler"
	"github.com/quorumcron/quorumcron/store"
)

// TestIdleWatchesAreNotOpenedAnew follows shards in a cluster in which nothing happens: etcd answers
// questions about the progress of watches only if none of them begins in the future, and without an
// answer each would be opened anew every few seconds, for ever.
func TestIdleWatchesAreNotOpenedAnew(t *testing.T) {
	t.Parallel()
	server, err := devetcd.Start(t.Context(), devetcd.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	client, err := election.Dial(election.DialConfig{Endpoints: []string{server.Endpoint()}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var log lines
	s := store.New(client, store.Config{
		SilentAfter: 1500 * time.Millisecond,
		Logger:      slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
	defer cancel()
	var group sync.WaitGroup
	group.Go(func() { _ = s.Run(ctx) })
	if _, err := s.Initialise(ctx); err != nil {
		t.Fatal(err)
	}
	for shard := range 8 {
		group.Go(func() { _ = s.FollowShard(ctx, scheduler.Shard(shard), 0, func(store.ShardUpdate) {}) })
	}
	group.Wait()
	if n := log.count("watching again"); n > 0 {
		t.Errorf("watches were opened anew %d times in 8 s of silence", n)
	}
}

// lines is a log that is counted. It is safe for concurrent use.
type lines struct {
	mu   sync.Mutex // guards text
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), what)
}
