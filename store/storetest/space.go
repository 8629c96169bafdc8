package storetest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/quorumcron/quorumcron/scheduler"
	"github.com/quorumcron/quorumcron/store"
)

func spaceTests() []test {
	return []test{
		{"EveryRecordIsShortWhileSpaceIs", everyRecordIsShort},
		{"AShortRecordKeepsItsAttempts", aShortRecordKeepsItsAttempts},
		{"AShortRecordOfALongNameIsFound", aShortRecordOfALongName},
		{"NothingNewIsTakenWithoutRoom", nothingNewWithoutRoom},
		{"WhatIsThereGoesOnWithoutRoom", whatIsThereGoesOn},
	}
}

var errFull = fmt.Errorf("%w: full", scheduler.ErrNoRoom)

// wordy is an end with as much in its record as there may be.
func wordy(r store.JobRecord, e scheduler.Entry, v scheduler.Verdict) store.Finish {
	f := ended(r, e, v)
	f.Run.Output, f.Run.OutputBytes, f.Run.OutputDropped = []byte(strings.Repeat("o", 8<<10)), 1<<20, 1<<10
	for i := range f.Run.Attempts {
		f.Run.Attempts[i].Message = strings.Repeat("m", 1<<10)
	}
	return f
}

// stored is how many bytes the newest record of a job takes.
func (w *world) stored(r store.JobRecord, slot int) int {
	w.Helper()
	return len(w.get(fmt.Sprintf("runs/%s/%03d", r.Job.UID, slot)))
}

func everyRecordIsShort(w *world) {
	code := int32(3)
	for _, c := range []struct {
		writer string
		end    func(store.JobRecord, scheduler.Entry, int64)
		want   scheduler.Verdict
	}{
		{"finish", func(r store.JobRecord, e scheduler.Entry, _ int64) {
			f := wordy(r, e, scheduler.Failed)
			f.Run.Attempts[0].Reason, f.Run.Attempts[0].ExitCode = scheduler.ReasonExitCode, &code
			if !w.finish(f) {
				w.Fatal("the finish was refused")
			}
			if !w.finish(f) {
				w.Error("a copy of it is told that it is late")
			}
		}, scheduler.Failed},
		{"late-finish", func(r store.JobRecord, e scheduler.Entry, lease int64) {
			w.revoke(lease)
			late, err := w.store.FinishLate(w.ctx, wordy(r, e, scheduler.Succeeded))
			w.must(err)
			if !late.Recorded {
				w.Fatalf("the late result was dropped: %+v", late)
			}
		}, scheduler.Succeeded},
		{"lose", func(r store.JobRecord, e scheduler.Entry, lease int64) {
			w.revoke(lease)
			c := w.lost(r, e)
			c.Decision.Record.Attempts[0].Message = strings.Repeat("m", 1<<10)
			out, err := w.store.Settle(w.ctx, c)
			w.must(err)
			if !out.Committed {
				w.Fatalf("lose: got %+v", out)
			}
		}, scheduler.Lost},
	} {
		r, e, lease := w.running(c.writer)
		w.store.Restrict(true, nil)
		c.end(r, e, lease)
		w.store.Restrict(false, nil)
		if n := w.stored(r, e.Slot); n == 0 || n > 200 {
			w.Errorf("%s: the record takes %d bytes, want some and at most 200", c.writer, n)
		}
		run, err := w.store.RunByFiring(w.ctx, e.Firing)
		w.must(err)
		if last := run.Last(); !run.Shortened || run.Job != r.Job.Name || last.Verdict != c.want || last.Token != e.Token || last.Member != e.Member ||
			!last.Granted.Equal(e.Granted) || last.Message != "" || len(run.Output) != 0 {
			w.Errorf("%s: got %+v", c.writer, run)
		}
		if c.want == scheduler.Failed && (run.Last().Reason != scheduler.ReasonExitCode || *run.Last().ExitCode != 3 || run.OutputBytes != 1<<20) {
			w.Errorf("%s: reason, exit code or the size of the output is missing: %+v", c.writer, run)
		}
		now := w.record(r.Job.Name)
		if len(now.State.Entries) == 1 { // not folded in the transaction that ended it
			out, err := w.store.Settle(w.ctx, w.folded(now, run))
			w.must(err)
			now.State = out.State
		}
		if len(now.State.Entries) != 0 || counted(now.State, c.want, run.Last().Reason) != 1 {
			w.Errorf("%s: the short record was not folded: %+v", c.writer, now.State)
		}
	}
}

func aShortRecordKeepsItsAttempts(w *world) {
	r, first, second := w.retrying("a")
	w.store.Restrict(true, nil)
	if !w.finish(wordy(r, second, scheduler.Succeeded)) {
		w.Fatal("the finish of attempt 2 was refused")
	}
	run, err := w.store.RunByFiring(w.ctx, second.Firing)
	w.must(err)
	if len(run.Attempts) != 2 || run.Attempts[0].Verdict != scheduler.Lost || run.Attempts[0].Token != first.Token ||
		!run.Attempts[0].Granted.Equal(first.Granted) || run.Last().Verdict != scheduler.Succeeded {
		w.Errorf("got %+v, want a lost and a succeeded line", run.Attempts)
	}
}

func aShortRecordOfALongName(w *world) {
	r, e, _ := w.running(strings.Repeat("n", 253))
	w.store.Restrict(true, nil)
	if !w.finish(wordy(r, e, scheduler.Succeeded)) {
		w.Fatal("the finish was refused")
	}
	if n := w.stored(r, e.Slot); n > 200 {
		w.Errorf("the record takes %d bytes, want at most 200", n)
	}
	run, err := w.store.RunByFiring(w.ctx, e.Firing)
	w.must(err)
	runs, err := w.store.Runs(w.ctx, scheduler.RunQuery{Namespace: r.Job.Name.Namespace, Limit: 10})
	w.must(err)
	if run.Job != r.Job.Name || len(runs) != 1 || runs[0].Job != r.Job.Name {
		w.Errorf("the run is shown of %v, and listed as %+v", run.Job, runs)
	}
}

func nothingNewWithoutRoom(w *world) {
	r := w.apply(job("a"), noon)
	gone := w.settled("gone")
	ask := func(id string) (scheduler.TriggerReceipt, error) {
		return w.store.Trigger(w.ctx, scheduler.TriggerRequest{Job: r.Job.Name, RequestID: id}, at(noon))
	}
	first, err := ask("first")
	w.must(err)
	w.store.Restrict(true, errFull)
	before := w.footprint()
	_, err = w.store.Apply(w.ctx, store.ApplyRequest{Job: job("b"), Now: at(noon)})
	w.wantErr("a new job", err, scheduler.ErrNoRoom)
	_, err = w.store.Apply(w.ctx, store.ApplyRequest{Job: job(gone.Job.Name.Name), Now: at(noon)})
	w.wantErr("a new job over a tombstone", err, scheduler.ErrNoRoom)
	_, err = ask("second")
	w.wantErr("a trigger", err, scheduler.ErrNoRoom)
	if errors.Is(err, scheduler.ErrUnknown) {
		w.Errorf("a refusal that leaves open what happened: %v", err)
	}
	if again, err := ask("first"); err != nil || !again.Repeated || again.Firing != first.Firing {
		w.Errorf("the repeat of a trigger: got %+v, %v, want its firing", again, err)
	}
	if after := w.footprint(); after != before {
		w.Errorf("something was written: %v, was %v", after, before)
	}
	w.store.Restrict(false, nil)
	if _, err = ask("second"); err != nil {
		w.Errorf("a trigger when there is room again: %v", err)
	}
	w.apply(job("b"), noon)
}

func whatIsThereGoesOn(w *world) {
	r, e, lease := w.running("a")
	w.store.Restrict(true, errFull)
	edit := store.EditRequest{Name: r.Job.Name, Now: at(noon)}
	for what, do := range map[string]func() error{
		"a change": func() error {
			_, err := w.store.Apply(w.ctx, store.ApplyRequest{Job: job("a", func(j *scheduler.Job) { j.Policy.Timeout = time.Minute }), Now: at(noon)})
			return err
		},
		"a pause":  func() error { _, err := w.store.Pause(w.ctx, edit); return err },
		"a resume": func() error { _, err := w.store.Resume(w.ctx, edit); return err },
		"a cancel": func() error { _, err := w.store.Cancel(w.ctx, r.Job.Name, e.Firing, "", at(noon)); return err },
	} {
		if err := do(); err != nil {
			w.Errorf("%s: %v", what, err)
		}
	}
	if !w.finish(ended(r, e, scheduler.Canceled)) {
		w.Error("an end was refused")
	}
	r = w.record(r.Job.Name)
	r, e = w.grant(r, scheduler.At(r.Job.UID, noon.Add(2*time.Minute)), lease)
	if !w.finish(ended(r, e, scheduler.Succeeded)) {
		w.Error("the end of a scheduled firing was refused")
	}
	if _, err := w.store.Delete(w.ctx, edit); err != nil {
		w.Errorf("a delete: %v", err)
	}
}
