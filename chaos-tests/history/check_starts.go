package history

import (
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
)

// missed is C01. Every required instant was started, or says why not, and what it says is true: a skip
// for an overlap had something in the way, an instant that was found late had a fault to blame.
// Guarantee: G2, G5. Evidence: the oracle against starts, records, ranges, etcd's log, and the faults.
func (t *trial) missed(*Judgement) int {
	started := t.startedAt()
	looked := 0
	for i, d := range t.due {
		if d.class != required {
			continue
		}
		looked++
		if started[d.at] {
			continue
		}
		given := t.verdicts[d.at]
		if len(given) == 0 && !t.aged(d.at) {
			t.report("C01", d.at, t.firing(d.at), "a start, or a reason why not", "no start line, no record, no range",
				"instant %s was never started, and nothing says why", clock(d.at))
		}
		for _, v := range given {
			if untrue := t.untrue(v, i); untrue != "" {
				t.report("C01", d.at, t.firing(d.at), "a reason that is true", v.by,
					"instant %s is %s, and %s", clock(d.at), shown(v.verdict, v.reason), untrue)
				if untrue == inTime || untrue == changeLate {
					t.blameSlow()
				}
			}
		}
	}
	return looked
}

// startedAt are the instants that a command was started for.
func (t *trial) startedAt() map[time.Time]bool {
	started := map[time.Time]bool{}
	for _, s := range t.starts {
		started[s.Due()] = true
	}
	return started
}

func (t *trial) firing(at time.Time) string { return t.uid + "@" + at.Format(time.RFC3339) }

// Why the verdict of an instant is not true that a slow etcd may have kept waiting.
const (
	inTime     = "no fault kept it from being in time"
	changeLate = "no change came in time to be to blame"
)

// untrue says why the verdict of an instant without a start cannot be true, or "".
func (t *trial) untrue(v ended, i int) string {
	d := t.due[i]
	era := t.eras[d.era]
	switch shown(v.verdict, v.reason) {
	case "SKIPPED(overlap)":
		if !t.blocked(d.at) {
			return "nothing was in its way"
		}
	case "SKIPPED(paused)", "SKIPPED(edited)", "SKIPPED(deleted)":
		until, _ := t.reach(d.at, t.recovery)
		if era.ended == "" || era.until.from.After(until) {
			return changeLate
		}
	case "SKIPPED(canceled)":
		if len(t.cancels) == 0 {
			return "nobody cancelled anything"
		}
	case "MISSED(catch-up policy)", "MISSED(window)":
		if v.written >= 0 && t.etcd.states[v.written].at.Sub(d.at) < onTime-t.h.clocksOff() {
			return "that was decided while it was still on time"
		}
		if !t.inFault(d.at) {
			return inTime
		}
	case "LOST(never started)":
		if !t.inFault(d.at) {
			return inTime
		}
	case "MISSED(start deadline)":
		if era.spec.StartDeadline == 0 {
			return "the job has no start deadline"
		}
		if !t.inFault(d.at) && !t.blocked(d.at) {
			return inTime
		}
	}
	return ""
}

// blocked says whether another attempt of the job was in the way of an instant: when the skip was
// written, by etcd's log; without one, a command that lived, or a fault that may have taken one.
func (t *trial) blocked(at time.Time) bool {
	for _, v := range t.verdicts[at] {
		if v.written >= 0 && shown(v.verdict, v.reason) == "SKIPPED(overlap)" {
			return t.inTheWay(t.etcd.states[v.written])
		}
	}
	const ending = time.Second // an end takes a moment to be known
	for _, s := range t.starts {
		if !s.Due().Equal(at) && s.Wall().Before(at.Add(onTime)) && t.last[s.Nonce].Wall().After(at.Add(-ending)) {
			return true
		}
	}
	return t.inFault(at)
}

// inTheWay says whether the state that a skip was written in has an attempt without its record, or one
// that is owed.
func (t *trial) inTheWay(s state) bool {
	for _, e := range s.GetEntries() {
		if !t.recorded(e, s.token(e), s.revision) {
			return true
		}
	}
	return len(s.GetRetries()) > 0
}

// duplicates is C02. A firing has no more starts than attempts, each attempt has one start, and a
// further attempt follows only one that was recorded as lost or failed.
// Guarantee: G1, G2. Evidence: start lines, with nonces that the commands drew, against the definition.
func (t *trial) duplicates(*Judgement) int {
	firings, attempts := map[string]int{}, map[string]Line{}
	for _, s := range t.starts {
		most := t.specOf(s).attempts()
		firings[s.Firing]++
		attempt := s.Firing + " attempt " + s.Attempt
		if first, again := attempts[attempt]; again {
			t.report("C02", s.Wall(), s.Firing, "one start for each attempt", "two start lines with nonces "+first.Nonce+" and "+s.Nonce,
				"%s started twice, the second time on %s at %s", attempt, s.Node, clock(s.Wall()))
			continue
		}
		attempts[attempt] = s
		if firings[s.Firing] == most+1 {
			t.report("C02", s.Wall(), s.Firing, "at most "+strconv.Itoa(most)+" attempts", "start lines",
				"%s started %d times, the last on %s at %s", s.Firing, firings[s.Firing], s.Node, clock(s.Wall()))
			continue
		}
		if n, err := strconv.Atoi(s.Attempt); err == nil && n > 1 {
			if before := t.attemptOf(s.Firing, n-1); before != "" && !triedAgain(before) {
				t.report("C02", s.Wall(), s.Firing, "a further attempt after a lost or failed one only", "the record's line of attempt "+strconv.Itoa(n-1),
					"attempt %d of %s started on %s, and attempt %d is %s", n, s.Firing, s.Node, n-1, before)
			}
		}
	}
	return len(t.starts)
}

// triedAgain says whether a further attempt may follow one that ended so.
func triedAgain(verdict string) bool {
	return verdict == "LOST" || verdict == "FAILED" || verdict == "TIMED_OUT"
}

// attemptOf is how an attempt ended, as the record of its firing says; "" when there is none.
func (t *trial) attemptOf(firing string, number int) string {
	for _, r := range t.runs {
		for _, a := range r.Attempts {
			if r.Firing == firing && a.Number == number {
				return a.Verdict
			}
		}
	}
	if t.etcd == nil {
		return ""
	}
	for _, r := range t.etcd.records {
		for _, a := range r.GetAttempts() {
			if firingOf(t.uid, r.GetFiring()) == firing && int(a.GetNumber()) == number {
				return verdictOf(a.GetVerdict())
			}
		}
	}
	return ""
}

// specOf is the definition that a start was for.
func (t *trial) specOf(s Line) Spec { return t.specAt(s.Due()) }

// specAt is the definition that has an instant; the newest one when none does.
func (t *trial) specAt(at time.Time) Spec {
	if i, found := slices.BinarySearchFunc(t.due, at, func(d instant, at time.Time) int { return d.at.Compare(at) }); found {
		return t.eras[t.due[i].era].spec
	}
	return t.eras[len(t.eras)-1].spec
}

// late is C03. The first attempt of an instant starts within Calm of it, or within the promised
// recovery after the faults that reach it; and no attempt is granted after its start deadline, or, where
// nothing is caught up, when it is no longer on time.
// A grant that is too old is never started.
// Guarantee: G4, G1. Evidence: the commands' wall clock, which no fault touches, the fault log, and etcd's.
func (t *trial) late(*Judgement) int {
	looked := 0
	for _, s := range t.starts {
		if s.Due().IsZero() {
			continue
		}
		looked++
		t.tooOld(s)
		recovery, since := t.recovery, s.Due()
		if s.Attempt != "1" { // it waited until the attempt before was surely dead
			recovery = func(Fault) time.Duration { return t.h.bounds().BusyRecovery() }
			since = t.silentSince(s)
		}
		until, by := t.reach(since, recovery)
		if !s.Wall().After(until) {
			continue
		}
		want := "no fault reaches it"
		if len(by) > 0 {
			want = "the last fault that reaches it is " + by[len(by)-1].String()
		}
		t.report("C03", s.Wall(), s.Firing, "a start by "+clock(until)+": "+want, "its start line",
			"%s attempt %s started on %s at %s, %s after it was due", s.Firing, s.Attempt, s.Node, clock(s.Wall()), s.Lateness())
		t.blameSlow()
	}
	t.tooLate()
	return looked
}

// onTime is how long after it was due an instant is decided by itself; later it is for the catch-up
// policy.
const onTime = 5 * time.Second

// AfterClaim is the fail point between a grant and the last look at its age.
const AfterClaim = "after-claim"

// tooOld holds a start against its grant: one whose Begin was sent more than half a TTL ago is never started.
// It is excused when something stood still on the way from that question to the command.
func (t *trial) tooOld(s Line) {
	k := t.lockOf(token(s))
	if k == nil {
		return
	}
	most := t.h.bounds().TTL/2 + t.h.bounds().Calm
	if age := s.Wall().Sub(k.at); age > most && !t.stoodStill(s, k.at) {
		t.report("C03", s.Wall(), s.Firing, "a start at most "+most.String()+" after its grant", "its start line, and its lock in etcd's log",
			"%s attempt %s started on %s %s after it had been granted", s.Firing, s.Attempt, s.Node, age)
	}
}

// stoodStill says whether a start's node or its supervisor stood still, or had to be started, at any time
// since a moment: between the last look at a grant's age and the command's first line nobody looks again.
func (t *trial) stoodStill(s Line, since time.Time) bool {
	return slices.ContainsFunc(t.h.Faults, func(f Fault) bool {
		kind := f.trait()
		old := f.kind() == NodeFailPoint && f.Point == AfterClaim // that is before the look
		return (kind.sleeps && !old || f.kind() == SupervisorKill) && f.on(s.Node) && f.From.Before(s.Wall()) && !f.end().Before(since)
	})
}

// tooLate holds each grant, by the granting member's own clock, against what its definition allows.
func (t *trial) tooLate() {
	if t.etcd == nil {
		return
	}
	for _, s := range t.etcd.states {
		for _, e := range s.GetEntries() {
			if s.token(e) != s.revision || e.GetFiring().GetTrigger() != "" {
				continue
			}
			spec, firing := t.specAt(time.Unix(e.GetFiring().GetScheduled(), 0).UTC()), firingOf(t.uid, e.GetFiring())
			late := e.GetGranted().AsTime().Sub(e.GetDue().AsTime())
			switch {
			case spec.StartDeadline > 0 && late > spec.StartDeadline:
				t.report("C03", s.at, firing, "nothing granted later than "+spec.StartDeadline.String()+" after it was due", "its entry in etcd",
					"attempt %d of %s was granted %s after it was due", e.GetAttempt(), firing, late)
			case spec.CatchUp == "none" && e.GetAttempt() == 1 && late > onTime:
				t.report("C03", s.at, firing, "nothing caught up", "its entry in etcd", "%s was granted %s after it was due", firing, late)
			}
		}
	}
}

// silentSince is when the attempt before a start gave its last sign of life, or the instant.
func (t *trial) silentSince(s Line) time.Time {
	since := s.Due()
	for _, before := range t.starts {
		if before.Firing == s.Firing && token(before) < token(s) && before.BootNS < s.BootNS {
			since = later(since, t.deadBy(before, s))
		}
	}
	return since
}

// deadBy is when an attempt was dead, or, if it lived on beside its successor, when the fault came that
// had it called lost.
func (t *trial) deadBy(l, successor Line) time.Time {
	last := t.last[l.Nonce].Wall()
	if !last.After(successor.Wall()) {
		return last
	}
	for _, f := range t.h.Faults {
		if f.trait().loses && f.on(l.Node) && !f.end().Before(l.Wall()) && f.From.Before(successor.Wall()) {
			return later(f.From, l.Wall())
		}
	}
	return l.Due()
}

// recovery is how long the job may stand still after a fault: longer when an attempt was in flight
// there, for that must be surely dead first.
func (t *trial) recovery(f Fault) time.Duration {
	if f.Node == "" || t.inFlight(f.Node, f.From) {
		return t.h.bounds().BusyRecovery()
	}
	return t.h.bounds().Recovery()
}

// inFlight says whether an attempt was in flight on a node at a moment: a command that lived, or, by
// etcd's log, a lock that was held.
func (t *trial) inFlight(node string, at time.Time) bool {
	if i := sort.Search(len(t.starts), func(i int) bool { return t.starts[i].Wall().After(at) }); i > 0 {
		newest := t.starts[i-1]
		if end := t.last[newest.Nonce]; newest.Node == node && (end.Event != End || end.Wall().After(at)) {
			return true
		}
	}
	if t.etcd == nil {
		return false
	}
	const seen = 500 * time.Millisecond // what was written may be seen so much later
	locks := t.etcd.locks
	i := sort.Search(len(locks), func(i int) bool { return locks[i].at.After(at.Add(seen)) })
	for i--; i >= 0; i-- {
		if k := locks[i]; !k.deleted {
			return k.GetMember() == node // it was held, or let go within that moment
		} else if k.at.Before(at.Add(-seen)) {
			return false
		}
	}
	return false
}

// early is C04. Nothing starts before its instant, but for as much as a fault had put the clock of its
// node ahead; and no grant is older than what it grants, by the granting member's own clock.
// Guarantee: G3. Evidence: the commands' wall clock; in etcd's log when the grant was made, and due.
func (t *trial) early(*Judgement) int {
	looked := 0
	for _, s := range t.starts {
		if s.Due().IsZero() {
			continue
		}
		looked++
		_, ahead := t.h.skewOf(s.Node, s.Wall())
		if before := s.Due().Sub(s.Wall()); before > ahead {
			t.report("C04", s.Wall(), s.Firing, "no start before "+s.Instant, "its start line",
				"%s started on %s %s before it was due", s.Firing, s.Node, before)
		}
	}
	if t.etcd == nil {
		return looked
	}
	for _, s := range t.etcd.states {
		for _, e := range s.GetEntries() {
			looked++
			granted, due := e.GetGranted().AsTime(), e.GetDue().AsTime()
			if s.token(e) == s.revision && e.GetFiring().GetTrigger() == "" && granted.Before(due) {
				t.report("C04", s.at, firingOf(t.uid, e.GetFiring()), "no grant before it is due", "its entry in etcd",
					"%s was granted by %s at %s, and due at %s", firingOf(t.uid, e.GetFiring()), e.GetMember(), clock(granted), clock(due))
			}
		}
	}
	return looked
}

// phantoms is C05. Each start is for an instant that the definition in force has, or for a trigger that
// somebody asked for; there are never more starts than instants that had been due; and nothing is
// granted under a definition that had been replaced, paused or deleted before.
// Guarantee: G1, G7. Evidence: starts against the oracle and the calls, by what they say they are and by
// counting, which does not trust that; and the generations in etcd's log.
func (t *trial) phantoms(*Judgement) int {
	asked := map[time.Time]int{}
	var moments []time.Time
	for _, d := range t.due {
		if asked[d.at] = d.class; d.class != halted {
			moments = append(moments, d.at)
		}
	}
	first, triggered := 0, map[string]bool{}
	for k, s := range t.starts {
		if s.Instant == "" && strings.HasPrefix(s.Firing, t.uid+"+") {
			t.triggered(s, triggered)
			continue
		}
		class, known := asked[s.Due()]
		switch {
		case !known:
			t.report("C05", s.Wall(), s.Firing, "a start for an instant of the schedule", "its start line, and the oracle",
				"started on %s for instant %q, which the schedule does not have", s.Node, s.Instant)
		case class == halted:
			t.report("C05", s.Wall(), s.Firing, "no start while the job is paused", "its start line, and the reply to pause",
				"started on %s for instant %s, at which the job was paused", s.Node, s.Instant)
		case s.Firing != t.firing(s.Due()):
			t.report("C05", s.Wall(), s.Firing, "firing "+t.firing(s.Due()), "its start line",
				"firing %s of instant %s of uid %s", s.Firing, s.Instant, t.uid)
		}
		if _, ahead := t.h.skewOf(s.Node, s.Wall()); s.Attempt == "1" {
			if first < len(moments) && s.Wall().Add(ahead).Before(moments[first]) {
				t.report("C05", s.Wall(), s.Firing, "as many starts as instants at most", "counting alone",
					"start %d at %s, when only %d instants had been due", k+1, clock(s.Wall()), first)
			}
			first++
		}
	}
	if first > len(moments) {
		t.report("C05", t.starts[len(t.starts)-1].Wall(), "", "as many starts as instants at most", "counting alone",
			"%d firings started, and only %d instants were due", first, len(moments))
	}
	t.grants()
	return len(t.starts)
}

// triggered holds the start of a triggered firing against what was asked for.
func (t *trial) triggered(s Line, seen map[string]bool) {
	most, named := t.plan.Triggers, false
	for _, c := range t.triggers {
		if c.Result != Failed {
			most++
		}
		named = named || c.Firing == s.Firing || c.Firing == ""
	}
	if seen[s.Firing] = true; len(seen) > most || len(t.triggers) > 0 && !named {
		t.report("C05", s.Wall(), s.Firing, "a trigger that somebody asked for", "the calls",
			"%s started on %s, and %d triggers were asked for, none of them this", s.Firing, s.Node, most)
	}
}

// grants holds what was granted against the definition in force, by revision: no clock comes into it.
func (t *trial) grants() {
	if t.etcd == nil {
		return
	}
	for _, s := range t.etcd.states {
		for _, e := range s.GetEntries() {
			if s.token(e) != s.revision {
				continue // granted by an earlier write
			}
			var force *definition
			for i := range t.etcd.definitions {
				if d := &t.etcd.definitions[i]; d.revision < s.revision {
					force = d
				}
			}
			firing := firingOf(t.uid, e.GetFiring())
			switch {
			case force == nil:
				t.report("C05", s.at, firing, "a definition before the grant", "etcd's log", "%s was granted at revision %d, before there was a definition", firing, s.revision)
			case force.deleted(), force.GetPaused():
				t.report("C05", s.at, firing, "nothing granted after a pause or deletion", "etcd's log: revisions",
					"%s was granted at revision %d, and the job was paused or deleted at revision %d", firing, s.revision, force.revision)
			case force.GetGeneration() != e.GetGeneration():
				t.report("C05", s.at, firing, "nothing granted under an older definition", "etcd's log: revisions",
					"%s was granted at revision %d under generation %d, and generation %d is from revision %d",
					firing, s.revision, e.GetGeneration(), force.GetGeneration(), force.revision)
			}
		}
	}
}

// strangers are starts of jobs that nobody asked for, the other half of C05.
func (h *History) strangers(j *Judgement) int {
	asked := map[string]bool{}
	for _, c := range h.changes() {
		asked[c.Job] = true
	}
	for _, l := range h.Lines {
		if l.Event == Start && !asked[l.Job] {
			j.Findings = append(j.Findings, Finding{Check: "C05", Job: l.Job, Firing: l.Firing, At: l.Wall(),
				What: "ran, but nobody asked for this job", Want: "a job that was applied", Evidence: "its start line"})
		}
	}
	return 0
}
