package executor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestStatIsReadWhateverTheNameIs(t *testing.T) {
	t.Parallel()
	const rest = " S 7 42 43 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 98765 1 2\n"
	for _, name := range []string{"sh", "a b", "a) R 1 2 3", "(x", ")"} {
		p, err := parseStat(42, []byte("42 ("+name+")"+rest))
		if want := (process{pid: 42, parent: 7, session: 43, state: 'S', start: 98765}); err != nil || p != want {
			t.Errorf("name %q: got %+v, %v, want %+v", name, p, err, want)
		}
	}
	for _, bad := range []string{"", "42 (sh)", "42 (sh) S x 42 43 0 -1 4 1 2 3 4 5 6 7 8 20 0 1 0 9 1"} {
		if p, err := parseStat(42, []byte(bad)); err == nil {
			t.Errorf("%q: got %+v, want an error", bad, p)
		}
	}
}

func TestDescendantsAreAllBelow(t *testing.T) {
	t.Parallel()
	all := []process{
		{pid: 1, parent: 0}, {pid: 5, parent: 4}, {pid: 2, parent: 1}, {pid: 4, parent: 3, state: 'Z'}, {pid: 3, parent: 2},
		{pid: 9, parent: 1}, {pid: 7, parent: 6}, {pid: 6, parent: 7}, // a circle, as a walk over changing processes may show
	}
	var got []int
	for _, p := range descendants(all, 2) {
		got = append(got, p.pid)
	}
	if diff := cmp.Diff([]int{3, 5}, got); diff != "" {
		t.Errorf("wrong descendants of 2 (-want +got):\n%s", diff)
	}
	if below := descendants(all, 6); len(below) != 2 {
		t.Errorf("got %v below a circle, want both once", below)
	}
}

func TestKillSparesANewOwnerOfThePid(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	p, err := readProcess(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	for name, kill := range map[string]func(process) error{"by descriptor": killProcess, "by pid": killByPid} {
		older := p
		older.start--
		if err := kill(older); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !lives(p) {
			t.Fatalf("%s: killed a process that has got the pid since", name)
		}
	}
	if err := killProcess(p); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is dead", func() bool { return !lives(p) })
	cmd.Wait()
	if err := killProcess(p); err != nil {
		t.Errorf("killing what is not there returned %v, want nil", err)
	}
}

func TestCgroupFolderIsFound(t *testing.T) {
	t.Parallel()
	const unified = "24 1 0:21 / /sys rw - sysfs sysfs rw\n30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
	for name, c := range map[string]struct{ mounts, path, want string }{
		"a service":          {unified, "/system.slice/quorumcron.service", "/sys/fs/cgroup/system.slice/quorumcron.service"},
		"the root":           {unified, "/", "/sys/fs/cgroup"},
		"hybrid":             {"31 24 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n", "/a", "/sys/fs/cgroup/unified/a"},
		"v1 only":            {"31 24 0:26 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n", "/a", ""},
		"a part is mounted":  {"31 24 0:26 /docker/x /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n", "/docker/x/y", "/sys/fs/cgroup/y"},
		"another part":       {"31 24 0:26 /docker/x /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n", "/docker/z", ""},
		"nothing is mounted": {"", "/a", ""},
	} {
		if got := cgroupFolder(c.mounts, c.path); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// TestGroupOfADeadSupervisorIsEmptied: whoever starts next on the machine does it.
func TestGroupOfADeadSupervisorIsEmptied(t *testing.T) {
	t.Parallel()
	groups := openCgroups()
	if groups == nil {
		t.Skip("no control groups can be made here")
	}
	defer removeCgroup(groups.root)
	// Named like that of a process 1 that was not started when this one was.
	name, _, _ := strings.Cut(filepath.Base(groups.root), fmt.Sprint("-", os.Getpid()))
	stale := filepath.Join(filepath.Dir(groups.root), name+"-1-18446744073709551615")
	if err := os.MkdirAll(filepath.Join(stale, "7"), 0o755); err != nil {
		t.Fatal(err)
	}
	dir, err := os.Open(filepath.Join(stale, "7"))
	if err != nil {
		t.Skipf("another supervisor was faster: %v", err)
	}
	defer dir.Close()
	cmd := exec.Command("sleep", "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	if err := cmd.Start(); err != nil {
		t.Skipf("another supervisor was faster: %v", err)
	}
	defer cmd.Process.Kill()
	removeStale(filepath.Dir(groups.root), name+"-")
	if err := cmd.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Errorf("the process in the group ended with %v, want that it was killed", err)
	}
	eventually(t, "the group is gone", func() bool {
		removeStale(filepath.Dir(groups.root), name+"-")
		_, err := os.Stat(stale)
		return errors.Is(err, fs.ErrNotExist)
	})
	if _, err := os.Stat(groups.root); err != nil {
		t.Errorf("the group of a living supervisor is gone: %v", err)
	}
}

func TestProgramIsFoundInThePathOfTheCommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for file, mode := range map[string]os.FileMode{"a/tool": 0o644, "b/tool": 0o755, "c/tool": 0o755, "here": 0o755} {
		path := filepath.Join(dir, file)
		os.MkdirAll(filepath.Dir(path), 0o755)
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	path := strings.Join([]string{"", ".", dir + "/none", dir + "/a", dir + "/b", dir + "/c"}, ":")
	for name, want := range map[string]string{
		"tool":          dir + "/b/tool", // the one that may be run
		"./here":        dir + "/here",
		"c/tool":        dir + "/c/tool",
		dir + "/c/tool": dir + "/c/tool",
		"here":          "", // relative folders of PATH do not count
	} {
		if got, err := findProgram(name, path, dir); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, want)
		}
	}
	if _, err := findProgram("tool", dir+"/a", dir); err == nil || !strings.Contains(err.Error(), "not executable") {
		t.Errorf("got error %v, want one that says that it is not executable", err)
	}
}

func TestLastEnvironmentEntryCounts(t *testing.T) {
	t.Parallel()
	got := mergeEnv([]string{"A=1", "B=2", "A=3"}, nil, []string{"C=", "B=x=y"})
	if diff := cmp.Diff([]string{"A=3", "B=x=y", "C="}, got); diff != "" {
		t.Errorf("wrong environment (-want +got):\n%s", diff)
	}
}

func TestScratchMustBePassable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir() // which is below a folder that only its owner may enter, or is not
	closed := filepath.Join(dir, "closed")
	if err := os.MkdirAll(filepath.Join(closed, "below"), 0o755); err != nil {
		t.Fatal(err)
	}
	if !passable("/") || passable(filepath.Join(dir, "none")) {
		t.Errorf("passable(/) is %v and of what is not there %v, want true and false", passable("/"), passable(filepath.Join(dir, "none")))
	}
	if err := os.Chmod(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	if passable(filepath.Join(closed, "below")) {
		t.Error("a folder in one that only its owner may enter counts as passable")
	}
}
