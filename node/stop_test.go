package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumcron/quorumcron/election"
	"github.com/quorumcron/quorumcron/internal/memetcd"
	"github.com/quorumcron/quorumcron/scheduler"
)

// gate is a log handler that holds up whoever logs a message, once: a way to stop the loop at a line.
type gate struct {
	message string
	reached chan struct{} // closed when it is being logged
	open    chan struct{} // closed by the test
}

func newGate(message string) *gate {
	return &gate{message: message, reached: make(chan struct{}), open: make(chan struct{})}
}

func (g *gate) Enabled(context.Context, slog.Level) bool { return true }
func (g *gate) WithAttrs([]slog.Attr) slog.Handler       { return g }
func (g *gate) WithGroup(string) slog.Handler            { return g }

func (g *gate) Handle(_ context.Context, r slog.Record) error {
	if r.Message != g.message {
		return nil
	}
	select {
	case <-g.reached:
	default:
		close(g.reached)
		<-g.open
	}
	return nil
}

func TestStopWaitsForAClaimThatIsBeingPlanned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		defer b.close()
		g := newGate("decided")
		m := b.join("only", func(c *Config) { c.Logger = slog.New(g) })
		b.ready()
		b.apply(handlerJob("tick", 2*time.Second, "work", ""))
		<-g.reached // the loop is about to send the first claim
		m.stop()
		time.Sleep(50 * time.Millisecond) // the stop looks for what is held, and finds nothing yet
		close(g.open)
		if err := <-m.done; err != nil {
			t.Error(err)
		}
		if n := len(b.witnessed()); n != 1 {
			t.Errorf("%d starts, want the one that was claimed when the stop came", n)
		}
		m.end()
		delete(b.members, "only")
	})
}

func TestStopEndsTheWaitForAFormerProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		defer b.close()
		dir := t.TempDir()
		former, err := election.OpenFolder(dir) // as its supervisor holds it while it kills commands
		if err != nil {
			t.Fatal(err)
		}
		defer former.Close()
		if err := os.WriteFile(filepath.Join(dir, "lock"), []byte("999999999\n"), 0o600); err != nil { // a process that is dead
			t.Fatal(err)
		}
		m := b.join("only", func(c *Config) { c.DataDir = dir })
		time.Sleep(time.Second)
		m.stop()
		asked := time.Now()
		if err := <-m.done; err != nil {
			t.Errorf("a stop that was asked for: %v", err)
		}
		if took := time.Since(asked); took > time.Second {
			t.Errorf("the stop took %s", took)
		}
		m.end()
		delete(b.members, "only")
	})
}

func TestStopWithoutADrainTimeEndsWhatRunsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		defer b.close()
		m := b.join("only", func(c *Config) { c.DrainTimeout = -1 })
		b.ready()
		job := b.apply(handlerJob("long", time.Hour, "slow", "20m"))
		if _, err := m.Trigger(t.Context(), scheduler.TriggerRequest{Job: job.Name, RequestID: "r"}); err != nil {
			t.Fatal(err)
		}
		b.run(job, 5*time.Second, "running", running)
		asked := time.Now()
		m.stop()
		if err := <-m.done; err != nil {
			t.Error(err)
		}
		if took := time.Since(asked); took > 2*time.Second {
			t.Errorf("it ended after %s, want at once", took)
		}
		m.end()
		delete(b.members, "only")
		b.join("next")
		b.ready()
		if r := b.run(job, 5*time.Second, "ended", func(r scheduler.Run) bool { return r.Last().Verdict != "" }); r.Last().Reason != scheduler.ReasonStopping {
			t.Errorf("ended %s, want FAILED(node stopping)", r.Last().Outcome())
		}
	})
}

func TestDrainBeforeTheStartIsRefused(t *testing.T) {
	t.Parallel()
	etcd := memetcd.New(memetcd.Config{})
	defer etcd.Close()
	n, err := New(Config{Name: "early", Client: etcd.Client(t.Context())})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.Drain(t.Context()); !errors.Is(err, scheduler.ErrUnavailable) {
		t.Errorf("drain of a node that has not started: %v, want ErrUnavailable", err)
	}
}

// TestEtcdMayBeAwayAtAnyStage cuts a member off at each stage of its start, and at each of its stop: it gets
// ready as soon as etcd is back, and ends in bounded time whether it is back or not.
func TestEtcdMayBeAwayAtAnyStage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		defer b.close()
		b.join("stays")
		b.ready()
		var jobs []scheduler.Job
		for i := range 4 {
			jobs = append(jobs, b.apply(handlerJob(fmt.Sprintf("tick-%d", i), time.Second, "slow", "300ms")))
		}
		const farewell = 3 * time.Second // to a session that etcd does not answer for
		for i := range 24 {
			stage := time.Duration(i) * 20 * time.Millisecond
			m := b.join("comes")
			m.link.Delay(15*time.Millisecond, 15*time.Millisecond) // so that a start has stages
			time.Sleep(stage)
			m.link.Cut()
			m.unreachable = true
			if i%3 > 0 { // else it is stopped without having been ready
				time.Sleep(12 * time.Second)
				m.link.Mend()
				m.unreachable = false
				back := time.Now()
				b.ready()
				if took := time.Since(back); took > 10*time.Second {
					t.Errorf("cut off %s after its start, it was ready only %s after etcd was back", stage, took)
				}
				time.Sleep(time.Second)
			}
			m.stop()
			time.Sleep(stage / 4)
			m.link.Cut()
			asked := time.Now()
			if err := <-m.done; err != nil {
				t.Errorf("cut off %s into its stop: %v", stage/4, err)
			}
			if took := time.Since(asked); took > m.cfg.DrainTimeout+lastWords+farewell {
				t.Errorf("cut off %s into its stop, it ended only after %s", stage/4, took)
			}
			m.end()
			delete(b.members, "comes")
		}
		time.Sleep(recovery + hold)
		b.check()
		for _, job := range jobs {
			b.accounts(job, time.Now().Add(-2*time.Second))
		}
	})
}
