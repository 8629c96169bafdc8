package chaos

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The folder through which a node of the test build, and its supervisor, are reached. What is in it is
// described in internal/chaos, which these tests do not import: they share no code with what they judge.

func (n *node) reach() string { return filepath.Join(n.c.dir, n.name+".reach") }

// points are the fail points, in the order of the firing path.
var points = []string{"before-claim", "after-claim", "before-exec", "after-exec", "after-exit", "before-verdict"}

// arm has the node do something when it next comes to a point: kill, "hang 2s", or leave.
func (n *node) arm(point, order string) error { return n.put(point, order) }

// disarm takes an order back that nothing has hit.
func (n *node) disarm(point string) error {
	err := os.Remove(filepath.Join(n.reach(), point))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// hits are the lines that the node, or its supervisor, wrote when a point was hit.
func (n *node) hits() []string {
	text, _ := os.ReadFile(filepath.Join(n.reach(), "hits"))
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")[:strings.Count(string(text), "\n")]
}

// setClock puts the node's wall clock so far ahead, from its next reading on; and has it run faster
// than true time by a rate.
func (n *node) setClock(ahead time.Duration, rate float64) error {
	if ahead == 0 && rate == 0 {
		return os.Remove(filepath.Join(n.reach(), "clock"))
	}
	var boot unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot); err != nil {
		return err
	}
	return n.put("clock", fmt.Sprintf("%s %g %d", ahead, rate, boot.Nano()))
}

// put writes a file in one step: a process that reads it sees all of it or nothing.
func (n *node) put(name, text string) error {
	draft := filepath.Join(n.reach(), "draft-"+name)
	if err := os.WriteFile(draft, []byte(text+"\n"), 0o600); err != nil {
		return err
	}
	return os.Rename(draft, filepath.Join(n.reach(), name))
}
