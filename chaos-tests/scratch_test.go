package chaos

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
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
	s := <-told
	fmt.Fprintf(os.Stderr, "%s: ending all processes\n", s)
	running.kill()
	remove()
	os.Exit(130)
}
