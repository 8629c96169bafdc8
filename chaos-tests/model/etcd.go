package main

// What etcd does with a transaction: its guards on the state before, its effect, and the invariants of
// the moment.

// answer is what etcd says to a request.
type answer uint8

const (
	refused answer = iota
	committed
	rulesMoved
	leaseGone
)

// commit is one transaction alone.
func (w *world) commit(s *state, r *request) (answer, string) {
	a := w.guard(s, r)
	if a != committed {
		return a, ""
	}
	return a, w.effect(s, *r)
}

// claims says whether the kind carries the guard on the rules.
func (k kind) claims() bool { return k == begin || k == skip }

// comparesState says whether the request compares the state it was planned on.
func (w *world) comparesState(r *request) bool {
	switch r.Kind {
	case begin, skip, lose, fold:
		return !w.Cut.NoStateCompare
	case lateEnd:
		return !w.Cut.NoStateCompare && !w.Cut.LateNoState
	case sweep:
		return !w.Cut.SweepNoCompare
	case cancelState:
		return !w.Cut.CancelNoState
	case edit:
		return !w.Cut.NoEditState && r.Change != plainEdit && r.Change != lowerAttempts && r.Change != movePool
	}
	return false
}

// comparesJob says whether the request compares the definition it was planned under.
func (w *world) comparesJob(r *request) bool {
	switch r.Kind {
	case begin:
		return !w.Cut.NoJobCompare
	case skip:
		return !w.Cut.NoJobCompare && !w.Cut.NoSkipJob
	case sweep:
		return !w.Cut.SweepNoCompare
	case triggerJob:
		return !w.Cut.NoTriggerJob
	case edit:
		return true
	}
	return false
}

// guard evaluates what a request compares, as its nested transaction does.
func (w *world) guard(s *state, r *request) answer {
	f := r.Firing
	switch {
	case r.Kind.claims() && r.RulesStale == 1 && !w.Cut.NoRules:
		return rulesMoved
	case r.StateStale == 1 && w.comparesState(r), r.JobStale == 1 && w.comparesJob(r):
		return refused
	case r.Kind.claims() && r.Trigger == 1 && s.Trig == 0 && !w.Cut.NoTriggerCompare,
		r.Kind == cancelState && r.Trigger == 1 && s.Trig == 0 && !w.Cut.CancelNoTrigger:
		return refused
	}
	held := s.Locks[f].Lease != 0
	switch r.Kind {
	case begin:
		if held && !w.Cut.NoLockBegin {
			return refused
		}
		if !w.Cut.NoLease && !s.leaseAlive(r.Lease) {
			return leaseGone
		}
	case skip:
		return w.guardBlame(s, r)
	case lose:
		rec := s.Ring[r.Job][r.Slot]
		if held && !w.Cut.NoLockLose || rec.full() && rec.At >= r.Token && !w.Cut.NoSlotCompare {
			return refused
		}
	case finish:
		if s.Locks[f].Token != r.Token && !w.Cut.NoFinishCompare {
			return refused
		}
	case lateEnd:
		if held && !w.Cut.LateNoLock || r.RunStale == 1 && !w.Cut.LateNoSlot {
			return refused
		}
	case triggerJob:
		if s.Trig == 1 {
			return refused
		}
	case edit:
		if r.Change == deletion && s.Trig == 1 && r.Trigger == 0 && !w.Cut.DeleteNoTriggers {
			return refused
		}
	}
	return committed
}

// guardBlame evaluates what a skip for overlap compares.
func (w *world) guardBlame(s *state, r *request) answer {
	l := s.Locks[r.Blamed]
	switch r.Blame {
	case blameLock:
		if l.Token != r.Token && !w.Cut.NoBlameLock {
			return refused
		}
	case blameEntry:
		_, ended := s.recordOf(r.Job, &s.Jobs[r.Job], r.Blamed)
		if l.Lease != 0 || ended && !w.Cut.NoBlameSlot {
			return refused
		}
	}
	return committed
}

// effect writes what a request whose guards hold puts, and says what that violates.
func (w *world) effect(s *state, r request) string {
	switch r.Kind {
	case begin:
		return w.grant(s, r)
	case skip:
		return w.skipped(s, r)
	case fold:
		return w.put(s, r.Job, r.Next)
	case lose:
		return w.lost(s, r)
	case finish:
		return w.finished(s, r)
	case lateEnd:
		return w.endedLate(s, r)
	case sweep:
		return w.swept(s, r)
	case edit:
		return w.edited(s, r)
	case triggerJob:
		s.Issued, s.Trig = 1, 1
		s.minds(func(m *mind) { m.TrigDue = 1 })
		return ""
	case cancelState:
		if r.Trigger == 1 {
			w.takeTrigger(s)
		}
		return w.put(s, r.Job, r.Next)
	}
	panic("a request of no kind")
}

func (w *world) grant(s *state, r request) (viol string) {
	f := r.Firing
	viol = w.claimed(s, &r)
	if s.Locks[f].Lease != 0 {
		viol = first(viol, "I2 an attempt is granted while the former attempt has its lock")
	}
	for g := range s.Locks {
		if !w.AllowAll && g != int(f) && w.jobOf(uint8(g)) == r.Job && s.Locks[g].Lease != 0 {
			viol = first(viol, "I4 two granted attempts alive under overlap skip")
		}
	}
	if s.Verdict[f] != none {
		viol = first(viol, "I1/I3 an attempt is granted for a firing that has its verdict")
	}
	if r.Forbidden == 1 {
		viol = first(viol, "I18 an attempt is granted that an edit or a deadline had forbidden")
	}
	if s.Told[f] == 1 {
		viol = first(viol, "I15 an attempt is granted though a cancel was told that the firing had ended")
	}
	s.Grants++
	r.Next.In[f].Token = s.Grants
	if w.Cut.NoEntry {
		r.Next.In[f] = entry{}
	}
	s.Sure[f] = 0
	s.Locks[f] = lock{r.Lease, s.Grants, r.Nonce}
	if r.Trigger == 1 {
		w.takeTrigger(s)
	}
	return first(viol, w.put(s, r.Job, r.Next))
}

// claimed is what every claim must not do.
func (w *world) claimed(s *state, r *request) string {
	switch {
	case r.JobStale == 1:
		return "I5 claimed under a definition that an acknowledged edit has replaced"
	case r.RulesStale == 1:
		return "I13 a claim of a former owner commits after the change of ownership"
	}
	return ""
}

// takeTrigger consumes the trigger.
func (w *world) takeTrigger(s *state) {
	s.Taken = 1
	if !w.Cut.NoTriggerDelete {
		s.Trig = 0
		s.minds(func(m *mind) { m.TrigDue = 1 })
	}
}

func (w *world) skipped(s *state, r request) (viol string) {
	viol = w.claimed(s, &r)
	e, l := s.Jobs[r.Job].In[r.Blamed], s.Locks[r.Blamed]
	_, ended := s.recordOf(r.Job, &s.Jobs[r.Job], r.Blamed)
	if r.Blame == blameLock && l.Token != r.Token || r.Blame == blameEntry && (e.Attempt == 0 || ended) {
		viol = first(viol, "I10 skipped for overlap with an attempt that had ended")
	}
	for f := range r.Next.Count {
		if r.Next.Count[f] != s.Jobs[r.Job].Count[f] && s.Verdict[f] != none && r.Next.Count[f] == skipped {
			viol = first(viol, "I3 a second verdict for one firing")
		}
	}
	if r.Trigger == 1 {
		w.takeTrigger(s)
	}
	return first(viol, w.put(s, r.Job, r.Next))
}

func (w *world) lost(s *state, r request) (viol string) {
	if l := s.Locks[r.Firing]; l.Lease != 0 && l.Token == r.Token {
		viol = "I2/I3 LOST is recorded while the attempt has its lock"
	}
	viol = first(viol, w.record(s, r, lost))
	if r.Next.Count[r.Firing] == lost {
		viol = first(viol, s.end(r.Firing, lost))
	}
	return first(viol, w.put(s, r.Job, r.Next))
}

func (w *world) finished(s *state, r request) (viol string) {
	if r.End == lost && s.runs(r.Firing, r.Attempt, r.Token) {
		viol = "I3 LOST(never started) is recorded for an attempt that runs"
	}
	s.Locks[r.Firing] = lock{}
	if r.Stop == 1 {
		s.Cancel[r.Firing] = cancelKey{}
	}
	viol = first(viol, w.record(s, r, r.End))
	if !w.followed(s.defOf(r.Job), r.End, r.Attempt) {
		viol = first(viol, w.ending(s, r), s.end(r.Firing, r.End))
	}
	return viol
}

func (w *world) endedLate(s *state, r request) (viol string) {
	if r.End == lost && s.runs(r.Firing, r.Attempt, r.Token) {
		viol = "I3 LOST(never started) is recorded for an attempt that runs"
	}
	j := &s.Jobs[r.Job]
	if e := j.In[r.Firing]; (e.Token != r.Token || e.Slot != r.Slot) && j.promised(r.Slot) {
		viol = "I6 a late result is written to a slot that is promised to another attempt"
	}
	viol = first(viol, w.record(s, r, r.End))
	again := r.Next.Owed[r.Firing] > 0
	if w.Cut.LateNoState { // then a fold makes the retry
		again = w.followed(s.defOf(r.Job), r.End, r.Attempt)
	}
	if !again {
		viol = first(viol, w.ending(s, r), s.end(r.Firing, r.End))
	}
	if !w.Cut.LateNoState {
		viol = first(viol, w.put(s, r.Job, r.Next))
	}
	return viol
}

// ending is what the end of a firing must not be.
func (w *world) ending(s *state, r request) string {
	d := s.defOf(r.Job)
	if r.End == killed && w.Retry && r.Attempt < nAttempts && d.Gone == 0 && d.Once == 0 {
		return "I16 an attempt that lost its lock ends its firing, though onLost: retry allows another"
	}
	if r.End == canceled && s.Asked[r.Firing] != r.Token {
		return "I17 an attempt is ended that nobody asked to cancel"
	}
	return ""
}

// runs tells whether a process of that attempt runs.
func (s *state) runs(f, attempt, token uint8) bool {
	for m := range s.Members {
		if a := s.Members[m].Run[f][attempt-1]; a.Phase == running && a.Token == token {
			return true
		}
	}
	return false
}

// put writes the state of a job: nothing planned on the old value can commit any more.
func (w *world) put(s *state, job uint8, next jobState) (viol string) {
	now := &s.Jobs[job]
	if next.Cursor < now.Cursor {
		viol = "I3 the cursor moves back"
	}
	for f := range next.Count {
		if next.Count[f] == now.Count[f] {
			continue
		}
		if s.Verdict[f] == none {
			s.Verdict[f] = next.Count[f]
		} else if s.Verdict[f] != next.Count[f] || now.Count[f] != none {
			viol = first(viol, "I14 counted twice, or otherwise than the firing ended")
		}
	}
	if job == 0 {
		s.minds(func(m *mind) {
			if m.Fresh == 1 {
				m.Fresh, m.View = 0, *now
			}
		})
	}
	*now = next
	s.requests(func(r *request) {
		if r.Job == job {
			r.StateStale = 1
		}
	})
	return viol
}

// record puts the end of an attempt into its slot.
func (w *world) record(s *state, r request, end verdict) (viol string) {
	ring, j := &s.Ring[r.Job], &s.Jobs[r.Job]
	old := ring[r.Slot]
	next := record{Firing: r.Firing, At: s.Grants}
	if r.Attempt > 1 {
		next.Lines[0] = lost // the line of the attempt that this one followed
	}
	next.Lines[r.Attempt-1] = end
	if old.full() && old.Firing != r.Firing {
		if old.At >= r.Token {
			viol = "I6 an older attempt's record destroys a younger one in its slot"
		} else if e := j.In[old.Firing]; e.Attempt > 0 && e.Slot == r.Slot {
			viol = "I6 a record destroys the proof of an attempt still in the state"
		}
	}
	if old.Firing == r.Firing && r.Attempt == 1 && old.Lines[1] != none {
		viol = "I6 an older attempt's record overwrites a newer attempt's"
	}
	ring[r.Slot] = next
	s.requests(func(q *request) {
		if q.Job == r.Job && q.Slot == r.Slot {
			q.RunStale = 1
		}
	})
	return viol
}

func (r record) full() bool { return r.Lines != [nAttempts]verdict{} }

// end notes the verdict of a firing.
func (s *state) end(f uint8, v verdict) string {
	had := s.Verdict[f] != none
	s.Verdict[f] = v
	if had {
		return "I3 a second verdict for one firing"
	}
	return ""
}

// first is the first violation.
func first(violations ...string) string {
	for _, v := range violations {
		if v != "" {
			return v
		}
	}
	return ""
}
