package executor

import (
	"bufio"
	"context"
	"encoding/gob"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"
)

// The two ends of the link are the same program, so its messages have no version. They are framed by
// gob, which reads a message whole or not at all.

// order is a message of the node to its supervisor: exactly one field is set.
type order struct {
	Start *startOrder
	Push  *pushOrder
	End   *endOrder
	Ping  int64
}

// startOrder starts the command of an attempt. Times are on CLOCK_BOOTTIME.
type startOrder struct {
	ID            int64 // of the attempt on this link
	Args          []string
	Env           []string // of the job
	Identity      []string // environment too; it wins
	Marks         []string
	Dir, User     string
	Scratch       string // parent of the scratch directory that an empty Dir stands for
	Output        string // path of the output file
	OutputLimit   int64
	Timeout       time.Duration // 0: none
	Term, Kill    time.Duration // 0: its lock has no deadlines
	SessionFinish bool          // the deadlines bar a start, and do not end what has started
}

// pushOrder moves the deadlines of an attempt on.
type pushOrder struct {
	ID         int64
	Term, Kill time.Duration
}

// endOrder tells an attempt to end.
type endOrder struct {
	ID    int64
	Cause cause
}

// report is a message of the supervisor to its node: exactly one field is set.
type report struct {
	Hello   *hello
	Started *startedReport
	Ended   *endedReport
	Event   *eventReport
	Pong    int64
}

// hello is the first report: the supervisor is ready.
type hello struct {
	Pid    int
	Cgroup string // the folder of its control groups; "" when it cannot have any
}

// startedReport names the main process of an attempt, which leads a session of the same number.
type startedReport struct {
	ID  int64
	Pid int
}

// endedReport is the last report about an attempt.
type endedReport struct {
	ID int64
	// Cause is the first thing that told the attempt to end; causeNone if it ended by itself.
	Cause cause
	// StartError is why nothing was started, though it was tried.
	StartError string
	// Barred: its lock was about to end, so a start was not tried.
	Barred            bool
	Started, Finished time.Duration // zero when nothing was started
	ExitCode          int32
	Signal            int // that ended it, else 0
	Immortal          int // processes of it that KILL did not end in time
	Output            captured
	Died              bool // set by the node: the supervisor died
}

// eventReport is something that an operator may want to read.
type eventReport struct {
	Level   slog.Level
	Message string
	Facts   []string // key, value, …
}

// cause is why an attempt was told to end.
type cause int

const (
	causeNone cause = iota
	causeStopping
	causeLockLost
	causeTimeLimit
	causeCanceled
	causeReplaced
)

// causeErrors are the causes as callers know them.
var causeErrors = [...]error{causeStopping: ErrStopping, causeLockLost: ErrLockLost, causeTimeLimit: ErrTimeLimit, causeCanceled: ErrCanceled, causeReplaced: ErrReplaced}

// causeOf is the cause that a context was cancelled with; anything unknown is the node stopping.
func causeOf(err error) cause {
	if errors.Is(err, context.DeadlineExceeded) {
		return causeTimeLimit
	}
	for c, e := range causeErrors {
		if e != nil && errors.Is(err, e) {
			return cause(c)
		}
	}
	return causeStopping
}

// outbox sends messages in order without ever making the sender wait: the other end may be frozen. It
// grows no further than the attempts in flight have messages. Safe for concurrent use.
type outbox[T any] struct {
	mu     sync.Mutex
	queue  []T
	closed bool
	wake   chan struct{} // one token: there is something new
}

func newOutbox[T any]() *outbox[T] { return &outbox[T]{wake: make(chan struct{}, 1)} }

func (o *outbox[T]) send(m T) {
	o.mu.Lock()
	if !o.closed {
		o.queue = append(o.queue, m)
	}
	o.mu.Unlock()
	o.signal()
}

// close lets run return when everything sent before has been written.
func (o *outbox[T]) close() {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	o.signal()
}

func (o *outbox[T]) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// run writes what is sent until close, or until the other end is gone.
func (o *outbox[T]) run(w io.Writer) error {
	defer o.discard()
	buffer := bufio.NewWriter(w)
	encoder := gob.NewEncoder(buffer)
	for {
		<-o.wake
		o.mu.Lock()
		queue, closed := o.queue, o.closed
		o.queue = nil
		o.mu.Unlock()
		for _, m := range queue {
			if err := encoder.Encode(m); err != nil {
				return err
			}
		}
		if err := buffer.Flush(); err != nil {
			return err
		}
		if closed {
			return nil
		}
	}
}

// discard drops what nobody will write any more.
func (o *outbox[T]) discard() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.queue, o.closed = nil, true
}
