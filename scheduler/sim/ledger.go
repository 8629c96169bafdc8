package sim

import (
	"fmt"
	"time"

	"github.com/quorumcron/quorumcron/scheduler"
)

// ledger checks the promises while the history is made. It sees what is committed and which processes
// run, and knows nothing of how that was decided.
//
//   - one grant for each attempt, none after the firing's verdict, one verdict for each firing;
//   - a granted attempt starts at most one process, and none after the firing's verdict;
//   - with onLost fail a firing has at most one attempt; a further one follows only one that was lost;
//   - no two processes of one job at a time;
//   - no grant before the firing is due by the granting member's clock, and none of a paused job;
//   - no claim under a definition that an acknowledged edit replaced, or by a member that is not owner;
//   - the cursor never moves back;
//   - everything between creation and cursor is in flight, owed, in the backlog, or counted once;
//   - no attempt is in flight for longer than runs, outages and holds take together;
//   - in the end nothing is left without a verdict.
type ledger struct {
	world *world
	owed  map[string]int64 // by uid: instants that the cursor passed, and triggers consumed
	known map[scheduler.Firing]*firing
	procs map[string]*process // the live process of each job, by uid
	broke map[string]bool
}

// firing is what became of one granted firing.
type firing struct {
	attempts int           // granted
	since    time.Duration // when the last was
	started  map[int]bool
	verdict  scheduler.Verdict // of the last record; the firing has ended when over is set
	over     bool
}

// process is an attempt that runs on a member.
type process struct {
	firing  scheduler.Firing
	attempt int
	member  string
}

func newLedger(w *world) *ledger {
	return &ledger{
		world: w, owed: map[string]int64{}, known: map[scheduler.Firing]*firing{},
		procs: map[string]*process{}, broke: map[string]bool{},
	}
}

// violation notes a broken promise, once for each kind.
func (l *ledger) violation(kind, format string, args ...any) {
	l.world.count("violation")
	line := kind + ": " + fmt.Sprintf(format, args...)
	l.world.say("VIOLATION %s", line)
	if !l.broke[kind] {
		l.broke[kind] = true
		l.world.report.Violations = append(l.world.report.Violations, l.world.wall().Format("02 15:04:05.000 ")+line)
	}
}

// of is the account of a firing.
func (l *ledger) of(f scheduler.Firing) *firing {
	if l.known[f] == nil {
		l.known[f] = &firing{started: map[int]bool{}}
	}
	return l.known[f]
}

// write checks one write of a state against the one before.
func (l *ledger) write(r *record, next scheduler.State, why string) {
	uid, before := r.job.UID, r.state
	if next.Cursor.Before(before.Cursor) {
		l.violation("cursor", "%s moved back from %s to %s by %s", uid, before.Cursor, next.Cursor, why)
		return
	}
	l.owed[uid] += r.table.Count(before.Cursor, next.Cursor)
	if have := total(next); have != l.owed[uid] {
		l.violation("balance", "%s accounts for %d firings of %d after %s", uid, have, l.owed[uid], why)
		l.owed[uid] = have // so that the next line is about the next write
	}
	for _, f := range open(before) {
		if !in(next, f) {
			if a := l.of(f); a.over {
				l.violation("second verdict", "%s by %s", f, why)
			} else {
				a.over = true
			}
		}
	}
}

// consumed notes a trigger that was taken out.
func (l *ledger) consumed(uid string) { l.owed[uid]++ }

// claimed checks what every claim promises.
func (l *ledger) claimed(r *record, c claim, a scheduler.Assignment) {
	if c.jobRev != r.jobRev {
		l.violation("edit", "%s under a definition that was replaced", c.decision)
	}
	if owner := a.Owner(scheduler.ShardOf(r.job.Name)); owner != c.by {
		l.violation("owner", "%s by %s, though %q is the owner", c.decision, c.by, owner)
	}
}

// granted checks one grant, which was planned by a member whose clock read that.
func (l *ledger) granted(r *record, c claim) {
	d := c.decision
	a := l.of(d.Firing)
	switch {
	case a.over:
		l.violation("grant after verdict", "%s", d)
	case d.Attempt != a.attempts+1:
		l.violation("second grant", "%s after attempt %d", d, a.attempts)
	case d.Attempt > 1 && (a.verdict != scheduler.Lost || r.job.Policy.OnLost != scheduler.OnLostRetry):
		l.violation("second grant", "%s after %s", d, a.verdict)
	case r.job.Paused:
		l.violation("pause", "%s", d)
	case !d.Firing.Manual() && c.clock.Before(scheduler.Due(r.job, r.table, d.Firing.Instant())):
		l.violation("early", "%s by a clock that reads %s", d, c.clock)
	}
	a.attempts, a.since = max(a.attempts, d.Attempt), l.world.now
	if d.Attempt > 1 {
		l.world.count("retry")
	}
}

// recorded notes the end of an attempt.
func (l *ledger) recorded(r *record, run scheduler.Run) {
	a := l.of(run.Firing)
	if a.over {
		l.violation("record after verdict", "%s %s", run.Firing, run.Last().Verdict)
	}
	if old := r.ring[run.Slot].run; old.Firing != run.Firing && in(r.state, old.Firing) {
		l.violation("slot", "the record of %s destroys that of %s, which is in the state", run.Firing, old.Firing)
	}
	a.verdict = run.Last().Verdict
}

// started checks one process start.
func (l *ledger) started(p *process) {
	a := l.of(p.firing)
	l.world.count("start")
	switch other := l.procs[p.firing.UID]; {
	case p.attempt > a.attempts:
		l.violation("start without grant", "%s attempt %d on %s", p.firing, p.attempt, p.member)
	case a.started[p.attempt]:
		l.violation("second start", "%s attempt %d on %s", p.firing, p.attempt, p.member)
	case a.over:
		l.violation("start after verdict", "%s attempt %d on %s", p.firing, p.attempt, p.member)
	case other != nil:
		l.violation("overlap", "%s on %s while %s runs on %s", p.firing, p.member, other.firing, other.member)
	}
	a.started[p.attempt] = true
	l.procs[p.firing.UID] = p
}

// stopped notes the end of a process.
func (l *ledger) stopped(p *process) {
	if l.procs[p.firing.UID] == p {
		delete(l.procs, p.firing.UID)
	}
}

// stuckAfter is longer than any run, outage, hold and fold together.
const stuckAfter = 9 * time.Minute

// audit checks that every attempt in flight comes to an end.
func (l *ledger) audit() {
	for _, name := range l.world.etcd.names {
		for _, e := range l.world.etcd.jobs[name].state.Entries {
			if l.world.now-l.of(e.Firing).since > stuckAfter {
				l.violation("stuck", "%s is still in flight", e.Firing)
			}
		}
	}
}

// close checks that nothing was left without a verdict.
func (l *ledger) close() {
	w := l.world
	l.audit()
	for _, name := range w.etcd.names {
		r := w.etcd.jobs[name]
		v := scheduler.View{Job: r.job, Timetable: r.table, State: r.state}
		// Instants of the last seconds may still be on their way.
		if n := scheduler.Unaccounted(v, scheduler.Reading{Wall: w.wall().Add(-10 * time.Second)}); n > 0 {
			l.violation("no verdict", "%d instants of %s are not decided", n, name)
		}
		if len(r.state.Retries) > 0 && !r.job.Paused {
			l.violation("no verdict", "%s is owed an attempt for ever", r.state.Retries[0].Firing)
		}
		for _, t := range r.triggers {
			if t.Requested.Before(w.wall().Add(-10 * time.Minute)) {
				l.violation("no verdict", "trigger %s of %s still waits", t.ID, name)
			}
		}
		w.report.Count["decided"] += int(l.owed[r.job.UID])
	}
}

// total is how many firings a state accounts for.
func total(s scheduler.State) int64 {
	n := int64(len(open(s)))
	if s.Backlog != nil {
		n += s.Backlog.Count
	}
	for _, c := range s.Counters {
		n += c.Count
	}
	return n
}

// open are the firings that a state has in flight or owes an attempt.
func open(s scheduler.State) []scheduler.Firing {
	var list []scheduler.Firing
	for _, e := range s.Entries {
		list = append(list, e.Firing)
	}
	for _, r := range s.Retries {
		list = append(list, r.Firing)
	}
	return list
}

func in(s scheduler.State, f scheduler.Firing) bool {
	for _, o := range open(s) {
		if o == f {
			return true
		}
	}
	return false
}
