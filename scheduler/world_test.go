package scheduler

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/quorumcron/quorumcron/scheduler/cron"
)

var (
	seedFlag   = flag.Uint64("seed", 0, "play only the random world of this seed")
	worldsFlag = flag.Uint64("worlds", 150, "how many random worlds to play")
)

// epoch is when every test world begins: half a minute past, so that nothing is due at once.
var epoch = time.Date(2026, 3, 1, 10, 0, 30, 0, time.UTC)

func reading(at time.Time) Reading {
	return Reading{Wall: at, Elapsed: at.Sub(epoch) + 1000*time.Hour}
}

// compile makes the timetable of a schedule that the test itself wrote.
func compile(t *testing.T, s Schedule) *cron.Timetable {
	t.Helper()
	table, err := cron.Compile(s.Spec())
	if err != nil {
		t.Fatalf("compile %+v: %v", s, err)
	}
	return table
}

// instants lists the instants in (after, through] one by one: the slow way that arithmetic is checked
// against.
func instants(table *cron.Timetable, after, through time.Time) []time.Time {
	var list []time.Time
	for i := table.Next(after); !i.IsZero() && !i.After(through); i = table.Next(i) {
		list = append(list, i)
	}
	return list
}

// slot is a record in the ring and the revision it was put at.
type slot struct {
	run Run
	rev int64
}

// ending is one way in which a firing ended.
type ending struct {
	verdict Verdict
	reason  Reason
}

// world is one job in a tiny store, with the guards of the protocol and an account of its own of what
// became of every firing. Whatever PlanJob decides is performed here, and every write must balance.
type world struct {
	t   *testing.T
	rng *rand.Rand

	job      Job
	table    *cron.Timetable
	state    State
	stateRev int64
	rev      int64
	triggers []Trigger
	locks    map[Firing]int64
	ring     map[int]slot
	facts    map[Firing]Fact
	gone     map[Firing]time.Duration // when a lock really went away, elapsed clock
	now      Reading
	room     bool
	behind   time.Duration // how far NotBeyond is behind the wall clock

	calendar  Calendar          // "closed" in the job's namespace
	judged    []CalendarVersion // all it has ever said, for the oracle
	calendars *Calendars

	attempts map[Firing]int
	slotOf   map[Firing]int
	done     map[Firing]ending
	tally    map[ending]int64 // of done
	swept    bool
	saw      map[string]int // kinds of writes performed
	trace    []string
}

func newWorld(t *testing.T, job Job) *world {
	t.Helper()
	w := &world{
		t: t, job: job, table: compile(t, job.Schedule), now: reading(epoch), room: true, rev: 100, stateRev: 100,
		state: NewState(job, epoch),
		locks: map[Firing]int64{}, ring: map[int]slot{}, facts: map[Firing]Fact{}, gone: map[Firing]time.Duration{},
		attempts: map[Firing]int{}, slotOf: map[Firing]int{}, done: map[Firing]ending{}, tally: map[ending]int64{}, saw: map[string]int{},
		calendars: NewCalendars(),
	}
	return w
}

func (w *world) view() View {
	v := View{
		Job: w.job, Timetable: w.table, State: w.state, StateRevision: w.stateRev,
		Triggers: slices.Clone(w.triggers), Facts: w.facts, Room: w.room,
	}
	if w.job.Tombstone() {
		v.Timetable = nil
	} else {
		v.Excluded = w.excluded()
	}
	if w.behind > 0 {
		v.NotBeyond = w.now.Wall.Add(-w.behind)
	}
	return v
}

// at is the instant that is planned by.
func (w *world) at() time.Time { return w.now.Wall.Add(-w.behind) }

func (w *world) say(format string, args ...any) {
	w.trace = append(w.trace, w.now.Wall.Format("01-02 15:04:05.000 ")+fmt.Sprintf(format, args...))
}

// fail stops the world with everything a reader needs to see why.
func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("%s\nstate %+v\njob %+v\ntrace:\n%s", fmt.Sprintf(format, args...), w.state, w.job, strings.Join(w.trace, "\n"))
}

func (w *world) advance(d time.Duration) {
	w.now.Wall = w.now.Wall.Add(d)
	w.now.Elapsed += d
}

// plan asks once and checks what must hold of any answer.
func (w *world) plan() Plan {
	w.t.Helper()
	v := w.view()
	before := Fill(v.State, 0)
	p := PlanJob(v, w.now)
	if !reflect.DeepEqual(before, Fill(v.State, 0)) {
		w.fail("PlanJob changed the view it was given: %s", cmp.Diff(before, v.State, cmpopts.EquateEmpty()))
	}
	if again := PlanJob(w.view(), w.now); !reflect.DeepEqual(p, again) {
		w.fail("asked twice, PlanJob answered twice: %s", cmp.Diff(p, again))
	}
	if p.Decision == nil {
		w.checkWake(p)
	} else if !p.Wake.IsZero() || p.WakeElapsed != 0 {
		w.fail("a decision came with a wake: %+v", p)
	}
	return p
}

// checkWake checks that the wake is the first moment at which the answer is another one.
func (w *world) checkWake(p Plan) {
	w.t.Helper()
	wait, ever := time.Duration(0), false
	if !p.Wake.IsZero() {
		wait, ever = p.Wake.Sub(w.now.Wall), true
	}
	if d := p.WakeElapsed - w.now.Elapsed; p.WakeElapsed != 0 && (!ever || d < wait) {
		wait, ever = d, true
	}
	if !ever {
		for _, later := range []time.Duration{time.Second, time.Hour, 500 * 24 * time.Hour} {
			if d := w.planIn(later).Decision; d != nil {
				w.fail("never to be woken, but in %s the answer is %s", later, d)
			}
		}
		return
	}
	if wait <= 0 {
		w.fail("the wake %v %v is not after now", p.Wake, p.WakeElapsed)
	}
	if again := w.planIn(wait); again == p {
		w.fail("woken in %s for nothing: %+v", wait, p)
	}
	for _, sooner := range []time.Duration{wait - 1, time.Duration(w.rng.Int64N(int64(wait)))} {
		if again := w.planIn(sooner); again != p {
			w.fail("before the wake, in %s of %s, the answer is %+v instead of %+v", sooner, wait, again, p)
		}
	}
}

func (w *world) planIn(d time.Duration) Plan {
	v, now := w.view(), w.now
	now.Wall, now.Elapsed = now.Wall.Add(d), now.Elapsed+d
	if !v.NotBeyond.IsZero() {
		v.NotBeyond = v.NotBeyond.Add(d)
	}
	return PlanJob(v, now)
}

// run plans and performs until there is nothing to write. Some answers get lost on the way; they must
// come again.
func (w *world) run() {
	w.t.Helper()
	for range 200 {
		p := w.plan()
		if p.Decision == nil || w.swept {
			return
		}
		if w.rng.IntN(5) == 0 {
			continue // refused or lost before it was sent
		}
		w.perform(*p.Decision)
		if w.rng.IntN(3) > 0 {
			w.observe()
		}
	}
	w.fail("200 decisions at one moment")
}

// perform commits a decision as the store would, checks its guards, and books what it did.
func (w *world) perform(d Decision) {
	w.t.Helper()
	w.say("%s", d)
	before := Fill(w.state, w.stateRev)
	if why := w.refuses(d); why != "" {
		w.say("  refused: %s", why)
		w.observe()
		return
	}
	w.rev++
	w.guard(d, before)
	w.note(d)
	if d.Kind == KindSweep {
		w.swept = true
		return
	}
	d = d.Grant("n1", fmt.Sprint("nonce", w.rev), 15*time.Second)
	w.book(d, before)
	w.commit(d.Next)
	switch d.Kind {
	case KindBegin:
		w.locks[d.Firing] = w.rev
		delete(w.gone, d.Firing)
	case KindLose:
		w.ring[d.Slot] = slot{*d.Record, w.rev}
	}
	if d.Trigger != "" {
		w.triggers = slices.DeleteFunc(w.triggers, func(t Trigger) bool { return t.ID == d.Trigger })
	}
}

// note counts what the worlds have seen, so that a test can tell that they are not empty.
func (w *world) note(d Decision) {
	w.saw[string(d.Kind)]++
	if d.Kind == KindBegin && d.Attempt > 1 {
		w.saw["retry"]++
	}
	if d.Kind == KindBegin && d.Instants == 1 && !d.Last.After(w.state.Cursor) {
		w.saw["draw"]++
	}
	if len(d.Folded) > 0 && d.Kind != KindFold {
		w.saw["ride along"]++
	}
	if d.Excluded > 0 {
		w.saw["excluded in passing"]++
	}
	if d.Reason != "" {
		w.saw[fmt.Sprintf("%s(%s)", d.Verdict, d.Reason)]++
	}
}

// commit puts a state and checks what must hold of every state.
func (w *world) commit(s State) {
	w.t.Helper()
	if s.Cursor.Before(w.state.Cursor) {
		w.fail("the cursor moved back to %s", s.Cursor)
	}
	if s.Cursor.After(w.state.Cursor) && s.Cursor.After(w.at()) {
		w.fail("the cursor is beyond the clock: %s", s.Cursor)
	}
	w.state, w.stateRev = s, w.rev
	used := map[int]Firing{}
	for _, p := range promises(s) {
		if other, twice := used[p.slot]; twice {
			w.fail("slot %d is promised to %s and %s", p.slot, other, p.firing)
		}
		if p.slot >= s.Slots {
			w.fail("slot %d is outside the ring of %d", p.slot, s.Slots)
		}
		used[p.slot] = p.firing
	}
	if len(s.Ranges) > MaxRanges {
		w.fail("%d ranges", len(s.Ranges))
	}
	got := map[ending]int64{}
	for _, c := range s.Counters {
		got[ending{c.Verdict, c.Reason}] += c.Count
	}
	if !maps.Equal(w.tally, got) {
		w.fail("the counters do not say how firings ended: got %v, want %v", got, w.tally)
	}
}

type promise struct {
	firing Firing
	slot   int
}

func promises(s State) []promise {
	var list []promise
	for _, e := range s.Entries {
		list = append(list, promise{e.Firing, e.Slot})
	}
	for _, r := range s.Retries {
		list = append(list, promise{r.Firing, r.Slot})
	}
	return list
}

// ended notes the one verdict of a firing.
func (w *world) ended(f Firing, v Verdict, why Reason) {
	w.t.Helper()
	if how, twice := w.done[f]; twice {
		w.fail("%s ended %v and now %s(%s)", f, how, v, why)
	}
	w.done[f] = ending{v, why}
	w.tally[ending{v, why}]++
}

// refuses is what the store compares beyond the revision of the state. A decision is made from facts
// that may be old; then it is refused, and what it was made from is read again.
func (w *world) refuses(d Decision) string {
	for _, b := range d.Blame {
		if !w.blameHolds(b) {
			return fmt.Sprintf("%+v is not so", b)
		}
	}
	if d.Kind == KindLose && (w.locks[d.Firing] != 0 || w.ring[d.Slot].rev >= d.SlotBelow) {
		return "it is alive, or has its record"
	}
	return ""
}

// guard checks what the policies and the protocol promise of each kind.
func (w *world) guard(d Decision, before State) {
	w.t.Helper()
	for _, f := range d.Folded {
		w.guardFold(d, before, f)
	}
	switch d.Kind {
	case KindBegin:
		w.guardBegin(d, before)
	case KindSkip:
		if d.Reason == ReasonOverlap && len(d.Blame) == 0 {
			w.fail("%s blames nothing", d)
		}
	case KindLose:
		i := slices.IndexFunc(before.Entries, func(e Entry) bool { return e.Firing == d.Firing && e.Attempt == d.Attempt })
		gone, known := w.gone[d.Firing]
		if i < 0 || !known || w.now.Elapsed < gone+before.Entries[i].Hold+LoseMargin {
			w.fail("%s is not surely dead", d)
		}
		if d.SlotBelow != before.Entries[i].Token || d.SlotBelow == 0 || d.Slot != before.Entries[i].Slot {
			w.fail("%s compares %d with the slot of %+v", d, d.SlotBelow, before.Entries[i])
		}
	}
}

func (w *world) blameHolds(b Blame) bool {
	if b.Token == 0 { // an owed retry: in the state, or derived from an entry and its record
		return w.owesRetry(b.Firing)
	}
	if b.Lock != 0 {
		return w.locks[b.Firing] == b.Lock
	}
	return w.locks[b.Firing] == 0 && w.ring[b.Slot].rev < b.Token
}

func (w *world) owesRetry(f Firing) bool {
	if slices.ContainsFunc(w.state.Retries, func(r PendingRetry) bool { return r.Firing == f }) {
		return true
	}
	i := slices.IndexFunc(w.state.Entries, func(e Entry) bool { return e.Firing == f })
	return i >= 0 && w.ring[w.state.Entries[i].Slot].run.Last().Verdict == Lost
}

// guardFold checks that what leaves the state left its proof in the ring, or can no longer be granted.
func (w *world) guardFold(d Decision, before State, f Firing) {
	w.t.Helper()
	for _, e := range before.Entries {
		if e.Firing != f {
			continue
		}
		if r := w.ring[e.Slot]; r.run.Firing != f || r.run.Last().Number != e.Attempt || r.rev <= e.Token {
			w.fail("%s folds %+v without its record: slot holds %+v", d, e, r)
		}
		return
	}
	for _, r := range before.Retries {
		if r.Firing == f {
			return
		}
	}
	w.fail("%s folds %s, which is not in the state", d, f)
}

func (w *world) guardBegin(d Decision, before State) {
	w.t.Helper()
	e, ok := d.Entry()
	switch {
	case !ok || e.Firing != d.Firing || e.Slot != d.Slot || e.Attempt != d.Attempt:
		w.fail("%s has no entry of its own: %+v", d, d.Next.Entries)
	case !w.room:
		w.fail("%s although there is no room", d)
	case w.job.Paused || w.job.Tombstone():
		w.fail("%s of a job that starts nothing", d)
	case w.locks[d.Firing] != 0:
		w.fail("%s while its lock is alive", d)
	case len(d.Next.Entries)+len(d.Next.Retries) != 1:
		w.fail("%s overlaps: %+v %+v", d, d.Next.Entries, d.Next.Retries)
	case w.attempts[d.Firing] != d.Attempt-1:
		w.fail("%s after attempt %d", d, w.attempts[d.Firing])
	case d.Attempt > 1 && (w.job.Policy.OnLost != OnLostRetry || d.Attempt > w.job.Policy.Retry.MaxAttempts):
		w.fail("%s, which the policy does not allow", d)
	case len(e.Past) != d.Attempt-1:
		w.fail("%s does not know its former attempts: %+v", d, e.Past)
	case e.due().After(w.at()) && !d.Firing.Manual():
		w.fail("%s is early: due %s", d, e.due())
	}
	if dl := w.job.Policy.StartDeadline; dl > 0 && w.at().After(e.due().Add(dl)) {
		w.fail("%s is after its start deadline", d)
	}
	if slot, had := w.slotOf[d.Firing]; had && slot != d.Slot {
		w.fail("%s has another slot than the attempt before: %d", d, slot)
	}
	w.attempts[d.Firing], w.slotOf[d.Firing] = d.Attempt, d.Slot
}
