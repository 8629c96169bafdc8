package chaos

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/quorumcron/quorumcron/chaos-tests/history"
)

// Faults of nodes: what signals, fail points and clocks do.

func (c *cluster) nodeKill(n *node, down time.Duration) breakage {
	back := fmt.Sprintf("back after %s", down)
	if down == 0 {
		back = "for good"
	}
	return breakage{
		Fault: onNode("F01", history.NodeKill, n, "KILL, %s", back), lasts: down,
		inject: func() error { n.kill(); return nil },
		proof:  func() string { return gone(n.process) },
		heal:   func() error { n.start(); return nil },
	}
}

func gone(p *process) string {
	if pid := p.cmd.Process.Pid; p.ended() && !alive(pid) {
		return fmt.Sprintf("process %d is gone: %s", pid, p.cmd.ProcessState)
	}
	return ""
}

// supervisorKill kills the process that runs a node's commands, and all of them with it.
func (c *cluster) supervisorKill(n *node) breakage {
	pid := 0
	return breakage{
		Fault: onNode("F02", history.SupervisorKill, n, "KILL of the supervisor"),
		inject: func() error {
			for _, child := range children(n.cmd.Process.Pid) {
				if text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", child)); strings.HasPrefix(string(text), "quorumcron-supervisor") {
					pid = child
					return syscall.Kill(pid, syscall.SIGKILL)
				}
			}
			return fmt.Errorf("no supervisor below %d", n.cmd.Process.Pid)
		},
		proof: func() string {
			if pid == 0 || alive(pid) {
				return ""
			}
			return fmt.Sprintf("supervisor %d is gone", pid)
		},
		heal: func() error { return nil }, // the node starts another
	}
}

// nodeFreeze stops a node's process; its supervisor and commands go on.
func (c *cluster) nodeFreeze(n *node, still time.Duration) breakage {
	return breakage{
		Fault: onNode("F03", history.NodeFreeze, n, "STOP for %s", still), lasts: still,
		inject: func() error { n.freeze(); return nil },
		proof:  func() string { return stopped(n.cmd.Process.Pid) },
		heal:   func() error { n.thaw(); return nil },
	}
}

// machineFreeze stops a node with its supervisor and its commands, as a machine that is suspended does.
func (c *cluster) machineFreeze(n *node, still time.Duration) breakage {
	m := &machine{n: n}
	return breakage{
		Fault: onNode("F04", history.MachineFreeze, n, "STOP of node, supervisor and commands for %s", still), lasts: still,
		inject: m.sleep, proof: m.asleep,
		heal: func() error { m.wake(); return nil },
	}
}

// nodeTerm stops a node as an operator does, and starts it again.
func (c *cluster) nodeTerm(n *node, down time.Duration) breakage {
	const most = 30 * time.Second // drain, and what must be killed
	return breakage{
		Fault: onNode("F05", history.NodeTerm, n, "TERM, back after %s", down), lasts: down, patient: most,
		inject: func() error { n.signal(syscall.SIGTERM); return nil },
		proof: func() string {
			if !n.ended() {
				return ""
			}
			return fmt.Sprintf("ended by itself: %s", n.cmd.ProcessState)
		},
		heal: func() error {
			if !n.ended() {
				n.kill()
				return fmt.Errorf("did not end within %s", most)
			}
			if code := n.cmd.ProcessState.ExitCode(); code != 0 {
				return fmt.Errorf("ended with exit code %d", code)
			}
			n.start()
			return nil
		},
	}
}

// failPoint has a node, or its supervisor, do something at a point of the firing path. A node that dies
// of it is started again.
func (b *bed) failPoint(n *node, point, order string, down time.Duration) breakage {
	before, kind := 0, history.NodeFailPoint
	if order == "kill" && (point == "after-exec" || point == "after-exit") {
		kind = history.SupervisorKill // it is the supervisor that comes there
	}
	f := onNode("F06", kind, n, "%s: %s", point, order)
	f.Point = point
	return breakage{
		Fault: f, lasts: down,
		inject: func() error { before = len(n.hits()); return n.arm(point, order) },
		proof: func() string {
			if hits := n.hits(); len(hits) > before {
				return "hit: " + hits[len(hits)-1]
			}
			return ""
		},
		heal: func() error {
			if n.ended() {
				n.start()
			}
			return n.disarm(point)
		},
	}
}

// clock puts a node's wall clock ahead of true time (or behind), lets it run at another rate if that is
// not 0, and puts it right again. A node plans nothing for a minute after each step of its clock.
func (b *bed) clock(n *node, id, kind string, ahead time.Duration, rate float64, lasts time.Duration) breakage {
	f := onNode(id, kind, n, "clock ahead by %s, rate %+g", ahead, rate)
	f.Skew = ahead
	away := time.Duration(0)
	if ahead.Abs() > 500*time.Millisecond {
		away = time.Minute
	}
	before := 0
	return breakage{
		Fault: f, lasts: lasts, away: away,
		inject: func() error { before = len(n.hits()); return n.setClock(ahead, rate) },
		proof: func() string {
			for _, hit := range n.hits()[before:] {
				if strings.Contains(hit, " clock ") { // it was read so; asking for its time takes too long to show this
					return "its clock reads so: " + hit
				}
			}
			return ""
		},
		heal: func() error { return n.setClock(0, 0) },
	}
}

// diskFull fills the disk that a node has its data on.
func (c *cluster) diskFull(n *node, disk string, lasts time.Duration) breakage {
	return breakage{
		Fault: onNode("F25", history.DiskFull, n, "filled for %s", lasts), lasts: lasts,
		inject: func() error { return fillDisk(disk) },
		proof: func() string {
			if err := os.WriteFile(filepath.Join(disk, "probe"), make([]byte, 8<<10), 0o600); err != nil {
				return err.Error()
			}
			return ""
		},
		heal: func() error {
			_ = os.Remove(filepath.Join(disk, "probe")) // it may not be there
			return os.Remove(filepath.Join(disk, filler))
		},
	}
}

// churn has a node join, take its share, and leave in good order. Nothing may be late for it: its kind is
// none that excuses anything.
func (b *bed) churn(name string, stays time.Duration) breakage {
	var n *node
	return breakage{
		Fault: history.Fault{ID: "F36", Kind: "member-churn", Detail: fmt.Sprintf("%s joins, and leaves %s later", name, stays)}, lasts: stays,
		patient: patience, // while a member of etcd is cut off, each request that meets it costs a second
		inject: func() error {
			n = b.addNode(name)
			n.start()
			return nil
		},
		proof: func() string {
			// All at once: one whose member of etcd is cut off answers late, or not at all.
			shares := make(chan int, len(b.nodes))
			for _, asked := range b.nodes {
				go func() { shares <- b.share(asked, name) }()
			}
			for range b.nodes {
				if share := <-shares; share > 0 {
					return fmt.Sprintf("it owns %d shards", share)
				}
			}
			return ""
		},
		heal: func() error {
			n.signal(syscall.SIGTERM)
			select {
			case <-n.done:
			case <-time.After(30 * time.Second):
				n.kill()
				return fmt.Errorf("%s did not end", name)
			}
			if code := n.cmd.ProcessState.ExitCode(); code != 0 {
				return fmt.Errorf("%s ended with exit code %d", name, code)
			}
			return nil
		},
	}
}

// share is how many shards a member owns, as a node says; 0 if it does not.
func (b *bed) share(asked *node, member string) int {
	s, err := b.statusOf(asked)
	if err != nil {
		return 0
	}
	for _, m := range s.Members {
		if m.Name == member {
			return int(m.ShardsOwned)
		}
	}
	return 0
}

// allKilled kills every process of the cluster, etcd first, and starts all again.
func (b *bed) allKilled(down time.Duration) breakage {
	var all []*process
	return breakage{
		Fault: history.Fault{ID: "F10", Kind: history.NodeKill, Detail: fmt.Sprintf("KILL of everything, back after %s", down)}, lasts: down,
		inject: func() error {
			all = nil
			for _, e := range b.etcds() {
				all = append(all, e.process)
			}
			for _, n := range b.nodes {
				all = append(all, n.process)
			}
			for _, p := range all {
				p.kill()
			}
			return nil
		},
		proof: func() string {
			for _, p := range all {
				if gone(p) == "" {
					return ""
				}
			}
			return fmt.Sprintf("%d processes are gone", len(all))
		},
		heal: func() error {
			for _, e := range b.etcds() {
				e.start()
			}
			for _, n := range b.nodes {
				n.start()
			}
			return nil
		},
	}
}

// stopped describes a process that is stopped; "" if it is not.
func stopped(pid int) string {
	if f := stat(pid); len(f) > 0 && f[0] == "T" {
		return fmt.Sprintf("process %d is in state T", pid)
	}
	return ""
}

// stat are the fields of a process from its state on.
func stat(pid int) []string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	return strings.Fields(string(text[strings.LastIndex(string(text), ")")+1:]))
}

// children are the processes whose parent is pid.
func children(pid int) []int {
	var found []int
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, path := range all {
		child, err := strconv.Atoi(filepath.Base(path))
		if err != nil {
			continue
		}
		if f := stat(child); len(f) > 1 && f[1] == strconv.Itoa(pid) {
			found = append(found, child)
		}
	}
	return found
}

// below are all processes below pid, parents first.
func below(pid int) []int {
	found := children(pid)
	for i := 0; i < len(found); i++ {
		found = append(found, children(found[i])...)
	}
	return found
}
