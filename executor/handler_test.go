package executor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quorumcron/quorumcron/scheduler"
)

// bubbleClock is a clock that stands as still as its bubble.
func bubbleClock() func() scheduler.Reading {
	began := time.Now()
	return func() scheduler.Reading {
		return scheduler.Reading{Wall: time.Now(), Elapsed: time.Since(began)}
	}
}

// handlers is an executor that runs nothing but handlers, and needs no Run for it.
func handlers(t *testing.T, clock func() scheduler.Reading, table map[string]Handler) *Executor {
	t.Helper()
	e, err := New(Config{Clock: clock, Handlers: table})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

type badError struct{}

func (badError) Error() string { panic("an error that panics") }

func TestHandlerEndsAsItsFunctionDoes(t *testing.T) {
	t.Parallel()
	e := handlers(t, bootClock, map[string]Handler{
		"fine":   func(context.Context, Identity) error { return nil },
		"error":  func(context.Context, Identity) error { return errors.New("no \xff luck") },
		"panic":  func(context.Context, Identity) error { explode(); return nil },
		"nil":    func(context.Context, Identity) error { var m map[string]int; m["x"] = 1; return nil },
		"bad":    func(context.Context, Identity) error { return badError{} },
		"goexit": func(context.Context, Identity) error { runtime.Goexit(); return nil },
		"long":   func(context.Context, Identity) error { return errors.New(strings.Repeat("é", 2000)) },
	})
	for name, c := range map[string]struct {
		want             ending
		message, outputs string // parts
	}{
		"fine":    {ending{scheduler.Succeeded, "", -1}, "", ""},
		"error":   {ending{scheduler.Failed, scheduler.ReasonError, -1}, "no \uFFFD luck", ""},
		"panic":   {ending{scheduler.Failed, scheduler.ReasonPanic, -1}, "boom", "explode (handler_test.go:"},
		"nil":     {ending{scheduler.Failed, scheduler.ReasonPanic, -1}, "nil map", "handler_test.go:"},
		"bad":     {ending{scheduler.Failed, scheduler.ReasonPanic, -1}, "an error that panics", "badError.Error"},
		"goexit":  {ending{scheduler.Failed, scheduler.ReasonError, -1}, "runtime.Goexit", ""},
		"long":    {ending{scheduler.Failed, scheduler.ReasonError, -1}, "é…", ""},
		"unknown": {ending{scheduler.Failed, scheduler.ReasonStartError, -1}, `handler "unknown" is not registered on member node-a`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := e.Execute(t.Context(), handler(name), nil)
			checkEnding(t, r, c.want)
			if !strings.Contains(r.Message, c.message) || len(r.Message) > messageBytes {
				t.Errorf("got message %q (%d bytes), want one with %q of at most %d", r.Message, len(r.Message), c.message, messageBytes)
			}
			if !strings.Contains(string(r.Output), c.outputs) {
				t.Errorf("got output %q, want some with %q", r.Output, c.outputs)
			}
		})
	}
}

func explode() { panic("boom") }

func TestPanicShowsAShortStack(t *testing.T) {
	t.Parallel()
	e := handlers(t, bootClock, map[string]Handler{"panic": func(context.Context, Identity) error { explode(); return nil }})
	r := e.Execute(t.Context(), handler("panic"), nil)
	lines := strings.Split(strings.TrimSpace(string(r.Output)), "\n")
	if len(lines) != 3 || lines[0] != "panic: boom" || !strings.HasPrefix(lines[1], "  at github.com/quorumcron/quorumcron/executor.explode (") {
		t.Errorf("got output %q, want the message and the two functions that led there", lines)
	}
}

func TestHandlerKnowsWhoItIs(t *testing.T) {
	t.Parallel()
	var given, carried Identity
	e := handlers(t, bootClock, map[string]Handler{"h": func(ctx context.Context, run Identity) error {
		given = run
		carried, _ = IdentityFrom(ctx)
		return nil
	}})
	a := handler("h")
	a.Run.Handler.Payload = "load"
	e.Execute(t.Context(), a, nil)
	want := Identity{Job: a.Job, Firing: a.Firing, Attempt: 1, Token: a.Token, Member: "node-a", Parts: 1, Payload: "load"}
	if diff := cmp.Diff(want, given); diff != "" {
		t.Errorf("wrong identity (-want +got):\n%s", diff)
	}
	if carried != want {
		t.Errorf("the context carries %+v, want %+v", carried, want)
	}
	if id, ok := IdentityFrom(t.Context()); ok {
		t.Errorf("a context of no attempt carries %+v", id)
	}
}

func TestHandlerOutputIsKept(t *testing.T) {
	t.Parallel()
	e, err := New(Config{DataDir: t.TempDir(), Clock: bootClock, OutputLimit: 10, Handlers: map[string]Handler{
		"h": func(ctx context.Context, _ Identity) error {
			fmt.Fprint(Output(ctx), "0123456789abc")
			return nil
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	a := handler("h")
	r := e.Execute(t.Context(), a, nil)
	if string(r.Output) != "0123456789abc" || r.OutputBytes != 13 || r.OutputDropped != 3 {
		t.Errorf("got output %q of %d bytes, %d dropped, want all 13 in the tail and 3 dropped", r.Output, r.OutputBytes, r.OutputDropped)
	}
	file, err := e.Output(a.Firing, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	text, _ := io.ReadAll(file)
	if got, want := string(text), "0123456789\n[quorumcron: output cut after 10 bytes]\n"; got != want {
		t.Errorf("the file holds %q, want %q", got, want)
	}
	if _, err := io.WriteString(Output(t.Context()), "nowhere"); err != nil {
		t.Errorf("writing outside of an attempt: %v", err)
	}
}

func TestHandlerIsToldWhyItMustEnd(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cause error
		want  ending
	}{
		"canceled":      {ErrCanceled, ending{scheduler.Canceled, "", -1}},
		"replaced":      {ErrReplaced, ending{scheduler.Canceled, "", -1}},
		"node stopping": {ErrStopping, ending{scheduler.Failed, scheduler.ReasonStopping, -1}},
		"lock lost":     {ErrLockLost, ending{scheduler.Failed, scheduler.ReasonLockLost, -1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, returns := range []error{nil, errors.New("interrupted")} {
				ctx, cancel := context.WithCancelCause(t.Context())
				var seen error
				e := handlers(t, bootClock, map[string]Handler{"h": func(ctx context.Context, _ Identity) error {
					cancel(c.cause)
					<-ctx.Done()
					seen = context.Cause(ctx)
					return returns
				}})
				checkEnding(t, e.Execute(ctx, handler("h"), nil), c.want)
				if seen != c.cause {
					t.Errorf("the handler saw %v, want %v", seen, c.cause)
				}
			}
		})
	}
}

func TestHandlerTimesOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		clock := bubbleClock()
		var told time.Duration
		e := handlers(t, clock, map[string]Handler{"h": func(ctx context.Context, _ Identity) error {
			<-ctx.Done()
			told = clock().Elapsed
			time.Sleep(time.Minute) // It does not hurry, and cannot be made to.
			return context.Cause(ctx)
		}})
		a := handler("h")
		a.Timeout = 2500 * time.Millisecond
		r := e.Execute(t.Context(), a, nil)
		checkEnding(t, r, ending{scheduler.TimedOut, "", -1})
		if told != a.Timeout {
			t.Errorf("told to end after %s, want %s", told, a.Timeout)
		}
		if ran := r.Finished.Sub(r.Started); ran != a.Timeout+time.Minute {
			t.Errorf("reported after %s, want when it returned, after %s", ran, a.Timeout+time.Minute)
		}
	})
}

func TestHandlerLosesItsLock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		clock := bubbleClock()
		var told time.Duration
		e := handlers(t, clock, map[string]Handler{"h": func(ctx context.Context, _ Identity) error {
			<-ctx.Done()
			told = clock().Elapsed
			return nil
		}})
		life := func() scheduler.LockLife { // Renewed for a minute, then no more, and forgotten.
			if clock().Elapsed > time.Minute+5*time.Second {
				return scheduler.LockLife{}
			}
			return scheduler.LockLife{Sent: min(clock().Elapsed, time.Minute), TTL: 10 * time.Second, Grace: 5 * time.Second}
		}
		checkEnding(t, e.Execute(t.Context(), handler("h"), life), ending{scheduler.Failed, scheduler.ReasonLockLost, -1})
		if want := time.Minute + 12*time.Second; told != want {
			t.Errorf("told to end at %s, want at %s", told, want)
		}
	})
}

func TestHandlerMayFinishWithoutItsLock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		clock := bubbleClock()
		e := handlers(t, clock, map[string]Handler{"h": func(ctx context.Context, _ Identity) error {
			time.Sleep(time.Minute)
			return ctx.Err()
		}})
		a := handler("h")
		a.OnSessionLost = scheduler.SessionLostFinish
		life := func() scheduler.LockLife { return scheduler.LockLife{TTL: 10 * time.Second, Grace: 5 * time.Second} }
		checkEnding(t, e.Execute(t.Context(), a, life), ending{scheduler.Succeeded, "", -1})
	})
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cfg  Config
		want string
	}{
		"no clock":    {Config{}, "Config.Clock"},
		"no data dir": {Config{Clock: bootClock, Commands: true}, "Config.DataDir"},
	} {
		if _, err := New(c.cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want one that names %s", name, err, c.want)
		}
	}
}
