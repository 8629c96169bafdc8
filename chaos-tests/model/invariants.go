package main

// What must hold of every state, and what can no longer matter in one.

// stuckForever: from some state no path without a further fault leads to where everything is settled.
const stuckForever = "stuck: without a further fault nothing ever settles this"

// bad checks a state at rest.
func (w *world) bad(s *state) string {
	if w.Goal != nil && w.Goal(s) {
		return "reached"
	}
	for f := range uint8(nFirings) {
		j := &s.Jobs[w.jobOf(f)]
		if s.Locks[f].Lease != 0 && j.In[f].Token != s.Locks[f].Token && !w.Cut.NoEntry {
			return "I11 a lock without its entry in the state"
		}
		from, _ := w.span(w.jobOf(f))
		decided := f >= from && f < j.Cursor && f < manual || f == manual && s.Taken == 1
		if decided && s.Verdict[f] == none && j.In[f].Attempt == 0 && j.Owed[f] == 0 && j.Backlog != f+1 {
			return "I3 a decided firing has no verdict, no attempt and no retry"
		}
		if j.Count[f] != none && j.Count[f] != s.Verdict[f] {
			return "I14 counted otherwise than the firing ended"
		}
	}
	return ""
}

// settled: nothing is owed to anybody, and everything is counted.
func (w *world) settled(s *state) bool {
	for f := range uint8(nFirings) {
		job := w.jobOf(f)
		j, d := &s.Jobs[job], s.defOf(job)
		idleJob := d.UID == 0 || d.Gone == 1 || d.Paused == 1 || d.Elsewhere == 1
		from, to := w.span(job)
		decided := f < j.Cursor && f >= from && f < to
		owed := f < manual && (decided || f >= j.Cursor && f >= from && f < to && !idleJob) ||
			f == manual && s.Issued == 1 && (d.Elsewhere == 0 || s.Trig == 0)
		waits := d.Paused == 1 && j.Owed[f] > 0 // until the job is resumed
		if owed && !waits && (s.Verdict[f] == none || j.Count[f] != s.Verdict[f]) {
			return false
		}
		if s.Locks[f].Lease != 0 || j.In[f].Attempt > 0 || j.Owed[f] > 0 && !waits || s.Cancel[f].Member != 0 {
			return false
		}
		for m := range w.Members {
			if s.Members[m].Run[f] != [nAttempts]attempt{} {
				return false
			}
		}
	}
	return true
}

// tidy forgets what can no longer matter, so that equal futures are equal states.
func (w *world) tidy(s *state) {
	for m := range w.Members {
		p := &s.Members[m]
		if p.Mind.Fresh == 1 || p.Mind.Loaded == 0 {
			p.Mind.View = jobState{}
		}
		for o := range nOut {
			if p.Wait[o] == free {
				p.Sent[o] = request{}
			}
			w.tidyRequest(s, &p.Sent[o])
			p.Astray[o].Former = 0
			if w.tidyRequest(s, &p.Astray[o]) {
				p.Astray[o] = request{}
			}
		}
		if p.Astray[0].Kind == noRequest || p.Astray[1].Kind == noRequest {
			p.AstrayJoint = 0
		}
		for f := range p.Run {
			for a := range p.Run[f] {
				if r := &p.Run[f][a]; r.Phase != granted && !w.Owned {
					r.Lease = 0
				}
			}
		}
	}
	if s.User.Kind == noRequest {
		s.User = request{}
	}
	for f := range s.Sure {
		if s.Jobs[w.jobOf(uint8(f))].In[f].Attempt == 0 {
			s.Sure[f] = 0
		}
		if s.Verdict[f] != none || w.Cancels == 0 {
			s.Asked[f] = 0
		}
	}
}

// tidyRequest forgets what a request carries in vain. It reports whether it can no longer commit.
func (w *world) tidyRequest(s *state, r *request) (dead bool) {
	if !w.Owned {
		r.Former, r.UID = 0, 0
	}
	switch r.Kind {
	case noRequest:
		*r = request{}
		return false
	case finish:
		r.StateStale, r.JobStale, r.RulesStale, r.RunStale = 0, 0, 0, 0
		return !w.Cut.NoFinishCompare && s.Locks[r.Firing].Token != r.Token
	}
	if r.StateStale == 1 && w.comparesState(r) {
		r.Next, dead = jobState{}, true
	}
	if r.Kind != lateEnd {
		r.RunStale = 0
	}
	if !r.Kind.claims() && r.Kind != sweep {
		r.JobStale, r.RulesStale = 0, 0
		return dead
	}
	if !r.Kind.claims() {
		r.RulesStale = 0
	}
	dead = dead || r.JobStale == 1 && w.comparesJob(r)
	dead = dead || r.RulesStale == 1 && r.Kind.claims() && !w.Cut.NoRules
	return dead || r.Kind == begin && !w.Cut.NoLease && !s.leaseAlive(r.Lease)
}
