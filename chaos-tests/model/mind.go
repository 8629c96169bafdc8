package main

// What the loop of an owner knows, how it learns it, and what it decides from it (node/view.go,
// loop.go, follow.go, shards.go). Only owned worlds have minds; they know job 0.

// tracked tells whether the job is in the mind's view: there is one, and its pool is this member's.
func (k *mind) tracked() bool { return k.Loaded == 1 && k.Def.UID != 0 && k.Def.Elsewhere == 0 }

// copyOf is the mind's copy of the state.
func (k *mind) copyOf(s *state) jobState {
	if k.Fresh == 1 {
		return s.Jobs[0]
	}
	return k.View
}

// load reads the shard anew: a snapshot. What was known of its job before, when another may have owned it
// in between, is forgotten.
func (w *world) load(s *state, m int) {
	k := &s.Members[m].Mind
	if w.Cut.KeepsOnRegain && k.tracked() && k.Def.UID == s.Def.UID && s.Def.Elsewhere == 0 {
		w.settle(s, m)
	} else {
		w.former(s, m)
		*k = mind{Fresh: 1}
	}
	k.Loaded, k.Behind, k.DefOld, k.DefDue, k.TrigDue = 1, 0, 0, 0, 0
	k.Def, k.Trig = s.Def, s.Trig
	w.follow(s, m)
}

// forget drops what the mind knew: the job is somebody else's.
func (w *world) forget(s *state, m int) {
	w.former(s, m)
	s.Members[m].Mind = mind{}
}

// former marks what the member has on its way: the loop no longer waits for it.
func (w *world) former(s *state, m int) {
	for o := range nOut {
		s.Members[m].Sent[o].Former = 1
	}
}

// settle takes in the newest state. It reports whether that was news.
func (w *world) settle(s *state, m int) bool {
	k := &s.Members[m].Mind
	if k.Loaded == 0 || k.Fresh == 1 {
		return false
	}
	now := &s.Jobs[0]
	for f := range now.In {
		if now.In[f].Attempt > 0 && now.In[f].Token == k.View.In[f].Token && k.View.In[f].Attempt > 0 {
			continue
		}
		k.Facts[f] = unheard
		if now.In[f].Attempt == 0 || k.View.In[f].Attempt == 0 || !w.Cut.FollowByFiring {
			k.Follows[f] = 0
		}
	}
	k.Fresh, k.View = 1, jobState{}
	return true
}

// follow starts a follower for each entry of the copy of which more can be learnt: not for one that is known
// and runs here under a lease that is not doubted, nor for one whose end is known.
func (w *world) follow(s *state, m int) {
	k := &s.Members[m].Mind
	if !k.tracked() {
		return
	}
	j := k.copyOf(s)
	for f := range uint8(nFirings) {
		told := k.Facts[f] != unheard && s.sound(m, f, j.In[f])
		if j.In[f].Attempt > 0 && k.Follows[f] == 0 && k.Facts[f] != recorded && !told {
			k.Follows[f] = 1
		}
	}
}

// sound tells whether member m holds the attempt of the entry, under a lease that it does not doubt.
func (s *state) sound(m int, f uint8, e entry) bool {
	p := &s.Members[m]
	if e.Attempt == 0 || p.Doubt == 1 {
		return false
	}
	run := p.Run[f][e.Attempt-1]
	return run.Phase != idle && run.Token == e.Token && run.Lease == leaseOf(m, p.Lease)
}

// look reads lock and slot of the entry of f in the copy.
func (w *world) look(s *state, m int, f uint8) fact {
	k := &s.Members[m].Mind
	j := k.copyOf(s)
	if _, ended := s.recordOf(0, &j, f); ended {
		return recorded
	}
	if s.Locks[f].Lease != 0 && s.Locks[f].Token == j.In[f].Token {
		return alive
	}
	return gone
}

// learn takes in what was seen of an entry: a record, once seen, stays seen, and a lock stays gone.
func (k *mind) learn(f uint8, seen fact) bool {
	if seen <= k.Facts[f] {
		return false
	}
	k.Facts[f] = seen
	return true
}

// --- what fire posts --------------------------------------------------------------------------

// answered takes in the answer to a write that the loop planned.
func (w *world) answered(s *state, m int, r request, a answer) {
	k := &s.Members[m].Mind
	if !w.Owned || !k.tracked() || r.Job != 0 || r.UID != k.Def.UID {
		return
	}
	switch a {
	case committed:
		w.settle(s, m)
		if r.Kind == sweep {
			k.Def = definition{}
			return
		}
		if r.Kind == begin {
			k.learn(r.Firing, alive)
		}
		if r.Trigger == 1 {
			k.Trig = 0
		}
	case refused:
		news := w.settle(s, m)
		f := r.Firing
		if r.Kind == skip {
			f = r.Blamed
		}
		if j := k.copyOf(s); (r.Kind == lose || r.Blame == blameLock || r.Blame == blameEntry) && j.In[f].Attempt > 0 {
			news = k.learn(f, w.look(s, m, f)) || news
		}
		if r.Former == 0 && (!news || k.DefOld == 1) {
			k.Read = reading{Phase: 1, UID: r.UID}
			return
		}
	default: // planned again when the rules have been taken in, or the lease was asked about
		return
	}
	w.follow(s, m)
}

// learns takes in how an unknown claim was resolved.
func (w *world) learns(s *state, m int, r request, held bool) {
	k := &s.Members[m].Mind
	if !w.Owned || w.Cut.LockOnly || !k.tracked() || r.Job != 0 || r.UID != k.Def.UID {
		return
	}
	w.settle(s, m)
	if !held {
		if r.Former == 0 {
			k.Read = reading{Phase: 1, UID: r.UID}
			return
		}
		w.follow(s, m)
		return
	}
	if s.Jobs[0].In[r.Firing].Attempt == r.Attempt {
		k.learn(r.Firing, alive)
	}
	if r.Trigger == 1 {
		k.Trig = 0
	}
	w.follow(s, m)
}

// recordSeen: this process's own Finish was committed.
func (w *world) recordSeen(s *state, m int, r request) {
	k := &s.Members[m].Mind
	if j := k.copyOf(s); w.Owned && k.tracked() && r.Job == 0 && j.In[r.Firing].Token == r.Token && j.In[r.Firing].Attempt > 0 {
		k.learn(r.Firing, recorded)
	}
}

// stateSeen: this process has written the state beside the loop.
func (w *world) stateSeen(s *state, m int, job uint8) {
	if k := &s.Members[m].Mind; w.Owned && job == 0 && k.tracked() && w.settle(s, m) {
		w.follow(s, m)
	}
}

// leaseLost: a lease of member m is gone, and with it the locks of what it holds.
func (w *world) leaseLost(s *state, m int, lease uint8) (news bool) {
	p := &s.Members[m]
	if !w.Owned || !p.Mind.tracked() {
		return false
	}
	j := p.Mind.copyOf(s)
	for f := range uint8(nFirings) {
		for _, run := range p.Run[f] {
			if run.Phase != idle && run.Lease == lease && run.Token == j.In[f].Token && j.In[f].Attempt > 0 {
				news = p.Mind.learn(f, gone) || news
			}
		}
	}
	return news
}

// leaseLostSteps: the process hears that a lease is gone which it has doubted before.
func (w *world) leaseLostSteps(s *state, m int, out emit) {
	for i := range uint8(nLeases) {
		if lease := leaseOf(m, i); i != s.Members[m].Lease && !s.leaseAlive(lease) {
			n := *s
			if w.leaseLost(&n, m, lease) {
				out(n, false, w.say("M%d hears that its lease %d is gone", m, i), "")
			}
		}
	}
}

// --- what the followers post ------------------------------------------------------------------

// mindSteps: the mind of member m learns something.
func (w *world) mindSteps(s *state, m int, out emit) {
	k := &s.Members[m].Mind
	owner := int(s.Owner) == m+1
	switch {
	case owner && s.Named == 1 && (k.Loaded == 0 || k.Behind == 1):
		n := *s
		w.load(&n, m)
		if q := &n.Members[m].Mind; w.Cut.NoReload && s.Jobs[0] != (jobState{}) {
			q.Fresh, q.Follows = 0, [nFirings]uint8{} // View is what the state was at first
		}
		out(n, false, w.say("M%d takes in the rules that make it the owner, and reads the shard", m), "")
	case !owner && k.Loaded == 1:
		n := *s
		w.forget(&n, m)
		out(n, false, w.say("M%d takes in the rules that make another the owner", m), "")
	}
	if k.Loaded == 0 {
		return
	}
	w.watchSteps(s, m, out)
	w.reloadSteps(s, m, out)
	w.leaseLostSteps(s, m, out)
	for f := range uint8(nFirings) {
		if k.Follows[f] != 1 {
			continue
		}
		n := *s
		q := &n.Members[m].Mind
		seen := w.look(s, m, f)
		if seen == alive && !q.learn(f, alive) {
			continue // it goes on watching
		}
		if seen != alive {
			q.Follows[f] = 2
			q.learn(f, seen)
		}
		out(n, false, w.say("M%d looks at lock and slot of %s: %s", m, w.firing(f), [...]string{"", "it is held", "gone, no record", "a record"}[seen]), "")
	}
}

// watchSteps: the watch delivers what has changed, definitions and triggers each in their own time.
func (w *world) watchSteps(s *state, m int, out emit) {
	if k := &s.Members[m].Mind; k.DefDue == 1 {
		n := *s
		w.define(&n, m, s.Def, 0)
		q := &n.Members[m].Mind
		q.DefDue = 0
		if q.Read.Phase == 2 {
			q.Read.DefPassed = 1
		}
		out(n, false, w.say("the watch brings M%d the definition, and the state is read beside it", m), "")
	}
	if k := &s.Members[m].Mind; k.TrigDue == 1 {
		n := *s
		q := &n.Members[m].Mind
		q.TrigDue = 0
		if q.tracked() {
			q.Trig = s.Trig
			if q.Read.Phase == 2 {
				q.Read.TrigPassed = 1
			}
		}
		out(n, false, w.say("the watch brings M%d the change of the trigger (taken in: %v)", m, q.tracked()), "")
	}
}

// define takes in a definition, which may be old, with the state as it is now.
func (w *world) define(s *state, m int, d definition, old uint8) {
	k := &s.Members[m].Mind
	was, uid := k.tracked(), k.Def.UID
	k.Def, k.DefOld = d, old
	switch {
	case !k.tracked():
		k.Facts, k.Follows, k.Trig = [nFirings]fact{}, [nFirings]uint8{}, 0
		k.Fresh, k.View, k.Stuck, k.Read = 1, jobState{}, 0, reading{}
	case !was || uid != d.UID:
		if was && w.Cut.BusyAcrossUID && w.busy(s, m) {
			k.Stuck = 1
		}
		w.former(s, m)
		k.Facts, k.Follows, k.Read = [nFirings]fact{}, [nFirings]uint8{}, reading{}
		k.Fresh, k.View, k.Trig = 1, jobState{}, s.Trig
		if w.Cut.TriggersNotRead {
			k.Trig = 0
		}
	default:
		w.settle(s, m)
		if !w.Cut.TriggersNotRead {
			k.Trig |= s.Trig
		}
	}
	w.follow(s, m)
}

// reloadSteps: the job is read again, and what was read is taken in, perhaps much later.
func (w *world) reloadSteps(s *state, m int, out emit) {
	switch k := &s.Members[m].Mind; k.Read.Phase {
	case 1:
		n := *s
		q := &n.Members[m].Mind
		w.settle(&n, m)
		q.Read = reading{Phase: 2, UID: k.Read.UID, Trig: s.Trig, Def: s.Def}
		out(n, false, w.say("M%d reads the job again", m), "")
	case 2:
		n := *s
		q := &n.Members[m].Mind
		read := q.Read
		q.Read = reading{}
		if read.DefPassed == 0 || w.Cut.ReloadBlind {
			trig := read.Trig
			if read.TrigPassed == 1 && !w.Cut.ReloadBlind {
				trig |= q.Trig // a newer one stays; an older one may come back, and is refused
			}
			w.define(&n, m, read.Def, read.Old)
			if q.tracked() {
				q.Trig = trig
			}
		}
		out(n, false, w.say("M%d takes in what it read", m), "")
	}
}

// busy tells whether a write of the loop, or a reload, is under way.
func (w *world) busy(s *state, m int) bool {
	k := &s.Members[m].Mind
	return k.Stuck == 1 || k.Read.Phase > 0 || s.busyWith(m, 0)
}
