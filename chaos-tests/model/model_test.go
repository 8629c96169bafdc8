package main

import (
	"strings"
	"testing"
)

// TestWorldsHoldAndCutsAreCaught searches every world below largeWorld states. The larger ones are
// searched by `make proof`.
func TestWorldsHoldAndCutsAreCaught(t *testing.T) {
	t.Parallel()
	for _, c := range cases() {
		bound := smallWorld
		if c.Size == large || testing.Short() && c.Size == medium {
			continue
		} else if c.Size == medium {
			bound = largeWorld
		}
		t.Run(strings.ReplaceAll(c.Name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			r := newSearch(c.World).run(bound)
			if problem := c.problem(r, false); problem != "" {
				t.Errorf("got %s after %d states, but it %s; trace:\n%s", r.outcome(), r.States, problem, strings.Join(r.Trace, "\n"))
			}
			if r.Violation != "" && len(r.Trace) == 0 {
				t.Errorf("got %q without a trace", r.Violation)
			}
		})
	}
}

// TestCasesAreComplete: each kind of case is there, names are unique, and each guard that can be taken
// away is taken away somewhere, but for those of which it is said that nothing shows it.
func TestCasesAreComplete(t *testing.T) {
	t.Parallel()
	kinds, seen := map[string]int{}, map[string]bool{}
	for _, c := range append(cases(), deepCases()...) {
		if seen[c.Name] {
			t.Errorf("two cases are named %q", c.Name)
		}
		seen[c.Name] = true
		kind := "world"
		for _, prefix := range []string{reachPrefix, cutPrefix, sparePrefix, deepPrefix} {
			if strings.HasPrefix(c.Name, prefix) {
				kind = prefix
			}
		}
		kinds[kind]++
		breaks := c.Want != ""
		if must := kind == reachPrefix || kind == cutPrefix; must && !breaks {
			t.Errorf("case %q must expect a violation", c.Name)
		}
		if cut := c.World.Cut != (rules{}); cut != (kind == cutPrefix || kind == sparePrefix) {
			t.Errorf("case %q takes something away: %v", c.Name, cut)
		}
	}
	for _, kind := range []string{"world", reachPrefix, cutPrefix, sparePrefix, deepPrefix} {
		if kinds[kind] == 0 {
			t.Errorf("got no case of kind %q", kind)
		}
	}
}

// TestEveryGuardIsTakenAway compares the guards with the cases.
func TestEveryGuardIsTakenAway(t *testing.T) {
	t.Parallel()
	var taken rules
	for _, c := range cases() {
		taken = union(taken, c.World.Cut)
	}
	if missing := missingFrom(taken); len(missing) > 0 {
		t.Errorf("no case takes away %s", strings.Join(missing, ", "))
	}
}

// TestTraceIsShortest: breadth first, no shorter trace exists, and it is told in words.
func TestTraceIsShortest(t *testing.T) {
	t.Parallel()
	w := fail1().cutting(func(r *rules) { r.TakenForGranted = true })
	r := newSearch(w).run(smallWorld)
	if len(r.Trace) != 4 || !strings.HasPrefix(r.Violation, "I8") {
		t.Fatalf("got %q in %d steps, want I8 in 4:\n%s", r.Violation, len(r.Trace), strings.Join(r.Trace, "\n"))
	}
	for i, words := range r.Trace {
		if words == "" {
			t.Errorf("step %d of the trace has no words", i+1)
		}
	}
}

// TestSearchIsTheSameEachTime: every printed number is reproducible.
func TestSearchIsTheSameEachTime(t *testing.T) {
	t.Parallel()
	var before result
	for i := range 2 {
		r := newSearch(cancels()).run(smallWorld)
		r.Took = 0
		if i > 0 && (r.States != before.States || r.Edges != before.Edges || r.Depth != before.Depth) {
			t.Errorf("got %+v, and before %+v", r, before)
		}
		before = r
	}
}

// TestProgramSaysWhetherAllIsAsExpected runs the command on a few cases.
func TestProgramSaysWhetherAllIsAsExpected(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		why    string
		args   []string
		status int
		says   string
	}{
		{"a cut is caught, with its trace", []string{"-run", "cut: 1: entry", "-trace"}, 0, "M0 sends Begin"},
		{"a world that is given up proves nothing", []string{"-run", "owner alone, cancel", "-max-states", "100"}, 1, "given up"},
		{"no case of that name", []string{"-run", "no such case"}, 1, "0 cases"},
		{"no such flag", []string{"-nonsense"}, 2, ""},
	} {
		var out, errs strings.Builder
		if status := run(c.args, &out, &errs); status != c.status || !strings.Contains(out.String(), c.says) {
			t.Errorf("%s: model %v: got status %d, want %d and %q in:\n%s", c.why, c.args, status, c.status, c.says, out.String())
		}
	}
}
