package executor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quorumcron/quorumcron/scheduler"
)

// eachWay runs a test with control groups and as on a machine that allows none.
func eachWay(t *testing.T, test func(t *testing.T, noCgroups bool)) {
	t.Parallel()
	t.Run("plain", func(t *testing.T) { t.Parallel(); test(t, true) })
	t.Run("cgroup", func(t *testing.T) {
		t.Parallel()
		if groups := openCgroups(); groups == nil {
			t.Skip("no control groups can be made here")
		} else if err := removeCgroup(groups.root); err != nil {
			t.Fatal(err)
		}
		test(t, false)
	})
}

func TestKilledNodeLeavesNothing(t *testing.T) {
	eachWay(t, func(t *testing.T, noCgroups bool) {
		file := filepath.Join(t.TempDir(), "pids")
		data := t.TempDir()
		stubborn := shell(`trap "" TERM HUP INT; `+family+"wait", file)
		finish := shell(family+"wait", file)
		finish.OnSessionLost = scheduler.SessionLostFinish
		n := startNode(t, nodeScript{DataDir: data, NoCgroups: noCgroups, Attempts: []Attempt{stubborn, finish}})
		all := pids(t, file, 2*familySize)
		supervisor := supervisorOf(t, all)
		n.signal(t, syscall.SIGKILL)
		eventually(t, "everything is dead", func() bool { return !anyLives(all) && !lives(supervisor) })
		if left, _ := filepath.Glob(filepath.Join(data, "scratch", "*")); len(left) > 0 {
			t.Errorf("scratch directories are left: %v", left)
		}
	})
}

// supervisorOf is the parent of the first process that has one of that name.
func supervisorOf(t *testing.T, all []process) process {
	t.Helper()
	for _, p := range all {
		if name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.parent)); strings.HasPrefix(string(name), supervisorName) {
			supervisor, err := readProcess(p.parent)
			if err != nil {
				t.Fatal(err)
			}
			return supervisor
		}
	}
	t.Fatalf("no supervisor is parent of %v", all)
	return process{}
}

func TestFrozenNodeLosesItsCommands(t *testing.T) {
	eachWay(t, func(t *testing.T, noCgroups bool) {
		dir := t.TempDir()
		names := []string{"mild", "stubborn", "finish"}
		script := nodeScript{NoCgroups: noCgroups, TTL: 2 * time.Second, Grace: 4 * time.Second}
		for _, name := range names {
			trap := map[string]string{"stubborn": `trap "" TERM; `}[name]
			script.Attempts = append(script.Attempts, shell(trap+family+"wait; while :; do sleep 1; done", filepath.Join(dir, name)))
		}
		script.Attempts[2].OnSessionLost = scheduler.SessionLostFinish
		n := startNode(t, script)
		groups := map[string][]process{}
		for _, name := range names {
			groups[name] = pids(t, filepath.Join(dir, name), familySize)
		}
		freeze(t, n.cmd.Process.Pid)
		frozen := bootNow() // The last push was not later.
		life := scheduler.LockLife{Sent: frozen, TTL: script.TTL, Grace: script.Grace}

		eventually(t, "TERM has ended the one that obeys it", func() bool { return !lives(groups["mild"][0]) })
		if now := bootNow(); now > life.KillAt() {
			t.Errorf("the mild one ended %s after the node froze, want before the KILL at %s", now-frozen, life.KillAt()-frozen)
		}
		if !anyLives(groups["stubborn"]) {
			t.Error("the stubborn one is dead before the KILL")
		}
		eventually(t, "KILL has ended the rest of both", func() bool { return !lives(groups["stubborn"][0]) })
		late := bootNow() - life.KillAt()
		if late > 2*time.Second {
			t.Errorf("the stubborn one was killed %s after its lock's life", late)
		}
		if !noCgroups { // Without, one that shed session and environment is found when no attempt runs.
			eventually(t, "nothing of both is left", func() bool { return !anyLives(groups["mild"]) && !anyLives(groups["stubborn"]) })
		}
		for _, p := range groups["finish"] {
			if !lives(p) {
				t.Errorf("process %d of the one that may finish is dead", p.pid)
			}
		}
		n.signal(t, syscall.SIGCONT)
		want := map[int]ending{
			0: {scheduler.Failed, scheduler.ReasonLockLost, 143},
			1: {scheduler.Failed, scheduler.ReasonLockLost, 137},
		}
		for range want {
			select {
			case line := <-n.results:
				checkEnding(t, line.Result, want[line.Index])
			case <-time.After(patience):
				t.Fatal("no result after the thaw")
			}
		}
	})
}

func TestCommandOutlivesItsFirstDeadline(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	var lock renewedLock
	r := await(t, b.begin(t.Context(), shell("sleep 4"), lock.life)) // TERM would be due after 3 s
	checkEnding(t, r, ending{scheduler.Succeeded, "", 0})
}

func TestCommandEndsWithItsLock(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	var lock renewedLock
	dir := t.TempDir()
	started, goOn := filepath.Join(dir, "started"), filepath.Join(dir, "go")
	const tell = `echo $$ >> "$1"; `
	finish := shell(tell+`until [ -e "$2" ]; do sleep 0.1; done`, started, goOn)
	finish.OnSessionLost = scheduler.SessionLostFinish
	finished := b.begin(t.Context(), finish, lock.life)
	stubborn := b.begin(t.Context(), shell(`trap "" TERM; `+tell+"while :; do sleep 0.1; done", started), lock.life)
	mild := b.begin(t.Context(), shell(tell+"sleep 1000", started), lock.life)
	pids(t, started, 3)
	last := lock.leave()
	checkEnding(t, await(t, mild), ending{scheduler.Failed, scheduler.ReasonLockLost, 143})
	if now := bootNow(); now < last.TermAt() || now > last.KillAt() {
		t.Errorf("ended at %s, want between TERM at %s and KILL at %s", now, last.TermAt(), last.KillAt())
	}
	checkEnding(t, await(t, stubborn), ending{scheduler.Failed, scheduler.ReasonLockLost, 137})
	if now := bootNow(); now < last.KillAt() {
		t.Errorf("killed at %s, want not before %s", now, last.KillAt())
	}
	if err := os.WriteFile(goOn, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	checkEnding(t, await(t, finished), ending{scheduler.Succeeded, "", 0})
}

// TestDeadlinesAreOnTheClockOfConfig: that clock need not be the machine's.
func TestDeadlinesAreOnTheClockOfConfig(t *testing.T) {
	t.Parallel()
	const ahead = 1000 * time.Hour
	clock := func() scheduler.Reading {
		return scheduler.Reading{Wall: time.Now().Add(-ahead), Elapsed: bootNow() + ahead}
	}
	b := newBench(t, func(c *Config) { c.Clock = clock })
	lock := renewedLock{clock: clock}
	file := filepath.Join(t.TempDir(), "pids")
	result := b.begin(t.Context(), shell(`echo $$ > "$1"; sleep 1000`, file), lock.life)
	pids(t, file, 1)
	last := lock.leave()
	r := await(t, result)
	checkEnding(t, r, ending{scheduler.Failed, scheduler.ReasonLockLost, 143})
	if now := clock().Elapsed; now < last.TermAt() || now > last.KillAt() {
		t.Errorf("ended at %s, want between TERM at %s and KILL at %s", now, last.TermAt(), last.KillAt())
	}
	if ago := clock().Wall.Sub(r.Finished); ago < 0 || ago > time.Minute {
		t.Errorf("finished at %s, want just now on a clock that shows %s", r.Finished, clock().Wall)
	}
}

func TestCommandLeavesNothingRunning(t *testing.T) {
	eachWay(t, func(t *testing.T, noCgroups bool) {
		b := newBench(t, func(c *Config) { c.noCgroups = noCgroups })
		dir := t.TempDir()
		stays, goes := filepath.Join(dir, "stays"), filepath.Join(dir, "goes")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		running := b.begin(ctx, shell(family+"wait; sleep 1000", stays), nil)
		staying := pids(t, stays, familySize)

		ended := b.begin(t.Context(), shell(family+`until [ -e "$1.go" ]; do sleep 0.02; done; exit 5`, goes), nil)
		going := pids(t, goes, familySize)
		if err := os.WriteFile(goes+".go", nil, 0o644); err != nil {
			t.Fatal(err)
		}
		checkEnding(t, await(t, ended), ending{scheduler.Failed, scheduler.ReasonExitCode, 5})
		if noCgroups {
			going = going[:familySize-1] // One shed session and environment: it is found below.
		}
		if anyLives(going) {
			t.Errorf("its result is there, and of its processes %v some live", going)
		}
		for _, p := range staying {
			if !lives(p) {
				t.Errorf("process %d of another command is dead", p.pid)
			}
		}
		cancel()
		await(t, running)
		if all := slices.Concat(going, staying); anyLives(all) {
			t.Errorf("no command runs, and of the processes %v some live", all)
		}
	})
}

func TestDeadSupervisorIsReplaced(t *testing.T) {
	eachWay(t, func(t *testing.T, noCgroups bool) {
		b := newBench(t, func(c *Config) { c.noCgroups = noCgroups })
		file := filepath.Join(t.TempDir(), "pids")
		a := shell(`echo started; trap "" TERM; `+family+"wait", file)
		result := b.begin(t.Context(), a, nil)
		all := pids(t, file, familySize)
		eventually(t, "its output is filed", func() bool { return b.files.salvage(a.Firing, 1).Total > 0 })
		first := b.supervisor(t)
		if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		r := await(t, result)
		checkEnding(t, r, ending{scheduler.Failed, scheduler.ReasonError, -1})
		if !strings.Contains(r.Message, "supervisor died") {
			t.Errorf("got message %q, want one that says that the supervisor died", r.Message)
		}
		if noCgroups {
			all = all[:familySize-1] // Nothing is left to know the last one by.
		}
		if anyLives(all) {
			t.Errorf("the result is there, and of its processes %v some live", all)
		}
		checkEnding(t, b.execute(t, command("/bin/true")), ending{scheduler.Succeeded, "", 0})
		if string(r.Output) != "started\n" || r.OutputBytes != 8 {
			t.Errorf("got output %q of %d bytes, want what its file holds", r.Output, r.OutputBytes)
		}
		if second := b.supervisor(t); second == first {
			t.Errorf("the supervisor is still %d", first)
		}
		if !strings.Contains(b.log.String(), "supervisor died") {
			t.Error("the log does not say that the supervisor died")
		}
	})
}

func TestFrozenSupervisorIsReplaced(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(c *Config) { c.pingEvery = 100 * time.Millisecond })
	file := filepath.Join(t.TempDir(), "pids")
	result := b.begin(t.Context(), shell(`echo $$ > "$1"; exec sleep 1000`, file), nil)
	main := pids(t, file, 1)
	freeze(t, b.supervisor(t))
	checkEnding(t, await(t, result), ending{scheduler.Failed, scheduler.ReasonError, -1})
	if anyLives(main) {
		t.Error("the command lives")
	}
	checkEnding(t, b.execute(t, command("/bin/true")), ending{scheduler.Succeeded, "", 0})
}

func TestSupervisorOutlivesSignalsToTheService(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	dir := t.TempDir()
	result := b.begin(t.Context(), shell(`touch "$1/up"; until [ -e "$1/go" ]; do sleep 0.05; done`, dir), nil)
	eventually(t, "it runs", func() bool { _, err := os.Stat(filepath.Join(dir, "up")); return err == nil })
	first := b.supervisor(t)
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE, syscall.SIGTSTP} {
		if err := syscall.Kill(first, s); err != nil {
			t.Fatal(err)
		}
	}
	checkEnding(t, b.execute(t, command("/bin/true")), ending{scheduler.Succeeded, "", 0})
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	checkEnding(t, await(t, result), ending{scheduler.Succeeded, "", 0})
	if now := b.supervisor(t); now != first {
		t.Errorf("the supervisor is %d now, want %d still", now, first)
	}
	if p, err := readProcess(first); err != nil || p.session != first {
		t.Errorf("the supervisor is in session %d (%v), want one of its own: %d", p.session, err, first)
	}
}

func TestStoppingNodeEndsItsCommands(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	file := filepath.Join(t.TempDir(), "pids")
	mild := b.begin(t.Context(), shell(`trap "echo cleaned up; exit 0" TERM; echo $$ >> "$1"; while :; do sleep 0.05; done`, file), nil)
	stubborn := b.begin(t.Context(), shell(`trap "" TERM; echo $$ >> "$1"; while :; do sleep 0.05; done`, file), nil)
	all := pids(t, file, 2)
	b.stop()
	r := await(t, mild)
	checkEnding(t, r, ending{scheduler.Failed, scheduler.ReasonStopping, 0})
	if got := string(r.Output); !strings.Contains(got, "cleaned up\n") {
		t.Errorf("got output %q, want that it cleaned up", got)
	}
	checkEnding(t, await(t, stubborn), ending{scheduler.Failed, scheduler.ReasonStopping, 137})
	if anyLives(all) {
		t.Error("commands live, though Run has returned")
	}
	checkEnding(t, b.execute(t, command("/bin/true")), ending{scheduler.Failed, scheduler.ReasonStopping, -1})
}

// TestDataFolderStaysLockedUntilAllIsDead: a new node of the name must not start before.
func TestDataFolderStaysLockedUntilAllIsDead(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pids")
	lock := filepath.Join(t.TempDir(), "lock")
	n := startNode(t, nodeScript{Lock: lock, Attempts: []Attempt{shell(`trap "" TERM; `+family+"wait", file)}})
	all := pids(t, file, familySize)
	supervisor := supervisorOf(t, all)
	freeze(t, supervisor.pid)
	t.Cleanup(func() { killProcess(supervisor) })
	n.signal(t, syscall.SIGKILL)
	n.cmd.Process.Wait()
	ours, err := os.OpenFile(lock, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	if err := unix.Flock(int(ours.Fd()), unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
		t.Fatalf("got %v when locking the folder of a dead node with living commands, want EWOULDBLOCK", err)
	}
	if err := syscall.Kill(supervisor.pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the folder can be locked", func() bool {
		return unix.Flock(int(ours.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil
	})
	if anyLives(all) {
		t.Error("the folder can be locked, and commands live")
	}
}

func TestCommandInheritsNothing(t *testing.T) {
	t.Parallel()
	lock, err := os.Create(filepath.Join(t.TempDir(), "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	b := newBench(t, func(c *Config) { c.FolderLock = lock })
	r := b.execute(t, command("ls", "/proc/self/fd"))
	if got, want := string(r.Output), "0\n1\n2\n3\n"; got != want { // 3 is ls reading the folder
		t.Errorf("got open descriptors %q, want %q", got, want)
	}
	r = b.execute(t, command("grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"))
	const none = "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n"
	if got := string(r.Output); got != none {
		t.Errorf("got signals %q, want none blocked and none ignored", got)
	}
}

// TestKernelKillsWhatNobodyElseCan: node and supervisor are killed at once.
func TestKernelKillsWhatNobodyElseCan(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pids")
	n := startNode(t, nodeScript{Attempts: []Attempt{shell(`trap "" TERM HUP; echo $$ > "$1"; while :; do sleep 1; done`, file)}})
	main := pids(t, file, 1)
	supervisor := supervisorOf(t, main)
	freeze(t, supervisor.pid)
	n.signal(t, syscall.SIGKILL)
	n.cmd.Process.Wait()
	if !lives(main[0]) {
		t.Error("the command is dead before its supervisor is")
	}
	if err := killProcess(supervisor); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the command is dead", func() bool { return !lives(main[0]) })
}

// TestDeadlinesPassedInOneLeapKillAtOnce: as when the machine was suspended.
func TestDeadlinesPassedInOneLeapKillAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(c *Config) { c.pingEvery = time.Hour })
	file := filepath.Join(t.TempDir(), "pids")
	var lock renewedLock
	result := b.begin(t.Context(), shell(`trap "" TERM; echo $$ > "$1"; while :; do sleep 0.1; done`, file), lock.life)
	pids(t, file, 1)
	supervisor := b.supervisor(t)
	last := lock.leave()
	freeze(t, supervisor)
	eventually(t, "its life is over", func() bool { return bootNow() > last.KillAt() })
	if err := syscall.Kill(supervisor, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	woken := bootNow()
	checkEnding(t, await(t, result), ending{scheduler.Failed, scheduler.ReasonLockLost, 137})
	if took := bootNow() - woken; took >= termToKill {
		t.Errorf("it took %s to kill it, as if TERM had come in time", took)
	}
}

// TestEndBeforeTheCauseCounts: a command that has ended by itself is not canceled any more, though its
// supervisor learns of both at once.
func TestEndBeforeTheCauseCounts(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	for range 10 {
		dir := t.TempDir()
		ctx, cancel := context.WithCancelCause(t.Context())
		result := b.begin(ctx, shell(`echo $$ > "$1/pid"; until [ -e "$1/go" ]; do sleep 0.01; done`, dir), nil)
		main := pids(t, filepath.Join(dir, "pid"), 1)
		supervisor := b.supervisor(t)
		freeze(t, supervisor)
		if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		eventually(t, "it has ended", func() bool { return !lives(main[0]) })
		cancel(ErrCanceled)
		eventually(t, "the supervisor is told to end it", func() bool {
			tether, err := b.keeper.await(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			tether.out.mu.Lock()
			defer tether.out.mu.Unlock()
			return len(tether.out.queue) == 0
		})
		if err := syscall.Kill(supervisor, syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		checkEnding(t, await(t, result), ending{scheduler.Succeeded, "", 0})
	}
}
