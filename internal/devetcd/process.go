package devetcd

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// memberVariable is the environment variable that turns a test binary into an etcd member.
const memberVariable = "QUORUMCRON_TEST_ETCD_MEMBER"

// readyPrefix starts the line with which a member tells its parent that it is ready.
const readyPrefix = "ready "

// RunIfMember is for the first line of TestMain in a test that uses StartProcess: if this process was
// started to be an etcd member it becomes one, and never returns. The member ends at SIGTERM, and when
// the process that started it does.
func RunIfMember(ctx context.Context) {
	settings := os.Getenv(memberVariable)
	if settings == "" {
		return
	}
	if err := runMember(ctx, settings); err != nil {
		fmt.Fprintln(os.Stderr, "etcd member:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func runMember(ctx context.Context, settings string) error {
	var cfg Config
	if err := json.Unmarshal([]byte(settings), &cfg); err != nil {
		return fmt.Errorf("read %s: %w", memberVariable, err)
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(cfg.Dir, "etcd.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cfg.Logger = slog.New(slog.NewTextHandler(log, nil))
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // ends with the parent, even if that is killed
		stop()
	}()
	s, err := Start(ctx, cfg)
	if err != nil {
		return err
	}
	defer s.Close()
	fmt.Println(readyPrefix + s.Endpoint())
	select {
	case <-ctx.Done():
		return nil
	case err := <-s.Failed():
		return err
	}
}

// Process is an etcd member in a process of its own, which can be killed, frozen and started again.
// Its methods are not safe for concurrent use.
type Process struct {
	cfg      Config
	cmd      *exec.Cmd
	stdin    io.Closer
	endpoint string
	done     chan struct{} // closed when the process has been waited for
}

// StartProcess runs this executable again as an etcd member, see RunIfMember, and returns when it is
// ready. Addresses not given are chosen, and kept by Restart. Logger is not used: the member writes
// to etcd.log in its folder.
func StartProcess(ctx context.Context, cfg Config) (*Process, error) {
	for _, addr := range []*string{&cfg.Client, &cfg.Peer} {
		if *addr != "" {
			continue
		}
		var err error
		if *addr, err = freeAddress(ctx); err != nil {
			return nil, err
		}
	}
	p := &Process{cfg: cfg}
	if err := p.Restart(ctx); err != nil {
		return nil, err
	}
	return p, nil
}

// StartCluster starts members n1, n2, … of one cluster in folders of these names below dir.
func StartCluster(ctx context.Context, dir string, size int, cfg Config) ([]*Process, error) {
	cfg.Members = map[string]string{}
	members := make([]Config, size)
	for i := range members {
		name := fmt.Sprintf("n%d", i+1)
		addr, err := freeAddress(ctx)
		if err != nil {
			return nil, err
		}
		cfg.Members[name] = addr
		members[i] = cfg
		members[i].Name, members[i].Peer, members[i].Dir = name, addr, filepath.Join(dir, name)
	}
	all, errs := make([]*Process, size), make([]error, size)
	var wg sync.WaitGroup
	for i, m := range members {
		wg.Go(func() { all[i], errs[i] = StartProcess(ctx, m) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		for _, p := range all {
			if p != nil {
				_ = p.Kill()
			}
		}
		return nil, err
	}
	return all, nil
}

// freeAddress finds a port on loopback below the range from which the system gives out ports, so that
// nobody takes it while its member is down.
func freeAddress(ctx context.Context) (string, error) {
	var last error
	for range 100 {
		addr := fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(10000))
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
		if err == nil {
			return addr, l.Close()
		}
		last = err
	}
	return "", fmt.Errorf("find a free port: %w", last)
}

// Restart starts the member again, on its data and at its addresses, after Kill or Stop. It returns
// when the member is ready, which takes a quorum.
func (p *Process) Restart(ctx context.Context) error {
	if p.running() {
		return errors.New("member is running")
	}
	settings, err := json.Marshal(p.cfg)
	if err != nil {
		return fmt.Errorf("pack settings of the member: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this executable: %w", err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), memberVariable+"="+string(settings))
	stderr := &strings.Builder{}
	cmd.Stderr = stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start member: %w", err)
	}
	p.cmd, p.stdin, p.done = cmd, stdin, make(chan struct{})
	ready := make(chan string, 1)
	go func() {
		defer close(p.done)
		line, _ := bufio.NewReader(stdout).ReadString('\n')
		ready <- strings.TrimSpace(line)
		_ = cmd.Wait()
	}()
	select {
	case line := <-ready:
		addr, ok := strings.CutPrefix(line, readyPrefix)
		if ok {
			p.endpoint = addr
			return nil
		}
		<-p.done
		return fmt.Errorf("member ended while it started: %s", stderr)
	case <-ctx.Done():
		_ = p.Kill()
		return fmt.Errorf("wait for member: %w", ctx.Err())
	}
}

func (p *Process) running() bool {
	if p.done == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Endpoint is the address for clients; it stays the same over restarts.
func (p *Process) Endpoint() string { return p.endpoint }

// Exited is closed when the process, as last started, has ended.
func (p *Process) Exited() <-chan struct{} { return p.done }

// Kill ends the process as kill -9 does, and waits for its end.
func (p *Process) Kill() error { return p.end(syscall.SIGKILL) }

// Stop ends the process with SIGTERM, and waits for its end.
func (p *Process) Stop() error { return p.end(syscall.SIGTERM) }

func (p *Process) end(sig os.Signal) error {
	if !p.running() {
		return nil
	}
	err := p.cmd.Process.Signal(sig)
	<-p.done
	_ = p.stdin.Close()
	return err
}

// Freeze stops the process where it stands, and returns when it stands: until all its threads have
// taken the signal it still answers. Thaw lets it go on.
func (p *Process) Freeze() error {
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for p.running() && !p.stands() {
		time.Sleep(time.Millisecond)
	}
	return nil
}

// stands says whether all threads are stopped. A thread that ended meanwhile is no more in the way.
func (p *Process) stands() bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.cmd.Process.Pid))
	return !slices.ContainsFunc(threads, func(path string) bool {
		stat, err := os.ReadFile(path)
		state := stat[bytes.LastIndexByte(stat, ')')+1:] // the name before it may hold anything
		return err == nil && !bytes.HasPrefix(state, []byte(" T"))
	})
}

// Thaw ends Freeze.
func (p *Process) Thaw() error { return p.cmd.Process.Signal(syscall.SIGCONT) }
