package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/quorumcron/quorumcron/scheduler"
)

// oracle checks the promises of the design while the history is made. It sees what is committed, which
// locks go and which processes run, keeps its own account of every job from that, and finds instants by
// its own calendar. Of the code under test it takes the nouns, Due and nothing else.
//
//   - every instant and every trigger has one verdict, and the counters say which (G5);
//   - a firing is granted once; a further attempt follows only one that was lost, if the policy allows it
//     (G1, G2); a granted attempt starts at most one process; tokens rise;
//   - no two attempts of a job at a time, neither in the state nor as processes, unless a machine was
//     frozen (G6); nothing is skipped for overlap with what has ended;
//   - nothing is granted before it is due by the member's clock, by a member whose clock jumped, after its
//     start deadline, under a definition that was replaced, or by a member that is not the owner (G3, G7);
//   - a change of the schedule acts only on instants after it, and so does one of a calendar: what is excluded
//     never runs and is counted so, by what was said at the instant (G7);
//   - a record says how its attempt ended; none is written after the verdict, and none destroys another
//     that is still needed;
//   - while nothing is wrong, instants are decided within seconds, and whatever is in flight ends (G4).
type oracle struct {
	world      *world
	violations []Violation
	decided    int64 // firings that must be accounted for, of all jobs
	// said is all that each exclusion calendar has ever said.
	said map[scheduler.CalendarName][]scheduler.CalendarVersion
}

// Violation is a broken promise.
type Violation struct {
	Kind string // which promise, in a word or two
	Text string // what happened
	Job  string // to which job
	At   time.Duration
}

// String is one line.
func (v Violation) String() string { return v.Kind + ": " + v.Text }

func newOracle(w *world) *oracle {
	return &oracle{world: w, said: map[scheduler.CalendarName][]scheduler.CalendarVersion{}}
}

// broken notes a broken promise.
func (o *oracle) broken(a *account, kind, format string, args ...any) {
	if o.world.stopped() {
		return // of one event that breaks several the first is told
	}
	v := Violation{Kind: kind, Text: fmt.Sprintf(format, args...), Job: a.rec.job.name.Name, At: o.world.now}
	o.violations = append(o.violations, v)
	o.world.count("violation")
	o.world.tell("VIOLATION", "%s", v)
}

// account is what the oracle knows of one uid.
type account struct {
	rec      *record
	calendar *calendar // of the definition in force; nil under a tombstone
	schedule scheduler.Schedule
	edited   time.Duration // when its definition last changed
	since    int64         // instants up to here belong to an earlier definition, or to a pause
	open     []*opened
	consumed []string // triggers
	token    int64    // the highest so far
	alive    []*execution
	waiting  time.Time // the backlog that waited at the last audit though nothing was in its way
}

// opened is a firing that was granted and has no verdict yet.
type opened struct {
	firing   scheduler.Firing
	due      time.Time
	slot     int
	attempts []grant
}

// grant is one attempt of it.
type grant struct {
	token    int64
	granted  time.Duration
	quiet    time.Duration // when it was granted, or its process ended
	unlocked time.Duration // when its lock went without its end; 0: it did not
	verdict  scheduler.Verdict
	reason   scheduler.Reason
	run      *execution
}

// lost says whether the attempt went with its lock: nobody heard of its end, or its own member killed it.
func (g *grant) lost() bool {
	return g.verdict == scheduler.Lost || g.verdict == scheduler.Failed && g.reason == scheduler.ReasonLockLost
}

func (a *account) find(f scheduler.Firing) *opened {
	for _, o := range a.open {
		if o.firing == f {
			return o
		}
	}
	return nil
}

// attempt is the grant of an attempt of a firing, or nil.
func (a *account) attempt(f scheduler.Firing, number int) *grant {
	o := a.find(f)
	if o == nil || number < 1 || number > len(o.attempts) {
		return nil
	}
	return &o.attempts[number-1]
}

func (o *opened) last() *grant { return &o.attempts[len(o.attempts)-1] }

// changed takes in a user's change, before it is written.
func (o *oracle) changed(r *record, c *change) {
	if r.account == nil {
		r.account = &account{rec: r, since: c.state.Cursor.Unix(), schedule: c.def.Schedule, calendar: newCalendar(c.def.Schedule)}
		return
	}
	a := r.account
	if c.state != nil {
		o.write(r, c.state, "user", nil, c.drop)
	}
	if c.def == nil {
		return
	}
	a.edited = o.world.now
	// What was due under the old definition has its verdict now; what is due under the new one comes after.
	edge := c.instant().Unix()
	if !slices.Equal([]any{c.def.Paused, c.def.Tombstone()}, []any{r.def.Paused, r.def.Tombstone()}) ||
		!sameSchedule(c.def.Schedule, a.schedule) {
		cursor := r.filled.Cursor
		if c.state != nil {
			cursor = c.state.Cursor
		}
		if n := a.calendar.count(cursor.Unix(), edge); n > 0 && !r.def.Paused {
			o.broken(a, "no verdict", "%d instants of %s that were due before it was changed have none", n, r.def.UID)
		}
		a.since = max(a.since, edge)
	}
	if c.def.Tombstone() {
		a.calendar = nil
	} else if !sameSchedule(c.def.Schedule, a.schedule) {
		a.schedule, a.calendar = c.def.Schedule, newCalendar(c.def.Schedule)
	}
}

func sameSchedule(a, b scheduler.Schedule) bool {
	return slices.Equal(a.Cron, b.Cron) && a.Every == b.Every && a.Origin.Equal(b.Origin) && a.TimeZone == b.TimeZone &&
		a.Jitter == b.Jitter && slices.Equal(a.Exclude, b.Exclude) && a.Start.Equal(b.Start) && a.End.Equal(b.End) && slices.EqualFunc(a.At, b.At, time.Time.Equal)
}

// wrote takes in a write of a state that grants nothing and consumes no trigger, before it is written.
func (o *oracle) wrote(r *record, next *scheduler.State, why string) { o.write(r, next, why, nil, nil) }

// write compares a write of a state with the one before.
func (o *oracle) write(r *record, next *scheduler.State, why string, c *claim, consumed []scheduler.Trigger) {
	a, before := r.account, r.filled
	if next.Cursor.Before(before.Cursor) {
		o.broken(a, "cursor", "of %s moved back from %s to %s by %s", r.def.UID, before.Cursor.Format(time.TimeOnly), next.Cursor.Format(time.TimeOnly), why)
		return
	}
	passed := a.calendar.count(before.Cursor.Unix(), next.Cursor.Unix())
	notRun := passed + backlog(before) - backlog(next)
	for _, t := range consumed {
		notRun++
		if slices.Contains(a.consumed, t.ID) {
			o.broken(a, "second grant", "trigger %s of %s was consumed twice", t.ID, r.def.UID)
		}
		a.consumed = append(a.consumed, t.ID)
	}
	o.decided += passed + int64(len(consumed))
	for i := range next.Entries {
		x := &next.Entries[i]
		switch g := a.attempt(x.Firing, x.Attempt); {
		case g == nil:
			if x.Attempt == 1 {
				notRun--
			}
			o.granted(r, next, x, c, why)
		case g.token != x.Token:
			o.broken(a, "token", "the state says %d of %s #%d, which has %d, after %s", x.Token, x.Firing.Key(), x.Attempt, g.token, why)
			x.Token = g.token
		}
	}
	o.exclusions(a, before, next, why)
	o.closed(a, before, next, notRun, why)
}

func backlog(s *scheduler.State) int64 {
	if s.Backlog == nil {
		return 0
	}
	return s.Backlog.Count
}

// closed finds what ended by a write, and compares it with what the counters say.
func (o *oracle) closed(a *account, before, next *scheduler.State, notRun int64, why string) {
	delta := differences(before.Counters, next.Counters)
	for _, f := range slices.Clone(a.open) {
		switch {
		case inEntries(next, f.firing):
			continue
		case f.last().verdict == "":
			o.broken(a, "no verdict", "%s left the state without one, by %s", f.firing, why)
		case inRetries(next, f.firing):
			continue
		}
		a.open = slices.DeleteFunc(a.open, func(other *opened) bool { return other == f })
		delta = less(delta, f.last().verdict, f.last().reason)
	}
	for _, d := range delta {
		if d.Verdict == scheduler.Skipped || d.Verdict == scheduler.Missed {
			notRun -= d.Count
			continue
		}
		o.broken(a, "balance", "%s counts %+d %s that are not so, by %s", a.rec.job.name.Name, d.Count, outcomeText(d.Verdict, d.Reason), why)
	}
	if notRun != 0 {
		o.broken(a, "balance", "%s has %+d firings without a verdict, by %s", a.rec.job.name.Name, notRun, why)
	}
	o.shown(a, before, next)
}

// shown checks the newest range that people are shown: it has so many instants.
func (o *oracle) shown(a *account, before, next *scheduler.State) {
	n := len(next.Ranges)
	if n == 0 || a.calendar == nil {
		return
	}
	r := next.Ranges[n-1]
	if len(before.Ranges) == n && before.Ranges[n-1] == r || r.Trigger != "" || r.First.Unix() <= a.since {
		return
	}
	if count := a.calendar.count(r.First.Unix()-1, r.Last.Unix()); count != r.Count {
		o.broken(a, "range", "%s shows %d instants from %s to %s, there are %d", a.rec.job.name.Name, r.Count, r.First, r.Last, count)
	}
}

// differences is what counters rose by.
func differences(before, next []scheduler.Counter) []scheduler.Counter {
	var list []scheduler.Counter
	for _, c := range next {
		for _, b := range before {
			if b.Verdict == c.Verdict && b.Reason == c.Reason {
				c.Count -= b.Count
			}
		}
		if c.Count != 0 {
			list = append(list, c)
		}
	}
	for _, b := range before {
		if !slices.ContainsFunc(next, func(c scheduler.Counter) bool { return c.Verdict == b.Verdict && c.Reason == b.Reason }) {
			b.Count = -b.Count
			list = append(list, b)
		}
	}
	return list
}

// less takes one firing out of a difference.
func less(delta []scheduler.Counter, v scheduler.Verdict, r scheduler.Reason) []scheduler.Counter {
	for i := range delta {
		if delta[i].Verdict == v && delta[i].Reason == r {
			if delta[i].Count--; delta[i].Count == 0 {
				return slices.Delete(delta, i, i+1)
			}
			return delta
		}
	}
	return append(delta, scheduler.Counter{Verdict: v, Reason: r, Count: -1})
}

func inEntries(s *scheduler.State, f scheduler.Firing) bool {
	for i := range s.Entries {
		if s.Entries[i].Firing == f {
			return true
		}
	}
	return false
}

func inRetries(s *scheduler.State, f scheduler.Firing) bool {
	for i := range s.Retries {
		if s.Retries[i].Firing == f {
			return true
		}
	}
	return false
}

// swept takes in that a tombstone goes with everything below it.
func (o *oracle) swept(r *record) {
	if n := len(r.account.open); n > 0 {
		o.broken(r.account, "no verdict", "%d firings of %s were in flight when it was swept", n, r.def.UID)
	}
}
