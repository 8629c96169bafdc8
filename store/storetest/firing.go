package storetest

import (
	"time"

	"github.com/quorumcron/quorumcron/scheduler"
	"github.com/quorumcron/quorumcron/store"
)

func firingTests() []test {
	return []test{
		{"OneOfTwoBeginsIsGranted", oneOfTwoBeginsIsGranted},
		{"ABeginPutsTheTokenIntoLockAndEntry", aBeginPutsTheToken},
		{"NothingIsGrantedAfterAnEdit", nothingIsGrantedAfterAnEdit},
		{"NothingIsClaimedUnderOlderRules", nothingIsClaimedUnderOlderRules},
		{"NothingIsGrantedUnderADeadLease", nothingIsGrantedUnderADeadLease},
		{"NothingIsGrantedBesideALock", nothingIsGrantedBesideALock},
		{"ATriggerIsConsumedOnce", aTriggerIsConsumedOnce},
		{"ASkipBlamesALivingLockOnly", aSkipBlamesALivingLockOnly},
		{"ASkipBlamesAnUnendedAttemptOnly", aSkipBlamesAnUnendedAttemptOnly},
		{"ASkipBesideManyAttemptsIsCommitted", aSkipBesideManyAttempts},
		{"ASkipIsRefusedAfterAnEdit", aSkipIsRefusedAfterAnEdit},
		{"AClaimThatMakesNoSenseIsNotSent", aClaimThatMakesNoSense},
		{"AResolvedClaimNeverCommits", aResolvedClaimNeverCommits},
		{"AResolvedClaimFindsItsGrant", aResolvedClaimFindsItsGrant},
		{"AResolvedClaimIsNotFooledByAnotherGrant", aResolvedClaimIsNotFooled},
		{"AFenceFillsInTokens", aFenceFillsInTokens},
	}
}

func oneOfTwoBeginsIsGranted(w *world) {
	r := w.apply(job("a"), noon)
	f, lease := scheduler.At(r.Job.UID, noon.Add(time.Minute)), w.lease()
	other := w.open()
	first, second := w.begin(r, f, lease, "one"), w.begin(r, f, w.lease(), "two")
	type answer struct {
		out store.Outcome
		err error
	}
	answers := make(chan answer, 2) // one for each claim
	go func() { out, err := w.store.Claim(w.ctx, first); answers <- answer{out, err} }()
	go func() { out, err := other.Claim(w.ctx, second); answers <- answer{out, err} }()
	a, b := <-answers, <-answers
	w.must(a.err)
	w.must(b.err)
	if a.out.Committed == b.out.Committed {
		w.Fatalf("got %+v and %+v, want exactly one committed", a.out, b.out)
	}
	if b.out.Committed {
		a, b = b, a
	}
	if b.out.StateRevision != a.out.StateRevision || len(b.out.State.Entries) != 1 || b.out.State.Entries[0].Token != a.out.Revision {
		w.Errorf("the refusal shows %+v, want the state that won, with its token %d", b.out, a.out.Revision)
	}
}

func aBeginPutsTheToken(w *world) {
	r := w.apply(job("a"), noon)
	f := scheduler.At(r.Job.UID, noon.Add(time.Minute))
	after, e := w.grant(r, f, w.lease())
	key := w.prefix + "locks/" + r.Job.UID + "/@2026-12-24T12:01:00Z/000"
	lock, err := w.store.ReadLock(w.ctx, key)
	w.must(err)
	want := store.LockView{Job: r.Job.Name, Firing: f, Token: e.Token, Member: "node-a", Nonce: e.Nonce, Attempt: 1, Slot: e.Slot}
	if lock == nil {
		w.Fatal("there is no lock")
	}
	if lock.Lease == 0 {
		w.Error("the lock hangs on no lease")
	}
	if lock.Lease = 0; *lock != want {
		w.Errorf("got lock %+v, want %+v", *lock, want)
	}
	if e.Token != after.StateRevision || w.record(r.Job.Name).State.Entries[0].Token != e.Token {
		w.Errorf("token %d of state %d is read as %+v", e.Token, after.StateRevision, w.record(r.Job.Name).State.Entries)
	}
	if f, part, ok := w.store.ParseLock(key); !ok || f != e.Firing || part != 0 {
		w.Errorf("the lock's key is read as %s, part %d, %v", f, part, ok)
	}
}

func nothingIsGrantedAfterAnEdit(w *world) {
	edits := map[string]func(scheduler.JobName) error{
		"edit": func(n scheduler.JobName) error {
			_, err := w.store.Apply(w.ctx, store.ApplyRequest{Job: job(n.Name, func(j *scheduler.Job) { j.Labels = map[string]string{"a": "b"} }), Now: at(noon)})
			return err
		},
		"pause": func(n scheduler.JobName) error {
			_, err := w.store.Pause(w.ctx, store.EditRequest{Name: n, Now: at(noon)})
			return err
		},
		"delete": func(n scheduler.JobName) error {
			_, err := w.store.Delete(w.ctx, store.EditRequest{Name: n, Now: at(noon)})
			return err
		},
	}
	for what, edit := range edits {
		r := w.apply(job(what), noon)
		c := w.begin(r, scheduler.At(r.Job.UID, noon.Add(time.Minute)), w.lease(), "n")
		w.must(edit(r.Job.Name))
		out, err := w.store.Claim(w.ctx, c)
		w.refused("a begin after an acknowledged "+what, out, err)
		if out.JobRevision <= r.Job.Revision {
			w.Errorf("%s: the refusal shows definition %d, want one newer than %d", what, out.JobRevision, r.Job.Revision)
		}
	}
	if n := w.count("locks/"); n != 0 {
		w.Errorf("%d locks were put", n)
	}
}

func nothingIsClaimedUnderOlderRules(w *world) {
	r := w.apply(job("a"), noon)
	begin := w.begin(r, scheduler.At(r.Job.UID, noon.Add(time.Minute)), w.lease(), "n")
	skip := w.skip(r, scheduler.ReasonPaused)
	w.moveRules()
	for _, c := range []store.Claim{begin, skip} {
		out, err := w.store.Claim(w.ctx, c)
		w.refused("a claim under older rules", out, err)
		if !out.RulesMoved || out.Rules != w.rules() {
			w.Errorf("%s: got %+v, want moved rules at %d", c.Decision.Kind, out, w.rules())
		}
	}
	begin.RulesRevision = w.rules()
	if out, err := w.store.Claim(w.ctx, begin); err != nil || !out.Committed {
		w.Errorf("the same claim under the rules in force: got %+v, %v", out, err)
	}
}

// skip plans to decide the next minute as SKIPPED.
func (w *world) skip(r store.JobRecord, why scheduler.Reason, blame ...scheduler.Blame) store.Claim {
	next := scheduler.Fill(r.State, r.StateRevision)
	next.Cursor = next.Cursor.Add(time.Minute)
	next.Counters = append(next.Counters[:len(next.Counters):len(next.Counters)], scheduler.Counter{Verdict: scheduler.Skipped, Reason: why, Count: 1})
	return w.claim(r, scheduler.Decision{
		Kind: scheduler.KindSkip, Job: r.Job.Name, Next: next, Verdict: scheduler.Skipped, Reason: why, Blame: blame,
	}, 0, "")
}

func nothingIsGrantedUnderADeadLease(w *world) {
	a, b := w.apply(job("a"), noon), w.apply(job("b"), noon)
	lease := w.lease()
	begin := w.begin(a, scheduler.At(a.Job.UID, noon.Add(time.Minute)), lease, "n")
	w.revoke(lease)
	answers := make(chan store.Outcome, 1)
	go func() {
		out, err := w.store.Claim(w.ctx, w.skip(b, scheduler.ReasonPaused))
		if err != nil {
			w.Errorf("skip: %v", err)
		}
		answers <- out
	}()
	out, err := w.store.Claim(w.ctx, begin)
	w.refused("a begin under a dead lease", out, err)
	if !out.LeaseGone {
		w.Errorf("got %+v, want the lease gone", out)
	}
	if skip := <-answers; !skip.Committed {
		w.Errorf("the skip beside it: got %+v, want committed", skip)
	}
	if got := w.record(a.Job.Name); got.StateRevision != a.StateRevision || w.count("locks/") != 0 {
		w.Errorf("the dead lease left state %d (was %d) and %d locks", got.StateRevision, a.StateRevision, w.count("locks/"))
	}
}

func nothingIsGrantedBesideALock(w *world) {
	r := w.apply(job("a"), noon)
	f := scheduler.At(r.Job.UID, noon.Add(time.Minute))
	c := w.begin(r, f, w.lease(), "n")
	_, err := w.client.Put(w.ctx, w.prefix+"locks/"+r.Job.UID+"/"+f.Key()+"/000", "")
	w.must(err)
	out, err := w.store.Claim(w.ctx, c)
	w.refused("a begin beside a lock of its firing", out, err)
}

func aTriggerIsConsumedOnce(w *world) {
	r := w.apply(job("a"), noon)
	receipt, err := w.store.Trigger(w.ctx, scheduler.TriggerRequest{Job: r.Job.Name, RequestID: "x"}, at(noon))
	w.must(err)
	u := w.read(r.Job.Name)
	if len(u.Triggers) != 1 || u.Triggers[0].Trigger.ID != receipt.Firing.Trigger {
		w.Fatalf("got triggers %+v, want that of %s", u.Triggers, receipt.Firing)
	}
	seen := u.Triggers[0].Trigger
	c := w.begin(r, receipt.Firing, w.lease(), "n")
	c.Decision.Trigger, c.Decision.TriggerRevision = seen.ID, seen.Revision
	wrong := c
	wrong.Decision.TriggerRevision--
	out, err := w.store.Claim(w.ctx, wrong)
	w.refused("a begin of a trigger at another revision", out, err)
	out, err = w.store.Claim(w.ctx, c)
	w.must(err)
	if !out.Committed || w.count("triggers/") != 0 {
		w.Fatalf("got %+v and %d triggers, want it granted and consumed", out, w.count("triggers/"))
	}
	// The lock and the entry are gone again; an owner with an old list of triggers must not start it anew.
	granted := store.JobRecord{Job: r.Job, State: out.State, StateRevision: out.StateRevision}
	e := out.State.Entries[0]
	recorded, err := w.store.Finish(w.ctx, ended(granted, e, scheduler.Succeeded))
	w.must(err)
	out, err = w.store.Settle(w.ctx, w.folded(granted, ended(granted, e, scheduler.Succeeded).Run))
	w.must(err)
	if !recorded || !out.Committed {
		w.Fatalf("finish and fold: got %v, %+v", recorded, out)
	}
	again := w.begin(store.JobRecord{Job: r.Job, State: out.State, StateRevision: out.StateRevision}, receipt.Firing, w.lease(), "m")
	again.Decision.Trigger, again.Decision.TriggerRevision = seen.ID, seen.Revision
	out, err = w.store.Claim(w.ctx, again)
	w.refused("a begin of a consumed trigger", out, err)
}

func aSkipBlamesALivingLockOnly(w *world) {
	r, e, lease := w.running("a")
	blame := scheduler.Blame{Firing: e.Firing, Lock: e.Token, Slot: e.Slot, Token: e.Token}
	out, err := w.store.Claim(w.ctx, w.skip(r, scheduler.ReasonOverlap, blame))
	w.must(err)
	if !out.Committed {
		w.Fatalf("a skip beside a living lock: got %+v", out)
	}
	r.State, r.StateRevision = out.State, out.StateRevision
	w.revoke(lease)
	out, err = w.store.Claim(w.ctx, w.skip(r, scheduler.ReasonOverlap, blame))
	w.refused("a skip that blames a vanished lock", out, err)
	if len(out.Facts) != 1 || out.Facts[0].Lock != 0 || out.Facts[0].Record != nil || out.Facts[0].Token != e.Token {
		w.Errorf("the refusal shows %+v, want the lock gone without a record", out.Facts)
	}
}

func aSkipBlamesAnUnendedAttemptOnly(w *world) {
	r, e, lease := w.running("a")
	blame := scheduler.Blame{Firing: e.Firing, Slot: e.Slot, Token: e.Token}
	out, err := w.store.Claim(w.ctx, w.skip(r, scheduler.ReasonOverlap, blame))
	w.refused("a skip that says there is no lock", out, err)
	if len(out.Facts) != 1 || out.Facts[0].Lock != e.Token {
		w.Errorf("the refusal shows %+v, want the lock %d", out.Facts, e.Token)
	}
	w.revoke(lease)
	out, err = w.store.Claim(w.ctx, w.skip(r, scheduler.ReasonOverlap, blame))
	w.must(err)
	if !out.Committed {
		w.Fatalf("a skip beside an attempt that may still live: got %+v", out)
	}
	r.State, r.StateRevision = out.State, out.StateRevision
	late, err := w.store.FinishLate(w.ctx, ended(r, e, scheduler.Succeeded))
	w.must(err)
	r.State, r.StateRevision = late.State, late.StateRevision
	out, err = w.store.Claim(w.ctx, w.skip(r, scheduler.ReasonOverlap, blame))
	w.refused("a skip that blames an ended attempt", out, err)
}

// aSkipBesideManyAttempts: a job whose attempts may run beside each other has many when that is changed.
func aSkipBesideManyAttempts(w *world) {
	r, lease := w.apply(job("a"), noon), w.lease()
	var blame []scheduler.Blame
	for i := range 70 {
		var e scheduler.Entry
		r, e = w.grant(r, scheduler.At(r.Job.UID, noon.Add(time.Duration(i+1)*time.Minute)), lease)
		blame = append(blame, scheduler.Blame{Firing: e.Firing, Lock: e.Token, Slot: e.Slot, Token: e.Token})
	}
	out, err := w.store.Claim(w.ctx, w.skip(r, scheduler.ReasonOverlap, blame...))
	w.must(err)
	if !out.Committed {
		w.Errorf("got %+v, want the instant skipped: a job must not stand still because much of it runs", out)
	}
}

func aSkipIsRefusedAfterAnEdit(w *world) {
	r := w.apply(job("a"), noon)
	c := w.skip(r, scheduler.ReasonPaused)
	w.apply(job("a", func(j *scheduler.Job) { j.Labels = map[string]string{"a": "b"} }), noon)
	out, err := w.store.Claim(w.ctx, c)
	w.refused("a skip after an edit", out, err)
}

func aClaimThatMakesNoSense(w *world) {
	r := w.apply(job("a"), noon)
	good := w.begin(r, scheduler.At(r.Job.UID, noon.Add(time.Minute)), w.lease(), "n")
	before := w.footprint()
	for what, change := range map[string]func(*store.Claim){
		"no definition revision": func(c *store.Claim) { c.JobRevision = 0 },
		"no state revision":      func(c *store.Claim) { c.StateRevision = 0 },
		"no rules revision":      func(c *store.Claim) { c.RulesRevision = 0 },
		"no lease":               func(c *store.Claim) { c.Lease = 0 },
		"no nonce":               func(c *store.Claim) { c.Nonce = "" },
		"another nonce":          func(c *store.Claim) { c.Nonce = "x" },
		"another uid":            func(c *store.Claim) { c.UID = "x" },
		"no entry":               func(c *store.Claim) { c.Decision.Next.Entries = nil },
		"a trigger unseen":       func(c *store.Claim) { c.Decision.Trigger = "x" },
		"an end":                 func(c *store.Claim) { c.Decision.Kind = scheduler.KindFold },
	} {
		c := good
		change(&c)
		_, err := w.store.Claim(w.ctx, c)
		w.wantErr(what, err, scheduler.ErrInvalid)
	}
	_, err := w.store.Settle(w.ctx, good)
	w.wantErr("settling a claim", err, scheduler.ErrInvalid)
	if after := w.footprint(); after != before {
		w.Errorf("something was written: %v, was %v", after, before)
	}
}

func aResolvedClaimNeverCommits(w *world) {
	r := w.apply(job("a"), noon)
	c := w.begin(r, scheduler.At(r.Job.UID, noon.Add(time.Minute)), w.lease(), "n")
	out, err := w.store.Resolve(w.ctx, c)
	w.must(err)
	if out.Committed || out.StateRevision <= r.StateRevision || out.State.UID != r.Job.UID {
		w.Fatalf("a claim that was never sent: got %+v, want it fenced", out)
	}
	out, err = w.store.Claim(w.ctx, c)
	w.refused("a late copy of a claim that was resolved", out, err)
}

func aResolvedClaimFindsItsGrant(w *world) {
	r := w.apply(job("a"), noon)
	c := w.begin(r, scheduler.At(r.Job.UID, noon.Add(time.Minute)), w.lease(), "n")
	granted, err := w.store.Claim(w.ctx, c)
	w.must(err)
	out, err := w.store.Resolve(w.ctx, c)
	w.must(err)
	if !out.Committed || out.Revision != granted.Revision || len(out.State.Entries) != 1 || out.State.Entries[0].Token != granted.Revision {
		w.Errorf("got %+v, want the grant with token %d and the state that holds it", out, granted.Revision)
	}
	if out.StateRevision != granted.StateRevision {
		w.Errorf("resolving a grant wrote the state again: %d, was %d", out.StateRevision, granted.StateRevision)
	}
}

func aResolvedClaimIsNotFooled(w *world) {
	r := w.apply(job("a"), noon)
	f := scheduler.At(r.Job.UID, noon.Add(time.Minute))
	mine := w.begin(r, f, w.lease(), "mine")
	_, theirs := w.grant(r, f, w.lease())
	out, err := w.store.Resolve(w.ctx, mine)
	w.must(err)
	if out.Committed || len(out.State.Entries) != 1 || out.State.Entries[0].Nonce != theirs.Nonce {
		w.Errorf("got %+v, want it not granted, and the other's entry shown", out)
	}
}

func aFenceFillsInTokens(w *world) {
	r, e, _ := w.running("a")
	next := w.begin(r, scheduler.At(r.Job.UID, noon.Add(2*time.Minute)), w.lease(), "n")
	out, err := w.store.Resolve(w.ctx, next)
	w.must(err)
	stored := w.record(r.Job.Name)
	if out.State.Entries[0].Token != e.Token || stored.State.Entries[0].Token != e.Token {
		w.Errorf("token %d became %d in the outcome and %d in etcd: the fence moved it to its own revision",
			e.Token, out.State.Entries[0].Token, stored.State.Entries[0].Token)
	}
	if stored.StateRevision != out.StateRevision {
		w.Errorf("state %d in etcd, %d in the outcome", stored.StateRevision, out.StateRevision)
	}
}
