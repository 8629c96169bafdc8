package storetest

import (
	"time"

	"github.com/quorumcron/quorumcron/scheduler"
	"github.com/quorumcron/quorumcron/store"
)

func endTests() []test {
	return []test{
		{"AFinishRecordsAndFreesTheLock", aFinishRecordsAndFreesTheLock},
		{"AFinishSentTwiceIsRecordedOnce", aFinishSentTwiceIsRecordedOnce},
		{"AFinishNeverOverwritesAVerdict", aFinishNeverOverwritesAVerdict},
		{"AFinishOfALaterAttemptKeepsTheEarlierOne", aFinishOfALaterAttempt},
		{"LostIsRefusedWhileTheLockLives", lostIsRefusedWhileTheLockLives},
		{"LostNeverOverwritesARecord", lostNeverOverwritesARecord},
		{"LostIsSettledUnderMovedRules", lostIsSettledUnderMovedRules},
		{"ALateResultIsCountedOnce", aLateResultIsCountedOnce},
		{"ALateResultNeverCorrectsLost", aLateResultNeverCorrectsLost},
		{"ALateResultWithItsLockIsNotLate", aLateResultWithItsLockIsNotLate},
		{"ALateResultOfAnOlderAttemptIsDropped", aLateResultOfAnOlderAttempt},
		{"ALateResultOfAJobThatIsGoneIsDropped", aLateResultOfAJobThatIsGone},
		{"AFoldIsRefusedOnAnOlderState", aFoldIsRefusedOnAnOlderState},
		{"ASweepRemovesEverything", aSweepRemovesEverything},
		{"ASweepIsRefusedAfterAnApply", aSweepIsRefusedAfterAnApply},
		{"ADamagedRecordIsAnEnd", aDamagedRecordIsAnEnd},
	}
}

// running is a job with one attempt in flight.
func (w *world) running(name string, changes ...func(*scheduler.Job)) (store.JobRecord, scheduler.Entry, int64) {
	w.Helper()
	r, lease := w.apply(job(name, changes...), noon), w.lease()
	r, e := w.grant(r, scheduler.At(r.Job.UID, noon.Add(time.Minute)), lease)
	return r, e, lease
}

func (w *world) finish(f store.Finish) bool {
	w.Helper()
	recorded, err := w.store.Finish(w.ctx, f)
	w.must(err)
	return recorded
}

// verdictOf is the verdict that the history shows for the newest run of a job.
func (w *world) verdictOf(name scheduler.JobName) scheduler.Verdict {
	w.Helper()
	runs, err := w.store.Runs(w.ctx, scheduler.RunQuery{Namespace: name.Namespace, Job: name.Name, Limit: 1})
	w.must(err)
	if len(runs) == 0 {
		return "none"
	}
	return runs[0].Last().Verdict
}

func aFinishRecordsAndFreesTheLock(w *world) {
	r, e, _ := w.running("a")
	f := ended(r, e, scheduler.Failed)
	code := int32(3)
	f.Run.Output, f.Run.OutputBytes = []byte("out"), 3
	f.Run.Attempts[0].ExitCode = &code
	if !w.finish(f) {
		w.Fatal("the finish was refused")
	}
	fact, err := w.store.ReadEntry(w.ctx, e)
	w.must(err)
	if fact.Lock != 0 || fact.Record == nil || fact.Record.Last().Verdict != scheduler.Failed || string(fact.Record.Output) != "out" || *fact.Record.Last().ExitCode != 3 {
		w.Errorf("got %+v, want the record and no lock", fact)
	}
	if w.count("locks/") != 0 || w.get("runs/"+r.Job.UID+"/000") == nil {
		w.Errorf("%d locks are left, and the record is in none or another slot", w.count("locks/"))
	}
}

func aFinishSentTwiceIsRecordedOnce(w *world) {
	r, e, _ := w.running("a")
	f := ended(r, e, scheduler.Succeeded)
	if !w.finish(f) {
		w.Fatal("the finish was refused")
	}
	before := w.footprint()
	if !w.finish(f) {
		w.Error("a copy of the finish is told that it is late, though its verdict is in the slot")
	}
	if late, err := w.store.FinishLate(w.ctx, f); err != nil || !late.Recorded || late.StateRevision != 0 {
		w.Errorf("as a late result: got %+v, %v, want it found recorded", late, err)
	}
	if after := w.footprint(); after != before {
		w.Errorf("the copies wrote something: %v, was %v", after, before)
	}
}

func aFinishNeverOverwritesAVerdict(w *world) {
	r, e, lease := w.running("a")
	w.revoke(lease)
	out, err := w.store.Settle(w.ctx, w.lost(r, e))
	w.must(err)
	if !out.Committed {
		w.Fatalf("lose: got %+v", out)
	}
	if w.finish(ended(r, e, scheduler.Succeeded)) {
		w.Error("a finish without its lock was recorded")
	}
	if got := w.verdictOf(r.Job.Name); got != scheduler.Lost {
		w.Errorf("the verdict is %s, want LOST", got)
	}
	wrong := ended(r, e, scheduler.Succeeded)
	wrong.Run.Attempts[0].Token++
	_, err = w.store.Finish(w.ctx, wrong)
	w.wantErr("a record of another token", err, scheduler.ErrInvalid)
}

// retrying is a job whose first attempt was lost, with a second one in flight.
func (w *world) retrying(name string) (r store.JobRecord, first, second scheduler.Entry) {
	w.Helper()
	r, first, lease := w.running(name, func(j *scheduler.Job) { j.Policy.OnLost = scheduler.OnLostRetry })
	w.revoke(lease)
	out, err := w.store.Settle(w.ctx, w.lost(r, first))
	w.must(err)
	if !out.Committed || len(out.State.Retries) != 1 {
		w.Fatalf("lose: got %+v, want a retry owed", out)
	}
	r.State, r.StateRevision = out.State, out.StateRevision
	owed := r.State.Retries[0]
	next := scheduler.Fill(r.State, r.StateRevision)
	next.Retries = nil
	next.Entries = append(next.Entries, scheduler.Entry{
		Firing: owed.Firing, Attempt: 2, Generation: r.Job.Generation, Slot: owed.Slot, Member: "node-b", Nonce: "second",
		Hold: 15 * time.Second, Granted: noon.Add(time.Minute), Past: owed.Past,
	})
	d := scheduler.Decision{Kind: scheduler.KindBegin, Job: r.Job.Name, Firing: owed.Firing, Attempt: 2, Slot: owed.Slot, Next: next}
	out, err = w.store.Claim(w.ctx, w.claim(r, d, w.lease(), "second"))
	w.must(err)
	if !out.Committed {
		w.Fatalf("begin of attempt 2: got %+v", out)
	}
	r.State, r.StateRevision = out.State, out.StateRevision
	second = out.State.Entries[0]
	if second.Token <= first.Token {
		w.Fatalf("attempt 2 has token %d, not above %d", second.Token, first.Token)
	}
	return r, first, second
}

func aFinishOfALaterAttempt(w *world) {
	r, first, second := w.retrying("a")
	if !w.finish(ended(r, second, scheduler.Succeeded)) {
		w.Fatal("the finish of attempt 2 was refused")
	}
	run, err := w.store.RunByFiring(w.ctx, second.Firing)
	w.must(err)
	if len(run.Attempts) != 2 || run.Attempts[0].Verdict != scheduler.Lost || run.Attempts[0].Token != first.Token || run.Last().Verdict != scheduler.Succeeded {
		w.Errorf("got %+v, want a lost and a succeeded line", run.Attempts)
	}
}

func lostIsRefusedWhileTheLockLives(w *world) {
	r, e, _ := w.running("a")
	out, err := w.store.Settle(w.ctx, w.lost(r, e))
	w.refused("a lose beside a living lock", out, err)
	if len(out.Facts) != 1 || out.Facts[0].Lock != e.Token {
		w.Errorf("the refusal shows %+v, want the lock", out.Facts)
	}
	if got := w.verdictOf(r.Job.Name); got != "" {
		w.Errorf("the history says %q of an attempt that runs", got)
	}
}

func lostNeverOverwritesARecord(w *world) {
	r, e, _ := w.running("a")
	if !w.finish(ended(r, e, scheduler.Succeeded)) {
		w.Fatal("the finish was refused")
	}
	out, err := w.store.Settle(w.ctx, w.lost(r, e))
	w.refused("a lose of an attempt that has its record", out, err)
	if len(out.Facts) != 1 || out.Facts[0].Record == nil || out.Facts[0].Record.Last().Verdict != scheduler.Succeeded {
		w.Errorf("the refusal shows %+v, want the record", out.Facts)
	}
	if got := w.verdictOf(r.Job.Name); got != scheduler.Succeeded {
		w.Errorf("the verdict is %s, want SUCCEEDED", got)
	}
}

func lostIsSettledUnderMovedRules(w *world) {
	r, e, lease := w.running("a")
	c := w.lost(r, e)
	w.revoke(lease)
	w.moveRules()
	c.RulesRevision = 0
	out, err := w.store.Settle(w.ctx, c)
	w.must(err)
	if !out.Committed || len(out.State.Entries) != 0 || counted(out.State, scheduler.Lost, scheduler.ReasonMemberLost) != 1 {
		w.Errorf("got %+v, want it settled: nothing holds up a verdict", out)
	}
}

func aLateResultIsCountedOnce(w *world) {
	r, e, lease := w.running("a")
	w.revoke(lease)
	f := ended(r, e, scheduler.Succeeded)
	if w.finish(f) {
		w.Fatal("a finish without its lock was recorded")
	}
	for i := range 2 {
		late, err := w.store.FinishLate(w.ctx, f)
		w.must(err)
		if !late.Recorded || late.Held {
			w.Fatalf("time %d: got %+v, want it recorded", i+1, late)
		}
	}
	got := w.record(r.Job.Name).State
	if len(got.Entries) != 0 || counted(got, scheduler.Succeeded, "") != 1 {
		w.Errorf("got entries %+v and counters %+v, want none and one success", got.Entries, got.Counters)
	}
	out, err := w.store.Settle(w.ctx, w.lost(r, e))
	w.refused("a lose after a late result", out, err)
}

func aLateResultNeverCorrectsLost(w *world) {
	r, e, lease := w.running("a")
	w.revoke(lease)
	out, err := w.store.Settle(w.ctx, w.lost(r, e))
	w.must(err)
	before := w.footprint()
	late, err := w.store.FinishLate(w.ctx, ended(r, e, scheduler.Succeeded))
	w.must(err)
	if late.Recorded || late.Dropped == "" || w.footprint() != before || !out.Committed {
		w.Errorf("got %+v at %v (was %v), want it dropped", late, w.footprint(), before)
	}
	if got := w.verdictOf(r.Job.Name); got != scheduler.Lost {
		w.Errorf("the verdict is %s, want LOST", got)
	}
}

func aLateResultWithItsLockIsNotLate(w *world) {
	r, e, _ := w.running("a")
	late, err := w.store.FinishLate(w.ctx, ended(r, e, scheduler.Succeeded))
	w.must(err)
	if !late.Held || late.Recorded || w.count("locks/") != 1 {
		w.Errorf("got %+v, want it sent back to Finish", late)
	}
}

func aLateResultOfAnOlderAttempt(w *world) {
	r, first, second := w.retrying("a")
	late, err := w.store.FinishLate(w.ctx, ended(r, first, scheduler.Succeeded))
	w.must(err)
	if late.Recorded || late.Dropped == "" {
		w.Errorf("got %+v, want it dropped: another attempt is in flight", late)
	}
	if got := w.record(r.Job.Name); len(got.State.Entries) != 1 || got.State.Entries[0].Token != second.Token {
		w.Errorf("got entries %+v, want attempt 2 in flight", got.State.Entries)
	}
}

func aFoldIsRefusedOnAnOlderState(w *world) {
	r, e, _ := w.running("a")
	run := ended(r, e, scheduler.Succeeded)
	w.finish(run)
	fold := w.folded(r, run.Run)
	out, err := w.store.Settle(w.ctx, fold)
	w.must(err)
	if !out.Committed || counted(out.State, scheduler.Succeeded, "") != 1 {
		w.Fatalf("fold: got %+v", out)
	}
	out, err = w.store.Settle(w.ctx, fold)
	w.refused("the same fold again", out, err)
	if counted(out.State, scheduler.Succeeded, "") != 1 {
		w.Errorf("it was counted twice: %+v", out.State.Counters)
	}
}

// settled is a deleted job with a record and nothing in flight.
func (w *world) settled(name string) store.JobRecord {
	w.Helper()
	r, e, _ := w.running(name)
	w.finish(ended(r, e, scheduler.Succeeded))
	out, err := w.store.Settle(w.ctx, w.folded(r, ended(r, e, scheduler.Succeeded).Run))
	w.must(err)
	if !out.Committed {
		w.Fatalf("fold: got %+v", out)
	}
	_, err = w.store.Delete(w.ctx, store.EditRequest{Name: r.Job.Name, Now: at(noon)})
	w.must(err)
	return w.record(r.Job.Name)
}

func aSweepRemovesEverything(w *world) {
	r := w.settled("a")
	keep := w.apply(job("b"), noon)
	mark := "marks/" + scheduler.ShardOf(r.Job.Name).String()
	before := w.markRevision(mark)
	out, err := w.store.Settle(w.ctx, w.claim(r, scheduler.Decision{Kind: scheduler.KindSweep, Job: r.Job.Name}, 0, ""))
	w.must(err)
	if !out.Committed || w.count("runs/") != 0 || w.count("jobs/") != 1 || w.count("state/") != 1 {
		w.Errorf("got %+v, leaving %d runs, %d jobs, %d states", out, w.count("runs/"), w.count("jobs/"), w.count("state/"))
	}
	if w.markRevision(mark) <= before {
		w.Error("a sweep did not put the shard's mark")
	}
	if u := w.read(r.Job.Name); len(u.Gone) != 1 {
		w.Errorf("got %+v, want the job gone", u)
	}
	w.record(keep.Job.Name)
}

func (w *world) markRevision(key string) int64 {
	w.Helper()
	resp, err := w.client.Get(w.ctx, w.prefix+key)
	w.must(err)
	if len(resp.Kvs) == 0 {
		return 0
	}
	return resp.Kvs[0].ModRevision
}

func aSweepIsRefusedAfterAnApply(w *world) {
	r := w.settled("a")
	sweep := w.claim(r, scheduler.Decision{Kind: scheduler.KindSweep, Job: r.Job.Name}, 0, "")
	again := w.apply(job("a"), noon)
	out, err := w.store.Settle(w.ctx, sweep)
	w.refused("a sweep after the name was applied again", out, err)
	if got := w.record(r.Job.Name); got.Job.UID != again.Job.UID {
		w.Errorf("got uid %s, want %s", got.Job.UID, again.Job.UID)
	}
}

func aDamagedRecordIsAnEnd(w *world) {
	r, e, lease := w.running("a")
	w.revoke(lease)
	_, err := w.client.Put(w.ctx, w.prefix+"runs/"+r.Job.UID+"/000", "\xff\xff")
	w.must(err)
	fact, err := w.store.ReadEntry(w.ctx, e)
	w.must(err)
	if fact.Unreadable == nil || fact.Record == nil || fact.Record.Last().Verdict != scheduler.Failed || fact.Record.Last().Token != e.Token {
		w.Fatalf("got %+v, want an end that says the record cannot be read", fact)
	}
	out, err := w.store.Settle(w.ctx, w.folded(r, *fact.Record))
	w.must(err)
	if !out.Committed || len(out.State.Entries) != 0 {
		w.Errorf("got %+v, want the entry folded: the job must not hang on a damaged record", out)
	}
}

// aLateResultOfAJobThatIsGone: a frozen member may wake up after its job was swept, and the name was given to
// another job.
func aLateResultOfAJobThatIsGone(w *world) {
	r, e, lease := w.running("a")
	w.revoke(lease)
	_, err := w.store.Settle(w.ctx, w.lost(r, e))
	w.must(err)
	_, err = w.store.Delete(w.ctx, store.EditRequest{Name: r.Job.Name, Now: at(noon)})
	w.must(err)
	out, err := w.store.Settle(w.ctx, w.claim(w.record(r.Job.Name), scheduler.Decision{Kind: scheduler.KindSweep, Job: r.Job.Name}, 0, ""))
	w.must(err)
	if !out.Committed {
		w.Fatalf("sweep: got %+v", out)
	}
	for _, when := range []string{"after the sweep", "after the name was applied again"} {
		late, err := w.store.FinishLate(w.ctx, ended(r, e, scheduler.Succeeded))
		w.must(err)
		if late.Dropped == "" || late.Recorded || w.count("runs/") != 0 {
			w.Errorf("%s: got %+v and %d records, want it dropped", when, late, w.count("runs/"))
		}
		w.apply(job("a"), noon)
	}
	if s := w.record(r.Job.Name).State; len(s.Counters) != 0 {
		w.Errorf("the new job counts %+v, want nothing", s.Counters)
	}
}
