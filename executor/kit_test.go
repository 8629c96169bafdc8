package executor

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/quorumcron/quorumcron/scheduler"
)

// TestMain makes three programs of the test binary: the tests, their supervisors, and nodes that are
// killed or frozen.
func TestMain(m *testing.M) {
	Supervise()
	if script := os.Getenv(nodeScriptEnv); script != "" {
		os.Exit(beNode(script))
	}
	flag.Set("test.parallel", mostlyWait)
	flag.Parse()
	os.Exit(m.Run())
}

// mostlyWait is how many of these tests run at once, unless -parallel says so.
const mostlyWait = "4"

// patience bounds every wait for an event; only a failing test waits so long.
const patience = 30 * time.Second

// eventually waits until the condition holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	limit := time.After(patience)
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for !holds() {
		select {
		case <-look.C:
		case <-limit:
			t.Fatalf("waited %s in vain until %s", patience, what)
		}
	}
}

func bootClock() scheduler.Reading {
	return scheduler.Reading{Wall: time.Now(), Elapsed: bootNow()}
}

// logBook keeps what was logged.
type logBook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBook) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBook) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// bench is a running executor.
type bench struct {
	*Executor
	dir  string
	log  *logBook
	stop func() // ends Run and waits for it
}

// newBench starts an executor that runs commands; change may change its Config.
func newBench(t testing.TB, change func(*Config)) *bench {
	t.Helper()
	b := &bench{dir: t.TempDir(), log: &logBook{}}
	cfg := Config{DataDir: b.dir, Commands: true, Clock: bootClock, Logger: slog.New(slog.NewTextHandler(b.log, nil))}
	if change != nil {
		change(&cfg)
	}
	e, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	b.Executor = e
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	b.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run returned %v, want nil", err)
		}
		if left, _ := filepath.Glob(filepath.Join(b.dir, "scratch", "*")); len(left) > 0 {
			t.Errorf("scratch directories are left: %v", left)
		}
	})
	t.Cleanup(func() {
		b.stop()
		if t.Failed() {
			t.Logf("log:\n%s", b.log)
		}
	})
	return b
}

// supervisor is the pid of the supervisor that runs now.
func (b *bench) supervisor(t testing.TB) int {
	t.Helper()
	tether, err := b.keeper.await(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return tether.hello.Pid
}

var tokens atomic.Int64

// command is an attempt that runs a program.
func command(args ...string) Attempt {
	token := tokens.Add(1)
	return Attempt{
		Job:    scheduler.JobName{Namespace: "default", Name: "job"},
		Firing: scheduler.At(fmt.Sprintf("01j%023d", os.Getpid()), time.Unix(1_700_000_000+token, 0)),
		Number: 1, Token: token, Member: "node-a",
		Run: scheduler.Executable{Command: &scheduler.Command{Args: args}},
	}
}

// shell is an attempt that runs a script; $1 and so on are the arguments.
func shell(script string, args ...string) Attempt {
	return command(append([]string{"sh", "-c", script, "sh"}, args...)...)
}

// handler is an attempt that calls a function.
func handler(name string) Attempt {
	a := command()
	a.Run = scheduler.Executable{Handler: &scheduler.HandlerCall{Name: name}}
	return a
}

// execute runs an attempt that has no lock.
func (b *bench) execute(t testing.TB, a Attempt) Result {
	t.Helper()
	return b.Execute(t.Context(), a, nil)
}

// begin runs an attempt beside the test.
func (b *bench) begin(ctx context.Context, a Attempt, life func() scheduler.LockLife) <-chan Result {
	result := make(chan Result, 1)
	go func() { result <- b.Execute(ctx, a, life) }()
	return result
}

// renewedLock is the life of a lock that is renewed whenever somebody looks, until it is left alone: an
// attempt has all the time it needs to start, however slow the machine is.
type renewedLock struct {
	clock func() scheduler.Reading // nil means bootClock
	mu    sync.Mutex
	last  scheduler.LockLife
	left  bool
}

func (l *renewedLock) life() scheduler.LockLife {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.left {
		clock := l.clock
		if clock == nil {
			clock = bootClock
		}
		l.last = scheduler.LockLife{Sent: clock().Elapsed, TTL: 2 * time.Second, Grace: 4 * time.Second}
	}
	return l.last
}

// leave ends the renewals, and returns the life that the last one gave.
func (l *renewedLock) leave() scheduler.LockLife {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left = true
	return l.last
}

// await takes a result, or fails.
func await(t testing.TB, results <-chan Result) Result {
	t.Helper()
	select {
	case r := <-results:
		return r
	case <-time.After(patience):
		t.Fatalf("no result within %s", patience)
		return Result{}
	}
}

// freeze stops a process, and returns when all its threads stand: until then it still acts.
func freeze(t testing.TB, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, fmt.Sprintf("all threads of process %d stand", pid), func() bool {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		return len(threads) > 0 && !slices.ContainsFunc(threads, func(path string) bool {
			stat, err := os.ReadFile(path)
			state := stat[bytes.LastIndexByte(stat, ')')+1:] // The name before it may hold anything.
			return err == nil && !bytes.HasPrefix(state, []byte(" T"))
		})
	})
}

// pids waits until the file holds n numbers, each on a line of its own.
func pids(t testing.TB, file string, n int) []process {
	t.Helper()
	var found []process
	eventually(t, fmt.Sprintf("%d processes are in %s", n, file), func() bool {
		text, _ := os.ReadFile(file)
		if strings.Count(string(text), "\n") < n {
			return false
		}
		found = nil
		for _, field := range strings.Fields(string(text)) {
			pid, err := strconv.Atoi(field)
			if err != nil {
				t.Fatalf("%s holds %q, want pids", file, text)
			}
			p, err := readProcess(pid)
			if err != nil {
				t.Fatalf("process %d in %s is not there: %v", pid, file, err)
			}
			found = append(found, p)
		}
		return true
	})
	t.Cleanup(func() {
		for _, p := range found {
			killProcess(p)
		}
	})
	return found
}

// lives says whether that very process runs.
func lives(p process) bool {
	now, err := readProcess(p.pid)
	return err == nil && now.start == p.start && !now.dead()
}

func anyLives(ps []process) bool {
	for _, p := range ps {
		if lives(p) {
			return true
		}
	}
	return false
}

// family is a script that leaves its pid, that of a child, and those of two grandchildren that have
// escaped: one into a session of its own, one also out of its parent's environment.
const family = `echo $$ >> "$1"
sleep 1000 & echo $! >> "$1"
(setsid sleep 1000 >/dev/null 2>&1 & echo $! >> "$1")
(env -i setsid sleep 1000 >/dev/null 2>&1 & echo $! >> "$1")
`

const familySize = 4

const nodeScriptEnv = "EXECUTOR_TEST_NODE"

// nodeScript is what a node of its own process is to run.
type nodeScript struct {
	DataDir   string
	NoCgroups bool
	Lock      string        // the locked file of the data folder
	TTL       time.Duration // of the lock of all attempts, renewed as long as the node runs; 0 is none
	Grace     time.Duration
	Attempts  []Attempt
}

// nodeLine is what such a node writes for each result.
type nodeLine struct {
	Index  int
	Result Result
}

// beNode is the node: it ends when its stdin does.
func beNode(text string) int {
	var script nodeScript
	if err := json.Unmarshal([]byte(text), &script); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	cfg := Config{DataDir: script.DataDir, Commands: true, Clock: bootClock, noCgroups: script.NoCgroups}
	if script.Lock != "" {
		lock, err := os.Create(script.Lock)
		if err == nil {
			err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 2
		}
		cfg.FolderLock = lock
	}
	e, err := New(cfg)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	var life func() scheduler.LockLife
	if script.TTL > 0 {
		life = func() scheduler.LockLife {
			return scheduler.LockLife{Sent: bootNow(), TTL: script.TTL, Grace: script.Grace}
		}
	}
	var writing sync.Mutex
	out := json.NewEncoder(os.Stdout)
	for i, a := range script.Attempts {
		go func() {
			r := e.Execute(ctx, a, life)
			writing.Lock()
			defer writing.Unlock()
			out.Encode(nodeLine{i, r})
		}()
	}
	os.Stdin.Read(make([]byte, 1))
	cancel()
	if err := <-done; err != nil {
		return 1
	}
	return 0
}

// nodeProcess is a node in a process of its own.
type nodeProcess struct {
	cmd     *exec.Cmd
	results chan nodeLine
}

// startNode starts one. It is killed at the latest when the test ends.
func startNode(t *testing.T, script nodeScript) *nodeProcess {
	t.Helper()
	if script.DataDir == "" {
		script.DataDir = t.TempDir()
	}
	text, err := json.Marshal(script)
	if err != nil {
		t.Fatal(err)
	}
	n := &nodeProcess{cmd: exec.Command("/proc/self/exe"), results: make(chan nodeLine, len(script.Attempts))}
	n.cmd.Env = append(os.Environ(), nodeScriptEnv+"="+string(text))
	n.cmd.Stderr = os.Stderr
	n.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if _, err := n.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := n.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := n.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		decoder := json.NewDecoder(stdout)
		for {
			var line nodeLine
			if decoder.Decode(&line) != nil {
				return
			}
			n.results <- line
		}
	}()
	t.Cleanup(func() {
		n.signal(t, syscall.SIGKILL)
		<-read
		n.cmd.Wait()
	})
	return n
}

func (n *nodeProcess) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := n.cmd.Process.Signal(s); err != nil {
		t.Logf("signal %v to the node: %v", s, err)
	}
}
