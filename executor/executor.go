package executor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/quorumcron/quorumcron/scheduler"
)

// Why an attempt is told to end before it ended by itself: the causes to cancel Execute's context
// with. Any other cause counts as ErrStopping, a passed deadline of the context as ErrTimeLimit.
var (
	// ErrStopping: the drain limit of the node has passed. The attempt is FAILED(node stopping).
	ErrStopping = errors.New("node stopping")
	// ErrLockLost: the lock lease could not be kept. The attempt is FAILED(lock lost).
	ErrLockLost = errors.New("lock lost")
	// ErrTimeLimit: the attempt ran longer than the job's timeout. It is TIMED_OUT.
	ErrTimeLimit = errors.New("time limit")
	// ErrCanceled: somebody asked for it. The attempt is CANCELED.
	ErrCanceled = errors.New("canceled")
	// ErrReplaced: a newer firing of the job takes its place. The attempt is CANCELED.
	ErrReplaced = errors.New("replaced by a newer firing")
)

// ErrNoCommands is why command jobs are refused; what wraps it says which of the reasons it is.
var ErrNoCommands = errors.New("this member runs no commands")

// Attempt is one granted attempt: what to run, and as whom.
type Attempt struct {
	Job        scheduler.JobName
	Firing     scheduler.Firing
	Generation int64 // of the definition it was granted under
	Number     int   // from 1
	Token      int64 // the fencing token
	Member     string
	Part       int // index of the part, from 0
	Parts      int // how many there are; 0 is read as 1

	Run           scheduler.Executable
	Timeout       time.Duration // 0 means none
	OnSessionLost scheduler.OnSessionLost
}

// Result is how an attempt ended.
type Result struct {
	Verdict scheduler.Verdict
	Reason  scheduler.Reason
	Message string // for people; at most 1 KiB of valid UTF-8
	// ExitCode is set for a command that was started: its exit code, or 128 + the signal that ended it.
	ExitCode *int32
	// Started and Finished are when the process or function did, by Config.Clock; zero when nothing
	// was started.
	Started, Finished time.Time
	// Output is the tail of the output, at most 1 KiB of valid UTF-8. OutputBytes is how much output
	// there was, and OutputDropped how much of it the file does not hold.
	Output                     []byte
	OutputBytes, OutputDropped int64
}

// Config is what an Executor needs.
type Config struct {
	// DataDir is where output, scratch directories and the spool lie. It may be "" without Commands:
	// then only the tail of an output is kept.
	DataDir string
	// Handlers are the Go functions that jobs may name.
	Handlers map[string]Handler
	// Commands allows command jobs. The program must have called Supervise first in main.
	Commands bool
	// FolderLock is the locked file of the data folder. The supervisor holds it too, so that nobody
	// can take the folder before every command is dead. May be nil.
	FolderLock *os.File
	// Clock reads the wall clock and CLOCK_BOOTTIME. Required.
	Clock func() scheduler.Reading
	// Logger takes what an operator would want to know; nil discards it.
	Logger *slog.Logger
	// OutputLimit is how many bytes of one attempt's output are filed; 0 means 10 MiB.
	OutputLimit int64

	// For tests.
	noCgroups bool          // as on a machine where it may make no control groups
	pingEvery time.Duration // 0 means pingEvery
}

// defaultOutputLimit is how much of one attempt's output is filed.
const defaultOutputLimit = 10 << 20

// Executor runs attempts. It is safe for concurrent use.
type Executor struct {
	cfg    Config
	log    *slog.Logger
	files  *outputFiles // nil without DataDir
	keeper *keeper      // nil when commands are not possible
	noCmd  error        // why not
}

// New makes an Executor and starts nothing: commands need Run.
func New(cfg Config) (*Executor, error) {
	if cfg.Clock == nil {
		return nil, errors.New("executor: Config.Clock is missing")
	}
	if cfg.Commands && cfg.DataDir == "" {
		return nil, errors.New("executor: Config.Commands needs Config.DataDir: output and scratch directories lie there")
	}
	if cfg.DataDir != "" {
		dir, err := filepath.Abs(cfg.DataDir) // The supervisor has another working directory.
		if err != nil {
			return nil, fmt.Errorf("executor: data folder: %w", err)
		}
		cfg.DataDir = dir
	}
	if cfg.OutputLimit <= 0 {
		cfg.OutputLimit = defaultOutputLimit
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	e := &Executor{cfg: cfg, log: cfg.Logger}
	if cfg.DataDir != "" {
		e.files = newOutputFiles(cfg.DataDir, e.log)
	}
	switch {
	case !cfg.Commands:
		e.noCmd = fmt.Errorf("%w: they are switched off in its configuration", ErrNoCommands)
	case !supervised.Load():
		e.noCmd = fmt.Errorf("%w: its program does not call executor.Supervise first in main", ErrNoCommands)
	default:
		e.keeper = newKeeper(cfg)
	}
	return e, nil
}

// Commands is nil when this member can run command jobs, else the reason why not, an ErrNoCommands.
func (e *Executor) Commands() error { return e.noCmd }

// Run keeps the supervisor running until ctx ends. Commands in flight then end as ErrStopping; Run
// returns when they and the supervisor have ended. Handlers end with the contexts of their own.
func (e *Executor) Run(ctx context.Context) error {
	if e.files != nil {
		e.files.load()
	}
	if e.keeper == nil {
		<-ctx.Done()
		return nil
	}
	return e.keeper.run(ctx)
}

// Execute runs one attempt and returns how it ended. Cancel ctx with one of the causes to end it
// early. life gives the present deadlines of its lock lease, read again and again; nil means that it
// has none. Commands wait for the supervisor, which Run keeps.
func (e *Executor) Execute(ctx context.Context, a Attempt, life func() scheduler.LockLife) Result {
	a.Parts = max(a.Parts, 1)
	now := e.cfg.Clock()
	switch {
	case life != nil && now.Elapsed+startMargin >= life().TermAt():
		return neverStarted("its lock was about to end")
	case ctx.Err() != nil:
		return endedBy(context.Cause(ctx), "before it was started")
	case a.Run.Handler != nil:
		return e.callHandler(ctx, a, life)
	case a.Run.Command != nil:
		return e.runCommand(ctx, a, life)
	}
	return startError("the job names neither a command nor a handler")
}

// startMargin: an attempt that would be told to end within it is not started.
const startMargin = time.Second

func startError(message string) Result {
	return Result{Verdict: scheduler.Failed, Reason: scheduler.ReasonStartError, Message: clip(message)}
}

func neverStarted(why string) Result {
	return Result{Verdict: scheduler.Lost, Reason: scheduler.ReasonNeverStarted, Message: clip("never started: " + why)}
}

// endedBy is the result of an attempt that was told to end. The detail says what came of it.
func endedBy(cause error, detail string) Result {
	r := Result{Verdict: scheduler.Failed, Reason: scheduler.ReasonStopping}
	name := ErrStopping
	switch {
	case errors.Is(cause, ErrLockLost):
		r.Reason, name = scheduler.ReasonLockLost, ErrLockLost
	case errors.Is(cause, ErrTimeLimit), errors.Is(cause, context.DeadlineExceeded):
		r.Verdict, r.Reason, name = scheduler.TimedOut, "", ErrTimeLimit
	case errors.Is(cause, ErrReplaced):
		r.Verdict, r.Reason, name = scheduler.Canceled, "", ErrReplaced
	case errors.Is(cause, ErrCanceled):
		r.Verdict, r.Reason, name = scheduler.Canceled, "", ErrCanceled
	}
	r.Message = name.Error()
	if detail != "" {
		r.Message += ": " + detail
	}
	r.Message = clip(r.Message)
	return r
}
