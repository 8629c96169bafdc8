package storetest

import (
	"errors"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/quorumcron/quorumcron/scheduler"
	"github.com/quorumcron/quorumcron/store"
)

func editTests() []test {
	return []test{
		{"AnApplyCreatesChangesAndLeavesAlone", anApplyCreatesChangesAndLeavesAlone},
		{"AnOutdatedEditTokenIsAConflict", anOutdatedEditTokenIsAConflict},
		{"AnEditOfTheScheduleClosesTheBooks", anEditOfTheScheduleClosesTheBooks},
		{"AnotherEditKeepsTheCursor", anotherEditKeepsTheCursor},
		{"PauseAndResumeCloseTheBooks", pauseAndResumeCloseTheBooks},
		{"AnApplyThatPausesSaysSo", anApplyThatPausesSaysSo},
		{"ADeleteAccountsForEverythingThatWaits", aDeleteAccountsForEverythingThatWaits},
		{"ADeleteEndsOwedRetries", aDeleteEndsOwedRetries},
		{"ADeleteFoldsWhatHasEnded", aDeleteFoldsWhatHasEnded},
		{"AnApplyOverATombstoneSeesWhatHasEnded", anApplyOverATombstoneSeesWhatHasEnded},
		{"AnEditOwesNoRetryToWhatHasEnded", anEditOwesNoRetryToWhatHasEnded},
		{"AnApplyOverASettledTombstoneIsANewJob", anApplyOverASettledTombstone},
		{"AnApplyOverARunningTombstoneNamesTheMember", anApplyOverARunningTombstone},
		{"EditsOfWhatIsNotThereAreNotFound", editsOfWhatIsNotThere},
		{"AnOriginIsKeptUnlessTheIntervalChanges", anOriginIsKept},
		{"EditsAndClaimsAtOnceLoseNothing", editsAndClaimsAtOnceLoseNothing},
		{"ADamagedDefinitionIsRepairedByAnApply", aDamagedDefinitionIsRepaired},
		{"ARepairNeverMovesTheCursorBack", aRepairNeverMovesTheCursorBack},
		{"AJobWithoutAStateIsRepairedByAnApply", aJobWithoutAState},
		{"FieldsOfANewerMemberSurviveRewriting", fieldsOfANewerMemberSurvive},
		{"AnInvalidDefinitionIsNotStored", anInvalidDefinitionIsNotStored},
	}
}

func (w *world) applied(j scheduler.Job, now time.Time) scheduler.Edit {
	w.Helper()
	e, err := w.store.Apply(w.ctx, store.ApplyRequest{Job: j, Now: at(now)})
	w.must(err)
	return e
}

func anApplyCreatesChangesAndLeavesAlone(w *world) {
	labelled := func(j *scheduler.Job) { j.Labels = map[string]string{"team": "billing"} }
	created := w.applied(job("a"), noon)
	if created.Change != scheduler.Created || created.Job.Generation != 1 || len(created.Job.UID) != 26 || created.Job.UID != strings.ToLower(created.Job.UID) {
		w.Errorf("got %+v, want a first generation with a ULID in lower case", created)
	}
	if created.Job.Revision != w.record(created.Job.Name).Job.Revision {
		w.Errorf("the edit token is %d, the definition is at %d", created.Job.Revision, w.record(created.Job.Name).Job.Revision)
	}
	before := w.footprint()
	if same := w.applied(job("a"), noon.Add(time.Hour)); same.Change != scheduler.Unchanged || same.Job.Revision != created.Job.Revision || w.footprint() != before {
		w.Errorf("the same again: got %+v at %v (was %v), want nothing written", same, w.footprint(), before)
	}
	changed := w.applied(job("a", labelled), noon.Add(time.Hour))
	if changed.Change != scheduler.Changed || changed.Job.Generation != 2 || changed.Job.UID != created.Job.UID || !changed.Job.Created.Equal(noon) || !changed.Job.Edited.Equal(noon.Add(time.Hour)) {
		w.Errorf("a change: got %+v", changed)
	}
	if pool := w.get("pools/" + scheduler.PoolOf(created.Job).ID); pool == nil {
		w.Error("the job's pool was not put")
	}
	if w.get("marks/"+scheduler.ShardOf(created.Job.Name).String()) == nil {
		w.Error("the shard's mark was not put")
	}
}

func anOutdatedEditTokenIsAConflict(w *world) {
	first := w.applied(job("a"), noon)
	w.applied(job("a", func(j *scheduler.Job) { j.HistoryLimit = 3 }), noon)
	name := first.Job.Name
	_, err := w.store.Apply(w.ctx, store.ApplyRequest{Job: job("a"), ExpectRevision: first.Job.Revision, Now: at(noon)})
	w.wantErr("apply", err, scheduler.ErrConflict)
	_, err = w.store.Apply(w.ctx, store.ApplyRequest{Job: job("none"), ExpectRevision: first.Job.Revision, Now: at(noon)})
	w.wantErr("apply of what is gone", err, scheduler.ErrConflict)
	for what, edit := range w.edits() {
		_, err := edit(store.EditRequest{Name: name, ExpectRevision: first.Job.Revision, Now: at(noon)})
		w.wantErr(what, err, scheduler.ErrConflict)
	}
	now := w.record(name).Job.Revision
	if _, err := w.store.Pause(w.ctx, store.EditRequest{Name: name, ExpectRevision: now, Now: at(noon)}); err != nil {
		w.Errorf("with the token in force: %v", err)
	}
}

func (w *world) edits() map[string]func(store.EditRequest) (scheduler.Edit, error) {
	return map[string]func(store.EditRequest) (scheduler.Edit, error){
		"pause":  func(r store.EditRequest) (scheduler.Edit, error) { return w.store.Pause(w.ctx, r) },
		"resume": func(r store.EditRequest) (scheduler.Edit, error) { return w.store.Resume(w.ctx, r) },
		"delete": func(r store.EditRequest) (scheduler.Edit, error) { return w.store.Delete(w.ctx, r) },
	}
}

func hourly(j *scheduler.Job) { j.Schedule.Cron = []string{"30 * * * *"} }

func anEditOfTheScheduleClosesTheBooks(w *world) {
	w.apply(job("a"), noon)
	r := w.apply(job("a", hourly), noon.Add(3*time.Minute+30*time.Second))
	if !r.State.Cursor.Equal(noon.Add(3*time.Minute+30*time.Second)) || counted(r.State, scheduler.Skipped, scheduler.ReasonEdited) != 3 {
		w.Errorf("got cursor %s and %+v, want now and three SKIPPED(edited)", r.State.Cursor, r.State.Counters)
	}
}

func anotherEditKeepsTheCursor(w *world) {
	before := w.apply(job("a"), noon)
	r := w.apply(job("a", func(j *scheduler.Job) { j.Policy.Timeout = time.Minute }), noon.Add(3*time.Minute))
	if r.StateRevision != before.StateRevision || !r.State.Cursor.Equal(noon) {
		w.Errorf("got state %d with cursor %s, want it as it was: what is due fires under the new definition", r.StateRevision, r.State.Cursor)
	}
}

func pauseAndResumeCloseTheBooks(w *world) {
	r := w.apply(job("a"), noon)
	name := r.Job.Name
	edit := func(what string, now time.Time) scheduler.Edit {
		e, err := w.edits()[what](store.EditRequest{Name: name, Now: at(now)})
		w.must(err)
		return e
	}
	if e := edit("pause", noon.Add(90*time.Second)); e.Change != scheduler.Changed || !e.Job.Paused || e.Job.Generation != 2 {
		w.Errorf("pause: got %+v", e)
	}
	before := w.footprint()
	if e := edit("pause", noon.Add(2*time.Minute)); e.Change != scheduler.Unchanged || w.footprint() != before {
		w.Errorf("pause again: got %+v, want nothing written", e)
	}
	if e := edit("resume", noon.Add(10*time.Minute+time.Second)); e.Change != scheduler.Changed || e.Job.Paused {
		w.Errorf("resume: got %+v", e)
	}
	s := w.record(name).State
	if !s.Cursor.Equal(noon.Add(10*time.Minute+time.Second)) || counted(s, scheduler.Skipped, scheduler.ReasonPaused) != 10 {
		w.Errorf("got cursor %s and %+v, want ten SKIPPED(paused)", s.Cursor, s.Counters)
	}
}

func anApplyThatPausesSaysSo(w *world) {
	w.apply(job("a"), noon)
	s := w.apply(job("a", func(j *scheduler.Job) { j.Paused = true }), noon.Add(90*time.Second)).State
	if paused := counted(s, scheduler.Skipped, scheduler.ReasonPaused); paused != 1 || len(s.Counters) != 1 {
		w.Errorf("got %+v, want one SKIPPED(paused)", s.Counters)
	}
}

func aDeleteAccountsForEverythingThatWaits(w *world) {
	r, e, _ := w.running("a")
	for _, id := range []string{"x", "y"} {
		_, err := w.store.Trigger(w.ctx, scheduler.TriggerRequest{Job: r.Job.Name, RequestID: id}, at(noon))
		w.must(err)
	}
	edit, err := w.store.Delete(w.ctx, store.EditRequest{Name: r.Job.Name, Now: at(noon.Add(3*time.Minute + time.Second))})
	w.must(err)
	u := w.read(r.Job.Name)
	s := u.Jobs[0].State
	if !u.Jobs[0].Job.Tombstone() || len(u.Triggers) != 0 || edit.Running != 1 {
		w.Errorf("got %+v and %+v, want a tombstone, no triggers and one attempt running", edit, u)
	}
	// 12:02 and 12:03 by schedule, and two triggers; 12:01 runs on.
	if n := counted(s, scheduler.Skipped, scheduler.ReasonDeleted); n != 4 || len(s.Entries) != 1 || s.Entries[0].Token != e.Token {
		w.Errorf("got %d SKIPPED(deleted) and entries %+v, want 4 and the attempt", n, s.Entries)
	}
	w.finish(ended(r, e, scheduler.Succeeded))
	out, err := w.store.Settle(w.ctx, w.folded(u.Jobs[0], ended(r, e, scheduler.Succeeded).Run))
	w.must(err)
	if !out.Committed || counted(out.State, scheduler.Succeeded, "") != 1 {
		w.Errorf("the attempt under the tombstone: got %+v, want its verdict counted", out)
	}
}

func aDeleteEndsOwedRetries(w *world) {
	r, e, lease := w.running("a", func(j *scheduler.Job) { j.Policy.OnLost = scheduler.OnLostRetry })
	w.revoke(lease)
	out, err := w.store.Settle(w.ctx, w.lost(r, e))
	w.must(err)
	if len(out.State.Retries) != 1 {
		w.Fatalf("lose: got %+v, want a retry owed", out.State)
	}
	_, err = w.store.Delete(w.ctx, store.EditRequest{Name: r.Job.Name, Now: at(noon)})
	w.must(err)
	s := w.record(r.Job.Name).State
	if len(s.Retries) != 0 || counted(s, scheduler.Lost, scheduler.ReasonMemberLost) != 1 {
		w.Errorf("got retries %+v and %+v, want none and one LOST", s.Retries, s.Counters)
	}
}

// aDeleteFoldsWhatHasEnded: the end may wait in the state for the next instant. The name can be applied
// again at once all the same.
func aDeleteFoldsWhatHasEnded(w *world) {
	r, e, _ := w.running("a", func(j *scheduler.Job) { j.Policy.OnLost = scheduler.OnLostRetry })
	end := ended(r, e, scheduler.Lost)
	end.Run.Attempts[0].Reason = scheduler.ReasonNeverStarted
	w.finish(end)
	edit, err := w.store.Delete(w.ctx, store.EditRequest{Name: r.Job.Name, Now: at(noon)})
	w.must(err)
	s := w.record(r.Job.Name).State
	if edit.Running != 0 || len(s.Entries)+len(s.Retries) != 0 || counted(s, scheduler.Lost, scheduler.ReasonNeverStarted) != 1 {
		w.Errorf("got %d running, entries %+v, retries %+v and %+v, want none and one LOST", edit.Running, s.Entries, s.Retries, s.Counters)
	}
	out, err := w.store.Settle(w.ctx, w.folded(r, end.Run))
	w.must(err)
	if out.Committed {
		w.Errorf("a fold that was planned before counts it again: %+v", out.State)
	}
	again := w.apply(job("a"), noon)
	if again.Job.UID == r.Job.UID {
		w.Errorf("the name is still %s's", r.Job.UID)
	}
}

// anApplyOverATombstoneSeesWhatHasEnded: the owner folds what ends under a tombstone ten seconds later. Until
// then a refusal would name an attempt that nobody finds running.
func anApplyOverATombstoneSeesWhatHasEnded(w *world) {
	r, e, _ := w.running("a", func(j *scheduler.Job) { j.Policy.OnLost = scheduler.OnLostRetry })
	_, err := w.store.Delete(w.ctx, store.EditRequest{Name: r.Job.Name, Now: at(noon)})
	w.must(err)
	_, err = w.store.Apply(w.ctx, store.ApplyRequest{Job: job("a"), Now: at(noon)})
	w.wantErr("while the attempt runs", err, scheduler.ErrConflict)
	deleted := w.read(r.Job.Name).Jobs[0]
	end := ended(r, e, scheduler.Succeeded)
	w.finish(end)
	again := w.apply(job("a"), noon)
	if again.Job.UID == r.Job.UID {
		w.Errorf("the name is still %s's", r.Job.UID)
	}
	out, err := w.store.Settle(w.ctx, w.folded(deleted, end.Run))
	w.must(err)
	if s := w.record(r.Job.Name).State; out.Committed || s.UID != again.Job.UID || len(s.Counters) > 0 {
		w.Errorf("the fold of the former job's owner: got %+v, and the new job has %+v", out, s)
	}
}

// anEditOwesNoRetryToWhatHasEnded: the record is there and has been shown as the firing's end, though the
// entry waits for the next instant. What follows it was settled by the definition of that time.
func anEditOwesNoRetryToWhatHasEnded(w *world) {
	r, e, _ := w.running("a")
	end := ended(r, e, scheduler.Lost)
	end.Run.Attempts[0].Reason = scheduler.ReasonNeverStarted
	w.finish(end)
	edit := w.applied(job("a", func(j *scheduler.Job) { j.Policy.OnLost = scheduler.OnLostRetry }), noon.Add(time.Minute))
	now := w.record(r.Job.Name)
	if edit.Running != 0 || len(now.State.Entries)+len(now.State.Retries) != 0 || counted(now.State, scheduler.Lost, scheduler.ReasonNeverStarted) != 1 {
		w.Errorf("got %d running, entries %+v, retries %+v and %+v, want none and one LOST", edit.Running, now.State.Entries, now.State.Retries, now.State.Counters)
	}
	if !now.State.Cursor.Equal(r.State.Cursor) {
		w.Errorf("the cursor is %s, was %s: an edit of the policy keeps it", now.State.Cursor, r.State.Cursor)
	}
	out, err := w.store.Settle(w.ctx, w.folded(r, end.Run))
	w.must(err)
	if out.Committed {
		w.Errorf("a fold that was planned before counts it again: %+v", out.State)
	}
}

func anApplyOverASettledTombstone(w *world) {
	old := w.settled("a")
	if w.count("runs/"+old.Job.UID) != 1 {
		w.Fatal("there is no record")
	}
	e := w.applied(job("a"), noon.Add(time.Hour))
	r := w.record(e.Job.Name)
	if e.Change != scheduler.Created || e.Job.UID == old.Job.UID || e.Job.Generation != 1 || r.State.UID != e.Job.UID || r.Job.Tombstone() {
		w.Errorf("got %+v with state of %s, want a new job", e, r.State.UID)
	}
	if w.count("runs/"+old.Job.UID) != 0 || len(r.State.Counters) != 0 || !r.State.Cursor.Equal(noon.Add(time.Hour)) {
		w.Errorf("the former uid left %d runs, counters %+v, cursor %s", w.count("runs/"+old.Job.UID), r.State.Counters, r.State.Cursor)
	}
}

func anApplyOverARunningTombstone(w *world) {
	r, e, _ := w.running("a")
	_, err := w.store.Delete(w.ctx, store.EditRequest{Name: r.Job.Name, Now: at(noon)})
	w.must(err)
	_, err = w.store.Apply(w.ctx, store.ApplyRequest{Job: job("a"), Now: at(noon)})
	w.wantErr("apply", err, scheduler.ErrConflict)
	if err == nil || !strings.Contains(err.Error(), e.Member) {
		w.Errorf("got error %v, want one that names %s", err, e.Member)
	}
}

func editsOfWhatIsNotThere(w *world) {
	gone := w.settled("gone")
	for what, edit := range w.edits() {
		for _, name := range []scheduler.JobName{gone.Job.Name, job("never").Name} {
			_, err := edit(store.EditRequest{Name: name, Now: at(noon)})
			w.wantErr(what+" of "+name.Name, err, scheduler.ErrNotFound)
		}
	}
	_, err := w.store.Job(w.ctx, gone.Job.Name)
	w.wantErr("reading a tombstone", err, scheduler.ErrNotFound)
}

func anOriginIsKept(w *world) {
	every := func(d time.Duration, labels ...string) scheduler.Job {
		return job("a", func(j *scheduler.Job) {
			j.Schedule.Cron, j.Schedule.Every = nil, d
			for _, l := range labels {
				j.Labels = map[string]string{l: l}
			}
		})
	}
	for i, step := range []struct {
		job  scheduler.Job
		now  time.Time
		want time.Time
	}{
		{every(time.Hour), noon.Add(300 * time.Millisecond), noon},
		{every(time.Hour, "x"), noon.Add(time.Minute), noon},
		{every(time.Hour), noon.Add(2 * time.Minute), noon},
		{every(2 * time.Hour), noon.Add(3 * time.Minute), noon.Add(3 * time.Minute)},
	} {
		if got := w.apply(step.job, step.now).Job.Schedule.Origin; !got.Equal(step.want) {
			w.Errorf("step %d: got origin %s, want %s", i, got, step.want)
		}
	}
}

// editsAndClaimsAtOnceLoseNothing: an edit that closes the books races with the owner, which decides
// minute after minute. Every minute has its verdict exactly once.
func editsAndClaimsAtOnceLoseNothing(w *world) {
	r := w.apply(job("a"), noon)
	done := make(chan int, 1)
	go func() {
		conflicts := 0
		for i := range 10 {
			change := hourly
			if i%2 == 1 {
				change = func(j *scheduler.Job) { j.Schedule.Cron = []string{"* * * * *"} }
			}
			_, err := w.store.Apply(w.ctx, store.ApplyRequest{Job: job("a", change), Now: at(noon)})
			if errors.Is(err, scheduler.ErrConflict) {
				conflicts++
			} else if err != nil {
				w.Errorf("apply: %v", err)
			}
		}
		done <- conflicts
	}()
	committed := int64(0)
	for range 40 {
		out, err := w.store.Claim(w.ctx, w.skip(r, scheduler.ReasonOverlap))
		w.must(err)
		if out.Committed {
			committed++
		}
		r.State, r.StateRevision = out.State, out.StateRevision
		r.Job.Revision = max(r.Job.Revision, out.JobRevision)
	}
	conflicts := <-done
	s := w.record(r.Job.Name).State
	minutes := int64(s.Cursor.Sub(noon) / time.Minute)
	if n := counted(s, scheduler.Skipped, scheduler.ReasonOverlap); committed != minutes || n == 0 && minutes > 0 {
		w.Errorf("%d skips were committed, and the cursor moved over %d minutes; counters %+v", committed, minutes, s.Counters)
	}
	w.Logf("%d of 40 skips committed beside 10 edits, %d of which gave up", committed, conflicts)
}

func (w *world) jobKey(r store.JobRecord) string {
	return "jobs/" + scheduler.ShardOf(r.Job.Name).String() + "/" + r.Job.Name.String()
}

func (w *world) stateKey(r store.JobRecord) string {
	return "state/" + scheduler.ShardOf(r.Job.Name).String() + "/" + r.Job.Name.String()
}

func aDamagedDefinitionIsRepaired(w *world) {
	r, e, _ := w.running("a")
	w.damage(w.jobKey(r))
	if u := w.read(r.Job.Name); len(u.Jobs) != 0 || len(u.Quarantined) != 1 || u.Quarantined[0].Job != r.Job.Name || u.Quarantined[0].Key != w.jobKey(r) {
		w.Fatalf("got %+v, want it quarantined", u)
	}
	_, err := w.store.Pause(w.ctx, store.EditRequest{Name: r.Job.Name, Now: at(noon)})
	w.wantErr("pause", err, scheduler.ErrConflict)
	fixed := w.apply(job("a"), noon.Add(time.Hour))
	if fixed.Job.UID != r.Job.UID || fixed.Job.Generation <= e.Generation || len(fixed.State.Entries) != 1 || !fixed.State.Cursor.Equal(noon.Add(time.Hour)) {
		w.Errorf("got %+v, want the same uid, a later generation, and the attempt in flight", fixed)
	}
	w.damage(w.stateKey(r))
	if u := w.read(r.Job.Name); len(u.Jobs) != 1 || u.Jobs[0].StateRevision != 0 || len(u.Quarantined) != 1 {
		w.Errorf("got %+v, want the state quarantined", u)
	}
	_, err = w.store.Apply(w.ctx, store.ApplyRequest{Job: job("a", hourly), Now: at(noon)})
	w.wantErr("apply over a state that cannot be read", err, scheduler.ErrConflict)
}

func aRepairNeverMovesTheCursorBack(w *world) {
	r, _, _ := w.running("a")
	w.damage(w.jobKey(r))
	if fixed := w.apply(job("a"), noon.Add(-time.Hour)); !fixed.State.Cursor.Equal(r.State.Cursor) {
		w.Errorf("got cursor %s, want %s: what was decided stays decided", fixed.State.Cursor, r.State.Cursor)
	}
}

func aJobWithoutAState(w *world) {
	r := w.apply(job("a"), noon)
	_, err := w.client.Delete(w.ctx, w.prefix+w.stateKey(r))
	w.must(err)
	_, err = w.store.Pause(w.ctx, store.EditRequest{Name: r.Job.Name, Now: at(noon)})
	w.wantErr("pause", err, scheduler.ErrConflict)
	later := noon.Add(time.Hour)
	fixed := w.apply(job("a"), later)
	if fixed.Job.UID != r.Job.UID || !fixed.Job.Created.Equal(noon) || fixed.Job.Generation <= r.Job.Generation || !fixed.State.Cursor.Equal(later) {
		w.Errorf("got %+v, want the same uid, a later generation and a cursor of now", fixed)
	}
	_, err = w.client.Delete(w.ctx, w.prefix+w.stateKey(r))
	w.must(err)
	w.damage(w.jobKey(r))
	fixed = w.apply(job("a"), later)
	if fixed.Job.UID == "" || fixed.Job.UID == r.Job.UID || fixed.State.UID != fixed.Job.UID || !fixed.State.Cursor.Equal(later) {
		w.Errorf("got %+v, want a new job: nobody can tell which one it was", fixed)
	}
}

// damage writes what nobody can read.
func (w *world) damage(key string) {
	w.Helper()
	_, err := w.client.Put(w.ctx, w.prefix+key, "\xff\xff")
	w.must(err)
}

// strange is a field that this version does not know.
var strange = string(protowire.AppendString(protowire.AppendTag(nil, 9000, protowire.BytesType), "of a newer member"))

// grow adds the field to a value, as a newer member would have written it.
func (w *world) grow(key string) {
	w.Helper()
	_, err := w.client.Put(w.ctx, w.prefix+key, string(w.get(key))+strange)
	w.must(err)
}

func (w *world) still(what, key string) {
	w.Helper()
	if !strings.Contains(string(w.get(key)), strange) {
		w.Errorf("%s lost the field of a newer member in %s", what, key)
	}
}

// fieldsOfANewerMemberSurvive: what a newer member wrote beside what this version knows is still
// there after every kind of rewrite.
func fieldsOfANewerMemberSurvive(w *world) {
	r := w.apply(job("a"), noon)
	w.grow(w.jobKey(r))
	w.grow(w.stateKey(r))
	_, err := w.store.Pause(w.ctx, store.EditRequest{Name: r.Job.Name, Now: at(noon)})
	w.must(err)
	w.still("a pause", w.jobKey(r))
	w.still("a pause", w.stateKey(r))
	r = w.apply(job("a"), noon)
	w.still("an apply", w.jobKey(r))
	w.still("an apply", w.stateKey(r))
	c := w.begin(r, scheduler.At(r.Job.UID, noon.Add(time.Minute)), w.lease(), "n")
	_, err = w.store.Resolve(w.ctx, c)
	w.must(err)
	w.still("a fence", w.stateKey(r))
	r = w.record(r.Job.Name)
	lease := w.lease()
	r, e := w.grant(r, scheduler.At(r.Job.UID, noon.Add(time.Minute)), lease)
	w.still("a begin", w.stateKey(r))
	w.revoke(lease)
	_, err = w.store.FinishLate(w.ctx, ended(r, e, scheduler.Succeeded))
	w.must(err)
	w.still("a late result", w.stateKey(r))
	_, err = w.store.Delete(w.ctx, store.EditRequest{Name: r.Job.Name, Now: at(noon)})
	w.must(err)
	w.still("a delete", w.jobKey(r))
	w.still("a delete", w.stateKey(r))
}

func anInvalidDefinitionIsNotStored(w *world) {
	bad := job("a", func(j *scheduler.Job) { j.Schedule.Cron = []string{"61 * * * *"}; j.HistoryLimit = 1000 })
	_, err := w.store.Apply(w.ctx, store.ApplyRequest{Job: bad, Now: at(noon)})
	w.wantErr("apply", err, scheduler.ErrInvalid)
	var fields scheduler.FieldErrors
	if !errors.As(err, &fields) || len(fields) < 2 {
		w.Errorf("got %v, want every field that is wrong", err)
	}
	if w.count("jobs/") != 0 {
		w.Error("it was stored")
	}
}
