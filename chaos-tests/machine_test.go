package chaos

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/quorumcron/quorumcron/chaos-tests/history"
)

// machine is all that stands still when the machine of a node does: the node, its supervisor, and its
// commands with their children.
type machine struct {
	n     *node
	pids  []int     // of those that were stopped: node, supervisor, commands
	slept time.Time // when they were stopped last
}

// sleep stops all of them.
func (m *machine) sleep() error {
	m.slept = time.Now()
	for before := -1; len(m.pids) != before; { // who is stopped has no more children
		before, m.pids = len(m.pids), append([]int{m.n.cmd.Process.Pid}, below(m.n.cmd.Process.Pid)...)
		signalEach(m.pids, syscall.SIGSTOP)
		time.Sleep(5 * time.Millisecond)
	}
	return nil
}

// signalEach leaves out who has just ended: that is none to stop.
func signalEach(pids []int, s syscall.Signal) {
	for _, pid := range pids {
		_ = syscall.Kill(pid, s)
	}
}

// asleep says that node and supervisor have stopped, and how many of all; "" if they have not.
func (m *machine) asleep() string {
	states := 0
	for _, pid := range m.pids {
		if stopped(pid) != "" {
			states++
		}
	}
	if len(m.pids) < 2 || stopped(m.pids[0]) == "" || stopped(m.pids[1]) == "" {
		return ""
	}
	return fmt.Sprintf("%d of %d processes are in state T", states, len(m.pids))
}

func (m *machine) wake() { signalEach(m.pids, syscall.SIGCONT) }

// wakeCommands wakes commands and children alone: who of a machine's processes gets on first after a sleep
// is nobody's to say, and a command that comes before its supervisor is not killed before it has acted.
func (m *machine) wakeCommands() { signalEach(m.pids[min(2, len(m.pids)):], syscall.SIGCONT) }

// sleeperHeadStart is how long the commands of a machine that wakes up go on before their supervisor does:
// three effects.
const sleeperHeadStart = 300 * time.Millisecond

// machineSleep is a machineFreeze that outlasts all that the others wait for, and takes a command along
// that has sent effects and would send more. By the time that it wakes up, its successor has sent some.
func (b *bed) machineSleep(n *node) breakage {
	const still = busyRecovery + 2*time.Second
	m, taken := &machine{n: n}, ""
	m.awaits(sleepers) // so that the fault begins when the machine sleeps
	return breakage{
		Fault: onNode("F04", history.MachineFreeze, n, "STOP of node, supervisor and commands for %s, commands wake first", still), lasts: still,
		inject: func() (err error) {
			taken, err = m.sleepOver(sleepers)
			return err
		},
		proof: func() string {
			if asleep := m.asleep(); asleep != "" && taken != "" {
				return asleep + ", one of them in the middle of " + taken
			}
			return ""
		},
		began: func() time.Time { return m.slept },
		heal: func() error {
			m.wakeCommands()
			time.Sleep(sleeperHeadStart)
			m.wake()
			return nil
		},
	}
}

// sleepers are the jobs whose commands a machineSleep takes along, as their names begin, the first one
// rather than the second: under onLost retry the same firing has another attempt elsewhere, under fail and
// overlap skip the next instant has.
var sleepers = []string{"again", "overlapping"}

// amidWithin is how long a command is waited for that a machine can sleep over: each of its jobs is due
// within two seconds.
const amidWithin = 6 * time.Second

// awaits waits until the machine runs a command of one of some jobs in the middle of its effects, the first
// one rather than the second, and returns the firing; "" if there is none.
func (m *machine) awaits(names []string) string {
	for _, name := range names {
		for deadline := time.Now().Add(amidWithin); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
			if firing := m.n.amid(name); firing != "" {
				return firing
			}
		}
	}
	return ""
}

// sleepOver has the machine sleep while it runs such a command, and returns its firing.
func (m *machine) sleepOver(names []string) (string, error) {
	for m.awaits(names) != "" {
		if err := m.sleep(); err != nil {
			return "", err
		}
		for _, name := range names {
			if firing := m.n.amid(name); firing != "" { // it has not ended just before it was stopped
				return firing, nil
			}
		}
		m.wake()
		m.pids = nil
	}
	return "", fmt.Errorf("%w: no command of %v was under way on %s", errIdle, names, m.n.name)
}

// amid is the firing of a command that runs on the node, of a job whose name begins so, and that has beaten
// at least once: its first effects were answered. "" if there is none.
func (n *node) amid(name string) string {
	last := map[string]history.Line{}
	beaten := map[string]bool{}
	for _, l := range n.lately() {
		if strings.HasPrefix(l.Job, name) && !l.Child {
			last[l.Nonce] = l
			beaten[l.Nonce] = beaten[l.Nonce] || l.Event == history.Beat
		}
	}
	for nonce, l := range last {
		if beaten[nonce] && l.Event != history.End && l.Event != history.Term && time.Since(l.Wall()) < time.Second {
			return l.Firing
		}
	}
	return ""
}

// isAmid waits until the node is in the middle of a command of a job whose name begins so.
func (n *node) isAmid(name string) {
	n.c.t.Helper()
	eventually(n.c.t, patience, n.name+" in the middle of a command of "+name, func() error {
		if n.amid(name) == "" {
			return errNotYet
		}
		return nil
	})
}

// lately are the last lines that commands of the node wrote.
func (n *node) lately() []history.Line {
	const most = 256 << 10 // several seconds
	f, err := os.Open(n.effects())
	if err != nil {
		return nil // nothing has run there yet
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil
	}
	if _, err := f.Seek(max(0, size-most), io.SeekStart); err != nil {
		return nil
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return nil
	}
	if _, whole, ok := bytes.Cut(text, []byte("\n")); ok && size > most {
		text = whole // the first one was cut
	}
	lines, err := history.ReadLines(bytes.NewReader(text))
	if err != nil {
		return nil
	}
	return lines
}

// amid draws a node that nothing strikes yet, and that is in the middle of a command of a job; any, if within the
// job's period there is none.
func (d *dealer) amid(job string) *node {
	for deadline := time.Now().Add(11 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if fit := only(d.free(), func(n *node) bool { return n.amid(job) != "" }); len(fit) > 0 {
			return d.take(fit)
		}
	}
	return d.node()
}

// busy draws a node that nothing strikes yet, rather one that has lately run one of the jobs whose names
// begin so.
func (d *dealer) busy(names []string) *node {
	for _, name := range names {
		var fit []*node
		for _, n := range d.free() {
			if slices.ContainsFunc(n.lately(), func(l history.Line) bool {
				return strings.HasPrefix(l.Job, name) && time.Since(l.Wall()) < 5*time.Second
			}) {
				fit = append(fit, n)
			}
		}
		if len(fit) > 0 {
			return d.take(fit)
		}
	}
	return d.node()
}
