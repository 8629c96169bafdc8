package executor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quorumcron/quorumcron/scheduler"
)

// pushEvery is how often the life of a lock is looked at for its commands. A keep-alive is due each
// TTL/4, 750 ms at the least.
const pushEvery = 500 * time.Millisecond

// runCommand has the supervisor run the command of an attempt.
func (e *Executor) runCommand(ctx context.Context, a Attempt, life func() scheduler.LockLife) Result {
	if e.noCmd != nil {
		return startError(e.noCmd.Error())
	}
	t, err := e.keeper.await(ctx)
	if err != nil {
		return notHanded(ctx, err)
	}
	d := &deadlines{clock: e.cfg.Clock, life: life}
	term, kill, _ := d.read()
	f, err := t.start(e.startOrder(a, term, kill))
	if err != nil {
		return notHanded(ctx, err)
	}
	r := e.follow(ctx, t, f, d)
	result := r.result(a)
	if r.Died {
		r.Output = e.files.salvage(a.Firing, a.Number)
	}
	if r.Started > 0 {
		result.Started, result.Finished = e.wallAt(r.Started), e.wallAt(r.Finished)
	}
	e.takeOutput(&result, a, r.Output)
	return result
}

// notHanded is the result of an attempt that no supervisor took.
func notHanded(ctx context.Context, err error) Result {
	switch {
	case ctx.Err() != nil:
		return endedBy(context.Cause(ctx), "before it was started")
	case errors.Is(err, errStopped):
		return endedBy(ErrStopping, "before it was started")
	}
	return startError(err.Error())
}

func (e *Executor) startOrder(a Attempt, term, kill time.Duration) startOrder {
	command, id := a.Run.Command, a.identity()
	o := startOrder{
		Args:          command.Args,
		Identity:      id.Environ(),
		Marks:         id.marks(),
		Dir:           command.Dir,
		User:          command.User,
		Scratch:       scratchFolder(e.cfg.DataDir),
		Output:        e.files.path(a.Firing, a.Number),
		OutputLimit:   e.cfg.OutputLimit,
		Timeout:       a.Timeout,
		Term:          term,
		Kill:          kill,
		SessionFinish: a.OnSessionLost == scheduler.SessionLostFinish || cutCommandDeadline,
	}
	for _, name := range slices.Sorted(maps.Keys(command.Env)) {
		o.Env = append(o.Env, name+"="+command.Env[name])
	}
	return o
}

// follow pushes the deadlines of an attempt on, passes on that it is to end, and returns how it ended.
func (e *Executor) follow(ctx context.Context, t *tether, f *flight, d *deadlines) endedReport {
	var push <-chan time.Time
	if d.life != nil {
		ticker := time.NewTicker(pushEvery)
		defer ticker.Stop()
		push = ticker.C
	}
	done := ctx.Done()
	for {
		select {
		case r := <-f.ended:
			return r
		case <-done:
			t.out.send(order{End: &endOrder{ID: f.id, Cause: causeOf(context.Cause(ctx))}})
			done = nil
		case <-push:
			if term, kill, moved := d.read(); moved {
				t.out.send(order{Push: &pushOrder{ID: f.id, Term: term, Kill: kill}})
			}
		}
	}
}

// deadlines reads the life of a lock, and puts it on the clock that the supervisor reads.
type deadlines struct {
	clock func() scheduler.Reading
	life  func() scheduler.LockLife
	known scheduler.LockLife
}

// read returns when to TERM and to KILL, and whether that has moved since the last time. Both are 0
// without a lock.
func (d *deadlines) read() (term, kill time.Duration, moved bool) {
	if d.life == nil {
		return 0, 0, false
	}
	// In this order: if the process is frozen in between, the deadlines come out too early, never
	// too late.
	boot := bootNow()
	life := d.life()
	shift := boot - d.clock().Elapsed
	moved = life != d.known
	d.known = life
	return life.TermAt() + shift, life.KillAt() + shift, moved
}

// wallAt is the wall clock at an instant of CLOCK_BOOTTIME.
func (e *Executor) wallAt(boot time.Duration) time.Time {
	return e.cfg.Clock().Wall.Add(boot - bootNow())
}

// result puts a report of the supervisor into words.
func (r endedReport) result(a Attempt) Result {
	switch {
	case r.Died && r.Cause == causeNone:
		return Result{Verdict: scheduler.Failed, Reason: scheduler.ReasonError, Message: "supervisor died: all its commands were killed"}
	case r.Died:
		return endedBy(causeErrors[r.Cause], "it was killed with the supervisor")
	case r.StartError != "":
		return startError(r.StartError)
	case r.Barred:
		return neverStarted("its lock was about to end")
	case r.Started == 0 && r.Cause != causeNone:
		return endedBy(causeErrors[r.Cause], "before it was started")
	}
	how := fmt.Sprintf("exit code %d", r.ExitCode)
	if r.Signal != 0 {
		how = fmt.Sprintf("ended by signal %d (%s)", r.Signal, unix.SignalName(unix.Signal(r.Signal)))
	}
	if r.Immortal > 0 {
		how += fmt.Sprintf("; %d of its processes could not be killed", r.Immortal)
	}
	var result Result
	switch {
	case r.Cause == causeTimeLimit && a.Timeout > 0:
		result = endedBy(ErrTimeLimit, fmt.Sprintf("it ran longer than %s; %s", a.Timeout, how))
	case r.Cause != causeNone:
		result = endedBy(causeErrors[r.Cause], how)
	case r.ExitCode == 0 && r.Signal == 0:
		result = Result{Verdict: scheduler.Succeeded}
	default:
		result = Result{Verdict: scheduler.Failed, Reason: scheduler.ReasonExitCode, Message: how}
	}
	code := r.ExitCode
	result.ExitCode = &code
	return result
}
