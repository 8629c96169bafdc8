package main

// What happens inside a member: its processes, its lock leases, its own life.

// runSteps: the attempts of member m start, end, and have their ends recorded.
func (w *world) runSteps(s *state, m int, out emit) {
	for f := range uint8(nFirings) {
		for a := range uint8(nAttempts) {
			switch s.Members[m].Run[f][a].Phase {
			case granted:
				w.grantedStep(s, m, f, a, out)
			case running:
				w.runningStep(s, m, f, a, out)
			case ended:
				w.finishStep(s, m, f, a, out)
			case late:
				w.lateStep(s, m, f, a, out)
			}
		}
	}
}

// grantedStep: a grant is started, or is too old or its session too doubtful, and ends unstarted.
func (w *world) grantedStep(s *state, m int, f, a uint8, out emit) {
	p := &s.Members[m]
	run := p.Run[f][a]
	trusted := p.Doubt == 0 && run.Lease == leaseOf(m, p.Lease) || w.Cut.NoDoubt
	if lockGone := s.Locks[f].Token != run.Token; !trusted || lockGone && run.Token > 0 {
		n := *s
		r := &n.Members[m].Run[f][a]
		r.Phase, r.End = ended, lost
		out(n, false, w.say("M%d does not start %s: its session is doubted, or the grant too old", m, w.firing(f)), "")
	}
	if s.Panics > 0 {
		n := *s
		n.Panics--
		w.letGo(&n, m, f, a+1)
		out(n, true, w.say("M%d fails between grant and start and forgets %s", m, w.firing(f)), "")
	}
	if !trusted {
		return
	}
	n := *s
	r := &n.Members[m].Run[f][a]
	if r.Stop == 1 {
		r.Phase, r.End = ended, canceled
		out(n, false, w.say("M%d ends %s, which was cancelled, before its start", m, w.firing(f)), "")
		return
	}
	r.Phase = running
	n.Started[f][a]++
	out(n, false, w.say("M%d STARTS %s, attempt %d (token %d)", m, w.firing(f), a+1, run.Token), w.started(s, &n, m, f, a))
}

// started is what the start of an attempt must not be.
func (w *world) started(s, n *state, m int, f, a uint8) string {
	p := &s.Members[m]
	run, total := p.Run[f][a], uint8(0)
	for _, k := range n.Started[f] {
		total += k
	}
	switch {
	case !w.Retry && total > 1:
		return "I1 two process starts for one firing"
	case n.Started[f][a] > 1:
		return "I2 one attempt is started twice"
	case run.Token == 0 || run.Token > s.Grants:
		return "I8 a start without a grant"
	case p.Doubt == 1 || run.Lease != leaseOf(m, p.Lease):
		return "I9 a start by a process that knows that its session is gone"
	case s.Frozen == 0 && w.othersRun(s, f, a):
		return "I12 two processes run at once though nobody was frozen"
	case w.StartOrder && a == 0 && s.Started[f][1] > 0:
		return "(not promised) a frozen older attempt starts after a newer one"
	}
	return ""
}

// othersRun tells whether a process that may not run beside attempt a of f runs now.
func (w *world) othersRun(s *state, f, a uint8) bool {
	for m := range s.Members {
		for g := range uint8(nFirings) {
			for b, run := range s.Members[m].Run[g] {
				same := g == f
				if run.Phase == running && !(same && b == int(a)) && w.jobOf(f) == w.jobOf(g) && (same || !w.AllowAll) {
					return true
				}
			}
		}
	}
	return false
}

func (w *world) runningStep(s *state, m int, f, a uint8, out emit) {
	n := *s
	run := &n.Members[m].Run[f][a]
	run.Phase, run.End = ended, succeeded
	if run.Stop == 1 {
		run.End = canceled
	}
	out(n, false, w.say("M%d: %s, attempt %d ends: %s", m, w.firing(f), a+1, run.End.words()), "")
	if s.Locks[f].Token != run.Token || s.Members[m].Doubt == 1 {
		run.End = killed
		out(n, false, w.say("M%d's supervisor kills %s at its deadline", m, w.firing(f)), "")
	}
}

func (v verdict) words() string {
	return [...]string{"-", "SUCCEEDED", "CANCELED", "FAILED(lock lost)", "LOST(never started)", "SKIPPED"}[v]
}

// finishStep: the end is sent, one request at a time.
func (w *world) finishStep(s *state, m int, f, a uint8, out emit) {
	if s.Members[m].sends(f, a) {
		return
	}
	run := s.Members[m].Run[f][a]
	r := request{Kind: finish, Job: w.jobOf(f), Firing: f, Attempt: a + 1, Token: run.Token, Slot: run.Slot, End: run.End, Stop: run.Stop}
	w.send(s, m, r, w.say("M%d sends Finish (%s, attempt %d, %s)", m, w.firing(f), a+1, run.End.words()), out)
}

// lateStep: the lock was gone. If the entry is still in flight and nothing was recorded, the end is
// written with the state; else it is let go.
func (w *world) lateStep(s *state, m int, f, a uint8, out emit) {
	p := &s.Members[m]
	if p.sends(f, a) || w.slot(s, m) < 0 {
		return
	}
	run, job := p.Run[f][a], w.jobOf(f)
	j, rec := s.Jobs[job], s.Ring[job][run.Slot]
	e := j.In[f]
	owed := e.Attempt == a+1 && e.Token == run.Token && !(rec.full() && rec.At >= run.Token)
	overLost := w.Cut.LateOverLost && rec.Firing == f && rec.Lines[a] == lost && run.End != lost
	if !owed && !overLost || s.Locks[f].Lease != 0 {
		n := *s
		if rec.Firing == f && rec.At >= run.Token && rec.Lines[a] == run.End && !w.Cut.LateUntold {
			w.recordSeen(&n, m, request{Job: job, Firing: f, Token: run.Token}) // a copy had been committed
		}
		w.letGo(&n, m, f, a+1)
		out(n, false, w.say("M%d lets go of the late result of %s, attempt %d", m, w.firing(f), a+1), "")
		return
	}
	if owed {
		j.leave(f, run.End, w.followed(s.defOf(job), run.End, a+1))
	}
	r := request{Kind: lateEnd, Job: job, Firing: f, Attempt: a + 1, Token: run.Token, Slot: run.Slot, End: run.End, Next: j}
	w.send(s, m, r, w.say("M%d sends the late result of %s, attempt %d, %s", m, w.firing(f), a+1, run.End.words()), out)
}

// sends tells whether the end of that attempt is on its way.
func (p *member) sends(f, a uint8) bool {
	for o := range p.Wait {
		r := &p.Sent[o]
		if p.Wait[o] == awaiting && r.Firing == f && r.Attempt == a+1 && (r.Kind == finish || r.Kind == lateEnd) {
			return true
		}
	}
	return false
}

// letGo: the attempt is no longer held. Its entry, if it is still in the owner's copy, is followed as
// anybody's; a cancel that its Finish did not carry is removed.
func (w *world) letGo(s *state, m int, f, attemptNo uint8) {
	token := s.Members[m].Run[f][attemptNo-1].Token
	s.Members[m].Run[f][attemptNo-1] = attempt{}
	if key := &s.Cancel[f]; int(key.Member) == m+1 && key.Heard == 1 && key.Token == token && !w.Cut.CancelKeyStays {
		*key = cancelKey{}
	}
	if w.Owned && !w.Cut.LetGoUnfollowed {
		w.follow(s, m)
	}
}

// holds tells whether an attempt or an unresolved claim of member m holds the lock of f.
func (w *world) holds(s *state, m int, f uint8) bool {
	p, l := &s.Members[m], s.Locks[f]
	for _, run := range p.Run[f] {
		if run.Phase != idle && run.Token == l.Token {
			return true
		}
	}
	for o := range p.Wait {
		r := &p.Sent[o]
		if p.Wait[o] != free && r.Kind == begin && r.Lease == l.Lease && r.Nonce == l.Nonce && !w.Cut.HeldIsAttempts {
			return true
		}
	}
	return false
}

// holdsAny tells whether member m holds anything at all.
func (s *state) holdsAny(m int) bool {
	p := &s.Members[m]
	for o := range p.Wait {
		if p.Wait[o] != free && p.Sent[o].Kind == begin {
			return true
		}
	}
	return p.Run != [nFirings][nAttempts]attempt{}
}

// orphanSteps: rule 3. A lock under a lease of this process that nothing in it holds is closed.
func (w *world) orphanSteps(s *state, m int, out emit) {
	if w.Cut.NoOrphans || w.slot(s, m) < 0 || w.Cut.OrphansWhileHeld && !s.holdsAny(m) {
		return
	}
	p := &s.Members[m]
	if w.Cut.HeldFirst && p.Noted == 0 {
		n := *s
		n.Members[m].Noted = 0x80
		for f := range uint8(nFirings) {
			if w.holds(s, m, f) {
				n.Members[m].Noted |= 1 << f
			}
		}
		out(n, false, w.say("M%d notes what it holds, then lists its leases", m), "")
		return
	}
	for f := range uint8(nFirings) {
		l, job := s.Locks[f], w.jobOf(f)
		e := s.Jobs[job].In[f]
		if l.Lease == 0 || int(l.Lease-1)/nLeases != m || p.Mine>>((l.Lease-1)%nLeases)&1 == 0 || e.Token != l.Token {
			continue
		}
		held := w.holds(s, m, f)
		if w.Cut.HeldFirst {
			held = p.Noted>>f&1 == 1
		}
		if held || s.closing(m, f) {
			continue
		}
		n := *s
		n.Members[m].Noted = 0
		r := request{Kind: finish, Job: job, Firing: f, Attempt: e.Attempt, Token: l.Token, Slot: e.Slot, End: lost}
		w.send(&n, m, r, w.say("M%d lists its leases and closes %s, which nothing of its own holds: LOST(never started)", m, w.firing(f)), out)
	}
}

// closing tells whether member m is sending the end of f already.
func (s *state) closing(m int, f uint8) bool {
	p := &s.Members[m]
	for o := range p.Wait {
		if p.Wait[o] == awaiting && p.Sent[o].Kind == finish && p.Sent[o].Firing == f {
			return true
		}
	}
	return false
}
