package storetest

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/quorumcron/quorumcron/scheduler"
	"github.com/quorumcron/quorumcron/store"
)

func userTests() []test {
	return []test{
		{"ARepeatedTriggerIsOneFiring", aRepeatedTriggerIsOneFiring},
		{"ARequestIDServesOneRequest", aRequestIDServesOneRequest},
		{"ATriggerNeedsAJobThatRuns", aTriggerNeedsAJobThatRuns},
		{"TriggersThatWaitAreBounded", triggersThatWaitAreBounded},
		{"ARunningAttemptIsCancelledByItsMember", aRunningAttemptIsCancelled},
		{"AWaitingTriggerIsTakenOut", aWaitingTriggerIsTakenOut},
		{"AnotherTriggerGoesOnWaiting", anotherTriggerGoesOnWaiting},
		{"AnOwedRetryIsTakenOut", anOwedRetryIsTakenOut},
		{"ARetryThatIsNotYetOwedIsNotMade", aRetryThatIsNotYetOwedIsNotMade},
		{"WhatHasEndedIsNotCancelled", whatHasEndedIsNotCancelled},
		{"WhatCannotBeReadIsNotCancelled", whatCannotBeReadIsNotCancelled},
	}
}

func (w *world) trigger(name scheduler.JobName, id, caller string) (scheduler.TriggerReceipt, error) {
	return w.store.Trigger(w.ctx, scheduler.TriggerRequest{Job: name, RequestID: id, Caller: caller}, at(noon))
}

func aRepeatedTriggerIsOneFiring(w *world) {
	r := w.apply(job("a"), noon)
	first, err := w.trigger(r.Job.Name, "deploy-42", "ann")
	w.must(err)
	again, err := w.trigger(r.Job.Name, "deploy-42", "ann")
	w.must(err)
	if first.Repeated || !again.Repeated || first.Firing != again.Firing || first.Firing.UID != r.Job.UID {
		w.Errorf("got %+v and %+v, want one firing of %s", first, again, r.Job.UID)
	}
	waiting := w.read(r.Job.Name).Triggers
	if len(waiting) != 1 || waiting[0].Trigger.Caller != "ann" || !waiting[0].Trigger.Requested.Equal(noon) {
		w.Errorf("got triggers %+v, want one of ann's", waiting)
	}
	other, err := w.trigger(r.Job.Name, "deploy-43", "ann")
	w.must(err)
	if other.Firing == first.Firing {
		w.Error("two requests got one firing")
	}
}

func aRequestIDServesOneRequest(w *world) {
	a, b := w.apply(job("a"), noon), w.apply(job("b"), noon)
	_, err := w.trigger(a.Job.Name, "x", "ann")
	w.must(err)
	_, err = w.trigger(b.Job.Name, "x", "ann")
	w.wantErr("the same id for another job", err, scheduler.ErrConflict)
	_, err = w.trigger(a.Job.Name, "x", "bob")
	w.wantErr("the same id by another caller", err, scheduler.ErrConflict)
	if n := w.count("triggers/"); n != 1 {
		w.Errorf("%d triggers wait, want 1", n)
	}
	_, err = w.trigger(a.Job.Name, "a/b", "ann")
	w.wantErr("an id that cannot be part of a key", err, scheduler.ErrInvalid)
}

func aTriggerNeedsAJobThatRuns(w *world) {
	gone, paused := w.settled("gone"), w.apply(job("paused"), noon)
	_, err := w.store.Pause(w.ctx, store.EditRequest{Name: paused.Job.Name, Now: at(noon)})
	w.must(err)
	for name, want := range map[scheduler.JobName]error{
		job("never").Name: scheduler.ErrNotFound, gone.Job.Name: scheduler.ErrNotFound, paused.Job.Name: scheduler.ErrPaused,
	} {
		_, err := w.trigger(name, "x-"+name.Name, "")
		w.wantErr(name.Name, err, want)
	}
	if n := w.count("triggers/") + w.count("requests/"); n != 0 {
		w.Errorf("%d keys were written", n)
	}
}

func triggersThatWaitAreBounded(w *world) {
	r := w.apply(job("a"), noon)
	prefix := w.prefix + "triggers/" + scheduler.ShardOf(r.Job.Name).String() + "/" + r.Job.Name.String() + "/"
	for i := range 1000 {
		_, err := w.client.Put(w.ctx, prefix+time.Duration(i).String(), "")
		w.must(err)
	}
	_, err := w.trigger(r.Job.Name, "x", "")
	w.wantErr("one more", err, scheduler.ErrExhausted)
}

func aRunningAttemptIsCancelled(w *world) {
	r, e, _ := w.running("a")
	ctx, cancel := context.WithCancel(w.ctx)
	told := make(chan store.Cancel, 4) // one is expected; more would be a fault that must not block
	followed := make(chan error, 1)
	go func() { followed <- w.store.FollowQueue(ctx, e.Member, func(c store.Cancel) { told <- c }) }()
	receipt, err := w.store.Cancel(w.ctx, r.Job.Name, e.Firing, "ann", at(noon))
	w.must(err)
	if receipt.Member != e.Member || receipt.Dropped {
		w.Errorf("got %+v, want %s told", receipt, e.Member)
	}
	want := store.Cancel{Job: r.Job.Name, Firing: e.Firing, Token: e.Token, Caller: "ann"}
	select {
	case got := <-told:
		if got != want {
			w.Errorf("got %+v, want %+v", got, want)
		}
	case <-w.ctx.Done():
		w.Fatal("the member was not told")
	}
	f := ended(r, e, scheduler.Canceled)
	f.Canceled = true
	if !w.finish(f) || w.count("queue/") != 0 {
		w.Errorf("the finish left %d keys in the queue", w.count("queue/"))
	}
	_, err = w.store.Cancel(w.ctx, r.Job.Name, e.Firing, "ann", at(noon))
	w.wantErr("cancelling it again", err, scheduler.ErrEnded)
	if w.count("queue/") != 0 {
		w.Error("a cancel was left for nobody")
	}
	cancel()
	<-followed
	_, err = w.client.Put(w.ctx, w.prefix+"queue/"+e.Member+"/cancel/"+r.Job.UID+"/"+e.Firing.Key(), "")
	w.must(err)
	w.must(w.store.DropCancel(w.ctx, e.Member, e.Firing))
	if w.count("queue/") != 0 {
		w.Error("a cancel that concerns nothing was not dropped")
	}
}

func aWaitingTriggerIsTakenOut(w *world) {
	r := w.apply(job("a"), noon)
	t, err := w.trigger(r.Job.Name, "x", "")
	w.must(err)
	receipt, err := w.store.Cancel(w.ctx, r.Job.Name, t.Firing, "", at(noon))
	w.must(err)
	s := w.record(r.Job.Name).State
	if !receipt.Dropped || w.count("triggers/") != 0 || counted(s, scheduler.Skipped, scheduler.ReasonCanceled) != 1 {
		w.Errorf("got %+v, %d triggers, counters %+v", receipt, w.count("triggers/"), s.Counters)
	}
	run, err := w.store.RunByFiring(w.ctx, t.Firing)
	w.must(err)
	if run.Last().Verdict != scheduler.Skipped || run.Last().Reason != scheduler.ReasonCanceled || run.Last().Number != 0 {
		w.Errorf("it is shown as %+v", run)
	}
	_, err = w.store.Cancel(w.ctx, r.Job.Name, t.Firing, "", at(noon))
	w.wantErr("cancelling it again", err, scheduler.ErrEnded)
}

func anotherTriggerGoesOnWaiting(w *world) {
	r := w.apply(job("a"), noon)
	firings := map[string]scheduler.Firing{}
	for _, id := range []string{"x", "y"} {
		receipt, err := w.trigger(r.Job.Name, id, "")
		w.must(err)
		firings[receipt.Firing.Trigger] = receipt.Firing
	}
	ids := slices.Sorted(maps.Keys(firings))
	_, err := w.store.Cancel(w.ctx, r.Job.Name, firings[ids[1]], "", at(noon))
	w.must(err)
	waiting := w.read(r.Job.Name).Triggers
	if len(waiting) != 1 || waiting[0].Trigger.ID != ids[0] {
		w.Errorf("got %+v waiting, want %s alone", waiting, ids[0])
	}
}

func anOwedRetryIsTakenOut(w *world) {
	r, e, lease := w.running("a", func(j *scheduler.Job) { j.Policy.OnLost = scheduler.OnLostRetry })
	w.revoke(lease)
	_, err := w.store.Cancel(w.ctx, r.Job.Name, e.Firing, "", at(noon))
	w.wantErr("cancelling what has no lock and no record", err, scheduler.ErrConflict)
	_, err = w.store.Settle(w.ctx, w.lost(r, e))
	w.must(err)
	receipt, err := w.store.Cancel(w.ctx, r.Job.Name, e.Firing, "", at(noon))
	w.must(err)
	s := w.record(r.Job.Name).State
	if !receipt.Dropped || len(s.Retries) != 0 || counted(s, scheduler.Lost, scheduler.ReasonMemberLost) != 1 {
		w.Errorf("got %+v, retries %+v, counters %+v: want it counted as its record says", receipt, s.Retries, s.Counters)
	}
}

// aRetryThatIsNotYetOwedIsNotMade: the attempt has ended, its record lies there, and the fold that
// makes the retry is still to come.
func aRetryThatIsNotYetOwedIsNotMade(w *world) {
	r, e, _ := w.running("a", func(j *scheduler.Job) { j.Policy.OnLost = scheduler.OnLostRetry })
	end := ended(r, e, scheduler.Lost)
	end.Run.Attempts[0].Reason = scheduler.ReasonNeverStarted
	w.finish(end)
	receipt, err := w.store.Cancel(w.ctx, r.Job.Name, e.Firing, "", at(noon))
	w.must(err)
	s := w.record(r.Job.Name).State
	if !receipt.Dropped || len(s.Entries)+len(s.Retries) != 0 || counted(s, scheduler.Lost, scheduler.ReasonNeverStarted) != 1 {
		w.Errorf("got %+v, entries %+v, retries %+v, counters %+v: want it counted as its record says, and no retry",
			receipt, s.Entries, s.Retries, s.Counters)
	}
	out, err := w.store.Settle(w.ctx, w.folded(r, end.Run))
	w.must(err)
	if out.Committed {
		w.Errorf("a fold that was planned before makes the retry all the same: %+v", out.State)
	}
	_, err = w.store.Cancel(w.ctx, r.Job.Name, e.Firing, "", at(noon))
	w.wantErr("cancelling it again", err, scheduler.ErrEnded)
}

func whatHasEndedIsNotCancelled(w *world) {
	r, e, _ := w.running("a")
	w.finish(ended(r, e, scheduler.Succeeded))
	_, err := w.store.Cancel(w.ctx, r.Job.Name, e.Firing, "", at(noon))
	w.wantErr("before the fold", err, scheduler.ErrEnded)
	_, err = w.store.Settle(w.ctx, w.folded(r, ended(r, e, scheduler.Succeeded).Run))
	w.must(err)
	_, err = w.store.Cancel(w.ctx, r.Job.Name, e.Firing, "", at(noon))
	w.wantErr("after the fold", err, scheduler.ErrEnded)
	_, err = w.store.Cancel(w.ctx, r.Job.Name, scheduler.Triggered(r.Job.UID, "x"), "", at(noon))
	w.wantErr("what never was", err, scheduler.ErrNotFound)
	_, err = w.store.Cancel(w.ctx, r.Job.Name, scheduler.At("another", noon), "", at(noon))
	w.wantErr("what is another job's", err, scheduler.ErrNotFound)
}

func whatCannotBeReadIsNotCancelled(w *world) {
	r, e, _ := w.running("a", func(j *scheduler.Job) { j.Policy.OnLost = scheduler.OnLostRetry })
	w.finish(ended(r, e, scheduler.Failed))
	w.damage(w.jobKey(r))
	_, err := w.store.Cancel(w.ctx, r.Job.Name, e.Firing, "", at(noon))
	w.wantErr("under a damaged definition, which says whether another attempt follows", err, scheduler.ErrConflict)
	w.damage(w.stateKey(r))
	_, err = w.store.Cancel(w.ctx, r.Job.Name, e.Firing, "", at(noon))
	w.wantErr("of a damaged state", err, scheduler.ErrConflict)
}
