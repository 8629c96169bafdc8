package executor

import (
	"cmp"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// helloLimit is how long a supervisor may take to be ready.
	helloLimit = 10 * time.Second
	// restartFirst and restartMost bound the wait before a new supervisor; a lifetime of restartCalm
	// begins it anew.
	restartFirst = 100 * time.Millisecond
	restartMost  = 5 * time.Second
	restartCalm  = time.Minute
	// readyLimit is how long an attempt waits for a supervisor: as long as the next one may take to be started
	// and ready, so that a slow machine alone fails no attempt.
	readyLimit = restartMost + helloLimit
	// pingEvery and pingsMissed say when a supervisor that does not answer is killed. Turns are
	// counted, not time, so that a node that was itself frozen does not blame the supervisor.
	pingEvery   = 2 * time.Second
	pingsMissed = 5
	// stopLimit is how long attempts have to end when Run ends: TERM, KILL, and what the kernel needs.
	stopLimit = termToKill + killLimit + 2*time.Second
)

// errStopped: Run is not running, or is about to return.
var errStopped = errors.New("the executor is stopping")

// keeper keeps one supervisor running and hands attempts to it.
type keeper struct {
	cfg Config
	log *slog.Logger

	mu      sync.Mutex
	tether  *tether       // of the supervisor that is ready; nil for none
	ready   chan struct{} // closed when tether or stopped is set, and then replaced
	stopped bool
	failure error // why the last supervisor did not start
}

func newKeeper(cfg Config) *keeper {
	return &keeper{cfg: cfg, log: cfg.Logger, ready: make(chan struct{})}
}

// run keeps a supervisor running until ctx ends.
func (k *keeper) run(ctx context.Context) error {
	k.set(nil, false)
	defer k.set(nil, true)
	wait := restartFirst
	for {
		began := bootNow()
		err := k.keepOne(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if bootNow()-began > restartCalm {
			wait = restartFirst
		}
		k.log.Error("supervisor died", "err", err, "restart", wait.String())
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
		wait = min(2*wait, restartMost)
	}
}

// folders makes the folder of scratch directories, and removes those of an earlier supervisor.
func (k *keeper) folders() error {
	scratch := scratchFolder(k.cfg.DataDir)
	// Users that commands run as must pass through it; their own directories are closed to others.
	if err := os.MkdirAll(scratch, 0o711); err != nil {
		return fmt.Errorf("make folder of scratch directories: %w", err)
	}
	old, err := filepath.Glob(filepath.Join(scratch, "attempt-*"))
	if err != nil {
		return fmt.Errorf("list scratch directories: %w", err)
	}
	for _, dir := range old {
		if err := removeTree(dir); err != nil {
			k.log.Warn("scratch directory not removed", "path", dir, "err", err)
		}
	}
	return nil
}

func scratchFolder(dataDir string) string { return filepath.Join(dataDir, "scratch") }

// set makes t the supervisor that attempts are handed to.
func (k *keeper) set(t *tether, stopped bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tether, k.stopped = t, stopped
	close(k.ready)
	k.ready = make(chan struct{})
}

// await returns the supervisor that is ready, and waits a while if none is.
func (k *keeper) await(ctx context.Context) (*tether, error) {
	limit := time.NewTimer(readyLimit)
	defer limit.Stop()
	for {
		k.mu.Lock()
		t, ready, stopped, failure := k.tether, k.ready, k.stopped, k.failure
		k.mu.Unlock()
		switch {
		case stopped:
			return nil, errStopped
		case t != nil:
			return t, nil
		}
		select {
		case <-ready:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-limit.C:
			return nil, fmt.Errorf("the supervisor of commands is not running: %w", errors.Join(failure, errNotReady))
		}
	}
}

var errNotReady = fmt.Errorf("not ready within %s", readyLimit)

// keepOne starts a supervisor and returns when it has ended, and nothing of it is left.
func (k *keeper) keepOne(ctx context.Context) error {
	var cmd *exec.Cmd
	var link *os.File
	err := k.folders()
	if err == nil {
		cmd, link, err = k.launch()
	}
	if err != nil {
		k.fail(err)
		return err
	}
	t := newTether(link, k.log)
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	var loops sync.WaitGroup
	loops.Go(func() { t.out.run(link) })
	loops.Go(func() { t.readReports(ctx) })

	err = k.attend(ctx, t, cmd.Process, exited)
	// No new attempts come in now. The node's end closes; a supervisor that lives kills what it has
	// and follows.
	k.set(nil, ctx.Err() != nil)
	t.out.close()
	link.Close()
	if err == nil {
		err = awaitExit(exited, cmd.Process)
	}
	loops.Wait()
	if ctx.Err() != nil {
		t.abandon(causeStopping)
	} else {
		t.abandon(causeNone)
	}
	return err
}

func (k *keeper) fail(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.failure = err
}

// launch starts the supervisor process.
func (k *keeper) launch() (*exec.Cmd, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make link to supervisor: %w", err)
	}
	if err := unix.SetNonblock(fds[0], true); err != nil {
		return nil, nil, fmt.Errorf("make link to supervisor: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "link"), os.NewFile(uintptr(fds[1]), "link")
	defer theirs.Close()
	// Not by path: the file may have been replaced since, and both ends must be the same program.
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{supervisorName}
	cmd.Env = append(foreignEnv(os.Environ()), supervisorMark)
	if k.cfg.noCgroups {
		cmd.Env = append(cmd.Env, withoutCgroups)
	}
	cmd.Dir = "/"
	cmd.Stderr = os.Stderr
	cmd.ExtraFiles = []*os.File{theirs}
	if k.cfg.FolderLock != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, k.cfg.FolderLock)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // Signals of the terminal are the node's alone.
	if err := cmd.Start(); err != nil {
		ours.Close()
		return nil, nil, fmt.Errorf("start supervisor: %w", err)
	}
	return cmd, ours, nil
}

// attend watches a supervisor until it ends, which is an error, or ctx does.
func (k *keeper) attend(ctx context.Context, t *tether, process *os.Process, exited chan error) error {
	limit := time.NewTimer(helloLimit)
	defer limit.Stop()
	select {
	case <-t.ready:
		k.fail(nil)
		k.set(t, false)
		k.log.Info("supervisor started", "pid", t.hello.Pid, "cgroup", t.hello.Cgroup)
	case err := <-exited:
		err = fmt.Errorf("supervisor ended before it was ready: %w", exitError(err))
		k.fail(err)
		return err
	case <-limit.C:
		process.Kill()
		<-exited
		err := fmt.Errorf("supervisor was not ready within %s", helloLimit)
		k.fail(err)
		return err
	case <-ctx.Done():
		return nil
	}
	pings := time.NewTicker(cmp.Or(k.cfg.pingEvery, pingEvery))
	defer pings.Stop()
	for {
		select {
		case err := <-exited:
			return exitError(err)
		case <-t.gone:
			process.Kill() // It cannot do anything for us without the link.
			return exitError(<-exited)
		case <-pings.C:
			if t.ping() > pingsMissed {
				process.Kill()
				return fmt.Errorf("it had left %d pings without an answer and was killed: %w", pingsMissed, exitError(<-exited))
			}
		case <-ctx.Done():
			k.set(nil, true)
			t.stop()
			return nil
		}
	}
}

// exitError makes an error of any end: a supervisor ends only when its node does.
func exitError(err error) error {
	if err == nil {
		return errors.New("exit status 0")
	}
	return err
}

// awaitExit waits for a supervisor whose link is closed, and kills it if it does not end: the kernel
// then kills its commands.
func awaitExit(exited <-chan error, process *os.Process) error {
	limit := time.NewTimer(stopLimit)
	defer limit.Stop()
	select {
	case err := <-exited:
		return err
	case <-limit.C:
		process.Kill()
		return <-exited
	}
}

// gobReports decodes what the supervisor sends.
func gobReports(link *os.File) func() (report, error) {
	decoder := gob.NewDecoder(link)
	return func() (r report, err error) {
		err = decoder.Decode(&r)
		return r, err
	}
}
