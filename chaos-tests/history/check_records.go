package history

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"
)

// maxRanges is how many ranges a job shows; older ones live on in the counters.
const maxRanges = 16

// contradictions is C10. What the records say and what the commands did can both be true: SUCCEEDED has
// an end with 0, FAILED its exit code, LOST a fault of its node, what was skipped or missed no start, and
// each start a record.
// Guarantee: G5. Evidence: records as they are shown and as they lay in etcd, against the commands' lines.
func (t *trial) contradictions(*Judgement) int {
	runs := map[string]Run{}
	all := t.everyRun()
	for _, r := range all {
		runs[r.Firing] = r
		t.lossOf(r)
	}
	kept := t.keptSince()
	started := map[string]bool{}
	for _, s := range t.starts {
		started[s.Firing] = true
		r, ok := runs[s.Firing]
		switch {
		case ok:
			t.lineOf(s, r)
		case t.etcd != nil && !t.open(s) || t.etcd == nil && !t.undecided() && !s.Due().Before(kept):
			t.report("C10", s.Wall(), s.Firing, "a record of each start", "its start line; there is no record", "%s started on %s and has no record", s.Firing, s.Node)
		}
		for _, v := range t.verdicts[s.Due()] {
			if v.by == byRange {
				t.report("C10", s.Wall(), s.Firing, "no start of what was not run", "its start line, and the job's ranges",
					"%s is %s, and started on %s", s.Firing, shown(v.verdict, v.reason), s.Node)
			}
		}
	}
	for _, r := range all {
		t.ending(r, started[r.Firing])
	}
	return len(all)
}

// everyRun are the runs that are shown, and those that lay in etcd and have made room for others.
func (t *trial) everyRun() []Run {
	all := slices.Clone(t.runs)
	if t.etcd == nil {
		return all
	}
	have := map[string]int{}
	for i, r := range all {
		have[r.Firing] = i
	}
	latest := map[string]record{}
	for _, r := range t.etcd.records {
		latest[firingOf(t.uid, r.GetFiring())] = r
	}
	for firing, r := range latest {
		last := r.last()
		run := Run{Job: t.job, Firing: firing, Attempt: int(last.GetNumber()), Verdict: verdictOf(last.GetVerdict()), Reason: reasonOf(last.GetReason()),
			Member: last.GetMember(), Token: strconv.FormatInt(last.GetToken(), 10), Generation: r.GetGeneration()}
		if r.GetFiring().GetTrigger() == "" {
			run.Instant = time.Unix(r.GetFiring().GetScheduled(), 0).UTC()
		}
		if last.ExitCode != nil {
			code := int(last.GetExitCode())
			run.ExitCode = &code
		}
		for _, a := range r.GetAttempts() {
			run.Attempts = append(run.Attempts, Attempt{int(a.GetNumber()), strconv.FormatInt(a.GetToken(), 10), a.GetMember(), verdictOf(a.GetVerdict()), reasonOf(a.GetReason())})
		}
		i, ok := have[firing]
		if !ok {
			all = append(all, run)
			continue
		}
		if o := all[i]; o.Verdict != "" && (o.Verdict != run.Verdict || o.Reason != run.Reason || o.Token != run.Token) {
			t.report("C10", t.h.Taken, firing, "the API shows what etcd holds", "run list, and etcd's log",
				"%s is shown as %s with token %s, and lies in etcd as %s with token %s", firing,
				shown(o.Verdict, o.Reason), o.Token, shown(run.Verdict, run.Reason), run.Token)
		}
	}
	slices.SortStableFunc(all, func(a, b Run) int { return a.Instant.Compare(b.Instant) })
	t.shownToo(have)
	return all
}

// shownToo looks for records that are kept in etcd and not shown: as many of the newest as the job keeps
// must be there.
func (t *trial) shownToo(have map[string]int) {
	if t.shown == nil || t.h.unfinished() {
		return
	}
	slots := map[int]record{}
	for _, r := range t.etcd.records {
		slots[r.slot] = r
	}
	kept := slices.SortedFunc(maps.Values(slots), func(a, b record) int { return cmp.Compare(b.revision, a.revision) })
	most := t.eras[len(t.eras)-1].spec.Kept
	for i, r := range kept {
		firing := firingOf(t.uid, r.GetFiring())
		if _, ok := have[firing]; !ok && i < most {
			t.report("C10", t.h.Taken, firing, "the API shows what etcd holds", "run list, and etcd's log", "%s lies in etcd as %s, and is not shown",
				firing, ending(r.last().GetVerdict(), r.last().GetReason()))
		}
	}
}

// undecided says that the cluster does not show the job any more, so that its records are gone.
func (t *trial) undecided() bool { return t.shown == nil }

// open says whether the start's attempt was still in flight when etcd's log ended.
func (t *trial) open(s Line) bool {
	if len(t.etcd.states) == 0 {
		return false
	}
	last := t.etcd.states[len(t.etcd.states)-1]
	for _, e := range last.GetEntries() {
		if firingOf(t.uid, e.GetFiring()) == s.Firing {
			return true
		}
	}
	return false
}

// lossOf holds the ends that blame something against what happened.
func (t *trial) lossOf(r Run) {
	for _, a := range r.Attempts {
		end := shown(a.Verdict, a.Reason)
		switch end {
		case "LOST(member lost)", "FAILED(lock lost)":
			if t.h.lostAt(a.Member, r.Instant, t.recordedAt(r.Firing, a.Number)) == nil {
				t.report("C10", r.Instant, r.Firing, "a fault of "+a.Member, "the fault log", "%s is %s, and nothing befell %s", r.Firing, end, a.Member)
				t.blameSlow()
			}
		case "TIMED_OUT":
			if t.specAt(r.Instant).Timeout == 0 {
				t.report("C10", r.Instant, r.Firing, "a time limit", "the definition", "%s is TIMED_OUT, and the job has no time limit", r.Firing)
			}
		case "CANCELED":
			if len(t.h.Changes) > 0 && len(t.cancels) == 0 {
				t.report("C10", r.Instant, r.Firing, "a call that cancelled it", "the calls", "%s is CANCELED, and nobody cancelled anything", r.Firing)
			}
		}
	}
}

// recordedAt is when the end of an attempt was seen in etcd's log; zero when it is not there.
func (t *trial) recordedAt(firing string, attempt int) time.Time {
	if t.etcd == nil {
		return time.Time{}
	}
	for _, r := range t.etcd.recordsOf[firing] {
		if int(r.last().GetNumber()) == attempt {
			_, now := t.around(r.revision)
			return t.seenAt(r.revision, now)
		}
	}
	return time.Time{}
}

// lineOf holds one start against the line that the record has of its attempt.
func (t *trial) lineOf(s Line, r Run) {
	i := slices.IndexFunc(r.Attempts, func(a Attempt) bool { return strconv.Itoa(a.Number) == s.Attempt })
	switch {
	case i < 0 && r.Verdict == "":
	case i < 0:
		t.report("C10", s.Wall(), s.Firing, "a line for each attempt", "its record", "%s attempt %s started, and its record has no such attempt", s.Firing, s.Attempt)
	case r.Attempts[i].Reason == "never started":
		t.report("C10", s.Wall(), s.Firing, "no start", "its start line", "%s attempt %s never started, says the record, and did", s.Firing, s.Attempt)
	}
}

// ending holds a verdict against the command's own last words.
func (t *trial) ending(r Run, started bool) {
	ends := t.ends[r.Firing]
	exited := func(code int) bool {
		return slices.ContainsFunc(ends, func(l Line) bool { return l.Exit == code && l.Token == r.Token })
	}
	wrong := func(want, what string, a ...any) {
		t.report("C10", r.Instant, r.Firing, want, "the command's end line", what, a...)
	}
	handler := t.specAt(r.Instant).Handler
	switch {
	case r.Verdict == "SUCCEEDED" && !exited(0):
		wrong("an end with 0", "%s SUCCEEDED, and its command did not end with 0", r.Firing)
	case r.Verdict == "FAILED" && r.Reason == "exit code" && !(r.ExitCode != nil && (exited(*r.ExitCode) || *r.ExitCode > 128)):
		wrong("an end with its exit code", "%s FAILED(exit code), and its command did not say so", r.Firing)
	case r.Verdict == "SUCCEEDED" && !handler && (r.ExitCode == nil || *r.ExitCode != 0):
		wrong("exit code 0", "%s SUCCEEDED, and its record has another exit code", r.Firing)
	case r.Verdict == "FAILED" && r.Reason == "error" && !started && t.h.lostAt(r.Member, r.Instant, t.recordedAt(r.Firing, r.Attempt)) != nil:
		// its supervisor died before the command had written a line
	case r.Verdict == "CANCELED" && !started && t.nipped(r):
	case r.Verdict != "" && r.Verdict != "LOST" && r.Reason != "start error" && !started:
		wrong("a start", "%s is %s, and nothing started", r.Firing, r.Verdict)
	}
}

// nipped says whether an attempt ended so soon after its grant that its command was killed before it had
// written a line.
func (t *trial) nipped(r Run) bool {
	token, _ := strconv.ParseInt(r.Token, 10, 64)
	granted, ended := t.lockOf(token), t.recordedAt(r.Firing, r.Attempt)
	return granted != nil && !ended.IsZero() && ended.Sub(granted.at) < t.h.bounds().Calm
}

// keptSince is the instant from which on every run must have its record: so many newer ones are there
// that no older one need be.
func (t *trial) keptSince() time.Time {
	most := t.eras[len(t.eras)-1].spec.Kept
	if most == 0 || len(t.runs) < most {
		return time.Time{}
	}
	var instants []time.Time
	for _, r := range t.runs {
		instants = append(instants, r.Instant)
	}
	slices.SortFunc(instants, func(a, b time.Time) int { return b.Compare(a) })
	return instants[most-1]
}

// aged says whether an instant may be known by the sums alone: its record made room for others, or its
// range did, or the job is gone.
func (t *trial) aged(at time.Time) bool {
	if t.etcd != nil {
		return false // nothing ages in the log
	}
	if t.shown == nil || at.Before(t.keptSince()) {
		return true
	}
	var oldest time.Time
	for _, g := range t.shown.Ranges {
		if oldest.IsZero() || g.First.Before(oldest) {
			oldest = g.First
		}
	}
	return len(t.shown.Ranges) >= maxRanges && at.Before(oldest)
}
