package executor

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// bootNow is CLOCK_BOOTTIME: it goes on while the machine is suspended, nobody can set it, and all
// processes of the machine read the same.
func bootNow() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic(fmt.Sprintf("CLOCK_BOOTTIME cannot be read: %v", err)) // Linux has had it since 2.6.39.
	}
	return time.Duration(t.Nano())
}

// process is one process as /proc shows it.
type process struct {
	pid, parent, session int
	state                byte   // 'Z' and 'X' are dead
	start                uint64 // with pid it names a process for good
}

func (p process) dead() bool { return p.state == 'Z' || p.state == 'X' }

// readProcess reads /proc/<pid>/stat.
func readProcess(pid int) (process, error) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return process{}, err
	}
	return parseStat(pid, stat)
}

// parseStat: the second field is the program's name in parentheses and may hold anything, so the
// fields are counted from the last parenthesis on.
func parseStat(pid int, stat []byte) (process, error) {
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 || len(fields[0]) != 1 {
		return process{}, fmt.Errorf("process %d: unexpected stat %q", pid, stat)
	}
	p := process{pid: pid, state: fields[0][0]}
	var err error
	read := func(field int) int {
		n, e := strconv.Atoi(string(fields[field]))
		err = errors.Join(err, e)
		return n
	}
	p.parent, p.session = read(1), read(3)
	p.start = uint64(read(19))
	return p, err
}

// allProcesses lists what /proc shows; what ends meanwhile is left out.
func allProcesses() ([]process, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var all []process
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, err := readProcess(pid); err == nil {
			all = append(all, p)
		}
	}
	return all, nil
}

// descendants are the living processes below the process root, parents before their children.
func descendants(all []process, root int) []process {
	children := map[int][]process{}
	for _, p := range all {
		children[p.parent] = append(children[p.parent], p)
	}
	var below []process
	queue := []int{root}
	for len(queue) > 0 {
		next := children[queue[0]]
		delete(children, queue[0]) // A process is listed once, even if /proc changed under the walk.
		queue = queue[1:]
		for _, p := range next {
			if !p.dead() {
				below = append(below, p)
			}
			queue = append(queue, p.pid)
		}
	}
	return below
}

// marks are the environment entries by which the processes of one attempt are known, wherever they
// went: no two attempts have the same.
func (id Identity) marks() []string {
	var marks []string
	for _, entry := range id.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		if slices.Contains([]string{EnvPrefix + "FIRING", EnvPrefix + "ATTEMPT", EnvPrefix + "TOKEN", EnvPrefix + "MEMBER", EnvPrefix + "PART"}, name) {
			marks = append(marks, entry)
		}
	}
	return marks
}

// carries says whether the environment that a process was started with has all the marks.
func carries(pid int, marks []string) bool {
	environ, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false // Ended, or not ours to look into.
	}
	entries := strings.Split(string(environ), "\x00")
	for _, mark := range marks {
		if !slices.Contains(entries, mark) {
			return false
		}
	}
	return len(marks) > 0
}

// ofAttempt picks the processes of an attempt out of the candidates, parents first: those in the
// session, if it is not 0, those that carry the marks, and those below any of them.
func ofAttempt(candidates []process, session int, marks []string) []process {
	var found []process
	known := map[int]bool{}
	for _, p := range candidates {
		if p.dead() {
			continue
		}
		if session != 0 && p.session == session || known[p.parent] || carries(p.pid, marks) {
			known[p.pid] = true
			found = append(found, p)
		}
	}
	return found
}

// killProcess kills that very process: never one that has got its pid since it was listed.
func killProcess(p process) error {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if errors.Is(err, unix.ENOSYS) { // Before Linux 5.3.
		return killByPid(p)
	}
	if err != nil {
		return notThere(err)
	}
	defer unix.Close(fd)
	if same, err := readProcess(p.pid); err != nil || same.start != p.start {
		return nil
	}
	return notThere(unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0))
}

func killByPid(p process) error {
	if same, err := readProcess(p.pid); err != nil || same.start != p.start {
		return nil
	}
	return notThere(unix.Kill(p.pid, unix.SIGKILL))
}

// notThere makes no error of a process that has ended.
func notThere(err error) error {
	if errors.Is(err, unix.ESRCH) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
