package history

import (
	"slices"
	"strconv"
	"time"
)

// maxRanges is how many ranges a job shows; older ones live on in the counters.
const maxRanges = 16

// records looks at the runs by themselves.
func (t *trial) records() {
	firings := map[string]bool{}
	for _, r := range t.runs {
		if firings[r.Firing] {
			t.report(Twice, "%s has two records", r.Firing)
		}
		firings[r.Firing] = true
		if r.Verdict == "" {
			t.report(Unaccounted, "%s has not ended", r.Firing)
		}
		if r.Verdict == "LOST" && r.Reason == "member lost" {
			from, ok := t.lost[r.Member]
			if !ok || r.Instant.After(from.Add(time.Minute)) {
				t.report(Contradiction, "%s is LOST(member lost), and nothing befell %s", r.Firing, r.Member)
			}
		}
	}
}

// effects holds records and effects against each other.
func (t *trial) effects() {
	runs := map[string]Run{}
	for _, r := range t.runs {
		runs[r.Firing] = r
	}
	kept := t.keptSince()
	started := map[string]bool{}
	for _, s := range t.starts {
		started[s.Firing] = true
		if s.Node != s.Member {
			t.report(Contradiction, "%s was told that it runs on %q, and runs on %q", s.Firing, s.Member, s.Node)
		}
		r, ok := runs[s.Firing]
		switch {
		case !ok && !s.Due().Before(kept):
			t.report(Contradiction, "%s started on %s and has no record", s.Firing, s.Node)
		case ok:
			t.compare(s, r)
		}
		for _, g := range t.job.Ranges {
			if g.Trigger == "" && !s.Due().Before(g.First) && !s.Due().After(g.Last) {
				t.report(Contradiction, "%s is %s(%s), and started on %s", s.Firing, g.Verdict, g.Reason, s.Node)
			}
		}
	}
	for _, r := range t.runs {
		t.ending(r, started[r.Firing])
	}
}

// keptSince is the instant from which on every run must have its record: so many newer ones are there
// that no older one need be.
func (t *trial) keptSince() time.Time {
	if len(t.runs) < t.plan.Kept {
		return time.Time{}
	}
	var instants []time.Time
	for _, r := range t.runs {
		instants = append(instants, r.Instant)
	}
	slices.SortFunc(instants, func(a, b time.Time) int { return b.Compare(a) })
	return instants[t.plan.Kept-1]
}

// compare holds one start against the attempt that the record has of it.
func (t *trial) compare(s Line, r Run) {
	i := slices.IndexFunc(r.Attempts, func(a Attempt) bool { return strconv.Itoa(a.Number) == s.Attempt })
	if i < 0 {
		t.report(Contradiction, "%s attempt %s started, and its record has no such attempt", s.Firing, s.Attempt)
		return
	}
	a := r.Attempts[i]
	if a.Token != s.Token {
		t.report(Tokens, "%s attempt %s has token %s, and the record says %s", s.Firing, s.Attempt, s.Token, a.Token)
	}
	if a.Member != s.Node {
		t.report(Contradiction, "%s attempt %s ran on %s, and the record says %s", s.Firing, s.Attempt, s.Node, a.Member)
	}
	if a.Reason == "never started" {
		t.report(Contradiction, "%s attempt %s never started, says the record, and did", s.Firing, s.Attempt)
	}
}

// ending holds a verdict against the command's own last words.
func (t *trial) ending(r Run, started bool) {
	ends := t.ends[r.Firing]
	exited := func(code int) bool {
		return slices.ContainsFunc(ends, func(l Line) bool { return l.Exit == code && l.Token == r.Token })
	}
	switch {
	case r.Verdict == "SUCCEEDED" && !exited(0):
		t.report(Contradiction, "%s SUCCEEDED, and its command did not end with 0", r.Firing)
	case r.Verdict == "FAILED" && r.Reason == "exit code" && (r.ExitCode == nil || !exited(*r.ExitCode)):
		t.report(Contradiction, "%s FAILED(exit code), and its command did not say so", r.Firing)
	case r.Verdict == "SUCCEEDED" && !t.plan.Handler && (r.ExitCode == nil || *r.ExitCode != 0):
		t.report(Contradiction, "%s SUCCEEDED, and its record has another exit code", r.Firing)
	case r.Verdict != "LOST" && r.Reason != "start error" && !started:
		t.report(Contradiction, "%s is %s, and nothing started", r.Firing, r.Verdict)
	}
}

// account gives each instant between creation and end its verdicts: there must be exactly one.
func (t *trial) account() {
	created := t.job.Created
	if created.Before(t.plan.Applied) || created.After(t.plan.Acknowledged) {
		t.report(Contradiction, "created at %s, and applied between %s and %s",
			clock(created), clock(t.plan.Applied), clock(t.plan.Acknowledged))
		return
	}
	due := t.plan.Due(created)
	asked := map[time.Time]bool{}
	for _, i := range due {
		asked[i] = true
	}
	verdicts := map[time.Time]int{}
	var oldestRange time.Time
	for _, r := range t.runs {
		if r.Instant.IsZero() {
			continue // triggered: the sums cover it
		}
		verdicts[r.Instant]++
		if !asked[r.Instant] {
			t.report(Phantom, "a record of instant %s, which the schedule does not have", clock(r.Instant))
		}
	}
	for _, g := range t.job.Ranges {
		if g.Trigger != "" {
			continue
		}
		inside := Instants(t.plan.Period, g.First.Add(-time.Nanosecond), g.Last.Add(time.Nanosecond))
		for _, at := range inside {
			verdicts[at]++
		}
		if int64(len(inside)) != g.Count {
			t.report(Contradiction, "%s(%s) of %d instants from %s to %s, where the schedule has %d",
				g.Verdict, g.Reason, g.Count, clock(g.First), clock(g.Last), len(inside))
		}
		if oldestRange.IsZero() || g.First.Before(oldestRange) {
			oldestRange = g.First
		}
	}
	kept, rangesFull := t.keptSince(), len(t.job.Ranges) >= maxRanges
	var aged int64
	for _, at := range due {
		switch n := verdicts[at]; {
		case n > 1:
			t.report(Twice, "instant %s has %d verdicts", clock(at), n)
		case n == 1:
		case at.After(t.job.Cursor):
			t.report(Unaccounted, "instant %s is after the cursor, %s", clock(at), clock(t.job.Cursor))
		case at.Before(kept), rangesFull && at.Before(oldestRange):
			aged++ // only the counters know it
		default:
			t.report(Unaccounted, "instant %s has neither a record nor a range", clock(at))
		}
	}
	t.counters(int64(len(due)+t.plan.Triggers), aged)
}

// counters holds the sums against the instants, and against what single records say.
func (t *trial) counters(due, aged int64) {
	if n := t.job.Ended() + t.job.Backlog.Count; n < due {
		t.report(Unaccounted, "%d instants and triggers, and only %d counted", due, n)
	} else if n > due {
		t.report(Twice, "%d instants and triggers, and %d counted", due, n)
	}
	seen := map[string]int64{}
	for _, r := range t.runs {
		seen[r.Verdict]++
	}
	for _, g := range t.job.Ranges {
		seen[g.Verdict] += g.Count
	}
	counted := map[string]int64{}
	for _, c := range t.job.Counters {
		counted[c.Verdict] += c.Count
	}
	for _, verdict := range []string{"SUCCEEDED", "FAILED", "TIMED_OUT", "CANCELED", "LOST", "SKIPPED", "MISSED"} {
		if n := counted[verdict]; n < seen[verdict] || n > seen[verdict]+aged {
			t.report(Contradiction, "%d counted %s, where records and ranges show %d and %d have aged out", n, verdict, seen[verdict], aged)
		}
	}
	succeeded := int64(0)
	for _, ends := range t.ends {
		if slices.ContainsFunc(ends, func(l Line) bool { return l.Exit == 0 }) {
			succeeded++
		}
	}
	if counted["SUCCEEDED"] > succeeded {
		t.report(Contradiction, "%d counted SUCCEEDED, and only %d ended with 0", counted["SUCCEEDED"], succeeded)
	}
}
