package chaos

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// disks are small file systems that only our own processes see: they are mounted in a mount namespace
// of the thread that starts those, and are gone with the last of them, whatever becomes of this process.
var disks mounts

type mounts struct {
	root string // the namespace, as this process sees it
	err  error  // why there is none
}

// open makes the namespace. It is called by the thread that starts all processes, before the first.
func (m *mounts) open() {
	runtime.LockOSThread()
	if m.err = unix.Unshare(unix.CLONE_NEWNS); m.err == nil {
		m.err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	}
	m.root = fmt.Sprintf("/proc/%d/task/%d/root", os.Getpid(), unix.Gettid())
}

// smallDisk mounts one at a folder, which it makes, and returns where this process finds it. Without the
// right to mount the test is skipped.
func smallDisk(t *testing.T, dir, options string) string {
	t.Helper()
	disk, err := mountDisk(t, dir, options)
	if errors.Is(err, unix.EPERM) {
		t.Skip("a small disk can be had only with the right to mount one")
	} else if err != nil {
		t.Fatal(err)
	}
	return disk
}

// tinyDisk is a smallDisk for a run that goes on without: then it is "".
func tinyDisk(t *testing.T, dir string) string {
	t.Helper()
	disk, err := mountDisk(t, dir, "size=4m")
	if err != nil {
		t.Logf("no disk will be filled: %v", err)
		return ""
	}
	return disk
}

func mountDisk(t *testing.T, dir, options string) (string, error) {
	t.Helper()
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	mounted := make(chan error, 1) // one answer
	starting <- func() {
		if disks.err != nil {
			mounted <- disks.err
			return
		}
		mounted <- unix.Mount("tmpfs", dir, "tmpfs", 0, options)
	}
	if err := <-mounted; err != nil {
		return "", err
	}
	t.Cleanup(func() {
		starting <- func() { mounted <- unix.Unmount(dir, unix.MNT_DETACH) }
		if err := <-mounted; err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return filepath.Join(disks.root, dir), nil
}

// filler is the file that takes all the space.
const filler = "filler"

// fillDisk takes all the space there is on a disk.
func fillDisk(disk string) error {
	f, err := os.Create(filepath.Join(disk, filler))
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := io.Copy(f, zeros{}); !errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("the disk is not full: %v", err)
	}
	return nil
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}
