package main

// What the loop of an owner plans: scheduler.PlanJob on what its mind knows.

// mindPlans: the owner plans one write, if nothing of the job is on its way.
func (w *world) mindPlans(s *state, m int, out emit) {
	k := &s.Members[m].Mind
	if !k.tracked() || w.slot(s, m) < 0 || w.busy(s, m) {
		return
	}
	w.decide(s, m, func(r request, label string) {
		r.JobStale, r.RulesStale, r.StateStale = k.DefOld, k.Behind, 1-k.Fresh
		if r.Kind == begin && s.Members[m].Doubt == 1 {
			return // no lease, no room
		}
		if n := *s; !w.hopeless(&r) {
			w.send(s, m, r, label, out)
		} else if a := w.guard(s, &r); a == refused {
			w.answered(&n, m, r, a)
			out(n, false, w.say("%s; it is refused, for what M%d knows is out of date", label, m), "")
		}
	})
}

// hopeless tells whether a request can never commit: it is refused at once, which is the same.
func (w *world) hopeless(r *request) bool {
	return r.StateStale == 1 && w.comparesState(r) || r.JobStale == 1 && w.comparesJob(r) ||
		r.RulesStale == 1 && r.Kind.claims() && !w.Cut.NoRules
}

// decide gives the write that comes next; more than one where their order depends on the time.
func (w *world) decide(s *state, m int, out func(request, string)) {
	k := &s.Members[m].Mind
	p := w.planner(s, m, 0, k.Def, k.copyOf(s))
	folds := false
	for f := range uint8(nFirings) {
		if k.Facts[f] == recorded && p.j.In[f].Attempt > 0 {
			end, seen := s.recordOf(0, &p.j, f)
			if !seen {
				end = succeeded // the copy is old: whatever is planned is refused
			}
			p.fold(f, end)
			folds = true
		}
	}
	ends := p.endOwed()
	for f := range uint8(nFirings) {
		if p.j.In[f].Attempt > 0 && k.Facts[f] == gone && (s.Sure[f] == 1 || w.Cut.NoHold || k.Fresh == 0) {
			out(p.lose(f))
			return
		}
	}
	waits := k.Trig == 1 && p.j.In[manual].Attempt == 0 && p.j.Owed[manual] == 0
	switch {
	case ends:
		out(p.request(fold), w.say("M%d sends the end of what can never be tried again", m))
	case k.Def.Gone == 1 && folds:
		out(p.request(fold), w.say("M%d sends a fold of what has ended", m))
	case k.Def.Gone == 1 && waits:
		out(p.skip(manual, nothing, 0, "deleted"))
	case k.Def.Gone == 1:
		if w.may(creation) && !p.busy() {
			out(p.request(sweep), w.say("M%d sends a sweep of the tombstone", m))
		}
	case k.Def.Paused == 1 && waits:
		out(p.skip(manual, nothing, 0, "paused"))
	case k.Def.Paused == 0 && w.decideClaim(&p, m, waits, out):
	case folds:
		out(p.request(fold), w.say("M%d sends a fold of what has ended", m))
	}
}

// decideClaim gives the claim that comes next. It reports whether there is one.
func (w *world) decideClaim(p *planner, m int, waits bool, out func(request, string)) bool {
	for f, owed := range p.j.Owed {
		if owed > 0 && !p.inFlight() {
			r, label, _ := p.begin(uint8(f), owed)
			out(r, label)
			return true
		}
	}
	late := w.lateOf(p.s, 0)
	if w.CatchUp && p.j.Cursor < late {
		out(p.adopt())
		return true
	}
	some := false
	if f := p.j.Cursor; f < w.due(p.s, 0) {
		some = w.decideFiring(p, m, f, out)
	} else if p.j.Backlog > 0 && p.s.Past == 1 {
		out(p.giveUp())
		return true
	} else if p.j.Backlog > 0 && !p.busy() {
		if r, label, free := p.begin(p.j.Backlog-1, 1); free {
			out(r, label)
			some = true
		}
	}
	if waits {
		some = w.decideFiring(p, m, manual, out) || some
	}
	return some
}

// decideFiring begins f, or skips it for what is in the way; it waits while that is not known.
func (w *world) decideFiring(p *planner, m int, f uint8, out func(request, string)) bool {
	if p.s.Past == 1 {
		out(p.skip(f, nothing, 0, "MISSED(start deadline)"))
		return true
	}
	for g := range uint8(nFirings) {
		if w.AllowAll || p.j.In[g].Attempt == 0 && p.j.Owed[g] == 0 {
			continue
		}
		why := blameRetry
		if p.j.In[g].Attempt > 0 {
			switch p.s.Members[m].Mind.Facts[g] {
			case unheard:
				return false
			case alive:
				why = blameLock
			default:
				why = blameEntry
			}
		}
		out(p.skip(f, why, g, "overlap with "+w.firing(g)))
		return true
	}
	r, label, free := p.begin(f, 1)
	if free {
		out(r, label)
	}
	return free
}
