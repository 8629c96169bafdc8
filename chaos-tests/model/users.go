package main

// What users do: edits (rule 9), triggers (rule 8), cancels (rule 13).

// userSteps: with all guards in place, what a user's request reads and its transaction are one step, for
// whatever comes between them refuses it, and it is planned again. Where such a guard was taken away
// the transaction travels by itself.
func (w *world) userSteps(s *state, out emit) {
	for c := range nChanges {
		w.editStep(s, c, out)
	}
	w.triggerStep(s, out)
	for f := range uint8(nFirings) {
		w.cancelStep(s, f, out)
	}
	if s.User.Kind != noRequest {
		n := *s
		n.User = request{}
		r := s.User
		a, viol := w.commit(&n, &r)
		out(n, false, w.say("  the user's transaction reaches etcd: %v", a == committed), viol)
	}
}

// userSends commits a user's request, or lets it travel.
func (w *world) userSends(n state, r request, travels bool, label string, out emit) {
	if travels {
		if n.User.Kind == noRequest {
			n.User = r
			out(n, true, label+" (on its way)", "")
		}
		return
	}
	a, viol := w.commit(&n, &r)
	if a == committed {
		out(n, true, label+", acknowledged", viol)
	}
}

func (w *world) editStep(s *state, c change, out emit) {
	exists := s.Def.UID != 0 && s.Def.Gone == 0
	if s.Edits == 0 || !w.may(c) || exists == (c == creation) ||
		c == lowerAttempts && s.Def.Once == 1 || c == movePool && s.Def.Elsewhere == 0 ||
		c == creation && (!s.settledFor(w) || s.Def.UID == 2) {
		return
	}
	n := *s
	n.Edits--
	r := request{Kind: edit, Change: c, Slot: nSlots, Trigger: s.Trig, Next: w.books(s, c)}
	travels := w.Cut.NoEditState && c != plainEdit && c != lowerAttempts && c != movePool ||
		w.Cut.DeleteNoTriggers && c == deletion
	words := [...]string{"edits the job, not its schedule", "changes the schedule", "pauses or resumes the job",
		"deletes the job", "lowers retry.maxAttempts to 1", "moves the job into a pool that has members", "applies the job anew"}
	w.userSends(n, r, travels, "a user "+words[c], out)
}

// settledFor tells whether the name can be applied anew: nothing of the former uid is in flight.
func (s *state) settledFor(w *world) bool {
	for f := range uint8(nFirings) {
		if s.Jobs[0].In[f].Attempt > 0 || s.Jobs[0].Owed[f] > 0 {
			return false
		}
		for m := range w.Members {
			if s.Members[m].Run[f] != [nAttempts]attempt{} {
				return false // a simplification: no result of the former uid is still under way
			}
		}
	}
	return true
}

// books is the state that goes with a change: what is due is accounted, the cursor moves to now.
func (w *world) books(s *state, c change) jobState {
	j := s.Jobs[0]
	if c == plainEdit || c == lowerAttempts || c == movePool {
		return j
	}
	account := func(f uint8) {
		if !w.Cut.NoBooks {
			j.Count[f] = skipped
		}
	}
	if j.Backlog > 0 {
		account(j.Backlog - 1)
		j.Backlog = 0
	}
	for ; j.Cursor < w.due(s, 0); j.Cursor++ {
		account(j.Cursor)
	}
	switch c {
	case creation:
		return jobState{Cursor: j.Cursor}
	case deletion:
		if s.Trig == 1 && s.Taken == 0 {
			j.Count[manual] = skipped
		}
		p := w.planner(s, 0, 0, s.Def, j).foldRecorded()
		for f, owed := range p.j.Owed {
			if owed > 0 && !w.Cut.DeleteKeepsRetry {
				p.dropOwed(uint8(f))
			}
		}
		j = p.j
		if w.Cut.DeleteWipesState {
			j.In, j.Owed = [nFirings]entry{}, [nFirings]uint8{}
		}
	}
	return j
}

// edited is the effect of an edit on etcd.
func (w *world) edited(s *state, r request) (viol string) {
	d := &s.Def
	switch r.Change {
	case pauseResume:
		d.Paused ^= 1
	case deletion:
		d.Gone, d.Paused, s.Triggers = 1, 0, 0
		if s.Trig == 1 {
			s.Trig = 0
			s.minds(func(m *mind) { m.TrigDue = 1 })
		}
	case lowerAttempts:
		d.Once = 1
	case movePool:
		d.Elsewhere = 0
	case creation:
		viol = w.reborn(s)
	}
	s.redefined()
	if r.Change == plainEdit || r.Change == lowerAttempts || r.Change == movePool {
		return viol
	}
	return first(viol, w.put(s, 0, r.Next))
}

// redefined: the definition has another revision.
func (s *state) redefined() {
	s.requests(func(r *request) {
		if r.Job == 0 {
			r.JobStale = 1
		}
	})
	s.minds(func(m *mind) {
		m.DefOld, m.DefDue = 1, 1
		if m.Read.Phase == 2 {
			m.Read.Old = 1
		}
	})
}

// reborn starts a new uid. All that the former one owed must have been settled and counted; the
// triggered firing may be asked for once more.
func (w *world) reborn(s *state) (viol string) {
	for f := range uint8(nFirings) {
		owed := f < s.Jobs[0].Cursor || f == manual && s.Issued == 1
		if owed && s.Jobs[0].Count[f] == none {
			viol = "I3 a name is applied anew before a firing of its former uid was counted"
		}
	}
	again := s.Def.UID == 1
	s.Def = definition{UID: s.Def.UID + 1}
	if again {
		s.Ring[0] = [nSlots]record{}
		s.Verdict, s.Started, s.Told, s.Asked = [nFirings]verdict{}, [nFirings][nAttempts]uint8{}, [nFirings]uint8{}, [nFirings]uint8{}
		s.Issued, s.Taken, s.Triggers, s.Trig = 0, 0, 1, 0
		s.Jobs[0].Count = [nFirings]verdict{}
	}
	return viol
}

// swept removes a settled tombstone, its state and its records.
func (w *world) swept(s *state, r request) string {
	if s.Def.Gone == 0 || s.Def.UID != r.UID {
		return "I5 a sweep removes a job that was applied anew"
	}
	s.Def.Elsewhere = 1 // nothing is planned for a name that is not there
	s.redefined()
	return w.put(s, 0, s.Jobs[0])
}

func (w *world) triggerStep(s *state, out emit) {
	if s.Triggers == 0 || s.Def.UID == 0 || s.Def.Gone == 1 || s.Trig == 1 || s.Def.Paused == 1 {
		return
	}
	n := *s
	n.Triggers--
	switch {
	case n.Issued == 1 && !w.Cut.NoRequestMemory:
		out(n, true, w.say("a user repeats the trigger request; it is recognised"), "")
	case n.Issued == 1:
		n.Trig = 1
		n.minds(func(m *mind) { m.TrigDue = 1 })
		out(n, true, w.say("a user repeats the trigger request"), "")
	default:
		w.userSends(n, request{Kind: triggerJob, Slot: nSlots}, w.Cut.NoTriggerJob, "a user sends the trigger request", out)
	}
}

// cancelStep: a user asks to end a firing.
func (w *world) cancelStep(s *state, f uint8, out emit) {
	job := w.jobOf(f)
	j, d := s.Jobs[job], s.defOf(job)
	if s.Cancels == 0 || s.Told[f] == 1 {
		return
	}
	n := *s
	n.Cancels--
	words := "a user cancels " + w.firing(f)
	p := w.planner(s, 0, job, d, j)
	r := request{Kind: cancelState, Job: job, Firing: f, Slot: nSlots}
	switch {
	case j.In[f].Attempt > 0:
		w.cancelAttempt(n, f, words, out)
	case j.Owed[f] > 0:
		p.dropOwed(f)
		r.Next = p.j
		w.userSends(n, r, w.Cut.CancelNoState, words+": its owed retry is taken out", out)
	case f == manual && s.Trig == 1:
		p.j.Count[f] = skipped
		r.Next, r.Trigger = p.j, 1
		w.userSends(n, r, w.Cut.CancelNoState || w.Cut.CancelNoTrigger, words+": its trigger is taken out", out)
	}
}

// cancelAttempt tells the member that the lock names; or, if the attempt has ended and another one would
// follow, ends the firing.
func (w *world) cancelAttempt(n state, f uint8, words string, out emit) {
	job := w.jobOf(f)
	j, d := n.Jobs[job], n.defOf(job)
	e := j.In[f]
	end, recorded := n.recordOf(job, &j, f)
	l := n.Locks[f]
	switch {
	case recorded && w.followed(d, end, e.Attempt) && !w.Cut.CancelSaysEnded:
		j.leave(f, end, false)
		r := request{Kind: cancelState, Job: job, Firing: f, Slot: nSlots, Next: j}
		w.userSends(n, r, false, words+": its end is folded, and no retry made", out)
	case recorded:
		n.Told[f] = 1
		out(n, true, w.say("%s, and is told that it has ended", words), "")
	case l.Lease != 0 && l.Token == e.Token:
		n.Asked[f] = e.Token
		n.Cancel[f] = cancelKey{Member: (l.Lease-1)/nLeases + 1, Token: e.Token}
		out(n, true, w.say("%s: M%d is told through its queue", words, (l.Lease-1)/nLeases), "")
	case w.Cut.CancelNoLock:
		n.Asked[f] = e.Token
		n.Cancel[f] = cancelKey{Member: 1, Token: e.Token}
		out(n, true, w.say("%s: M0 is told through its queue, though the lock is gone", words), "")
	}
}

// cancelSteps: the queue of member m is followed.
func (w *world) cancelSteps(s *state, m int, out emit) {
	for f := range uint8(nFirings) {
		key := s.Cancel[f]
		if int(key.Member) != m+1 {
			continue
		}
		if key.Heard == 1 {
			if !w.Cut.QueueOnce {
				n := *s
				n.Cancel[f].Heard = 0
				out(n, false, w.say("M%d reads its queue again", m), "")
			}
			continue
		}
		n := *s
		for a := range n.Members[m].Run[f] {
			run := &n.Members[m].Run[f][a]
			if run.Phase == idle || run.Token != key.Token && !w.Cut.CancelNoToken {
				continue
			}
			n.Cancel[f].Heard = 1
			if run.Phase == granted || run.Phase == running {
				run.Stop = 1
			}
		}
		if n.Cancel[f].Heard == 0 && !w.claimOut(s, m, f) {
			n.Cancel[f] = cancelKey{}
			out(n, false, w.say("M%d holds no such attempt of %s and removes the cancel", m, w.firing(f)), "")
			continue
		}
		if n.Cancel[f].Heard == 1 {
			out(n, false, w.say("M%d hears that %s is to be cancelled", m, w.firing(f)), "")
		}
	}
}

// claimOut tells whether a Begin of f by member m is unanswered: the cancel may be for what it grants.
func (w *world) claimOut(s *state, m int, f uint8) bool {
	p := &s.Members[m]
	for o := range nOut {
		if p.Wait[o] != free && p.Sent[o].Kind == begin && p.Sent[o].Firing == f {
			return true
		}
	}
	return false
}
