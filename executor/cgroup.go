package executor

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// cgroups keeps the processes of each attempt in a control group (v2) of its own, where the node may
// make some. It is not needed, but it knows a process whatever that did to hide, and kills without a
// race against forks. A nil *cgroups has none. Not safe for concurrent use.
type cgroups struct {
	root string // <our own group>/quorumcron-…
	busy []string
}

const cgroupPrefix = "quorumcron-"

// openCgroups makes the folder for the groups of this process, or returns nil where that is not
// possible. Folders of predecessors that died with all their processes alive are emptied first.
func openCgroups() *cgroups {
	parent := ownCgroup()
	if parent == "" {
		return nil
	}
	self, err := readProcess(os.Getpid())
	if err != nil {
		return nil
	}
	space, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return nil
	}
	// A pid means something in its namespace only, and containers may share the folder.
	prefix := cgroupPrefix + strings.Trim(strings.TrimPrefix(space, "pid:"), "[]") + "-"
	removeStale(parent, prefix)
	root := filepath.Join(parent, fmt.Sprintf("%s%d-%d", prefix, self.pid, self.start))
	if err := os.Mkdir(root, 0o755); err != nil {
		return nil
	}
	if _, err := os.Stat(filepath.Join(root, "cgroup.kill")); err != nil { // before Linux 5.14
		os.Remove(root)
		return nil
	}
	return &cgroups{root: root}
}

// ownCgroup is the folder of this process's own group, "" without v2.
func ownCgroup() string {
	membership, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return ""
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(membership)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			return cgroupFolder(string(mounts), path)
		}
	}
	return ""
}

// cgroupFolder finds where the group of that path is mounted.
func cgroupFolder(mountinfo, path string) string {
	for line := range strings.Lines(mountinfo) {
		before, after, ok := strings.Cut(line, " - ")
		fields := strings.Fields(before)
		if !ok || !strings.HasPrefix(after, "cgroup2 ") || len(fields) < 5 {
			continue
		}
		below, err := filepath.Rel(fields[3], path) // fields[3] is the part of the tree that is mounted
		if err != nil || strings.HasPrefix(below, "..") {
			continue
		}
		return filepath.Join(fields[4], below)
	}
	return ""
}

// removeStale kills what is left in folders whose supervisor is no more, and removes them.
func removeStale(parent, prefix string) {
	stale, err := filepath.Glob(filepath.Join(parent, prefix+"*"))
	if err != nil {
		return
	}
	for _, folder := range stale {
		pidText, startText, _ := strings.Cut(strings.TrimPrefix(filepath.Base(folder), prefix), "-")
		pid, err1 := strconv.Atoi(pidText)
		start, err2 := strconv.ParseUint(startText, 10, 64)
		if err1 != nil || err2 != nil {
			continue
		}
		if p, err := readProcess(pid); err == nil && p.start == start && !p.dead() {
			continue
		}
		killCgroup(folder)
		removeCgroup(folder)
	}
}

// killCgroup kills every process in the group and below it.
func killCgroup(folder string) error {
	err := os.WriteFile(filepath.Join(folder, "cgroup.kill"), []byte("1"), 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}

// removeCgroup removes the group and those below it that are empty.
func removeCgroup(folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return notThere(err)
	}
	for _, entry := range entries {
		if entry.IsDir() {
			removeCgroup(filepath.Join(folder, entry.Name()))
		}
	}
	return notThere(os.Remove(folder))
}

// cgroup is the group of one attempt; a nil one is none.
type cgroup struct {
	folder string
	dir    *os.File // open until the process is started
}

// add makes the group of an attempt. Without one the attempt runs all the same.
func (c *cgroups) add(id int64) *cgroup {
	if c == nil {
		return nil
	}
	folder := filepath.Join(c.root, strconv.FormatInt(id, 10))
	if err := os.Mkdir(folder, 0o755); err != nil {
		return nil
	}
	dir, err := os.Open(folder)
	if err != nil {
		os.Remove(folder)
		return nil
	}
	return &cgroup{folder: folder, dir: dir}
}

// fd is the descriptor to start a process in the group, -1 for none.
func (g *cgroup) fd() int {
	if g == nil {
		return -1
	}
	return int(g.dir.Fd())
}

// opened is called when the process is started, or will not be.
func (g *cgroup) opened() {
	if g != nil {
		g.dir.Close()
	}
}

// empty says whether no process is left in the group or below it.
func (g *cgroup) empty() bool {
	events, err := os.ReadFile(filepath.Join(g.folder, "cgroup.events"))
	return err != nil || !bytes.Contains(events, []byte("populated 1"))
}

// remove removes the group of an attempt that has ended. A group is busy for a moment after its last
// process: then it is tried again with the next one.
func (c *cgroups) remove(g *cgroup) {
	if c == nil {
		return
	}
	folders := c.busy
	c.busy = nil
	if g != nil {
		folders = append(folders, g.folder)
	}
	for _, folder := range folders {
		if removeCgroup(folder) != nil {
			c.busy = append(c.busy, folder)
		}
	}
}

// folder is the folder of all groups, "" for none.
func (c *cgroups) folder() string {
	if c == nil {
		return ""
	}
	return c.root
}
