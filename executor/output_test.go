package executor

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/quorumcron/quorumcron/scheduler"
)

func TestTailIsTheEndAsText(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ written, want string }{
		"nothing":                       {"", ""},
		"no newline at the end":         {"one\ntwo", "one\ntwo"},
		"exactly as much as fits":       {strings.Repeat("x", tailBytes), strings.Repeat("x", tailBytes)},
		"more":                          {"lost" + strings.Repeat("x", tailBytes), strings.Repeat("x", tailBytes)},
		"begins with a whole character": {"é" + strings.Repeat("x", tailBytes-1), strings.Repeat("x", tailBytes-1)},
		"an unfinished character":       {"ab\xe2\x82", "ab\uFFFD"},
		"bytes that are no text":        {"\x00\xff\xfeok", "\x00\uFFFDok"},
		"replacing does not lengthen":   {strings.Repeat("\xffa", tailBytes), strings.Repeat("\uFFFDa", tailBytes/4)},
		"only continuation bytes":       {strings.Repeat("\x80", 5000), "\uFFFD"},
	} {
		for _, size := range []int{1, 7, 1000, 1 << 20} {
			output := newCapture(nil, 0)
			for rest := []byte(c.written); len(rest) > 0; {
				n := min(size, len(rest))
				output.Write(rest[:n])
				rest = rest[n:]
			}
			r := output.close()
			if string(r.Tail) != c.want || r.Total != int64(len(c.written)) {
				t.Errorf("%s, written %d bytes at a time: got a tail of %d bytes %.40q of %d, want %d bytes %.40q of %d",
					name, size, len(r.Tail), r.Tail, r.Total, len(c.want), c.want, len(c.written))
			}
		}
	}
}

func FuzzTail(f *testing.F) {
	f.Add([]byte("é\xff€"), 3)
	f.Fuzz(func(t *testing.T, text []byte, times int) {
		whole := bytes.Repeat(text, 1+(times&0x7ff))
		tail := lastText(string(whole), tailBytes)
		if len(tail) > tailBytes || !utf8.ValidString(tail) {
			t.Errorf("got %d bytes %q, want valid text of at most %d", len(tail), tail, tailBytes)
		}
		if utf8.Valid(text) && !bytes.HasSuffix(whole, []byte(tail)) {
			t.Errorf("got %q, want an end of what was written", tail)
		}
		if utf8.Valid(text) && len(tail) < min(len(whole), tailBytes-utf8.UTFMax) {
			t.Errorf("got %d bytes of %d, want more", len(tail), len(whole))
		}
	})
}

func TestFullDiskCutsTheOutputOnly(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skipf("no device that is always full: %v", err)
	}
	output := newCapture(func() (*os.File, error) { return full, nil }, 1000)
	for range 3 {
		if n, err := output.Write([]byte("text\n")); n != 5 || err != nil {
			t.Fatalf("Write returned %d, %v, want 5, nil", n, err)
		}
	}
	r := output.close()
	if r.Total != 15 || r.Dropped != 15 || string(r.Tail) != "text\ntext\ntext\n" || !strings.Contains(r.Failure, "no space left") {
		t.Errorf("got %+v, want all counted, all dropped, the tail, and the reason", r)
	}
}

func TestOutputWithoutAFolderIsCut(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	if err := os.WriteFile(filepath.Join(b.dir, "output"), nil, 0o600); err != nil { // in the way
		t.Fatal(err)
	}
	r := b.execute(t, shell("echo hello"))
	checkEnding(t, r, ending{scheduler.Succeeded, "", 0})
	if string(r.Output) != "hello\n" || r.OutputDropped != 6 {
		t.Errorf("got output %q with %d dropped, want hello with 6 dropped", r.Output, r.OutputDropped)
	}
	if !strings.Contains(b.log.String(), "output cut") {
		t.Error("the log does not say that the output was cut")
	}
}

func TestOutputIsFiledUpToItsLimit(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(c *Config) { c.OutputLimit = 1000 })
	a := shell(`echo first; i=0; while [ $i -lt 300 ]; do echo 123456789; i=$((i+1)); done; echo err >&2; printf end`)
	r := b.execute(t, a)
	checkEnding(t, r, ending{scheduler.Succeeded, "", 0})
	const total = 6 + 3000 + 4 + 3
	if r.OutputBytes != total || r.OutputDropped != total-1000 {
		t.Errorf("got %d bytes, %d dropped, want %d and %d", r.OutputBytes, r.OutputDropped, total, total-1000)
	}
	if !bytes.HasSuffix(r.Output, []byte("123456789\nerr\nend")) || len(r.Output) != tailBytes {
		t.Errorf("got a tail of %d bytes %q, want %d that end with err and end", len(r.Output), r.Output, tailBytes)
	}
	text := readOutput(t, b.Executor, a)
	if !strings.HasPrefix(text, "first\n1234") || !strings.HasSuffix(text, "\n[quorumcron: output cut after 1000 bytes]\n") {
		t.Errorf("the file holds %q, want the head and that it was cut", text)
	}
	info, err := os.Stat(b.files.path(a.Firing, 1))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file has mode %v (%v), want 0600", info.Mode(), err)
	}
}

func readOutput(t *testing.T, e *Executor, a Attempt) string {
	t.Helper()
	file, err := e.Output(a.Firing, a.Number)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	text, err := io.ReadAll(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestHugeOutputNeedsNoMemory: a gigabyte without a newline.
func TestHugeOutputNeedsNoMemory(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	before := memoryOf(t, b.supervisor(t))
	r := b.execute(t, command("head", "-c", "1073741824", "/dev/zero"))
	checkEnding(t, r, ending{scheduler.Succeeded, "", 0})
	if r.OutputBytes != 1<<30 || r.OutputDropped != 1<<30-defaultOutputLimit {
		t.Errorf("got %d bytes, %d dropped, want all but %d of %d dropped", r.OutputBytes, r.OutputDropped, defaultOutputLimit, 1<<30)
	}
	if grown := memoryOf(t, b.supervisor(t)) - before; grown > 16<<20 {
		t.Errorf("the supervisor has grown by %d bytes", grown)
	}
}

// memoryOf is the most memory that a process has had.
func memoryOf(t *testing.T, pid int) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	kib, err := strconv.ParseInt(strings.Fields(after)[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kib << 10
}

func TestGrandchildOnStdoutDoesNotHoldTheResult(t *testing.T) {
	eachWay(t, func(t *testing.T, noCgroups bool) {
		b := newBench(t, func(c *Config) { c.noCgroups = noCgroups })
		file := filepath.Join(t.TempDir(), "pids")
		began := bootNow()
		r := b.execute(t, shell(`(setsid sleep 1000 & echo $! >> "$1"); echo done`, file))
		checkEnding(t, r, ending{scheduler.Succeeded, "", 0})
		if string(r.Output) != "done\n" {
			t.Errorf("got output %q, want done", r.Output)
		}
		took := bootNow() - began
		if took < lingering || took > lingering+patience/2 {
			t.Errorf("took %s, want about %s", took, lingering)
		}
		if ran := r.Finished.Sub(r.Started); ran > took-lingering+time.Second {
			t.Errorf("ran %s of %s, want that it finished when its main process did", ran, took)
		}
	})
}

func TestOutputOfWhatLingersIsRead(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	r := b.execute(t, shell(`(sleep 0.5; echo late) & echo early`))
	if got := string(r.Output); got != "early\nlate\n" {
		t.Errorf("got output %q, want both lines", got)
	}
}

func TestOutputIsReadWhileTheNodeIsFrozen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script := nodeScript{Attempts: []Attempt{shell(`echo $$ > "$1/pid"; until [ -e "$1/go" ]; do sleep 0.02; done; head -c 5000000 /dev/zero; touch "$1/written"; exit 7`, dir)}}
	n := startNode(t, script)
	main := pids(t, filepath.Join(dir, "pid"), 1)
	freeze(t, n.cmd.Process.Pid)
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it has written all and ended", func() bool {
		_, err := os.Stat(filepath.Join(dir, "written"))
		return err == nil && !lives(main[0])
	})
	n.signal(t, syscall.SIGCONT)
	select {
	case line := <-n.results:
		checkEnding(t, line.Result, ending{scheduler.Failed, scheduler.ReasonExitCode, 7})
		if line.Result.OutputBytes != 5000000 || line.Result.OutputDropped != 0 {
			t.Errorf("got %d bytes, %d dropped, want 5000000 and 0", line.Result.OutputBytes, line.Result.OutputDropped)
		}
	case <-time.After(patience):
		t.Fatal("no result after the thaw")
	}
}

func TestOutputNamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"", t.TempDir()} {
		e, err := New(Config{DataDir: dir, Clock: bootClock})
		if err != nil {
			t.Fatal(err)
		}
		a := command("x")
		if _, err := e.Output(a.Firing, 3); !errors.Is(err, scheduler.ErrNotFound) || !strings.Contains(err.Error(), "attempt 3 of "+a.Firing.String()) {
			t.Errorf("data folder %q: got error %v, want a not found that names the attempt", dir, err)
		}
	}
}

func TestEveryFiringHasItsOwnFile(t *testing.T) {
	t.Parallel()
	o := newOutputFiles(t.TempDir(), slog.New(slog.DiscardHandler))
	long := strings.Repeat("x", 300)
	firings := []scheduler.Firing{
		scheduler.At("01j", time.Unix(0, 0)), scheduler.At("01j", time.Unix(1, 0)), scheduler.At("01k", time.Unix(0, 0)),
		scheduler.Triggered("01j", "a"), scheduler.Triggered("01j", "A"), scheduler.Triggered("01j", "a/b"), scheduler.Triggered("01j", "a%2Fb"),
		scheduler.Triggered("01j", ".."), scheduler.Triggered("01j", "../../x"), scheduler.Triggered("01j", "01k@2026-12-24T18:00:00Z"),
		scheduler.Triggered("01j", long), scheduler.Triggered("01j", long+"y"), scheduler.Triggered("..", "a"), scheduler.Triggered(".", "a"),
	}
	seen := map[string]scheduler.Firing{}
	for _, f := range firings {
		for _, attempt := range []int{1, 2} {
			path := o.path(f, attempt)
			if other, ok := seen[path]; ok {
				t.Errorf("%v and %v share %s", f, other, path)
			}
			seen[path] = f
			if below, err := filepath.Rel(o.root, path); err != nil || strings.Count(below, "/") != 2 || slices.Contains(strings.Split(below, "/"), "..") {
				t.Errorf("%v lies in %s, want three levels below %s", f, path, o.root)
			}
			file, err := createOutput(path)
			if err != nil {
				t.Errorf("%v: %v", f, err)
				continue
			}
			file.Close()
		}
	}
	if got, want := o.path(firings[0], 1), filepath.Join(o.root, "01j", "@1970-01-01T00:00:00Z", "1.log"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestOldOutputMakesRoom(t *testing.T) {
	t.Parallel()
	for name, limits := range map[string]struct {
		bytes int64
		files int
	}{"by size": {350, 1000}, "by number": {1 << 20, 3}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			o := newOutputFiles(dir, slog.New(slog.DiscardHandler))
			o.maxBytes, o.maxFiles = limits.bytes, limits.files
			write := func(second int64, restored bool) {
				f := scheduler.At("01j"+strconv.FormatInt(second%2, 10), time.Unix(second, 0))
				file, err := createOutput(o.path(f, 1))
				if err != nil {
					t.Fatal(err)
				}
				file.Write(make([]byte, 100))
				file.Close()
				if restored {
					os.Chtimes(file.Name(), time.Time{}, time.Unix(second, 0))
				} else {
					o.add(f, 1, 100)
				}
			}
			for second := range int64(5) { // as an earlier process left them
				write(second, true)
			}
			o.load()
			checkFiles(t, o.root, 2, 3, 4)
			for second := int64(5); second < 7; second++ {
				write(second, false)
			}
			checkFiles(t, o.root, 4, 5, 6)
			write(8, false)
			write(10, false)
			write(12, false)
			checkFiles(t, o.root, 8, 10, 12)
			if _, err := os.Stat(filepath.Join(o.root, "01j1")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the folder of a job without outputs is left (%v)", err)
			}
		})
	}
}

// checkFiles: the outputs of the firings of just these seconds are there, and no empty folders.
func checkFiles(t *testing.T, root string, seconds ...int64) {
	t.Helper()
	want := map[string]bool{}
	for _, second := range seconds {
		want["@"+time.Unix(second, 0).UTC().Format(time.RFC3339)] = true
	}
	folders, err := filepath.Glob(filepath.Join(root, "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, folder := range folders {
		_, err := os.Stat(filepath.Join(folder, "1.log"))
		got[filepath.Base(folder)] = err == nil
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("wrong files (-want +got):\n%s", diff)
	}
}

// TestOutsiderOnStdoutDoesNotHoldTheResult: killing all of the command does not close its output.
func TestOutsiderOnStdoutDoesNotHoldTheResult(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	dir := t.TempDir()
	result := b.begin(t.Context(), shell(`echo $$ > "$1/pid"; until [ -e "$1/go" ]; do sleep 0.02; done; echo done`, dir), nil)
	main := pids(t, filepath.Join(dir, "pid"), 1)
	outsider, err := os.OpenFile(fmt.Sprintf("/proc/%d/fd/1", main[0].pid), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer outsider.Close()
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	r := await(t, result)
	checkEnding(t, r, ending{scheduler.Succeeded, "", 0})
	if got := string(r.Output); got != "done\n" {
		t.Errorf("got output %q, want done", got)
	}
}
