package main

// The lives of leases and of processes, and who owns what.

// leaseSteps: etcd ends leases of member m; it doubts the one it has, and opens another.
func (w *world) leaseSteps(s *state, m int, out emit) {
	p := &s.Members[m]
	for i := range uint8(nLeases) {
		kept := p.Up == 1 && i == p.Lease
		if p.Alive>>i&1 == 0 || kept && s.Ends == 0 {
			continue
		}
		n := *s
		n.Members[m].Alive &^= 1 << i
		if kept {
			n.Ends--
		}
		if !w.Cut.NoLease {
			for f := range n.Locks {
				if n.Locks[f].Lease == leaseOf(m, i) {
					n.Locks[f] = lock{}
				}
			}
		}
		out(n, kept, w.say("etcd ends lease %d of M%d (expiry or revocation)", i, m), "")
	}
	if p.Up == 0 {
		return
	}
	really := p.Alive>>p.Lease&1 == 0
	if p.Doubt == 0 && (really || s.Ends > 0) && w.cutsOff(p) {
		n := *s
		q := &n.Members[m]
		q.Doubt = 1
		if !really {
			n.Ends--
		}
		w.cutOff(&n, m, false)
		if really {
			w.leaseLost(&n, m, leaseOf(m, q.Lease))
		}
		out(n, !really, w.say("M%d doubts its session (it is lost: %v)", m, really), "")
	}
	if p.Doubt == 1 {
		n := *s
		q := &n.Members[m]
		q.Doubt, q.Lease = 0, w.freeLease(s, m)
		q.Alive |= 1 << q.Lease
		q.Mine |= 1 << q.Lease
		out(n, false, w.say("M%d opens another lock lease", m), "")
	}
}

// cutsOff tells whether what is being sent can be cut off from its sender: there is room for it.
func (w *world) cutsOff(p *member) bool {
	for o := range w.out() {
		if p.Wait[o] == awaiting && p.Astray[o].Kind != noRequest {
			return false
		}
	}
	return true
}

// cutOff lets what is being sent travel on alone. A process that lives goes on resolving its claims; a
// dead one has forgotten them.
func (w *world) cutOff(s *state, m int, dead bool) {
	p := &s.Members[m]
	p.AstrayJoint = max(p.AstrayJoint, p.Joint)
	p.Joint = 0
	for o := range p.Wait {
		if p.Wait[o] == awaiting && p.Astray[o].Kind == noRequest {
			r := p.Sent[o]
			p.Astray[o] = r
			w.unanswered(s, m, o, r)
			p.Sent[o].StateStale = r.StateStale
		}
		if dead || w.Cut.ForgetClaims {
			p.Wait[o] = free
		}
	}
}

// freeLease is a number for another lease of member m that nothing refers to.
func (w *world) freeLease(s *state, m int) uint8 {
	p := &s.Members[m]
	for i := range uint8(nLeases) {
		id, used := leaseOf(m, i), p.Alive>>i&1 == 1
		for o := range nOut {
			used = used || p.Sent[o].Lease == id && p.Sent[o].Kind == begin || p.Astray[o].Lease == id && p.Astray[o].Kind == begin
		}
		for _, l := range s.Locks {
			used = used || l.Lease == id
		}
		for f := range p.Run {
			for _, run := range p.Run[f] {
				used = used || run.Phase != idle && run.Lease == id
			}
		}
		if !used {
			return i
		}
	}
	panic("no number is left for another lease")
}

// processSteps: processes die, with all they run, and are started again.
func (w *world) processSteps(s *state, m int, out emit) {
	p := &s.Members[m]
	if p.Up == 0 {
		n := *s
		q := &n.Members[m]
		q.Up, q.Doubt, q.Lease = 1, 0, w.freeLease(s, m)
		q.Alive |= 1 << q.Lease
		q.Mine = 1 << q.Lease
		out(n, false, w.say("M%d is started again, with another lease", m), "")
		return
	}
	if s.Crashes == 0 {
		return
	}
	for _, spooled := range []bool{true, false} {
		n := *s
		n.Crashes--
		w.cutOff(&n, m, true)
		q := &n.Members[m]
		q.Up, q.Doubt, q.Lease, q.Mine, q.Noted, q.Mind = 0, 0, 0, 0, 0, mind{}
		if int(n.Owner) == m+1 && !w.Cut.SameOwner {
			n.Named = 0
		}
		for f := range n.Cancel {
			if int(n.Cancel[f].Member) == m+1 {
				n.Cancel[f].Heard = 0 // the next process lists its queue
			}
		}
		if q.forgets(spooled) == spooled {
			out(n, true, w.say("M%d crashes, its processes die with it (results spooled: %v)", m, spooled), "")
		}
	}
}

// forgets drops the attempts of a dead process but those whose results are in the spool. It reports
// whether there are any.
func (p *member) forgets(spooled bool) (kept bool) {
	for f := range p.Run {
		for a := range p.Run[f] {
			if run := &p.Run[f][a]; spooled && (run.Phase == ended || run.Phase == late) {
				run.Phase, kept = ended, true
			} else {
				*run = attempt{}
			}
		}
	}
	return kept
}

// dispatcherSteps: the rules move. In a free world that is all; in an owned one they name an owner.
func (w *world) dispatcherSteps(s *state, out emit) {
	if !w.Owned {
		if s.Moves > 0 {
			n := *s
			n.Moves--
			n.rulesMove()
			out(n, true, w.say("the dispatcher changes the rules"), "")
		}
		return
	}
	if s.Named == 0 && s.Members[s.Owner-1].Up == 1 {
		n := *s
		n.Named = 1
		n.rulesMove()
		out(n, false, w.say("the dispatcher names the new incarnation of M%d", s.Owner-1), "")
	}
	if s.Moves == 0 {
		return
	}
	for m := range w.Members {
		n := *s
		n.Moves--
		if int(s.Owner) == m+1 {
			if s.Members[m].Up == 1 && s.Named == 1 {
				w.rejoins(&n, m)
				out(n, true, w.say("M%d loses its membership and joins again", m), "")
			}
			continue
		}
		n.Owner, n.Named = uint8(m)+1, s.Members[m].Up
		n.rulesMove()
		out(n, true, w.say("the dispatcher makes M%d the owner", m), "")
	}
}

// rulesMove: no claim planned until now can commit any more.
func (s *state) rulesMove() {
	s.requests(func(r *request) { r.RulesStale = 1 })
	s.minds(func(m *mind) { m.Behind = 1 })
}

// rejoins: the process lives on under another incarnation. What its former one owned is nobody's until
// the rules name the new one.
func (w *world) rejoins(s *state, m int) {
	w.forget(s, m)
	if !w.Cut.SameOwner {
		s.Named = 0
	}
}
