package election_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/quorumcron/quorumcron/election"
	"github.com/quorumcron/quorumcron/internal/memetcd"
)

func TestDialDoesNotWaitForEtcd(t *testing.T) {
	t.Parallel()
	for _, config := range []election.DialConfig{
		{Endpoints: []string{"127.0.0.1:1"}},
		{Endpoints: []string{"http://127.0.0.1:1", "127.0.0.1:2"}, Username: "root", Password: "secret"},
	} {
		begun := time.Now()
		client, err := election.Dial(config)
		if err != nil {
			t.Fatalf("dial %v: %v", config.Endpoints, err)
		}
		if took := time.Since(begun); took > time.Second {
			t.Errorf("dial %v took %s", config.Endpoints, took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		if err := election.Ready(ctx, client, prefix); err == nil || !strings.Contains(err.Error(), prefix+"meta") {
			t.Errorf("ready without etcd: %v, want an error that says what was read", err)
		}
		cancel()
		_ = client.Close()
	}
}

func TestDialRefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name   string
		config election.DialConfig
		part   string
	}{
		{name: "nobody to ask", config: election.DialConfig{}, part: "no endpoints"},
		{name: "an empty endpoint", config: election.DialConfig{Endpoints: []string{"a:1", ""}}, part: `endpoint ""`},
		{name: "a list in one string", config: election.DialConfig{Endpoints: []string{"a:1,b:1"}}, part: "one host:port"},
		{name: "half a login", config: election.DialConfig{Endpoints: []string{"a:1"}, Username: "x"}, part: "go together"},
	}
	for _, c := range cases {
		if _, err := election.Dial(c.config); err == nil || !strings.Contains(err.Error(), c.part) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.part)
		}
	}
}

func TestReadyAnswersWhenEtcdDoes(t *testing.T) {
	inBubble(t, func(t *testing.T, etcd *memetcd.Store) {
		client := etcd.Client(t.Context())
		if err := election.Ready(t.Context(), client, prefix); err != nil {
			t.Errorf("ready: %v", err)
		}
		etcd.LoseQuorum()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := election.Ready(ctx, client, prefix); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("ready without a quorum: %v, want the deadline", err)
		}
		_ = client.Close()
	})
}

func TestClientLibraryIsHeardAtDebugLevelOnly(t *testing.T) {
	t.Parallel()
	heard := func(level slog.Level) string {
		var log bytes.Buffer
		client, err := election.Dial(election.DialConfig{
			Endpoints: []string{"127.0.0.1:1"},
			Logger:    slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: level})),
		})
		if err != nil {
			t.Fatal(err)
		}
		client.GetLogger().With(zap.Int("try", 3)).Error("it failed", zap.Error(errors.New("broken")), zap.Duration("after", time.Second))
		client.GetLogger().Debug("every call")
		_ = client.Close()
		return log.String()
	}
	if got := heard(slog.LevelInfo); got != "" {
		t.Errorf("at level info: %q, want nothing", got)
	}
	got := heard(slog.LevelDebug)
	for _, part := range []string{"level=DEBUG", "it failed", "try=3", "error=broken", "after=1s", "said_at=error"} {
		if !strings.Contains(got, part) {
			t.Errorf("at level debug: %q, want %q in it", got, part)
		}
	}
	if strings.Contains(got, "every call") {
		t.Errorf("at level debug: %q, want the library's own debug lines left out", got)
	}
}

func TestBootClockGoesOn(t *testing.T) {
	t.Parallel()
	clock := election.BootClock()
	first := clock()
	second := clock()
	if first.Elapsed <= 0 || second.Elapsed < first.Elapsed {
		t.Errorf("elapsed %s, then %s: want it to rise from the machine's start", first.Elapsed, second.Elapsed)
	}
	if d := time.Since(second.Wall); d < 0 || d > time.Minute || second.Wall.Location() != time.UTC {
		t.Errorf("wall %s: want the time in UTC", second.Wall)
	}
}
