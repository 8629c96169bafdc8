package chaos

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// programs are the binaries under test, and those of the tests: built once, before the first test.
var programs struct {
	quorumcron, etcd, witness, handlers, receiver string
}

// sabotaged names the protection that the nodes go without, and these tests must miss: SABOTAGE.md.
const sabotaged = "QUORUMCRON_SABOTAGE"

// mostlyWait is how many tests of those that mostly wait run at once, unless -parallel says so: on two cores they use
// half of what one heavy test does.
const mostlyWait = "3"

func TestMain(m *testing.M) {
	flag.Set("test.parallel", mostlyWait)
	flag.Parse()
	os.Exit(runAll(m))
}

func runAll(m *testing.M) int {
	if testing.Short() {
		return m.Run() // every test here skips itself
	}
	dir, remove, err := scratch()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer remove()
	built := os.Getenv(builtPrograms)
	if built == "" {
		if err := buildPrograms(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		built = dir
	}
	programs.quorumcron, programs.etcd = filepath.Join(built, "quorumcron"), filepath.Join(built, "etcd")
	programs.witness, programs.handlers = filepath.Join(built, "witness"), filepath.Join(built, "handlers")
	programs.receiver = filepath.Join(built, "receiver")
	go starter()
	leaveWhenTold(remove)
	return m.Run()
}

// builtPrograms names the folder that has them, for a run of these tests that one of them starts.
const builtPrograms = "CHAOS_PROGRAMS"

func buildPrograms(dir string) error {
	tags := ""
	if os.Getenv(sabotaged) != "" {
		tags = "sabotage"
	}
	build := exec.Command("go", "build", "-buildvcs=false", "-tags", tags, "-o", dir+"/",
		"./cmd/quorumcron", "./chaos-tests/etcd", "./chaos-tests/witness", "./chaos-tests/handlers", "./chaos-tests/receiver")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the programs: %w\n%s", err, out)
	}
	return nil
}

// realProcesses skips a test of real processes where it is not wanted.
func realProcesses(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("runs real processes for a while")
	}
}

// process is a program that was started, and its end.
type process struct {
	name string
	cmd  *exec.Cmd
	log  string        // the file with all it printed
	done chan struct{} // closed when it has been waited for
}

// quoted are the logs whose ends have been printed.
var quoted sync.Map

// starting are the processes to start: all are started by one thread that never ends, because the
// signal that ends them together with this process follows the thread that started them.
var starting = make(chan func())

func starter() {
	runtime.LockOSThread()
	disks.open()
	for start := range starting {
		start()
	}
}

// running are the processes that have been started and have not ended.
var running = processes{all: map[*process]bool{}}

type processes struct {
	mu   sync.Mutex // guards all below
	all  map[*process]bool
	over bool // no more are started
}

func (r *processes) add(p *process) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all[p] = true; r.over {
		_ = p.cmd.Process.Kill()
	}
}

func (r *processes) remove(p *process) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, p)
}

// kill ends all of them, and waits until they have ended.
func (r *processes) kill() {
	r.mu.Lock()
	r.over = true
	var all []*process
	for p := range r.all {
		all = append(all, p)
	}
	r.mu.Unlock()
	for _, p := range all {
		p.kill()
	}
}

// startProcess starts a program whose output goes to <dir>/<name>.log.
func startProcess(t *testing.T, dir, name string, env []string, program string, args ...string) *process {
	t.Helper()
	p := &process{name: name, log: filepath.Join(dir, name+".log"), done: make(chan struct{})}
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	p.cmd = exec.Command(program, args...)
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.Env = append(cleanEnvironment(), env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if _, err := p.cmd.StdinPipe(); err != nil { // open until the end: the etcd member lives as long as it is
		t.Fatal(err)
	}
	started := make(chan error, 1) // one answer
	starting <- func() { started <- p.cmd.Start() }
	if err := <-started; err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	running.add(p)
	go func() {
		_ = p.cmd.Wait()
		running.remove(p)
		close(p.done)
	}()
	t.Cleanup(func() {
		p.kill()
		if !t.Failed() {
			return
		}
		if _, done := quoted.LoadOrStore(p.log, true); !done { // one that was started again has the same
			t.Logf("%s said at last:\n%s", name, tail(p.log, 25))
		}
	})
	return p
}

// cleanEnvironment is ours without the variables that would configure a node.
func cleanEnvironment() []string {
	var env []string
	for _, v := range os.Environ() {
		if strings.HasPrefix(v, sabotaged+"=") || !strings.HasPrefix(v, "QUORUMCRON_") && !strings.HasPrefix(v, "WITNESS_") {
			env = append(env, v)
		}
	}
	return env
}

func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// kill ends it as kill -9 does, and waits for the end. One that has ended stays so.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
}

func (p *process) freeze() { p.signal(syscall.SIGSTOP) }
func (p *process) thaw()   { p.signal(syscall.SIGCONT) }

// exit waits for the end by itself, and returns its exit code.
func (p *process) exit(t *testing.T, within time.Duration) int {
	t.Helper()
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(within):
		t.Fatalf("%s has not ended within %s", p.name, within)
		return -1
	}
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// tail is the last lines of a file.
func tail(path string, lines int) string {
	text, _ := os.ReadFile(path)
	all := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// given are the addresses that freeAddress has returned: one whose process has not started yet, or is
// down, looks free.
var given = struct {
	sync.Mutex
	addresses map[string]bool
}{addresses: map[string]bool{}}

// freeAddress finds a port on loopback below the range from which the system gives out ports, so that
// nobody takes it while its process is down.
func freeAddress(t *testing.T) string {
	t.Helper()
	given.Lock()
	defer given.Unlock()
	for range 100 {
		addr := fmt.Sprintf("127.0.0.1:%d", 10000+rand.IntN(10000))
		if given.addresses[addr] {
			continue
		}
		if l, err := net.Listen("tcp", addr); err == nil {
			l.Close()
			given.addresses[addr] = true
			return addr
		}
	}
	t.Fatal("no free port")
	return ""
}

// alive says whether a process is there and no zombie.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

// eventually asks until the answer is nil, and fails with the last one when it takes too long.
func eventually(t *testing.T, within time.Duration, what string, ask func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	for {
		err := ask()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: not within %s: %v", what, within, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// sleepUntil waits for a moment of the wall clock.
func sleepUntil(moment time.Time) { time.Sleep(time.Until(moment)) }

var errNotYet = errors.New("not yet")
