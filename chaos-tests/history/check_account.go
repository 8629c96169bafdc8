package history

import (
	"math"
	"slices"
	"time"

	"github.com/quorumcron/quorumcron/proto/quorumcron/stored/v1"
)

// account is C11. Each instant between creation and deletion has exactly one verdict, the counters know
// all of them, and nothing is left in flight. Where etcd was watched the books balance at every single
// revision: what is counted, in flight and waiting is what was due.
// Guarantee: G5. Evidence: the oracle against counters, ranges and records, at the end and in etcd's log.
func (t *trial) account(*Judgement) int {
	for _, r := range t.runs {
		if r.Verdict == "" && !t.h.unfinished() {
			t.report("C11", r.Instant, r.Firing, "an end", "its record", "%s has not ended", r.Firing)
		}
	}
	t.once()
	t.books()
	end := t.final()
	if end == nil {
		if t.deleted == nil && t.uid != "" {
			t.report("C11", t.created.to, "", "the job in the list", "job list", "the cluster does not know the job")
		}
		return 0
	}
	off := t.h.clocksOff() // the member that made it may have gone by such a clock; the window is of whole seconds
	if end.Created.Before(t.created.from) || end.Created.After(t.created.to.Add(time.Second+off)) {
		t.report("C11", end.Created, "", "a creation between call and reply", "job list",
			"created at %s, and applied between %s and %s", clock(end.Created), clock(t.created.from), clock(t.created.to))
		return 1
	}
	t.sameAsStored()
	least, most, aged := t.expected(end)
	t.sums(end, least, most, aged)
	t.cover(end)
	return int(most)
}

// unfinished says that the history was taken while jobs were due.
func (h *History) unfinished() bool {
	for _, c := range h.changes() {
		if c.Op == Apply && !h.Taken.IsZero() && c.Spec.End.After(h.Taken) {
			return true
		}
	}
	return false
}

// final is the job at the end: as it is shown, or as its last state in etcd has it when it is gone. Who applies a
// job again over its last attempt's end folds nothing: then, and only then, what had its record before counts.
func (t *trial) final() *Job {
	if t.shown != nil || t.etcd == nil || len(t.etcd.states) == 0 {
		return t.shown
	}
	s := t.etcd.states[len(t.etcd.states)-1]
	j := &Job{Name: t.job, UID: t.uid, Created: t.etcd.definitions[0].GetCreated().AsTime(), Cursor: s.GetCursor().AsTime(), Backlog: Backlog{s.GetBacklog().GetCount()}}
	for _, c := range s.GetCounters() {
		j.Counters = append(j.Counters, Counter{verdictOf(c.GetVerdict()), reasonOf(c.GetReason()), c.GetCount()})
	}
	for _, a := range t.recordedEntries(s, t.etcd.replaced) {
		j.Counters = append(j.Counters, Counter{verdictOf(a.GetVerdict()), reasonOf(a.GetReason()), 1})
	}
	for _, g := range s.GetRanges() {
		j.Ranges = append(j.Ranges, Range{verdictOf(g.GetVerdict()), reasonOf(g.GetReason()), g.GetFirst().AsTime(), g.GetLast().AsTime(), g.GetCount(), g.GetTrigger()})
	}
	return j
}

// sameAsStored holds the counters that are shown against those of the last state in etcd. What has its
// record and is not folded yet is shown as counted.
func (t *trial) sameAsStored() {
	if t.shown == nil || t.etcd == nil || len(t.etcd.states) == 0 || t.h.unfinished() {
		return
	}
	last := t.etcd.states[len(t.etcd.states)-1]
	stored, recorded := last.counted(), map[string]int64{}
	for _, a := range t.recordedEntries(last, math.MaxInt64) {
		recorded[ending(a.GetVerdict(), a.GetReason())] = 1
	}
	for _, c := range t.shown.Counters {
		end := shown(c.Verdict, c.Reason)
		if c.Count < stored[end] || c.Count > stored[end]+recorded[end] {
			t.report("C11", t.h.Taken, "", "the API shows what etcd holds", "job list, and etcd's log", "%d %s are shown, and %d lie in etcd at revision %d",
				c.Count, end, stored[end], last.revision)
		}
	}
}

// recordedEntries are the ends, by their records before a revision, of what a state holds as in flight.
func (t *trial) recordedEntries(s state, before int64) (ends []*storedv1.Attempt) {
	for _, e := range s.GetEntries() {
		for _, r := range t.etcd.recordsOf[firingOf(t.uid, e.GetFiring())] {
			a := r.last()
			if r.revision < before && r.slot == int(e.GetSlot()) && a.GetNumber() == e.GetAttempt() && a.GetToken() == s.token(e) && a.GetVerdict() != 0 {
				ends = append(ends, a)
				break // a record that is put again says the same
			}
		}
	}
	return ends
}

// once looks for records that are there twice.
func (t *trial) once() {
	seen := map[string]bool{}
	for _, r := range t.runs {
		if seen[r.Firing] {
			t.report("C11", r.Instant, r.Firing, "one record", "run list", "%s has two records", r.Firing)
		}
		seen[r.Firing] = true
	}
}

// expected is how many firings must, and may, be counted, and how many of them by sums alone; on the way
// it looks at each instant by itself.
func (t *trial) expected(end *Job) (least, most, aged int64) {
	records, ranges := map[time.Time]int{}, map[time.Time]int{}
	known := map[time.Time]bool{}
	for _, d := range t.due {
		known[d.at] = true
	}
	for _, r := range t.runs {
		if r.Instant.IsZero() {
			continue // triggered: the sums cover it
		}
		records[r.Instant]++
		if !known[r.Instant] {
			t.report("C11", r.Instant, r.Firing, "records of instants alone", "run list, and the oracle", "a record of instant %s, which the schedule does not have", clock(r.Instant))
		}
	}
	for _, g := range end.Ranges {
		for _, d := range t.due {
			if g.Trigger == "" && !d.at.Before(g.First) && !d.at.After(g.Last) {
				ranges[d.at]++
			}
		}
	}
	for _, d := range t.due {
		n := records[d.at] + ranges[d.at]
		if n > 1 {
			t.report("C11", d.at, t.firing(d.at), "one verdict", "records and ranges", "instant %s has %d verdicts", clock(d.at), n)
		}
		open := d.class == halted && t.eras[d.era].ended == "" // a pause covers them until it ends
		if open {
			continue
		}
		most++
		if d.class == optional {
			continue
		}
		least++
		switch {
		case n > 0:
		case d.at.After(end.Cursor):
			t.report("C11", d.at, t.firing(d.at), "a cursor past it", "the job's cursor", "instant %s is after the cursor, %s", clock(d.at), clock(end.Cursor))
		case t.etcd != nil && len(t.verdicts[d.at]) > 0, t.etcd == nil && t.aged(d.at):
			aged++
		case t.etcd == nil || !t.h.unfinished():
			t.report("C11", d.at, t.firing(d.at), "a record or a range", "records, ranges and etcd's log", "instant %s has neither a record nor a range", clock(d.at))
		}
	}
	triggers := int64(t.plan.Triggers)
	least, most = least+triggers, most+triggers
	for _, c := range t.triggers {
		if c.Result == OK {
			least++
		}
		if c.Result != Failed {
			most++
		}
	}
	return least, most, aged
}

// sums holds the counters against the instants, and against what single records and ranges say.
func (t *trial) sums(end *Job, least, most, aged int64) {
	wrong := func(want, what string, a ...any) {
		t.report("C11", end.Cursor, "", want, "the job's counters", what, a...)
	}
	switch n := end.Ended() + end.Backlog.Count; {
	case n < least:
		wrong("all of them counted", "%d instants and triggers, and only %d counted", least, n)
	case n > most:
		wrong("each of them counted once", "%d instants and triggers, and %d counted", most, n)
	}
	seen, counted := map[string]int64{}, map[string]int64{}
	for _, r := range t.runs {
		seen[r.Verdict]++
	}
	for _, g := range end.Ranges {
		seen[g.Verdict] += g.Count
	}
	for _, c := range end.Counters {
		counted[c.Verdict] += c.Count
	}
	for _, verdict := range []string{"SUCCEEDED", "FAILED", "TIMED_OUT", "CANCELED", "LOST", "SKIPPED", "MISSED"} {
		if n := counted[verdict]; n < seen[verdict]-t.uncounted() || n > seen[verdict]+aged+most-least+int64(t.plan.Triggers+len(t.triggers)) {
			wrong("what records and ranges show, and what aged out", "%d counted %s, where records and ranges show %d and %d have aged out", n, verdict, seen[verdict], aged)
		}
	}
	succeeded := int64(0)
	for _, ends := range t.ends {
		if slices.ContainsFunc(ends, func(l Line) bool { return l.Exit == 0 }) {
			succeeded++
		}
	}
	if counted["SUCCEEDED"] > succeeded {
		wrong("as many commands that ended with 0", "%d counted SUCCEEDED, and only %d ended with 0", counted["SUCCEEDED"], succeeded)
	}
}

// uncounted are records whose end may not be counted yet, when the history was taken under way.
func (t *trial) uncounted() int64 {
	if !t.h.unfinished() {
		return 0
	}
	return int64(len(t.runs))
}

// cover holds what a range says of itself against the instants that it covers.
func (t *trial) cover(end *Job) {
	for _, g := range end.Ranges {
		if g.Trigger != "" {
			continue
		}
		var least, most int64
		for _, d := range t.due {
			if d.at.Before(g.First) || d.at.After(g.Last) {
				continue
			}
			if most++; d.class != optional {
				least++
			}
		}
		if g.Count < least || g.Count > most {
			t.report("C11", g.First, "", "the instants that it covers", "the job's ranges, and the oracle", "%s of %d instants from %s to %s, where the schedule has %d",
				shown(g.Verdict, g.Reason), g.Count, clock(g.First), clock(g.Last), most)
		}
	}
}

// books balances every value that the state ever had.
func (t *trial) books() {
	if t.etcd == nil {
		return
	}
	for _, s := range t.etcd.states {
		cursor := s.GetCursor().AsTime()
		i, found := slices.BinarySearchFunc(t.due, cursor, func(d instant, at time.Time) int { return d.at.Compare(at) })
		if found {
			i++
		}
		due := int64(i)
		for _, k := range t.etcd.triggers {
			if k.deleted && k.revision <= s.revision {
				due++
			}
		}
		have := s.GetBacklog().GetCount() + int64(len(s.GetEntries())+len(s.GetRetries()))
		for _, c := range s.GetCounters() {
			have += c.GetCount()
		}
		if have != due {
			t.report("C11", s.at, "", "books that balance at every revision", "the state in etcd, and the oracle",
				"at revision %d, with the cursor at %s, %d firings had been due, and %d are counted, in flight or waiting (%s)",
				s.revision, clock(cursor), due, have, s.sums())
			return // what follows is off as well
		}
	}
}
