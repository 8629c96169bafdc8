package main

// What a member may write next, as scheduler.PlanJob decides it. A planner is one view of one job.

// planner makes requests from what a member knows of a job.
type planner struct {
	w    *world
	s    *state
	m    int
	job  uint8
	def  definition
	last [nFirings]verdict // how the attempt before an owed retry ended
	j    jobState          // the state to be written, with the folds that ride along
}

func (w *world) planner(s *state, m int, job uint8, def definition, base jobState) planner {
	p := planner{w: w, s: s, m: m, job: job, def: def, j: base}
	for f, owed := range base.Owed {
		if owed > 0 {
			p.last[f] = lost
			if r := s.Ring[job][base.In[f].Slot]; r.Firing == uint8(f) && r.Lines[owed-2] != none {
				p.last[f] = r.Lines[owed-2]
			}
		}
	}
	return p
}

// followed says whether the policy owes a further attempt after one that ended so.
func (w *world) followed(d definition, end verdict, attempt uint8) bool {
	again := end == lost || end == killed && !w.Cut.KilledIsFinal
	return w.Retry && again && d.Gone == 0 && d.Once == 0 && attempt < nAttempts
}

// leave takes the entry of f out: a further attempt is owed, or the firing is counted.
func (j *jobState) leave(f uint8, end verdict, again bool) {
	e := j.In[f]
	j.In[f] = entry{}
	if again {
		j.In[f].Slot, j.Owed[f] = e.Slot, e.Attempt+1
		return
	}
	j.Count[f] = end
}

// fold takes the entry of f out, whose record was seen: it ended so.
func (p *planner) fold(f uint8, end verdict) {
	e := p.j.In[f]
	again := p.w.followed(p.def, end, e.Attempt)
	p.j.leave(f, end, again)
	switch {
	case again:
		p.last[f] = end
	case p.w.Cut.ForgetsLast && end == lost && e.Attempt < nAttempts:
		p.j.Count[f] = none
	}
}

// endOwed ends the firings whose owed retry can never be granted any more: an edit took the attempt
// away, or the start deadline has passed.
func (p *planner) endOwed() (some bool) {
	if p.w.Cut.OwedStays {
		return false
	}
	for f, owed := range p.j.Owed {
		if owed > 0 && (p.s.Past == 1 || !p.w.followed(p.def, lost, owed-1)) {
			p.dropOwed(uint8(f))
			some = true
		}
	}
	return some
}

func (p *planner) dropOwed(f uint8) {
	p.j.Owed[f], p.j.In[f] = 0, entry{}
	p.j.Count[f] = p.last[f]
}

// request is a write of the state as it stands.
func (p *planner) request(k kind) request {
	return request{Kind: k, Job: p.job, UID: p.def.UID, Slot: nSlots, Next: p.j}
}

// busy says whether an attempt or an owed retry is in the way of another.
func (p *planner) busy() bool {
	for f := range p.j.In {
		if p.j.In[f].Attempt > 0 || p.j.Owed[f] > 0 {
			return true
		}
	}
	return false
}

// inFlight says whether an attempt is.
func (p *planner) inFlight() bool {
	for _, e := range p.j.In {
		if e.Attempt > 0 {
			return true
		}
	}
	return false
}

// promised tells whether an entry or an owed retry will put its record into the slot.
func (j *jobState) promised(slot uint8) bool {
	for f := range j.In {
		if (j.In[f].Attempt > 0 || j.Owed[f] > 0) && j.In[f].Slot == slot {
			return true
		}
	}
	return false
}

// takeSlot gives out the next slot in turn; promised ones are jumped over.
func (p *planner) takeSlot() (uint8, bool) {
	j, n := &p.j, p.w.slots()
	for range n {
		k := j.Next
		j.Next = (j.Next + 1) % n
		free := !j.promised(k) || p.w.Cut.SharedSlots
		if p.w.Cut.SharedRetry {
			free = true
			for f := range j.In {
				free = free && !(j.In[f].Attempt > 0 && j.In[f].Slot == k)
			}
		}
		if free {
			return k, true
		}
	}
	return 0, false
}

// begin grants an attempt of f; false if no slot is free.
func (p planner) begin(f, attempt uint8) (request, string, bool) {
	slot := p.j.In[f].Slot
	if attempt == 1 {
		var free bool
		if slot, free = p.takeSlot(); !free {
			return request{}, "", false
		}
	}
	switch {
	case f == manual || attempt > 1:
	case p.j.Backlog == f+1:
		p.j.Backlog = 0
	default:
		p.j.Cursor = f + 1
	}
	p.j.Owed[f] = 0
	p.j.In[f] = entry{Attempt: attempt, Slot: slot}
	r := p.request(begin)
	r.Firing, r.Attempt, r.Slot = f, attempt, slot
	if p.s.Past == 1 || p.def.Once == 1 && attempt > 1 {
		r.Forbidden = 1
	}
	r.Nonce, r.Lease = p.s.nonce(p.m), leaseOf(p.m, p.s.Members[p.m].Lease)
	if f == manual && attempt == 1 {
		r.Trigger = 1
	}
	return r, p.w.say("M%d sends Begin (%s, attempt %d)", p.m, p.w.firing(f), attempt), true
}

// nonce is the least number that tells a new Begin of member m from those that may still matter.
func (s *state) nonce(m int) uint8 {
	for n := uint8(1); ; n++ {
		used := false
		p := &s.Members[m]
		for o := range nOut {
			used = used || p.Sent[o].Kind == begin && p.Sent[o].Nonce == n || p.Astray[o].Kind == begin && p.Astray[o].Nonce == n
		}
		for _, l := range s.Locks {
			used = used || l.Lease != 0 && int(l.Lease-1)/nLeases == m && l.Nonce == n
		}
		if !used {
			return n
		}
	}
}

// skip decides f without granting it.
func (p planner) skip(f uint8, why blame, blamed uint8, words string) (request, string) {
	if f < manual {
		p.j.Cursor = f + 1
	}
	p.j.Count[f] = skipped
	r := p.request(skip)
	r.Firing, r.Blame, r.Blamed = f, why, blamed
	if why == blameLock {
		r.Token = p.j.In[blamed].Token
	}
	if f == manual {
		r.Trigger = 1
	}
	return r, p.w.say("M%d sends Skip (%s, %s)", p.m, p.w.firing(f), words)
}

// adopt decides all late instants: the newest becomes the backlog, the others are MISSED.
func (p planner) adopt() (request, string) {
	late := p.w.lateOf(p.s, p.job)
	if p.j.Backlog > 0 {
		p.j.Count[p.j.Backlog-1] = skipped
	}
	for f := p.j.Cursor; f+1 < late; f++ {
		p.j.Count[f] = skipped
	}
	p.j.Cursor, p.j.Backlog = late, late
	r := p.request(skip)
	r.Firing = late - 1
	return r, p.w.say("M%d sends Miss (the late instants; the newest becomes the backlog)", p.m)
}

// giveUp misses the backlog.
func (p planner) giveUp() (request, string) {
	f := p.j.Backlog - 1
	p.j.Backlog, p.j.Count[f] = 0, skipped
	r := p.request(skip)
	r.Firing = f
	return r, p.w.say("M%d sends Miss (%s, given up)", p.m, p.w.firing(f))
}

// lose calls the attempt of f lost.
func (p planner) lose(f uint8) (request, string) {
	e := p.j.In[f]
	p.j.leave(f, lost, p.w.followed(p.def, lost, e.Attempt))
	if p.s.Past == 1 && p.j.Owed[f] > 0 && !p.w.Cut.OwedStays {
		p.last[f] = lost
		p.dropOwed(f)
	}
	r := p.request(lose)
	r.Firing, r.Attempt, r.Token, r.Slot = f, e.Attempt, e.Token, e.Slot
	return r, p.w.say("M%d sees %s in flight without lock and record, the hold passed: sends LOST", p.m, p.w.firing(f))
}

// --- the free world ---------------------------------------------------------------------------

// plans lists every write that member m may plan now in a free world. What it has seen of locks and of
// records may be any earlier view, so it may always believe a lock gone or a record not yet written. A
// view of the state or the definition that is older than now is the same as a request that travels
// slowly; only ends, which compare no definition, are planned under an older one too.
func (w *world) plans(s *state, m int, job uint8, out func(request, string)) {
	base, def := s.Jobs[job], s.defOf(job)
	if def.UID == 0 || def.Elsewhere == 1 {
		return
	}
	blind := w.planner(s, m, job, def, base)
	w.plansFrom(blind, out)
	seeing := blind.foldRecorded()
	if seeing.j != base {
		out(seeing.request(fold), w.say("M%d sends a fold of what has ended", m))
		w.plansFrom(seeing, out)
	}
	if def.Once == 0 && def.Gone == 0 {
		return
	}
	def.Once, def.Gone = 0, 0
	blind = w.planner(s, m, job, def, base)
	w.losesFrom(blind, out)
	if older := blind.foldRecorded(); older.j != base && older.j != seeing.j {
		out(older.request(fold), w.say("M%d sends a fold, under the definition before", m))
	}
}

// foldRecorded is the planner that has seen every record there is.
func (p planner) foldRecorded() planner {
	base := p.j
	for f := range uint8(nFirings) {
		if end, ended := p.s.recordOf(p.job, &base, f); ended {
			p.fold(f, end)
		}
	}
	return p
}

// plansFrom lists what a planner may write in a free world.
func (w *world) plansFrom(p planner, out func(request, string)) {
	if p.endOwed() {
		out(p.request(fold), w.say("M%d sends the end of what can never be tried again", p.m))
	}
	w.losesFrom(p, out)
	switch {
	case p.def.Gone == 1:
	case p.def.Paused == 1:
		if p.triggered() {
			out(p.skip(manual, nothing, 0, "paused"))
		}
	default:
		w.claimsFrom(p, out)
	}
}

// losesFrom lists the attempts that may be called lost.
func (w *world) losesFrom(p planner, out func(request, string)) {
	for f := range uint8(nFirings) {
		if p.j.In[f].Attempt > 0 && (p.s.Sure[f] == 1 || w.Cut.NoHold || w.Cut.NoLockLose) {
			out(p.lose(f))
		}
	}
}

// triggered says whether a trigger waits whose firing the state does not know. A stale list still shows
// one that was consumed.
func (p *planner) triggered() bool {
	waits := p.s.Trig == 1 || p.s.Taken == 1 && p.w.Cut.NoTriggerCompare
	return waits && p.job == 0 && p.j.In[manual].Attempt == 0 && p.j.Owed[manual] == 0
}

// claimsFrom lists the claims of a job that is neither paused nor deleted.
func (w *world) claimsFrom(p planner, out func(request, string)) {
	claim := func(f, attempt uint8) {
		if r, label, free := p.begin(f, attempt); free {
			out(r, label)
		}
	}
	for f, owed := range p.j.Owed {
		if owed > 0 && (w.AllowAll || !p.inFlight()) {
			claim(uint8(f), owed)
		}
	}
	if w.CatchUp && p.j.Cursor < w.lateOf(p.s, p.job) {
		out(p.adopt())
		return
	}
	decide := func(f uint8) {
		switch {
		case p.s.Past == 1:
			out(p.skip(f, nothing, 0, "MISSED(start deadline)"))
		case p.busy() && !w.AllowAll:
			w.blames(p, f, out)
		default:
			claim(f, 1)
		}
	}
	if f := p.j.Cursor; f < w.due(p.s, p.job) {
		decide(f)
	} else if p.j.Backlog > 0 && !p.busy() {
		if p.s.Past == 1 {
			out(p.giveUp())
		} else {
			claim(p.j.Backlog-1, 1)
		}
	}
	if p.triggered() {
		decide(manual)
	}
}

// blames lists the skips of f for overlap, by all that it may be blamed on.
func (w *world) blames(p planner, f uint8, out func(request, string)) {
	for g := range uint8(nFirings) {
		if p.j.In[g].Attempt > 0 {
			out(p.skip(f, blameLock, g, "overlap with the lock of "+w.firing(g)))
			out(p.skip(f, blameEntry, g, "overlap: no lock, but not yet surely dead: "+w.firing(g)))
		} else if p.j.Owed[g] > 0 {
			out(p.skip(f, blameRetry, g, "overlap with the retry of "+w.firing(g)))
		}
	}
}
