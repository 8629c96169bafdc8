// Command model checks the protocol of claims and ends by visiting every reachable state of small worlds:
// one to three members, one or two jobs, one etcd.
//
// It follows the rules of docs/architecture.md as store, scheduler and node carry them out,
// and shows that in each world every invariant holds and every state can settle; that each guard is
// needed, by taking it away and finding what breaks; and that the interesting states are reached at all.
// The README says which line of code stands behind which guard, what the worlds leave out, and what was
// found.
//
// It leaves to others what no small world holds: the arithmetic of leases, clocks and schedules
// (scheduler's properties, the bubbles of node), and whether the code does what it is believed to do.
// It shares no code with what it judges. It starts no goroutine.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"
)

func main() {
	runtime.GOMAXPROCS(1) // It has one goroutine; the collector's own would cost more than they give.
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// options are what the command line says.
type options struct {
	run         string
	trace, deep bool
	maxStates   int
}

// run prints the table and returns the exit status: 1 if any case ends otherwise than expected.
func run(args []string, stdout, stderr io.Writer) int {
	var o options
	flags := flag.NewFlagSet("model", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.run, "run", "", "run only the cases whose names contain `TEXT`")
	flags.BoolVar(&o.trace, "trace", false, "print the shortest trace of each violation")
	flags.BoolVar(&o.deep, "deep", false, "check larger worlds instead (more memory and minutes)")
	flags.IntVar(&o.maxStates, "max-states", 3_000_000, "give a world up beyond so many states")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	list := cases()
	if o.deep {
		list = deepCases()
	}
	began, tried, wrong := time.Now(), 0, 0
	fmt.Fprintf(stdout, "%-48s %9s %10s %5s %7s  %s\n", "case", "states", "edges", "depth", "time", "outcome")
	for _, c := range list {
		if !strings.Contains(c.Name, o.run) {
			continue
		}
		r := newSearch(c.World).run(o.maxStates)
		tried++
		mark := ""
		if problem := c.problem(r, o.deep); problem != "" {
			mark = "   <-- " + problem
			wrong++
		}
		fmt.Fprintf(stdout, "%-48s %9d %10d %5d %6.1fs  %s%s\n", c.Name, r.States, r.Edges, r.Depth, r.Took.Seconds(), r.outcome(), mark)
		if o.trace {
			for i, words := range r.Trace {
				fmt.Fprintf(stdout, "    %2d %s\n", i+1, words)
			}
		}
	}
	fmt.Fprintf(stdout, "%d cases, %d not as expected, %.0fs\n", tried, wrong, time.Since(began).Seconds())
	if wrong > 0 || tried == 0 {
		return 1
	}
	return 0
}

// outcome is the last column.
func (r result) outcome() string {
	switch {
	case r.Violation == "reached":
		return fmt.Sprintf("reached (%d steps)", len(r.Trace))
	case r.Violation != "":
		return fmt.Sprintf("%s (%d steps)", r.Violation, len(r.Trace))
	case !r.Full:
		return "holds as far as searched"
	}
	return "holds"
}

// problem says how a result differs from what the case expects, or "". A world that was given up at the
// bound is a problem unless that is allowed.
func (c testCase) problem(r result, bounded bool) string {
	switch {
	case c.Want == "" && r.Violation != "":
		return "must hold"
	case c.Want == "" && !r.Full && !bounded:
		return "given up at the bound"
	case c.Want != "" && !strings.HasPrefix(r.Violation, c.Want):
		return "must break: " + c.Want
	}
	return ""
}
