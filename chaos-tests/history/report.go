package history

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Report is what a run has shown, for people: the verdict with what it rests on, how late starts were in
// calm and under fault, how long each fault took to overcome, what receivers refused, what was left
// behind, each check with how much it looked at, and, when something was found, one timeline.
func (h History) Report(j Judgement) string {
	var b strings.Builder
	row := func(name, format string, a ...any) { fmt.Fprintf(&b, "%-11s %s\n", name, fmt.Sprintf(format, a...)) }
	row("verdict", "%s", j.Verdict)
	starts := 0
	for _, l := range h.Lines {
		if l.Event == Start && !l.Child {
			starts++
		}
	}
	row("instants", "%d needed a verdict, %d of them under fault; %d commands started", j.Required, j.InFaults, starts)
	row("wrong", "%d duplicates, %d missed, %d late, %d early, %d overlaps, %d without account", j.count("C02"), j.count("C01"),
		j.count("C03"), j.count("C04"), j.count("C06"), j.count("C11"))
	row("ended", "%s", h.endings())
	calm, fault := j.lateness()
	row("calm", "%s", calm)
	row("under fault", "%s", fault)
	for i, f := range h.Faults {
		name := "recovery"
		if i > 0 {
			name = ""
		}
		row(name, "%6.1f s  %s", j.overcome(&h, f).Seconds(), f)
	}
	h.reportEffects(row, &j)
	h.reportRests(row)
	for i, c := range Checks() {
		name := "checks"
		if i > 0 {
			name = ""
		}
		row(name, "%s %-18s looked at %6d, found %d", c.ID, c.Name, j.Looked[c.ID], j.count(c.ID))
	}
	for i, d := range j.Doubts {
		name := "doubts"
		if i > 0 {
			name = ""
		}
		row(name, "%s", d)
	}
	h.reportFindings(row, &j)
	if page := h.Timeline(j); page != "" {
		fmt.Fprintf(&b, "\n%s", page)
	}
	return b.String()
}

// lateness of starts in calm, and of those whose instants fell into a fault that concerned their job.
func (j *Judgement) lateness() (calm, fault Lateness) {
	var well, ill []time.Duration
	for _, t := range j.trials {
		for _, s := range t.starts {
			switch {
			case s.Due().IsZero():
			case t.inFault(s.Due()):
				ill = append(ill, s.Lateness())
			default:
				well = append(well, s.Lateness())
			}
		}
	}
	return distribution(well), distribution(ill)
}

func (j *Judgement) count(check string) int {
	n := 0
	for _, f := range j.Findings {
		if f.Check == check {
			n++
		}
	}
	return n
}

// endings are how firings ended, summed over the jobs that are shown.
func (h *History) endings() string {
	sums := map[string]int64{}
	for _, j := range h.Jobs {
		for _, c := range j.Counters {
			sums[shown(c.Verdict, c.Reason)] += c.Count
		}
	}
	var parts []string
	for _, end := range slices.Sorted(maps.Keys(sums)) {
		parts = append(parts, fmt.Sprintf("%d %s", sums[end], end))
	}
	return cmp.Or(strings.Join(parts, ", "), "nothing")
}

// overcome is how long it took after the beginning of a fault until every job that it concerned and that
// came due under it, before the next fault, had started something again: zero when none stood still for
// longer than Calm.
func (j *Judgement) overcome(h *History, f Fault) time.Duration {
	var next, over time.Time
	for _, o := range h.Faults {
		if o.From.After(f.From) && (next.IsZero() || o.From.Before(next)) {
			next = o.From
		}
	}
	for _, t := range j.trials {
		i := slices.IndexFunc(t.due, func(d instant) bool { return d.class == required && !d.at.Before(f.From) })
		k := slices.IndexFunc(t.starts, func(s Line) bool { return s.Wall().After(f.From) && !s.Due().IsZero() })
		if i < 0 || k < 0 || !t.concerns(f) || !next.IsZero() && !t.due[i].at.Before(next) {
			continue
		}
		if first := t.starts[k].Wall(); first.Sub(t.due[i].at) > h.bounds().Calm {
			over = later(over, first)
		}
	}
	if over.IsZero() {
		return 0
	}
	return over.Sub(f.From)
}

// mostFound bounds how many findings of one check a report shows.
const mostFound = 4

func (h *History) reportFindings(row func(string, string, ...any), j *Judgement) {
	said := map[string]int{}
	for i, f := range j.Findings {
		name := map[bool]string{true: "found"}[i == 0]
		switch said[f.Check]++; {
		case said[f.Check] <= mostFound:
			row(name, "%s", f)
		case said[f.Check] == mostFound+1:
			row(name, "%s … and %d more", f.Check, j.count(f.Check)-mostFound)
		}
	}
}

func (h *History) reportEffects(row func(string, string, ...any), j *Judgement) {
	accepted, refused, disorder := h.judged()
	needed := "nobody needed the fence"
	if disorder > 0 {
		needed = fmt.Sprintf("its twin without a fence took %d out of order", disorder)
	}
	row("effects", "%d accepted, %d refused for their token; %s", accepted, refused, needed)
	for _, s := range h.stale() {
		row("", "%s", s)
	}
	row("overlap", "%s of commands beside each other where the promise leaves it open", j.Overlapped.Round(time.Millisecond))
}

// mostStale bounds how many attempts a report names whose effects came late.
const mostStale = 8

// stale names the attempts whose effects were refused: what users would have had to bear without a token.
func (h *History) stale() []string {
	var order []string // nonces, by their first refused effect
	first, times := map[string]Effect{}, map[string]int{}
	for _, e := range h.Effects {
		if e.Ledger != Fenced || e.Accepted {
			continue
		}
		if times[e.Nonce]++; times[e.Nonce] == 1 {
			order, first[e.Nonce] = append(order, e.Nonce), e
		}
	}
	var lines []string
	for i, nonce := range order {
		if i == mostStale {
			return append(lines, fmt.Sprintf("… and %d more attempts", len(order)-i))
		}
		e := first[nonce]
		name := e.Job + " (triggered)"
		if _, due, ok := strings.Cut(e.Firing, "@"); ok {
			name = e.Job + "@" + due
		}
		lines = append(lines, fmt.Sprintf("%s attempt %s: %d refused, token %d after %d", name, e.Attempt, times[nonce], e.Token, e.Highest))
	}
	return lines
}

func (h *History) reportRests(row func(string, string, ...any)) {
	before, after := h.phase(Before), h.phase(After)
	if before != nil && after != nil {
		first := medians(samplesIn(h.Samples, *before))
		last := medians(samplesIn(h.Samples, *after))
		for i, node := range slices.Sorted(maps.Keys(last)) {
			row(map[bool]string{true: "left"}[i == 0], "%s: goroutines %.0f → %.0f, descriptors %.0f → %.0f, memory %.0f → %.0f MiB", node,
				first[node][goroutines], last[node][goroutines], first[node][descriptors], last[node][descriptors],
				first[node][memory]/(1<<20), last[node][memory]/(1<<20))
		}
	}
	if n := len(h.Spaces); n > 0 {
		first, last := h.Spaces[0], h.Spaces[n-1]
		row("", "etcd: leases %d → %d, locks %d → %d, file %d → %d MiB", first.Leases, last.Leases, first.Locks, last.Locks,
			first.DatabaseBytes>>20, last.DatabaseBytes>>20)
	}
	switch {
	case h.Etcd == nil:
		row("etcd", "not watched; fsync p99 %s", h.FsyncP99)
	default:
		row("etcd", "%d writes watched up to revision %d of %d, %d gaps; fsync p99 %s", len(h.Etcd.Events), h.Etcd.Seen, h.Etcd.Head, len(h.Etcd.Gaps), h.FsyncP99)
	}
}

func samplesIn(samples []Sample, p Phase) []Sample {
	var in []Sample
	for _, s := range samples {
		if p.covers(s.At) && len(s.Metrics) > 0 {
			in = append(in, s)
		}
	}
	return in
}
