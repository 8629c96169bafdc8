package sim

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var updateFlag = flag.Bool("update", false, "rewrite the traces in testdata")

// divider separates the commands of a block from what they lead to.
const divider = "----"

// replay plays a golden file and returns it as it should be: the same commands, and under each block the
// trace that they lead to.
func replay(t *testing.T, content string) string {
	t.Helper()
	h := Begin(true)
	var out, block strings.Builder
	inTrace := false
	for l := range strings.Lines(content) {
		switch {
		case strings.TrimSpace(l) == divider:
			s, err := Parse(block.String())
			if err != nil {
				t.Fatal(err)
			}
			block.Reset()
			out.WriteString(divider + "\n")
			for _, c := range s {
				if err := h.Do(c); err != nil {
					out.WriteString("error: " + err.Error() + "\n")
				}
			}
			out.WriteString(h.Trace())
			inTrace = true
		case !inTrace:
			out.WriteString(l)
			block.WriteString(l)
		case strings.TrimSpace(l) == "":
			out.WriteString("\n")
			inTrace = false
		}
	}
	if s, err := Parse(block.String()); err != nil || len(s) > 0 {
		t.Errorf("the last commands have no %s after them:\n%s%v", divider, block.String(), err)
	}
	return out.String()
}

func files(t *testing.T, pattern string) []string {
	t.Helper()
	list, err := filepath.Glob(pattern)
	if err != nil || len(list) == 0 {
		t.Fatalf("no scripts in %s: %v", pattern, err)
	}
	return list
}

func read(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestScriptsTellTheirTrace(t *testing.T) {
	t.Parallel()
	for _, file := range append(files(t, "testdata/*.txt"), files(t, "testdata/without/*.txt")...) {
		t.Run(strings.TrimSuffix(strings.TrimPrefix(file, "testdata/"), ".txt"), func(t *testing.T) {
			t.Parallel()
			want := read(t, file)
			got := replay(t, want)
			if got == want {
				return
			}
			if *updateFlag {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			t.Errorf("%s tells another story; -update writes it, review the difference. Now:\n%s", file, got)
		})
	}
}

// TestScriptsOfTheProtocolKeepEveryPromise goes on where the scripts end: all faults are over then, and
// whatever they left behind comes to its end.
func TestScriptsOfTheProtocolKeepEveryPromise(t *testing.T) {
	t.Parallel()
	for _, file := range files(t, "testdata/*.txt") {
		s := append(commands(t, read(t, file)), Command{Verb: "settle"})
		r, err := s.Run()
		if err != nil || len(r.Violations) > 0 {
			t.Errorf("%s: %v %v\n%s", file, err, r.Violations, strings.Join(r.Tail, "\n"))
		}
	}
}

// commands are those of a golden file, without its traces.
func commands(t *testing.T, content string) Script {
	t.Helper()
	var all strings.Builder
	inTrace := false
	for l := range strings.Lines(content) {
		switch {
		case strings.TrimSpace(l) == divider:
			inTrace = true
		case strings.TrimSpace(l) == "":
			inTrace = false
		case !inTrace:
			all.WriteString(l)
		}
	}
	s, err := Parse(all.String())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestScriptsAreReadAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	shape := badDay(3)
	shape.Span = time.Hour
	s := shape.Script()
	again, err := Parse(s.String())
	if err != nil {
		t.Fatal(err)
	}
	if again.String() != s.String() {
		t.Fatal("a script that is read and written is another one")
	}
	a, errA := s.Run()
	b, errB := again.Run()
	if errA != nil || errB != nil || a.Digest != b.Digest || a.Lines != b.Lines {
		t.Errorf("a script that is read again has another history: %d lines %x (%v), %d lines %x (%v)",
			a.Lines, a.Digest, errA, b.Lines, b.Digest, errB)
	}
}

func TestWrongCommandsAreRefused(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ name, command, problem string }{
		{"no such command", "explode n1", "no command"},
		{"no such key", "apply report evry=5m", "has no evry="},
		{"a definition that no cluster would take", `apply report cron="61 * * * *"`, "schedule.cron[0]"},
		{"a job that never runs", "apply report runs=5s", "schedule is empty"},
		{"no such behaviour", "apply report every=5m ends=never", "none of"},
		{"a range that ends before it begins", "apply report every=5m runs=9s..3s", "no range"},
		{"no duration", "advance soon", "duration"},
		{"time that runs back", "advance -5s", "duration"},
		{"no such protection", "without luck", "name one of"},
		{"no such kind of request", "lose n1 reply gossip", "one of"},
		{"an open quote", `apply report cron="* * * * *`, "quote"},
		{"too little", "stall n1", "duration"},
		{"no member", "crash", "takes a member"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			if _, err := Parse(row.command); err == nil || !strings.Contains(err.Error(), row.problem) {
				t.Errorf("%s: got %v, want an error that says %q", row.command, err, row.problem)
			}
		})
	}
	for _, text := range []string{"members n1\ncrash n2", "members n1\npause report", "members n1 n1", "members n1\nadvance 1s\nworld seed=2"} {
		s, err := Parse(text)
		if err != nil {
			t.Errorf("%q is refused too early: %v", text, err)
			continue
		}
		if _, err := s.Run(); err == nil {
			t.Errorf("%q is played", text)
		}
	}
}
