package executor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quorumcron/quorumcron/scheduler"
)

// ending is what of a result says why it ended.
type ending struct {
	Verdict  scheduler.Verdict
	Reason   scheduler.Reason
	ExitCode int32 // -1: none
}

func endingOf(r Result) ending {
	e := ending{r.Verdict, r.Reason, -1}
	if r.ExitCode != nil {
		e.ExitCode = *r.ExitCode
	}
	return e
}

func checkEnding(t *testing.T, r Result, want ending) {
	t.Helper()
	if diff := cmp.Diff(want, endingOf(r)); diff != "" {
		t.Errorf("wrong end (-want +got):\n%s\nmessage: %s\noutput: %s", diff, r.Message, r.Output)
	}
}

func TestCommandEndsAsItsProcessDoes(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	for name, c := range map[string]struct {
		script  string
		want    ending
		message string
	}{
		"exit code 0 succeeds":        {"exit 0", ending{scheduler.Succeeded, "", 0}, ""},
		"exit code 3 fails":           {"exit 3", ending{scheduler.Failed, scheduler.ReasonExitCode, 3}, "exit code 3"},
		"exit code 255 fails":         {"exit 255", ending{scheduler.Failed, scheduler.ReasonExitCode, 255}, "exit code 255"},
		"a signal is 128 more":        {"kill -9 $$", ending{scheduler.Failed, scheduler.ReasonExitCode, 137}, "ended by signal 9 (SIGKILL)"},
		"TERM from itself is no stop": {"kill -TERM $$", ending{scheduler.Failed, scheduler.ReasonExitCode, 143}, "ended by signal 15 (SIGTERM)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := time.Now()
			r := b.execute(t, shell(c.script))
			checkEnding(t, r, c.want)
			if r.Message != c.message {
				t.Errorf("got message %q, want %q", r.Message, c.message)
			}
			if r.Started.Before(before) || r.Finished.Before(r.Started) || r.Finished.After(time.Now()) {
				t.Errorf("ran from %s to %s, which is not within %s and now", r.Started, r.Finished, before)
			}
		})
	}
}

func TestStartErrorNamesTheRemedy(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	in := func(a Attempt, change func(*scheduler.Command)) Attempt {
		change(a.Run.Command)
		return a
	}
	for name, c := range map[string]struct {
		attempt Attempt
		want    []string // parts of the message
	}{
		"no such file":       {command("/no/such/program"), []string{`"/no/such/program" does not exist`, "install it"}},
		"not in PATH":        {command("no-such-program-at-all"), []string{`"no-such-program-at-all" was not found`, "full path"}},
		"not executable":     {command(write("plain", "#!/bin/sh\n", 0o644)), []string{"plain", "not executable", "chmod +x"}},
		"a directory":        {command(dir), []string{"is a directory"}},
		"no interpreter":     {command(write("lost", "#!/no/such/interpreter\n", 0o755)), []string{"lost", "interpreter"}},
		"no program":         {command(write("text", "hello\n", 0o755)), []string{"text", "#! line"}},
		"no arguments":       {command(), []string{"empty"}},
		"NUL in argument":    {command("/bin/echo", "a\x00b"), []string{"NUL"}},
		"bad directory":      {in(command("/bin/true"), func(c *scheduler.Command) { c.Dir = "/no/such/dir" }), []string{`"/no/such/dir" does not exist`, "run.command.dir"}},
		"file as directory":  {in(command("/bin/true"), func(c *scheduler.Command) { c.Dir = write("file", "", 0o644) }), []string{"not a directory"}},
		"relative directory": {in(command("/bin/true"), func(c *scheduler.Command) { c.Dir = "srv" }), []string{"absolute"}},
		"no such user":       {in(command("/bin/true"), func(c *scheduler.Command) { c.User = "no-such-user" }), []string{`user "no-such-user" does not exist`, "run.command.user"}},
		"too much to hand over": {in(command("/bin/true"), func(c *scheduler.Command) {
			c.Env = map[string]string{"BIG": strings.Repeat("x", 1<<20)}
		}), []string{"/bin/true", "longer than the kernel takes"}},
		"neither": {in(command("/bin/true"), func(c *scheduler.Command) {}), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "neither" {
				c.attempt.Run, c.want = scheduler.Executable{}, []string{"neither a command nor a handler"}
			}
			r := b.execute(t, c.attempt)
			checkEnding(t, r, ending{scheduler.Failed, scheduler.ReasonStartError, -1})
			for _, part := range c.want {
				if !strings.Contains(r.Message, part) {
					t.Errorf("got message %q, want one with %q", r.Message, part)
				}
			}
			if !r.Started.IsZero() || !r.Finished.IsZero() {
				t.Errorf("ran from %s to %s, want zero times", r.Started, r.Finished)
			}
		})
	}
}

func TestCommandSeesExactlyItsEnvironment(t *testing.T) {
	// Not parallel: it changes the environment of this process.
	t.Setenv("QUORUMCRON_ETCD_PASSWORD", "secret")
	t.Setenv("PLAIN", "of the node")
	t.Setenv("SHARED", "of the node")
	b := newBench(t, nil)
	a := command("/usr/bin/env", "-0")
	a.Run.Command.Env = map[string]string{"SHARED": "of the job", "ADDED": "a=b c"}
	a.Number, a.Part, a.Parts = 2, 1, 3
	r := b.execute(t, a)
	if r.Verdict != scheduler.Succeeded {
		t.Fatalf("got %s: %s", r.Verdict, r.Message)
	}
	got := map[string]string{}
	file, err := b.Output(a.Firing, a.Number)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	text, err := io.ReadAll(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00") {
		name, value, _ := strings.Cut(entry, "=")
		if _, twice := got[name]; twice {
			t.Errorf("%s is there twice", name)
		}
		got[name] = value
	}
	want := map[string]string{}
	for _, entry := range os.Environ() {
		if name, value, _ := strings.Cut(entry, "="); !strings.HasPrefix(name, "QUORUMCRON_") {
			want[name] = value
		}
	}
	for name, value := range map[string]string{
		"SHARED": "of the job", "ADDED": "a=b c",
		"QUORUMCRON_NAMESPACE": "default", "QUORUMCRON_JOB": "job",
		"QUORUMCRON_FIRING":  a.Firing.String(),
		"QUORUMCRON_INSTANT": a.Firing.Instant().Format(time.RFC3339),
		"QUORUMCRON_ATTEMPT": "2", "QUORUMCRON_TOKEN": fmt.Sprint(a.Token), "QUORUMCRON_MEMBER": "node-a",
		"QUORUMCRON_PART": "1", "QUORUMCRON_PARTS": "3",
	} {
		want[name] = value
	}
	want["PWD"] = got["PWD"]
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("wrong environment (-want +got):\n%s", diff)
	}
	if !strings.HasPrefix(got["PWD"], b.dir) {
		t.Errorf("PWD is %q, want a scratch directory in %s", got["PWD"], b.dir)
	}
}

func TestManualFiringHasNoInstant(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	a := shell(`printf "%s|%s" "$QUORUMCRON_INSTANT" "$QUORUMCRON_FIRING"`)
	a.Firing = scheduler.Triggered(a.Firing.UID, "by-hand")
	r := b.execute(t, a)
	if got, want := string(r.Output), "|"+a.Firing.UID+"+by-hand"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestScratchDirectoryIsEmptyAndGoes(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	r := b.execute(t, shell(`ls -A; mkdir -p deep/er && echo x > deep/er/file && chmod 500 deep; pwd`))
	dir := strings.TrimSpace(string(r.Output))
	if filepath.Dir(dir) != filepath.Join(b.dir, "scratch") {
		t.Fatalf("ran in %q, want a directory of its own in %s/scratch that is empty", dir, b.dir)
	}
	b.stop() // says if any is left
}

func TestCommandRunsInItsDirectory(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(dir, "here")
	if err := os.WriteFile(script, []byte("#!/bin/sh\npwd; echo $PWD\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	a := command("./here") // relative to the directory, not to the node's
	a.Run.Command.Dir = dir
	r := b.execute(t, a)
	if got, want := string(r.Output), dir+"\n"+dir+"\n"; got != want {
		t.Errorf("got %q (%s), want %q", got, r.Message, want)
	}
}

func TestCommandRunsAsUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can change the user of a command")
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		t.Skipf("there is no user nobody: %v", err)
	}
	b := newBench(t, nil)
	a := shell(`id -u; id -g; echo $HOME $USER $LOGNAME; touch mine && stat -c %u mine; pwd`)
	a.Run.Command.User = "nobody"
	r := b.execute(t, a)
	checkEnding(t, r, ending{scheduler.Succeeded, "", 0})
	lines := strings.Split(string(r.Output), "\n")
	want := []string{nobody.Uid, nobody.Gid, nobody.HomeDir + " nobody nobody", nobody.Uid}
	if len(lines) < 5 || !cmp.Equal(want, lines[:4]) {
		t.Fatalf("got %q, want %q and a directory", lines, want)
	}
	eventually(t, "its scratch directory is gone", func() bool {
		_, err := os.Stat(lines[4])
		return errors.Is(err, os.ErrNotExist)
	})
}

func TestOtherUserNeedsRoot(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		t.Skip("root can change the user of a command")
	}
	b := newBench(t, nil)
	a := command("/bin/true")
	a.Run.Command.User = "root"
	r := b.execute(t, a)
	checkEnding(t, r, ending{scheduler.Failed, scheduler.ReasonStartError, -1})
	if !strings.Contains(r.Message, "runs as root") {
		t.Errorf("got message %q, want one that names root", r.Message)
	}
}

func TestTimeoutEndsTheCommand(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	for name, c := range map[string]struct {
		script string
		code   int32
	}{
		"by TERM":                      {"sleep 1000", 143},
		"a clean exit is no success":   {"trap 'exit 0' TERM; while :; do sleep 0.05; done", 0},
		"by KILL if it ignores TERM":   {"trap '' TERM; while :; do sleep 1; done", 137},
		"a stopped process is woken":   {"kill -STOP $$", 143},
		"its own child gets TERM also": {"sleep 1000 & wait", 143},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := shell(c.script)
			a.Timeout = 2 * time.Second // a slow machine needs a while to begin the script
			r := b.execute(t, a)
			checkEnding(t, r, ending{scheduler.TimedOut, "", c.code})
			if !strings.Contains(r.Message, "longer than 2s") {
				t.Errorf("got message %q, want one that names the limit", r.Message)
			}
			if ran := r.Finished.Sub(r.Started); ran < a.Timeout {
				t.Errorf("ended after %s, want not before %s", ran, a.Timeout)
			}
		})
	}
}

func TestCauseMakesTheVerdict(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	for name, c := range map[string]struct {
		cause error
		want  ending
	}{
		"canceled":      {ErrCanceled, ending{scheduler.Canceled, "", 143}},
		"replaced":      {fmt.Errorf("wrapped: %w", ErrReplaced), ending{scheduler.Canceled, "", 143}},
		"time limit":    {ErrTimeLimit, ending{scheduler.TimedOut, "", 143}},
		"node stopping": {ErrStopping, ending{scheduler.Failed, scheduler.ReasonStopping, 143}},
		"lock lost":     {ErrLockLost, ending{scheduler.Failed, scheduler.ReasonLockLost, 143}},
		"no cause":      {nil, ending{scheduler.Failed, scheduler.ReasonStopping, 143}},
		"unknown":       {errors.New("whatever"), ending{scheduler.Failed, scheduler.ReasonStopping, 143}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			file := filepath.Join(t.TempDir(), "pids")
			result := b.begin(ctx, shell(`echo $$ > "$1"; exec sleep 1000`, file), nil)
			main := pids(t, file, 1)
			cancel(c.cause)
			checkEnding(t, await(t, result), c.want)
			if anyLives(main) {
				t.Error("the process lives, though its result is there")
			}
		})
	}
}

func TestFirstCauseWins(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	file := filepath.Join(t.TempDir(), "pids")
	a := shell(`trap '' TERM; echo $$ > "$1"; while :; do sleep 0.05; done`, file)
	a.Timeout = 2900 * time.Millisecond // passes after the cancel, before the KILL 3 s after it
	result := b.begin(ctx, a, nil)
	pids(t, file, 1)
	cancel(ErrCanceled)
	r := await(t, result)
	checkEnding(t, r, ending{scheduler.Canceled, "", 137})
	if ran := r.Finished.Sub(r.Started); ran < a.Timeout {
		t.Errorf("ended after %s, before the time limit could come second", ran)
	}
}

func TestCanceledBeforeStart(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(ErrCanceled)
	r := b.Execute(ctx, command("/bin/true"), nil)
	checkEnding(t, r, ending{scheduler.Canceled, "", -1})
	if !r.Started.IsZero() {
		t.Errorf("started at %s, want never", r.Started)
	}
}

func TestAttemptWithoutLifeLeftIsNotStarted(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(c *Config) {
		c.Handlers = map[string]Handler{"h": func(context.Context, Identity) error { return nil }}
	})
	file := filepath.Join(t.TempDir(), "ran")
	ending0 := func() scheduler.LockLife { // TERM is due in half a second
		return scheduler.LockLife{Sent: bootNow() - 10*time.Second, TTL: 10 * time.Second, Grace: 3500 * time.Millisecond}
	}
	for _, a := range []Attempt{shell(`touch "$1"`, file), handler("h")} {
		r := b.Execute(t.Context(), a, ending0)
		checkEnding(t, r, ending{scheduler.Lost, scheduler.ReasonNeverStarted, -1})
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("the command ran")
	}
}

func TestCommandsAreRefused(t *testing.T) {
	// Not parallel: it takes back that this program has called Supervise.
	for name, c := range map[string]struct {
		commands, supervised bool
		want                 string
	}{
		"switched off":      {false, true, "switched off"},
		"without Supervise": {true, false, "executor.Supervise first in main"},
	} {
		t.Run(name, func(t *testing.T) {
			supervised.Store(c.supervised)
			defer supervised.Store(true)
			b := newBench(t, func(cfg *Config) { cfg.Commands = c.commands })
			r := b.execute(t, command("/bin/true"))
			checkEnding(t, r, ending{scheduler.Failed, scheduler.ReasonStartError, -1})
			if !strings.Contains(r.Message, c.want) {
				t.Errorf("got message %q, want one with %q", r.Message, c.want)
			}
			if err := b.Commands(); !errors.Is(err, ErrNoCommands) {
				t.Errorf("Commands returned %v, want ErrNoCommands", err)
			}
		})
	}
}

func TestManyCommandsAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	const many = 200
	dir := t.TempDir()
	var results [many]<-chan Result
	for i := range results {
		// All wait until all run.
		results[i] = b.begin(t.Context(), shell(`touch "$1/$2"; until [ -e "$1/go" ]; do sleep 0.2; done; echo $2; exit $(($2 % 7))`, dir, fmt.Sprint(i)), nil)
	}
	eventually(t, "all run", func() bool {
		files, _ := os.ReadDir(dir)
		return len(files) == many
	})
	checkOneParentThread(t, b.supervisor(t), many)
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for i, result := range results {
		r := await(t, result)
		if r.ExitCode == nil || *r.ExitCode != int32(i%7) || string(r.Output) != fmt.Sprintln(i) {
			t.Errorf("command %d: got %v and output %q (%s), want exit code %d and its number", i, endingOf(r), r.Output, r.Message, i%7)
		}
	}
}

// checkOneParentThread: the kernel kills a command when the thread that started it ends.
func checkOneParentThread(t *testing.T, supervisor, want int) {
	t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", supervisor))
	if err != nil || len(lists) < 2 {
		t.Logf("not looked at: the kernel lists no children of threads (%v)", err)
		return
	}
	parents := map[string]int{}
	for _, list := range lists {
		children, _ := os.ReadFile(list)
		if n := len(strings.Fields(string(children))); n > 0 {
			parents[list] = n
		}
	}
	if len(parents) != 1 {
		t.Errorf("got children of threads %v, want all %d below one", parents, want)
	}
	for list, n := range parents {
		if n != want || list == fmt.Sprintf("/proc/%d/task/%d/children", supervisor, supervisor) {
			t.Errorf("got %d children in %s, want %d, and not those of the first thread", n, list, want)
		}
	}
}
