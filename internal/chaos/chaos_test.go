package chaos

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if os.Getenv("CHAOS_TEST_CHILD") != "" {
		Point(AfterClaim)
		os.Exit(0) // not killed
	}
	os.Exit(m.Run())
}

// arm makes a folder that the process looks into, with one file in it.
func arm(t *testing.T, file, text string) string {
	t.Helper()
	folder := t.TempDir()
	t.Setenv(Variable, folder)
	if err := os.WriteFile(filepath.Join(folder, file), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return folder
}

func hits(t *testing.T, folder string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, Hits))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return string(text)
}

func TestPointActsOnceAndWritesItDown(t *testing.T) {
	folder := arm(t, BeforeExec, Leave+"\n")
	if Point(AfterClaim) {
		t.Error("another point left")
	}
	if got := hits(t, folder); got != "" {
		t.Errorf("hit before anything was: %q", got)
	}
	if !Point(BeforeExec) || Point(BeforeExec) {
		t.Error("an armed point must make the code leave once")
	}
	if got := hits(t, folder); strings.Count(got, "\n") != 1 || !strings.HasSuffix(got, " before-exec leave\n") {
		t.Errorf("hits are %q", got)
	}
}

func TestPointHangs(t *testing.T) {
	arm(t, AfterExit, Hang+" 60ms")
	from := time.Now()
	if Point(AfterExit) || time.Since(from) < 60*time.Millisecond {
		t.Errorf("did not hang: %s", time.Since(from))
	}
}

func TestPointKills(t *testing.T) {
	folder := arm(t, AfterClaim, Kill)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command(self)
	child.Env = append(os.Environ(), "CHAOS_TEST_CHILD=1")
	err = child.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("the process ended with %v, want SIGKILL", err)
	}
	if got := hits(t, folder); !strings.HasSuffix(got, " after-claim kill\n") {
		t.Errorf("hits are %q", got)
	}
}

func TestNothingHappensWithoutAFolder(t *testing.T) {
	t.Setenv(Variable, "")
	if now := time.Now(); Point(BeforeClaim) || !Bend(now).Equal(now) {
		t.Error("something happened")
	}
}

func TestUnknownOrdersPanic(t *testing.T) {
	for name, do := range map[string]func(){
		"an order":  func() { arm(t, BeforeClaim, "explode"); Point(BeforeClaim) },
		"a time":    func() { arm(t, BeforeClaim, Hang); Point(BeforeClaim) },
		"a point":   func() { arm(t, "nowhere", Kill); Point("nowhere") },
		"an offset": func() { arm(t, Clock, "an hour"); Bend(time.Now()) },
		"two words": func() { arm(t, Clock, "1h 0.5"); Bend(time.Now()) },
		"no words":  func() { arm(t, Clock, ""); Bend(time.Now()) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("accepted")
				}
			}()
			do()
		})
	}
}

func TestClockIsBentFromTheNextReadingOn(t *testing.T) {
	folder := arm(t, Clock, "-1h\n")
	now := time.Now()
	if got := Bend(now); !got.Equal(now.Add(-time.Hour)) {
		t.Errorf("bent to %s from %s, want an hour less", got, now)
	}
	Bend(now)
	if got := hits(t, folder); strings.Count(got, "\n") != 1 || !strings.HasSuffix(got, " clock -1h\n") {
		t.Errorf("two readings wrote %q, want one line", got)
	}
	if err := os.Remove(filepath.Join(folder, Clock)); err != nil {
		t.Fatal(err)
	}
	if got := Bend(now); !got.Equal(now) {
		t.Errorf("bent to %s from %s, want the same", got, now)
	}
}

func TestClockDrifts(t *testing.T) {
	t.Parallel()
	now := time.Now()
	got, err := bend(now, "2s 0.01 1000000000", int64(101*time.Second))
	if want := now.Add(3 * time.Second); err != nil || !got.Equal(want) {
		t.Errorf("bent by %s, want 3s: %v", got.Sub(now), err)
	}
}
