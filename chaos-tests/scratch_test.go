package chaos

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
)

// scratchPrefix begins the names of folders that hold all that a run of these tests writes.
const scratchPrefix = "quorumcron-chaos-"

// scratch makes the folder that everything of this run lies in, the tests' own temporary folders too.
// It is locked for as long as this process lives: folders of runs that were killed are removed first.
func scratch() (dir string, remove func(), err error) {
	stale, _ := filepath.Glob(filepath.Join(os.TempDir(), scratchPrefix+"*"))
	for _, old := range stale {
		if lock := lockFolder(old); lock != nil {
			_ = os.RemoveAll(old)
			lock.Close()
		}
	}
	if dir, err = os.MkdirTemp("", scratchPrefix); err != nil {
		return "", nil, err
	}
	lock := lockFolder(dir)
	if lock == nil {
		return "", nil, fmt.Errorf("%s cannot be locked", dir)
	}
	if err := os.Setenv("TMPDIR", dir); err != nil {
		return "", nil, err
	}
	return dir, func() {
		_ = os.RemoveAll(dir)
		lock.Close()
	}, nil
}

// lockFolder is nil when somebody else holds it.
func lockFolder(dir string) *os.File {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil
	}
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		f.Close()
		return nil
	}
	return f
}

// leaveWhenTold ends this process at Ctrl-C or SIGTERM, and leaves nothing behind: every process that was
// started is killed and waited for, which ends what it started itself; then the folder goes.
func leaveWhenTold(remove func()) {
	told := make(chan os.Signal, 1) // the first is obeyed
	signal.Notify(told, os.Interrupt, syscall.SIGTERM)
	go func() {
		s := <-told
		fmt.Fprintf(os.Stderr, "%s: ending all processes\n", s)
		running.kill()
		remove()
		os.Exit(130)
	}()
}

// TestAnInterruptedRunLeavesNothingBehind interrupts a run of these tests while a node is up, and kills
// another, whose folder the next one removes.
func TestAnInterruptedRunLeavesNothingBehind(t *testing.T) {
	realProcesses(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	scratches := t.TempDir()
	seen := map[string]bool{} // logs of a node of an earlier run
	running := func(s os.Signal) (exit int) {
		run := exec.Command(self, "-test.run", "^TestANodeWaitsForEtcd$")
		run.Env = append(os.Environ(), "TMPDIR="+scratches, builtPrograms+"="+filepath.Dir(programs.quorumcron))
		var out bytes.Buffer
		run.Stdout, run.Stderr = &out, &out
		if err := run.Start(); err != nil {
			t.Fatal(err)
		}
		eventually(t, patience, "a node is up in the other run", func() error {
			logs, _ := filepath.Glob(filepath.Join(scratches, scratchPrefix+"*/*/*/n1.log"))
			for _, log := range logs {
				if tail(log, 1) != "" && !seen[log] { // one that has said something has been started
					seen[log] = true
					return nil
				}
			}
			return errNotYet
		})
		if err := run.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
		var failed *exec.ExitError
		if err := run.Wait(); err != nil && !errors.As(err, &failed) {
			t.Fatal(err)
		}
		t.Logf("%s: %s", s, bytes.TrimSpace(out.Bytes()))
		eventually(t, onTime, "no process of it lives", func() error {
			if left := (&cluster{dir: scratches}).leftovers(); len(left) > 0 {
				return fmt.Errorf("%v", left)
			}
			return nil
		})
		return run.ProcessState.ExitCode()
	}
	running(syscall.SIGKILL)
	if left, _ := os.ReadDir(scratches); len(left) != 1 {
		t.Errorf("a run that was killed left %v, want its folder", left)
	}
	if code := running(os.Interrupt); code != 130 {
		t.Errorf("exit code %d of a run that was interrupted, want 130", code)
	}
	if left, _ := os.ReadDir(scratches); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
