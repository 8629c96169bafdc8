// Package chaos lets chaos-tests reach into a node process of a test build, through files: it bends the
// wall clock, and makes the process die, hang or give up at a marked point of the firing path.
//
// It guarantees that a build without the tag "chaos" has none of this in it: only files with that tag
// import it (internal/archtest holds them to it), and what they replace are functions that do nothing
// in every other build. Nothing happens in a test build either, unless the environment names a folder
// and a file in it asks. It judges nothing, and starts no goroutines. All of it is safe for concurrent
// use, by several processes too: a node and its supervisor share a folder.
package chaos

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Variable is the environment variable that names the folder of a process; empty or not set is none. It
// does not begin as our own do: those are kept from the supervisor.
const Variable = "CHAOS_FOLDER"

// The files of a folder: Clock says how the wall clock is bent (see Bend), Hits has a line for each
// point at which something happened, and for each way of bending the clock when it was first read. A
// file with the name of a point arms it (see Point).
const (
	Clock = "clock"
	Hits  = "hits"
)

// The points of the firing path, in its order.
const (
	BeforeClaim   = "before-claim"   // planned, nothing sent
	AfterClaim    = "after-claim"    // granted, nothing started
	BeforeExec    = "before-exec"    // found young enough, nothing started
	AfterExec     = "after-exec"     // in the supervisor: started, and nobody told; it cannot leave
	AfterExit     = "after-exit"     // in the supervisor: ended, and nobody told; it cannot leave
	BeforeVerdict = "before-verdict" // the end is known, and not written
)

// What an armed point does, the content of its file. Hang is followed by a blank and a duration.
const (
	Kill  = "kill"  // the process gets SIGKILL from itself
	Hang  = "hang"  // the goroutine stands still for so long
	Leave = "leave" // the code gives up what it is about, as if it had met its end there
)

// Points are all points, in the order of the firing path.
func Points() []string {
	return []string{BeforeClaim, AfterClaim, BeforeExec, AfterExec, AfterExit, BeforeVerdict}
}

// Point does what its file asks, once: whoever takes the file away first is hit. It writes that down
// before it acts, and reports whether the code is to leave. It panics if the file asks for what there is
// not: a test that meant something to happen would pass for the wrong reason.
func Point(name string) (leave bool) {
	folder := os.Getenv(Variable)
	if folder == "" {
		return false
	}
	if !slices.Contains(Points(), name) {
		panic(fmt.Sprintf("chaos: %q is none of the points %v", name, Points()))
	}
	taken := filepath.Join(folder, fmt.Sprintf("%s.%d.%d", name, os.Getpid(), bootNow()))
	if err := os.Rename(filepath.Join(folder, name), taken); err != nil {
		return false // not armed, or hit by another
	}
	text, err := os.ReadFile(taken)
	if err != nil {
		panic("chaos: " + err.Error())
	}
	order := strings.TrimSpace(string(text))
	note(folder, name, order)
	action, argument, _ := strings.Cut(order, " ")
	switch action {
	case Kill:
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // until it arrives
	case Hang:
		d, err := time.ParseDuration(argument)
		if err != nil {
			panic(fmt.Sprintf("chaos: %s: hang %q: %v", name, argument, err))
		}
		time.Sleep(d)
		return false
	case Leave:
		return true
	}
	panic(fmt.Sprintf("chaos: %s: %q is none of %s, %s D, %s", name, order, Kill, Hang, Leave))
}

// note writes down that a point was hit: one write to a file opened for appending, which outlives us.
func note(folder, name, order string) {
	f, err := os.OpenFile(filepath.Join(folder, Hits), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		panic("chaos: " + err.Error())
	}
	defer f.Close()
	if _, err := fmt.Fprintf(f, "%d %d %s %s\n", bootNow(), os.Getpid(), name, order); err != nil {
		panic("chaos: " + err.Error())
	}
}

// Bend returns a reading of the wall clock as the clock file wants it: "OFFSET" adds a duration,
// "OFFSET RATE SINCE" adds besides RATE times what has passed since SINCE, on CLOCK_BOOTTIME in
// nanoseconds. It is read for each reading, so that a change acts at once. A file that cannot be read
// bends nothing; one that makes no sense panics.
func Bend(wall time.Time) time.Time {
	folder := os.Getenv(Variable)
	if folder == "" {
		return wall
	}
	text, err := os.ReadFile(filepath.Join(folder, Clock))
	if err != nil {
		bending.Store(nil)
		return wall
	}
	if order := strings.TrimSpace(string(text)); changed(order) {
		note(folder, Clock, order)
	}
	bent, err := bend(wall, string(text), bootNow())
	if err != nil {
		panic(fmt.Sprintf("chaos: %s: %v", filepath.Join(folder, Clock), err))
	}
	return bent
}

// bending is how the clock was bent at the last reading; nil when it was not.
var bending atomic.Pointer[string]

// changed says whether the clock is bent in another way than before. Of several readings at a time one
// is told so.
func changed(order string) bool {
	last := bending.Load()
	return (last == nil || *last != order) && bending.CompareAndSwap(last, &order)
}

func bend(wall time.Time, text string, boot int64) (time.Time, error) {
	var (
		offset string
		rate   float64
		since  int64
	)
	if n, err := fmt.Sscan(text, &offset, &rate, &since); n != 1 && n != 3 {
		return wall, fmt.Errorf("%q: must be OFFSET or OFFSET RATE SINCE: %w", strings.TrimSpace(text), err)
	}
	d, err := time.ParseDuration(offset)
	if err != nil {
		return wall, err
	}
	if since > 0 {
		d += time.Duration(rate * float64(boot-since))
	}
	return wall.Add(d), nil
}

func bootNow() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("reading CLOCK_BOOTTIME: " + err.Error()) // it exists since Linux 2.6.39
	}
	return ts.Nano()
}
