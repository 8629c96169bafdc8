package main

// What is between members and etcd: requests arrive alone or in groups, replies get lost, unknown
// outcomes are resolved (rule 2).

// slot is a free place for a request of member m, or -1.
func (w *world) slot(s *state, m int) int {
	p := &s.Members[m]
	for o := range w.out() {
		if p.Wait[o] == free && (p.Astray[o].Kind == noRequest || w.out() == 1) {
			return o
		}
	}
	return -1
}

// send puts a request on its way: alone, or in a group with the one that has not been sent yet.
func (w *world) send(s *state, m int, r request, label string, out emit) {
	o := w.slot(s, m)
	if o < 0 {
		return
	}
	n := *s
	p := &n.Members[m]
	p.Wait[o], p.Sent[o] = awaiting, r
	out(n, false, label, "")
	if w.Groups && p.Wait[1-o] == awaiting && p.Joint == 0 && w.admits(&p.Sent[1-o], &r) {
		p.Joint = 1
		out(n, false, label+", in one group with its other request", "")
	}
}

// admits tells whether two operations may share a group: of two jobs, in one lane, planned under the
// same rules, under one lease.
func (w *world) admits(a, b *request) bool {
	if w.Cut.GroupsShareJobs {
		return true
	}
	return a.Job != b.Job && a.Kind.claims() == b.Kind.claims() && a.RulesStale == b.RulesStale &&
		(a.Kind != begin || b.Kind != begin || a.Lease == b.Lease) && a.Kind != lateEnd && b.Kind != lateEnd
}

// planSteps: a member plans a write. In a free world each does, from any view.
func (w *world) planSteps(s *state, m int, out emit) {
	if w.Owned || w.slot(s, m) < 0 {
		return
	}
	for job := range uint8(w.jobs()) {
		if w.Groups && s.busyWith(m, job) {
			continue // one state-writing operation of a job on its way
		}
		w.plans(s, m, job, func(r request, label string) {
			if r.Kind != begin || s.Members[m].Doubt == 0 {
				w.send(s, m, r, label, out)
			}
		})
	}
}

// busyWith tells whether member m has a write of the job's state on its way or unresolved.
func (s *state) busyWith(m int, job uint8) bool {
	p := &s.Members[m]
	for o := range nOut {
		r := &p.Sent[o]
		if p.Wait[o] != free && r.Job == job && r.Former == 0 && r.Kind != finish && r.Kind != lateEnd {
			return true
		}
	}
	return false
}

func (w *world) wireSteps(s *state, m int, out emit) {
	p := &s.Members[m]
	if p.Joint == 1 {
		w.groupArrives(s, m, out)
	} else {
		for o := range w.out() {
			if p.Wait[o] == awaiting {
				w.arrives(s, m, o, out)
			}
		}
	}
	w.astrayArrive(s, m, out)
	for o := range w.out() {
		if p.Up == 1 && p.Wait[o] == unknown {
			w.resolves(s, m, o, out)
		}
	}
}

// arrives: etcd takes the request, and its answer is heard or lost; or the request is given up by its
// sender while it is still in flight.
func (w *world) arrives(s *state, m, o int, out emit) {
	n := *s
	p := &n.Members[m]
	r := p.Sent[o]
	p.Wait[o], p.Sent[o] = free, request{}
	a, viol := w.commit(&n, &r)
	deaf := n
	w.told(&n, m, r, a)
	out(n, false, w.say("  etcd answers M%d: %s", m, a.words()), viol)
	if s.Ambiguous == 0 {
		return
	}
	if a == committed {
		deaf.Ambiguous--
		w.unanswered(&deaf, m, o, r)
		out(deaf, true, w.say("  etcd commits, but the reply to M%d is lost", m), viol)
	}
	if s.Members[m].Astray[o].Kind == noRequest {
		slow := *s
		slow.Ambiguous--
		slow.Members[m].Astray[o] = r
		w.unanswered(&slow, m, o, r)
		slow.Members[m].Sent[o].StateStale = r.StateStale
		out(slow, true, w.say("  M%d's request times out while still in flight", m), "")
	}
}

func (a answer) words() string {
	return [...]string{"refused", "committed", "refused, the rules have moved", "refused, the lease is gone"}[a]
}

// unanswered: member m does not know what became of request r.
func (w *world) unanswered(s *state, m, o int, r request) {
	p := &s.Members[m]
	p.Wait[o], p.Sent[o] = free, request{}
	switch {
	case r.Kind == begin, r.Kind == skip && w.Owned:
		p.Wait[o], p.Sent[o] = unknown, r
		p.Sent[o].StateStale = 1
	case w.Owned && (r.Kind == lose || r.Kind == fold || r.Kind == sweep) && p.Mind.tracked() && r.UID == p.Mind.Def.UID:
		p.Mind.Read = reading{Phase: 1, UID: r.UID}
	}
}

// groupArrives: both requests of member m travel in one transaction.
func (w *world) groupArrives(s *state, m int, out emit) {
	n := *s
	p := &n.Members[m]
	p.Joint = 0
	a, b := p.Sent[0], p.Sent[1]
	answers, viol, whole := w.commitGroup(&n, &a, &b)
	switch {
	case whole && w.Cut.GroupsNotSplit:
		out(*s, false, w.say("  etcd refuses M%d's group as a whole; it is sent again as it is", m), viol)
		return
	case whole:
		out(n, false, w.say("  etcd refuses M%d's group as a whole; it is split", m), viol)
		return
	}
	deaf := n
	for o, r := range []request{a, b} {
		if answers[o] == leaseGone && r.Kind != begin {
			continue // it puts under no lease: sent again without those that do
		}
		p.Wait[o], p.Sent[o] = free, request{}
		w.told(&n, m, r, answers[o])
	}
	out(n, false, w.say("  etcd answers M%d's group: %s; %s", m, answers[0].words(), answers[1].words()), viol)
	if s.Ambiguous == 0 {
		return
	}
	deaf.Ambiguous--
	w.unanswered(&deaf, m, 0, a)
	w.unanswered(&deaf, m, 1, b)
	out(deaf, true, w.say("  etcd takes M%d's group, but the reply is lost", m), viol)
	if p := s.Members[m]; p.Astray[0].Kind == noRequest && p.Astray[1].Kind == noRequest {
		slow := *s
		slow.Ambiguous--
		q := &slow.Members[m]
		q.Astray, q.AstrayJoint, q.Joint = q.Sent, 1, 0
		for o, r := range q.Astray {
			w.unanswered(&slow, m, o, r)
			q.Sent[o].StateStale = r.StateStale
		}
		out(slow, true, w.say("  M%d's group times out while still in flight", m), "")
	}
}

// commitGroup is one transaction of two nested ones: all guards see the state before it. It is refused
// as a whole when a key is written twice, when the rules have moved, or when a lease is gone that a taken
// branch puts under.
func (w *world) commitGroup(s *state, a, b *request) (answers [nOut]answer, viol string, whole bool) {
	answers[0], answers[1] = w.guard(s, a), w.guard(s, b)
	switch {
	case answers[0] == committed && answers[1] == committed && w.clash(a, b):
		return answers, "", true
	case answers[0] == rulesMoved || answers[1] == rulesMoved:
		return [nOut]answer{rulesMoved, rulesMoved}, "", false
	case answers[0] == leaseGone || answers[1] == leaseGone:
		return [nOut]answer{leaseGone, leaseGone}, "", false
	}
	if b.Kind == finish { // both take effect at once: judge what was believed of a lock after its end
		a, b = b, a
		answers[0], answers[1] = answers[1], answers[0]
		defer func() { answers[0], answers[1] = answers[1], answers[0] }()
	}
	if answers[0] == committed {
		viol = w.effect(s, *a)
	}
	if answers[1] == committed {
		viol = first(viol, w.effect(s, *b))
	}
	return answers, viol, false
}

// clash tells whether two operations write a key twice.
func (w *world) clash(a, b *request) bool {
	writesState := func(r *request) bool { return r.Kind != finish }
	return a.Job == b.Job && (writesState(a) && writesState(b) || a.Slot == b.Slot && a.Slot < nSlots)
}

// astrayArrive: what was cut off from its sender arrives late, or never.
func (w *world) astrayArrive(s *state, m int, out emit) {
	p := &s.Members[m]
	if p.AstrayJoint == 1 {
		n := *s
		a, b := p.Astray[0], p.Astray[1]
		n.Members[m].Astray, n.Members[m].AstrayJoint = [nOut]request{}, 0
		vanished := n
		_, viol, _ := w.commitGroup(&n, &a, &b)
		out(n, false, w.say("  M%d's delayed group reaches etcd", m), viol)
		out(vanished, false, w.say("  M%d's delayed group vanishes", m), "")
		return
	}
	for o := range p.Astray {
		if p.Astray[o].Kind == noRequest {
			continue
		}
		n := *s
		r := n.Members[m].Astray[o]
		n.Members[m].Astray[o] = request{}
		vanished := n
		a, viol := w.commit(&n, &r)
		out(n, false, w.say("  M%d's delayed request reaches etcd: %s", m, a.words()), viol)
		if a == committed {
			out(vanished, false, w.say("  M%d's delayed request vanishes", m), "")
		}
	}
}

// resolves: one transaction fences an unknown claim, or finds out what became of it.
func (w *world) resolves(s *state, m, o int, out emit) {
	n := *s
	p := &n.Members[m]
	r := p.Sent[o]
	p.Wait[o], p.Sent[o] = free, request{}
	l := s.Locks[r.Firing]
	mine := l.Lease == r.Lease && l.Nonce == r.Nonce && r.Kind == begin
	run := &p.Run[r.Firing][max(r.Attempt, 1)-1]
	switch {
	case w.Cut.TakenForRefused:
		out(n, false, w.say("M%d takes the unknown Begin for refused", m), "")
		return
	case w.Cut.TakenForGranted:
		*run = attempt{Phase: granted, Slot: r.Slot, Lease: r.Lease}
		out(n, false, w.say("M%d takes the unknown Begin for granted", m), "")
		return
	case w.Cut.ByLease:
		mine = l.Lease == r.Lease && r.Kind == begin
	}
	if mine {
		slot := s.Jobs[r.Job].In[r.Firing].Slot
		*run = attempt{Phase: granted, Token: l.Token, Slot: slot, Lease: r.Lease}
		w.learns(&n, m, r, true)
		out(n, false, w.say("M%d reads the lock of %s with its nonce: granted", m, w.firing(r.Firing)), "")
		return
	}
	if !w.Cut.ByRead && r.StateStale == 0 {
		viol := w.put(&n, r.Job, n.Jobs[r.Job])
		w.learns(&n, m, r, false)
		out(n, false, w.say("M%d rewrites the state: no copy of its claim can commit any more", m), viol)
		return
	}
	w.learns(&n, m, r, false)
	out(n, false, w.say("M%d finds that its claim was not granted", m), "")
}

// told: member m hears what became of its request.
func (w *world) told(s *state, m int, r request, a answer) {
	run := &s.Members[m].Run[r.Firing][max(r.Attempt, 1)-1]
	switch r.Kind {
	case begin:
		if a == committed {
			*run = attempt{Phase: granted, Token: s.Locks[r.Firing].Token, Slot: r.Slot, Lease: r.Lease}
		}
		w.answered(s, m, r, a)
	case finish, lateEnd:
		if run.Token == r.Token && run.Phase != idle {
			w.toldEnd(s, m, r, a)
		}
	default:
		w.answered(s, m, r, a)
	}
}

// toldEnd: the member hears what became of the end of its own attempt.
func (w *world) toldEnd(s *state, m int, r request, a answer) {
	run := &s.Members[m].Run[r.Firing][r.Attempt-1]
	rec := s.Ring[r.Job][r.Slot]
	holds := rec.Firing == r.Firing && rec.At >= r.Token && rec.Lines[r.Attempt-1] == r.End
	switch {
	case r.Kind == lateEnd && a == committed:
		w.stateSeen(s, m, r.Job)
		w.letGo(s, m, r.Firing, r.Attempt)
	case r.Kind == finish && (a == committed || holds):
		w.recordSeen(s, m, r)
		w.letGo(s, m, r.Firing, r.Attempt)
	case r.Kind == finish:
		run.Phase = late
	}
}
