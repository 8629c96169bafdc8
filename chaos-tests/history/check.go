package history

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Kind names what a violation violates.
type Kind string

// The kinds, with the guarantee that each breaks.
const (
	Duplicate     Kind = "duplicate"       // G1, G2: more starts than attempts allowed
	Phantom       Kind = "phantom"         // G1: a start that no instant of the schedule asks for
	Early         Kind = "early"           // G3: before its instant
	Late          Kind = "late"            // G4: after its bound
	Unaccounted   Kind = "without verdict" // G5
	Twice         Kind = "two verdicts"    // G5
	Overlap       Kind = "overlap"         // G6
	Tokens        Kind = "token"           // G2: tokens of a job grow, and are those of the record
	Contradiction Kind = "contradiction"   // a record and an effect that cannot both be true
)

// Violation is one thing that must not have happened.
type Violation struct {
	Kind Kind
	Job  string
	What string
}

// String is one line of a failing test.
func (v Violation) String() string { return fmt.Sprintf("%s: %s: %s", v.Kind, v.Job, v.What) }

// trial collects what is known of one job.
type trial struct {
	plan   Plan
	starts []Line            // of commands, not of their children, by boot time
	last   map[string]Line   // the last line of each nonce, children included
	ends   map[string][]Line // by firing
	job    Job
	runs   []Run
	lost   map[string]time.Time // nodes at fault, by the first moment
	found  []Violation
}

// Check returns everything that is wrong with a history, but for lateness: what is late depends on the
// faults, see Late.
func (h History) Check() []Violation {
	var found []Violation
	planned := map[string]bool{}
	for _, t := range h.trials() {
		planned[t.plan.Job] = true
		t.duplicates()
		t.schedule()
		t.overlaps()
		t.tokens()
		t.records()
		t.effects()
		t.account()
		found = append(found, t.found...)
	}
	for _, l := range h.Lines {
		if l.Event == Start && !planned[l.Job] {
			found = append(found, Violation{Phantom, l.Job, "ran, but nobody asked for this job"})
		}
	}
	return found
}

func (h History) trials() []*trial {
	trials := make([]*trial, 0, len(h.Plans))
	byJob := map[string]*trial{}
	lost := map[string]time.Time{}
	for _, f := range h.Faults {
		if from, ok := lost[f.Node]; !ok || f.From.Before(from) {
			lost[f.Node] = f.From
		}
	}
	for _, p := range h.Plans {
		t := &trial{plan: p, last: map[string]Line{}, ends: map[string][]Line{}, lost: lost}
		trials, byJob[p.Job] = append(trials, t), t
	}
	lines := slices.Clone(h.Lines)
	slices.SortStableFunc(lines, func(a, b Line) int { return int(a.BootNS - b.BootNS) })
	for _, l := range lines {
		t := byJob[l.Job]
		if t == nil {
			continue
		}
		t.last[l.Nonce] = l
		switch {
		case l.Child:
		case l.Event == Start:
			t.starts = append(t.starts, l)
		case l.Event == End:
			t.ends[l.Firing] = append(t.ends[l.Firing], l)
		}
	}
	for _, j := range h.Jobs {
		if t := byJob[j.Name]; t != nil {
			t.job = j
		}
	}
	for _, r := range h.Runs {
		if t := byJob[r.Job]; t != nil {
			t.runs = append(t.runs, r)
		}
	}
	return trials
}

func (t *trial) report(k Kind, format string, a ...any) {
	t.found = append(t.found, Violation{k, t.plan.Job, fmt.Sprintf(format, a...)})
}

// duplicates counts starts by firing, and by attempt of it.
func (t *trial) duplicates() {
	firings, attempts := map[string]int{}, map[string]int{}
	for _, s := range t.starts {
		firings[s.Firing]++
		attempt := s.Firing + " attempt " + s.Attempt
		if attempts[attempt]++; attempts[attempt] == 2 {
			t.report(Duplicate, "%s started twice, the second time on %s at %s", attempt, s.Node, clock(s.Wall()))
		}
		if firings[s.Firing] == t.plan.Attempts+1 && attempts[attempt] == 1 {
			t.report(Duplicate, "%s started %d times, the last on %s at %s", s.Firing, firings[s.Firing], s.Node, clock(s.Wall()))
		}
	}
}

// schedule holds every start against the oracle: by what it says it is, and by counting, which does
// not trust that.
func (t *trial) schedule() {
	due := t.plan.Due(t.plan.Applied)
	asked := map[time.Time]bool{}
	for _, i := range due {
		asked[i] = true
	}
	first, triggered := 0, map[string]bool{}
	for k, s := range t.starts {
		if s.Instant == "" && strings.HasPrefix(s.Firing, t.job.UID+"+") {
			if triggered[s.Firing] = true; len(triggered) > t.plan.Triggers {
				t.report(Phantom, "%s started, and only %d triggers were asked for", s.Firing, t.plan.Triggers)
			}
			continue
		}
		switch at := s.Due(); {
		case !asked[at]:
			t.report(Phantom, "started for instant %q, which the schedule does not have", s.Instant)
		case s.Firing != t.job.UID+"@"+at.Format(time.RFC3339):
			t.report(Contradiction, "firing %s of instant %s of uid %s", s.Firing, s.Instant, t.job.UID)
		case s.Wall().Before(at):
			t.report(Early, "%s started %s before it was due", s.Firing, at.Sub(s.Wall()))
		}
		if s.Attempt == "1" {
			if first < len(due) && s.Wall().Before(due[first]) {
				t.report(Phantom, "start %d at %s, when only %d instants had been due", k+1, clock(s.Wall()), first)
			}
			first++
		}
	}
	if first > len(due) {
		t.report(Phantom, "%d firings started, and only %d instants were due", first, len(due))
	}
}

// overlaps compares lives: from the start line to the last sign of life of the command or its children.
func (t *trial) overlaps() {
	var before Line
	for i, s := range t.starts {
		if end := t.last[before.Nonce]; i > 0 && s.BootNS < end.BootNS {
			t.report(Overlap, "%s on %s started %s before %s on %s was dead", s.Firing, s.Node, end.Boot()-s.Boot(), before.Firing, before.Node)
		}
		if t.last[s.Nonce].BootNS >= t.last[before.Nonce].BootNS {
			before = s
		}
	}
}

func (t *trial) tokens() {
	var before int64
	for _, s := range t.starts {
		token, err := strconv.ParseInt(s.Token, 10, 64)
		if err != nil || token <= before {
			t.report(Tokens, "%s attempt %s has token %q after one of %d", s.Firing, s.Attempt, s.Token, before)
		}
		before = max(before, token)
	}
}

func clock(t time.Time) string { return t.Format("15:04:05.000") }
