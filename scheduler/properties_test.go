package scheduler

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// The statements of the core's contract, played forward in random worlds: a random job, a store that
// performs what PlanJob decides, and at every step some fault or some user.
//
//	1  equal questions have equal answers, and no view is changed    world.plan
//	2  every instant is decided once, none before its time           world.book, ended, guardBegin
//	3  a paused job starts nothing, and what runs is settled         world.guardBegin, settle
//	4  skip never overlaps                                           world.guardBegin
//	5  the wake is the first moment of another answer                world.checkWake
//	6  catch-up is one bounded write, and what it drops is counted   world.book, commit
//	7  a decision not performed comes again, performed twice is one  world.run; TestPerformingTwice…
//	8  Assign                                                        assign_test.go
//
// That nothing is decided for jobs of other owners is the shell's part; package sim checks it.

func TestRandomWorldsDecideEveryFiringOnce(t *testing.T) {
	t.Parallel()
	first, last := uint64(1), *worldsFlag
	if testing.Short() {
		last = min(last, 40)
	}
	if *seedFlag != 0 {
		first, last = *seedFlag, *seedFlag
	}
	saw := map[string]int{}
	for seed := first; seed <= last; seed++ {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			for what, n := range playWorld(t, seed) {
				saw[what] += n
			}
		})
	}
	if last-first < 99 {
		return
	}
	for _, what := range []string{
		"begin", "skip", "miss", "lose", "fold", "sweep", "retry", "draw", "ride along",
		"SKIPPED(overlap)", "SKIPPED(paused)", "MISSED(catch-up policy)", "MISSED(window)", "MISSED(start deadline)",
		"SKIPPED(excluded by calendar)", "excluded in passing",
	} {
		if saw[what] < 10 {
			t.Errorf("the worlds are empty: %d times %s, of %v", saw[what], what, saw)
		}
	}
}

// TestPerformingADecisionTwiceChangesNothing is why a store may send one again: it compares the revision
// that the decision was planned on, and the state that it wrote asks for something else.
func TestPerformingADecisionTwiceChangesNothing(t *testing.T) {
	t.Parallel()
	for seed := uint64(1); seed <= 50; seed++ {
		rng := rand.New(rand.NewPCG(seed, 3))
		w := newWorld(t, randomJob(rng))
		w.rng = rng
		for range 40 {
			w.wake()
			p := w.plan()
			if p.Decision == nil {
				continue
			}
			base := w.stateRev
			w.perform(*p.Decision)
			w.observe()
			if w.stateRev == base {
				continue // it was refused
			}
			if again := w.plan().Decision; again != nil && again.String() == p.Decision.String() {
				w.fail("seed %d: after %s was performed it is decided again", seed, again)
			}
		}
	}
}

func playWorld(t *testing.T, seed uint64) map[string]int {
	rng := rand.New(rand.NewPCG(seed, 1))
	w := newWorld(t, randomJob(rng))
	w.rng = rng
	actions := w.actions()
	for range 120 {
		a := actions[rng.IntN(len(actions))]
		w.say("— %s", a.name)
		a.do()
		w.run()
	}
	w.settle()
	return w.saw
}

// settle lets everything end and checks that nothing was left without a verdict.
func (w *world) settle() {
	w.t.Helper()
	w.say("— settle")
	w.room, w.behind = true, 0
	if w.job.Paused {
		w.edit(ReasonPaused, func(j *Job) { j.Paused = false })
	}
	for range 300 {
		w.endAttempt(Succeeded, "")
		w.observe()
		w.run()
		if w.swept {
			break
		}
		w.advance(700 * time.Millisecond)
	}
	if !w.job.Tombstone() {
		if n := Unaccounted(w.view(), w.now); n != 0 {
			w.fail("%d instants are unaccounted for", n)
		}
	}
	if oldest := w.table.Next(w.state.Cursor); !w.job.Tombstone() && !oldest.IsZero() && !w.at().Before(oldest.Add(ExcludedAfter)) {
		w.fail("%s still has no verdict", oldest)
	}
	for _, trigger := range w.triggers {
		if trigger.Requested.Before(w.at().Add(-time.Minute)) {
			w.fail("trigger %s still waits", trigger.ID)
		}
	}
	for f := range w.attempts {
		if _, over := w.done[f]; !over && !w.state.knows(f) && !w.swept {
			w.fail("%s was granted and has no verdict", f)
		}
	}
}

type action struct {
	name string
	do   func()
}

func (w *world) actions() []action {
	rng := w.rng
	pass := func(most time.Duration) func() {
		return func() { w.advance(time.Duration(rng.Int64N(int64(most)))) }
	}
	return []action{
		{"a moment passes", pass(2 * time.Second)},
		{"a moment passes", pass(10 * time.Second)},
		{"a minute passes", pass(2 * time.Minute)},
		{"hours pass", pass(3 * time.Hour)},
		{"days pass", func() {
			if rng.IntN(8) == 0 && w.table.Count(w.at(), w.at().Add(time.Hour)) < 100 { // the oracle lists instants
				w.advance(time.Duration(rng.Int64N(int64(72 * time.Hour))))
			}
		}},
		{"the next wake comes", w.wake},
		{"the next wake comes", w.wake},
		{"the attempt succeeds", func() { w.endAttempt(Succeeded, "") }},
		{"the attempt fails", func() { w.endAttempt(Failed, ReasonExitCode) }},
		{"the attempt never started", func() { w.endAttempt(Lost, ReasonNeverStarted) }},
		{"the lock is lost", w.loseLock},
		{"the lock is lost", w.loseLock},
		{"the attempt is ending", w.ending},
		{"the locks are looked at", w.observe},
		{"another owner takes over", func() { w.facts = map[Firing]Fact{} }},
		{"a late result arrives", w.lateResult},
		{"a trigger arrives", w.addTrigger},
		{"room changes", func() { w.room = !w.room }},
		{"the clock may be ahead", func() { w.behind = time.Duration(rng.IntN(2)) * time.Duration(rng.Int64N(int64(4*time.Second))) }},
		{"the policy is edited", w.editPolicy},
		{"the schedule is edited", w.editSchedule},
		{"the calendar is changed", w.amend},
		{"the job is paused or resumed", func() { w.edit(ReasonPaused, func(j *Job) { j.Paused = !j.Paused }) }},
		{"the job is deleted", func() {
			if rng.IntN(12) == 0 && !w.job.Tombstone() {
				w.edit(ReasonDeleted, func(j *Job) { j.Deleted = w.at() })
			}
		}},
	}
}

// wake moves to the moment that the last plan asked for.
func (w *world) wake() {
	p := PlanJob(w.view(), w.now)
	wait := time.Hour
	if !p.Wake.IsZero() {
		wait = min(wait, p.Wake.Sub(w.now.Wall))
	}
	if p.WakeElapsed != 0 {
		wait = min(wait, p.WakeElapsed-w.now.Elapsed)
	}
	w.advance(wait)
}

// endAttempt finishes the attempts whose locks are alive.
func (w *world) endAttempt(v Verdict, why Reason) {
	for _, e := range Fill(w.state, w.stateRev).Entries {
		if w.locks[e.Firing] == 0 {
			continue
		}
		w.rev++
		delete(w.locks, e.Firing)
		w.ring[e.Slot] = slot{recordOf(w.job, e, v, why), w.rev}
	}
}

// recordOf is the record that ends an entry's attempt.
func recordOf(j Job, e Entry, v Verdict, why Reason) Run {
	line := Attempt{Number: e.Attempt, Token: e.Token, Member: e.Member, Granted: e.Granted, Verdict: v, Reason: why}
	return Run{
		Job: j.Name, Firing: e.Firing, Generation: e.Generation, Slot: e.Slot,
		Attempts: append(slices.Clip(slices.Clone(e.Past)), line),
	}
}

func (w *world) loseLock() {
	for f := range w.locks {
		delete(w.locks, f)
		w.gone[f] = w.now.Elapsed
	}
}

func (w *world) ending() {
	for _, e := range w.state.Entries {
		if f, known := w.facts[e.Firing]; known && f.Record == nil && w.locks[e.Firing] != 0 {
			f.Ending, f.EndingSince = true, w.now.Elapsed
			w.facts[e.Firing] = f
		}
	}
}

// observe is what an owner learns by reading lock and slot of each entry.
func (w *world) observe() {
	for _, e := range Fill(w.state, w.stateRev).Entries {
		old, f := w.facts[e.Firing], Fact{Attempt: e.Attempt, Lock: w.locks[e.Firing]}
		if r := w.ring[e.Slot]; r.rev > e.Token {
			run := r.run
			f.Record, f.RecordedSince = &run, w.now.Elapsed
			if old.Attempt == e.Attempt && old.Record != nil {
				f.RecordedSince = old.RecordedSince
			}
		} else if f.Lock == 0 {
			f.GoneSince = w.now.Elapsed
			if old.Attempt == e.Attempt && old.Lock == 0 {
				f.GoneSince = old.GoneSince
			}
		} else if old.Attempt == e.Attempt {
			f.Ending, f.EndingSince = old.Ending, old.EndingSince
		}
		w.facts[e.Firing] = f
	}
}

// lateResult is the result of an attempt that lost its lock and was not killed.
func (w *world) lateResult() {
	s := Fill(w.state, w.stateRev)
	for _, e := range s.Entries {
		if w.locks[e.Firing] != 0 || w.ring[e.Slot].rev > e.Token {
			continue
		}
		w.rev++
		run := recordOf(w.job, e, Succeeded, "")
		w.ring[e.Slot] = slot{run, w.rev}
		w.ended(e.Firing, Succeeded, "")
		w.commit(ApplyEnd(s, w.job, run, e.Firing))
		return
	}
}

func (w *world) addTrigger() {
	if w.job.Tombstone() || len(w.triggers) > 3 {
		return
	}
	w.rev++
	id := fmt.Sprint("t", w.rev)
	w.triggers = append(w.triggers, Trigger{ID: id, Revision: w.rev, Requested: w.at()})
}

// edit commits a change of the definition, with its books closed unless reason is "".
func (w *world) edit(reason Reason, change func(*Job)) {
	if w.job.Tombstone() {
		return
	}
	old := w.job
	changed := old
	change(&changed)
	changed.Generation++
	v := w.view()
	v.Job = old
	before := Fill(w.state, w.stateRev)
	w.rev++
	if closes := ClosesBooks(old, changed); closes != (reason != "") {
		w.fail("ClosesBooks says %v of an edit that closes its books for %q", closes, reason)
	}
	next := before
	if reason != "" {
		next = CloseBooks(v, w.now, reason)
		w.bookClosing(before, next, reason)
	}
	w.job = changed
	w.commit(next)
	w.table = compile(w.t, changed.Schedule)
	if reason == ReasonDeleted {
		w.triggers = nil
	}
}

// bookClosing works out what closing the books decided.
func (w *world) bookClosing(before, next State, reason Reason) {
	w.t.Helper()
	why := reason
	if w.job.Paused {
		why = ReasonPaused
	}
	if b := before.Backlog; b != nil {
		w.ended(At(w.job.UID, b.Last), Skipped, why)
	}
	for _, i := range instants(w.table, before.Cursor, w.at()) {
		if w.excludes(i) && !w.job.Paused {
			w.ended(At(w.job.UID, i), Skipped, ReasonExcluded)
		} else {
			w.ended(At(w.job.UID, i), Skipped, why)
		}
	}
	if next.Backlog != nil || next.Cursor.Before(wholeSecond(w.at())) {
		w.fail("the books are still open: %+v", next)
	}
	if reason != ReasonDeleted {
		return
	}
	for _, trigger := range w.triggers {
		w.ended(Triggered(w.job.UID, trigger.ID), Skipped, ReasonDeleted)
	}
	for _, r := range before.Retries {
		w.ended(r.Firing, r.last().Verdict, r.last().Reason)
	}
}

func (w *world) editPolicy() {
	w.edit("", func(j *Job) {
		j.Policy = randomPolicy(w.rng)
		j.HistoryLimit = 1 + w.rng.IntN(4)
	})
}

func (w *world) editSchedule() {
	if w.rng.IntN(3) > 0 {
		return
	}
	next := randomSchedule(w.rng)
	if ClosesBooks(w.job, Job{Schedule: next, Paused: w.job.Paused}) {
		w.edit(ReasonEdited, func(j *Job) { j.Schedule = next })
	}
}

func randomJob(rng *rand.Rand) Job {
	j := Job{
		Name: JobName{"default", "job"}, UID: "01hzy", Generation: 1,
		Schedule: randomSchedule(rng), Policy: randomPolicy(rng),
		Run: Executable{Handler: &HandlerCall{Name: "h"}}, HistoryLimit: 1 + rng.IntN(3),
	}
	return j.WithDefaults()
}

func randomSchedule(rng *rand.Rand) Schedule {
	s := Schedule{TimeZone: pick(rng, "", "Europe/Berlin", "Australia/Lord_Howe")}
	switch rng.IntN(4) {
	case 0:
		s.Cron = []string{pick(rng, "* * * * *", "*/7 * * * *", "30 */2 * * *", "*/20 * * * * *")}
	case 1:
		s.Every, s.Origin = time.Duration(1+rng.IntN(90))*time.Second, epoch.Add(-time.Hour)
	case 2:
		s.Every, s.Origin = time.Duration(10+rng.IntN(500))*time.Second, epoch.Add(-time.Hour)
		s.Cron = []string{"0 * * * *"}
	default:
		s.Cron = []string{"* * * * *"}
		s.At = []time.Time{epoch.Add(1000 * time.Second), epoch.Add(50 * time.Hour)}
		s.End = epoch.Add(60 * time.Hour)
	}
	if rng.IntN(2) == 0 {
		s.Exclude = []string{"closed"}
	}
	s.Jitter = time.Duration(rng.IntN(3)) * time.Duration(rng.IntN(40000)) * time.Millisecond
	return s
}

func randomPolicy(rng *rand.Rand) Policy {
	return Policy{
		Overlap:       OverlapSkip,
		CatchUp:       CatchUp{Mode: pick(rng, CatchUpLatest, CatchUpNone), Window: pick(rng, time.Second, time.Minute, time.Hour, 24*time.Hour), Max: 100},
		OnLost:        pick(rng, OnLostFail, OnLostRetry),
		OnSessionLost: SessionLostKill,
		Retry:         Retry{MaxAttempts: 1 + rng.IntN(3)},
		StartDeadline: pick(rng, 0, 0, 2*time.Second, 30*time.Second, 2*time.Hour),
	}
}

func pick[T any](rng *rand.Rand, of ...T) T { return of[rng.IntN(len(of))] }
