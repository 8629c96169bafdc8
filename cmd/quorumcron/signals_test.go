package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestDevTidiesUpWhateverEndsIt: a Ctrl-C while etcd starts, and the terminal's end, are no reason to leave a
// database behind.
func TestDevTidiesUpWhateverEndsIt(t *testing.T) {
	t.Parallel()
	dev := func() *process {
		return startProcess(t, "dev", "--nodes", "1", "--jobs", jobFolder(t), "--grpc-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0")
	}
	// What is started ignores what this process ignores, and under nohup that is SIGHUP.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(hangups) })
	early := dev()
	for made := 0; made == 0; { // until its folder is there
		entries, err := os.ReadDir(early.temp)
		if err != nil {
			t.Fatal(err)
		}
		made = len(entries)
	}
	early.signal(syscall.SIGINT)
	late := dev()
	late.find(`^  Ready after`)
	late.signal(syscall.SIGHUP)
	for name, p := range map[string]*process{"SIGINT while it starts": early, "SIGHUP": late} {
		if code := p.exit(); code != 0 {
			t.Errorf("after %s: exit %d\n%s", name, code, strings.Join(p.seen, "\n"))
		}
		if left, err := os.ReadDir(p.temp); err != nil || len(left) > 0 {
			t.Errorf("after %s, left behind: %v, %v", name, left, err)
		}
	}
}

// TestDevOutlivesTheTerminalUnderNohup: what nohup has ignored stays ignored.
func TestDevOutlivesTheTerminalUnderNohup(t *testing.T) {
	t.Parallel()
	p := startAs(t, exec.Command("sh", "-c", `trap "" HUP; exec "$0" "$@"`, os.Args[0],
		"dev", "--nodes", "1", "--jobs", jobFolder(t), "--grpc-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0"))
	p.find(`^  Ready after`)
	p.signal(syscall.SIGHUP)
	for range 3 {
		p.find(`^ *\d\d:\d\d:\d\d +tick .* SUCCEEDED`)
	}
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != 0 {
		t.Errorf("after SIGTERM: exit %d\n%s", code, strings.Join(p.seen, "\n"))
	}
	if said := strings.Join(p.seen, "\n"); !strings.Contains(said, "draining after SIGTERM") || strings.Contains(said, "SIGHUP") {
		t.Errorf("it said:\n%s\nwant that SIGTERM drains it, and nothing of SIGHUP", said)
	}
}

// unread starts a process whose output is read up to a line that contains the text, and then by nobody.
func unread(t *testing.T, until string, pipe func(*exec.Cmd) (io.ReadCloser, error), args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), actAs+"=1", "TMPDIR="+t.TempDir())
	out, err := pipe(cmd)
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	for lines := bufio.NewScanner(out); lines.Scan() && !strings.Contains(lines.Text(), until); {
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// TestDevEndsWithWhoReadsIt: `dev | head` leaves nothing behind.
func TestDevEndsWithWhoReadsIt(t *testing.T) {
	t.Parallel()
	cmd := unread(t, "Ready after", (*exec.Cmd).StdoutPipe,
		"dev", "--nodes", "1", "--jobs", jobFolder(t), "--grpc-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0")
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v, want exit 0", err)
	}
	temp := strings.TrimPrefix(cmd.Env[len(cmd.Env)-1], "TMPDIR=")
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestNodeOutlivesWhoReadsItsLogs: a collector of logs that is restarted must not kill nodes and what they run.
func TestNodeOutlivesWhoReadsItsLogs(t *testing.T) {
	t.Parallel()
	cmd := unread(t, "waiting for etcd", (*exec.Cmd).StderrPipe, "start", "--name", "lonely", "--data-dir", filepath.Join(t.TempDir(), "made"),
		"--etcd-endpoints", "127.0.0.1:1", "--grpc-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil { // it logs that it drains
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v, want exit 0 after a drain", err)
	}
}
