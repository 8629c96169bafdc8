package executor

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/quorumcron/quorumcron/scheduler"
)

// Handler is a Go function that jobs may name. Its context ends, with one of the causes of this
// package, when it must stop: it should then return soon, because Go cannot end it and the attempt
// lasts until it returns. An error makes the attempt FAILED(error), a panic FAILED(panic).
type Handler func(ctx context.Context, run Identity) error

type outputKey struct{}

// Output is where the handler that ctx belongs to writes its output: it is filed and bounded as a
// command's is. Writing never fails or waits while the handler runs. Outside of an attempt it discards.
func Output(ctx context.Context) io.Writer {
	if c, ok := ctx.Value(outputKey{}).(*capture); ok {
		return c
	}
	return io.Discard
}

// longestSleep bounds each wait for a deadline on the elapsed clock: timers stand still while the
// machine is suspended, and that clock does not.
const longestSleep = time.Second

// returned is what came of calling a handler, and the cause that had told it to end by then.
type returned struct {
	cause   error
	reason  scheduler.Reason // "" when it returned nil
	message string
}

func (e *Executor) callHandler(ctx context.Context, a Attempt, life func() scheduler.LockLife) Result {
	fn, ok := e.cfg.Handlers[a.Run.Handler.Name]
	if !ok {
		return startError(fmt.Sprintf("handler %q is not registered on member %s: register it there, or let the job name another", a.Run.Handler.Name, a.Member))
	}
	if a.OnSessionLost == scheduler.SessionLostFinish || cutHandlerDeadline {
		life = nil
	}
	id := a.identity()
	output := newCapture(e.files.opener(a.Firing, a.Number), e.cfg.OutputLimit)
	stopped, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	run := context.WithValue(context.WithValue(stopped, identityKey{}, id), outputKey{}, output)

	started := e.cfg.Clock()
	ended := make(chan returned, 1)
	go func() {
		// What is left of it if the handler ends its goroutine: then only deferred calls still run.
		r := returned{reason: scheduler.ReasonError, message: "the handler ended its goroutine (runtime.Goexit) instead of returning"}
		defer func() {
			r.cause = context.Cause(stopped) // read here, where it is known what came first
			ended <- r
		}()
		r = call(run, fn, id, output)
	}()
	r := e.awaitHandler(started.Elapsed, a.Timeout, life, stop, ended)

	result := r.result()
	result.Started, result.Finished = started.Wall, e.cfg.Clock().Wall
	e.takeOutput(&result, a, output.close())
	return result
}

// awaitHandler waits for the function to return, and ends its context when its time or its lock is up.
func (e *Executor) awaitHandler(started, timeout time.Duration, life func() scheduler.LockLife, stop context.CancelCauseFunc, ended <-chan returned) returned {
	if timeout <= 0 && life == nil {
		return <-ended
	}
	var term time.Duration
	for {
		now := e.cfg.Clock().Elapsed
		wait := longestSleep
		if timeout > 0 {
			left := started + timeout - now
			if left <= 0 {
				stop(ErrTimeLimit)
				return <-ended
			}
			wait = min(wait, left)
		}
		if life != nil {
			term = max(term, life().TermAt()) // It only ever moves on, also when the lease is forgotten.
			left := term - now
			if left <= 0 {
				stop(ErrLockLost)
				return <-ended
			}
			wait = min(wait, left)
		}
		timer := time.NewTimer(wait)
		select {
		case r := <-ended:
			timer.Stop()
			return r
		case <-timer.C:
		}
	}
}

func (r returned) result() Result {
	switch {
	case r.cause != nil && r.reason == "":
		return endedBy(r.cause, "")
	case r.cause != nil:
		return endedBy(r.cause, "the handler ended with: "+r.message)
	case r.reason != "":
		return Result{Verdict: scheduler.Failed, Reason: r.reason, Message: r.message}
	}
	return Result{Verdict: scheduler.Succeeded}
}

// call calls fn and turns a panic into a failure.
func call(ctx context.Context, fn Handler, id Identity, output io.Writer) (r returned) {
	defer func() {
		if value := recover(); value != nil {
			r = returned{reason: scheduler.ReasonPanic, message: clip(panicText(value))}
			fmt.Fprintf(output, "panic: %s\n%s", r.message, shortStack())
		}
	}()
	if err := fn(ctx, id); err != nil {
		return returned{reason: scheduler.ReasonError, message: clip(err.Error())}
	}
	return returned{}
}

func panicText(value any) (text string) {
	defer func() {
		if recover() != nil { // a value whose own Error or String panics
			text = fmt.Sprintf("a value of type %T", value)
		}
	}()
	return fmt.Sprint(value)
}

// stackFrames bounds the stack of a panic, so that it and the message fit into the tail.
const stackFrames = 8

// shortStack names the functions that led to a panic, without those of the runtime and of this file.
func shortStack() string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	var b strings.Builder
	for lines := 0; lines < stackFrames; {
		frame, more := frames.Next()
		if frame.Function == callName {
			break
		}
		if frame.Function != "" && !strings.HasPrefix(frame.Function, "runtime.") {
			fmt.Fprintf(&b, "  at %s (%s:%d)\n", frame.Function, filepath.Base(frame.File), frame.Line)
			lines++
		}
		if !more {
			break
		}
	}
	return b.String()
}

// callName is where the stack of a handler begins.
const callName = "github.com/quorumcron/quorumcron/executor.call"

// takeOutput puts what was captured into the result and tells the keeper of files.
func (e *Executor) takeOutput(r *Result, a Attempt, c captured) {
	r.Output, r.OutputBytes, r.OutputDropped = c.Tail, c.Total, c.Dropped
	if c.Failure != "" {
		e.log.Warn("output cut", "job", a.Job.String(), "firing", a.Firing.String(), "attempt", a.Number, "dropped", c.Dropped, "err", c.Failure)
	}
	if c.Filed > 0 {
		e.files.add(a.Firing, a.Number, c.Filed)
	}
}
