package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/quorumcron/quorumcron/internal/devetcd"
)

// patience is how long a process may take for anything; only a broken one takes so long.
const patience = 60 * time.Second

// process is this program in a process of its own.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	temp  string      // its TMPDIR
	lines chan string // of stdout and stderr; closed when both are
	seen  []string
	ended chan error
}

// startProcess runs a command line; it is killed at the end of the test if it is still there.
func startProcess(t *testing.T, args ...string) *process {
	t.Helper()
	return startAs(t, exec.Command(os.Args[0], args...))
}

// startAs runs this program by a command of the caller's.
func startAs(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, cmd: cmd, temp: t.TempDir(), lines: make(chan string), ended: make(chan error, 1)}
	p.cmd.Env = append(os.Environ(), actAs+"=1", "TMPDIR="+p.temp)
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var readers sync.WaitGroup
	for _, r := range []io.Reader{stdout, stderr} {
		readers.Go(func() {
			for s := bufio.NewScanner(r); s.Scan(); {
				p.lines <- s.Text()
			}
		})
	}
	go func() {
		readers.Wait()
		p.ended <- p.cmd.Wait()
		close(p.lines)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		for range p.lines { // until it has ended
		}
	})
	return p
}

// find waits for a line that the pattern matches, and returns its groups.
func (p *process) find(pattern string) []string {
	p.t.Helper()
	re, timeout := regexp.MustCompile(pattern), time.After(patience)
	for {
		select {
		case line, ok := <-p.lines:
			if !ok {
				p.t.Fatalf("it ended without a line that matches %s:\n%s", pattern, strings.Join(p.seen, "\n"))
			}
			p.seen = append(p.seen, line)
			if m := re.FindStringSubmatch(line); m != nil {
				return m
			}
		case <-timeout:
			p.t.Fatalf("no line matches %s:\n%s", pattern, strings.Join(p.seen, "\n"))
		}
	}
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// exit waits for its end and returns the exit code.
func (p *process) exit() int {
	p.t.Helper()
	timeout := time.After(patience)
	for open := true; open; {
		select {
		case line, ok := <-p.lines:
			open = ok
			if ok {
				p.seen = append(p.seen, line)
			}
		case <-timeout:
			p.t.Fatalf("it does not end:\n%s", strings.Join(p.seen, "\n"))
		}
	}
	var code *exec.ExitError
	if err := <-p.ended; errors.As(err, &code) {
		return code.ExitCode()
	} else if err != nil {
		p.t.Fatal(err)
	}
	return 0
}

// ask runs a command line of a client in this process.
func ask(t *testing.T, server, stdin string, args ...string) (stdout string, code int) {
	t.Helper()
	c := newTestConsole(stdin)
	c.console.now = time.Now
	c.environment["QUORUMCRON_SERVER"] = server
	code = execute(context.Background(), args, &c.console)
	return c.stdout.String() + c.stderr.String(), code
}

const everySecond = "name: tick\nschedule: {every: 1s}\nrun: {command: {args: [sh, -c, 'echo \"token $QUORUMCRON_TOKEN on $QUORUMCRON_MEMBER\"']}}\n"

func jobFolder(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "tick.yaml"), []byte(everySecond), 0o600); err != nil {
		t.Fatal(err)
	}
	return folder
}

// TestDevShowsRealRuns starts everything, sees a command fire, asks the cluster, and leaves no trace.
func TestDevShowsRealRuns(t *testing.T) {
	t.Parallel()
	p := startProcess(t, "dev", "--nodes", "2", "--jobs", jobFolder(t), "--grpc-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0")
	server := p.find(`^  gRPC     (\S+)`)[1]
	web := p.find(`^  HTTP     (\S+)`)[1]
	p.find(`^  Ready after .*, dispatcher is dev-\d\. Jobs: tick\.$`)
	p.find(`^\d\d:\d\d:\d\d  tick       due \d\d:\d\d:\d\dZ SUCCEEDED  +\S+  dev-\d  token \d+ on dev-\d$`)

	if out, code := ask(t, server, "", "cluster", "status", "-o", "json"); code != 0 || !strings.Contains(out, `"shardsOwned": 256`) {
		t.Errorf("cluster status: exit %d\n%s", code, out)
	}
	out, code := ask(t, server, "", "run", "list", "--job", "tick", "--limit", "1", "-o", "json")
	var list struct {
		Runs []struct{ Firing, Verdict string }
	}
	if err := json.Unmarshal([]byte(out), &list); err != nil || code != 0 || len(list.Runs) != 1 {
		t.Fatalf("run list: exit %d, %v\n%s", code, err, out)
	}
	for name, want := range map[string]string{"/healthz": "alive\n", "/readyz": "ready\n", "/metrics": "quorumcron_"} {
		if code, body := get(t, web+name); code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("GET %s: %d\n%.300s", name, code, body)
		}
	}
	if out, code := ask(t, server, "name: tick\nschedule: {every: 0.5s}\nrun: {command: {args: [x]}}\n", "job", "apply", "-f", "-"); code != 2 {
		t.Errorf("job apply of a bad file: exit %d\n%s", code, out)
	}
	shown, code := ask(t, server, "", "job", "show", "tick", "-o", "yaml")
	if code != 0 {
		t.Fatalf("job show: exit %d\n%s", code, shown)
	}
	if out, code := ask(t, server, shown, "job", "apply", "-f", "-"); code != 0 || !strings.HasPrefix(out, "unchanged  default/tick") {
		t.Errorf("job apply of what job show printed: exit %d\n%s", code, out)
	}
	p.signal(syscall.SIGINT)
	if code := p.exit(); code != 0 {
		t.Errorf("after SIGINT: exit %d\n%s", code, strings.Join(p.seen, "\n"))
	}
	if left, err := os.ReadDir(p.temp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	answer, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

// TestDevKeepsWhatItIsToldToKeep runs twice in one folder.
func TestDevKeepsWhatItIsToldToKeep(t *testing.T) {
	t.Parallel()
	folder, jobs := t.TempDir(), jobFolder(t)
	args := []string{"dev", "--nodes", "1", "--jobs", jobs, "--data-dir", folder, "--grpc-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0"}
	p := startProcess(t, args...)
	server := p.find(`^  gRPC     (\S+)`)[1]
	p.find(`tick .* SUCCEEDED`)

	second := startProcess(t, args...)
	if code := second.exit(); code != exitConflict || !strings.Contains(strings.Join(second.seen, "\n"), "another `quorumcron dev` uses it") {
		t.Errorf("a second one in the folder: exit %d\n%s", code, strings.Join(second.seen, "\n"))
	}
	third := startProcess(t, "dev", "--grpc-addr", server, "--http-addr", "127.0.0.1:0")
	if code := third.exit(); code != exitFailed || !regexp.MustCompile(`--grpc-addr \S+: the port is taken; \S+ is free: add --grpc-addr`).MatchString(strings.Join(third.seen, "\n")) {
		t.Errorf("on a taken port: exit %d\n%s", code, strings.Join(third.seen, "\n"))
	}
	before, _ := ask(t, server, "", "job", "show", "tick", "-o", "json")
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != 0 {
		t.Fatalf("after SIGTERM: exit %d\n%s", code, strings.Join(p.seen, "\n"))
	}
	again := startProcess(t, args...)
	server = again.find(`^  gRPC     (\S+)`)[1]
	again.find(`tick .* SUCCEEDED`)
	after, _ := ask(t, server, "", "job", "show", "tick", "-o", "json")
	uid := regexp.MustCompile(`"uid": "\w+"`)
	if uid.FindString(before) == "" || uid.FindString(before) != uid.FindString(after) {
		t.Errorf("the job did not survive:\n%s\n%s", before, after)
	}
	again.signal(syscall.SIGTERM)
	if code := again.exit(); code != 0 {
		t.Errorf("after SIGTERM: exit %d\n%s", code, strings.Join(again.seen, "\n"))
	}
}

// TestStartWaitsForEtcd starts a node without etcd: it waits, says so, is not ready, and ends when told.
func TestStartWaitsForEtcd(t *testing.T) {
	t.Parallel()
	p := startProcess(t, "start", "--name", "lonely", "--data-dir", filepath.Join(t.TempDir(), "made"), "--etcd-endpoints", "127.0.0.1:1",
		"--grpc-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0")
	m := p.find(`^quorumcron \S+ · lonely · gRPC (\S+) · HTTP (\S+) · etcd 127\.0\.0\.1:1/quorumcron/$`)
	p.find(`waiting for etcd`)
	if code, body := get(t, m[2]+"/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "etcd") {
		t.Errorf("/readyz: %d\n%s", code, body)
	}
	if code, body := get(t, m[2]+"/healthz"); code != http.StatusOK {
		t.Errorf("/healthz: %d\n%s", code, body)
	}
	if out, code := ask(t, m[1], "", "job", "list", "--timeout", "2s"); code != exitUnreachable {
		t.Errorf("job list: exit %d\n%s", code, out)
	}
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != 0 {
		t.Errorf("after SIGTERM: exit %d\n%s", code, strings.Join(p.seen, "\n"))
	}
}

// TestStartJoinsAndStops runs nodes on an etcd of their own: a second one of the same name is refused,
// and a second signal does not wait for runs.
func TestStartJoinsAndStops(t *testing.T) {
	t.Parallel()
	etcd, err := devetcd.Start(t.Context(), devetcd.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer etcd.Close()
	folder := t.TempDir()
	args := func(folder string) []string {
		return []string{"start", "--name", "node-a", "--data-dir", folder, "--etcd-endpoints", etcd.Endpoint(), "--session-ttl", "3s",
			"--label", "zone=eu", "--grpc-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0"}
	}
	p := startProcess(t, args(folder)...)
	server := p.find(`· gRPC (\S+) ·`)[1]
	long := "name: long\nschedule: {every: 1s}\nrun: {command: {args: [sleep, '600']}}\ntarget: {selector: {zone: eu}}\n"
	for { // until it has joined
		out, code := ask(t, server, long, "job", "apply", "-f", "-", "--timeout", "5s")
		if code == 0 {
			break
		}
		if code != exitUnreachable {
			t.Fatalf("job apply: exit %d\n%s", code, out)
		}
	}
	for _, other := range []string{folder, t.TempDir()} {
		second := startProcess(t, args(other)...)
		if code := second.exit(); code != exitConflict {
			t.Errorf("a second node-a in folder %s: exit %d\n%s", other, code, strings.Join(second.seen, "\n"))
		}
	}
	for { // until its run has started
		if out, _ := ask(t, server, "", "run", "list", "-o", "json"); strings.Contains(out, `"startTime"`) || strings.Contains(out, `"granted"`) {
			break
		}
	}
	p.signal(syscall.SIGTERM)
	p.find(`draining after SIGTERM`)
	p.signal(syscall.SIGTERM)
	p.find(`ending at once`)
	if code := p.exit(); code != 0 {
		t.Errorf("after two signals: exit %d\n%s", code, strings.Join(p.seen, "\n"))
	}
}
