package main

import "fmt"

// world is one small world: who lives in it, what may happen how often, and what is taken away.
type world struct {
	Members, Instants int
	TwoJobs           bool // instant 2 is another job's
	Owned             bool // one owner with a mind; else every member plans, from any earlier view
	Manual            bool // a trigger is asked for
	Repeats           uint8
	Retry             bool // onLost: retry, two attempts
	AllowAll          bool // no overlap policy (its slots and claims are built, the policy is not yet)
	CatchUp           bool // instants may be found late: catchUp latest
	Deadline          bool // start deadlines may pass
	Unborn            bool // the job does not exist at first
	Elsewhere         bool // its pool has no member at first
	Limit             int  // history.limit
	Out               int  // requests that one member may have unanswered; 0 is 1
	Groups            bool // they may travel in one group
	Changes           []change

	Crashes, Ends, Ambiguous, Edits, Freezes, Moves, Panics, Cancels uint8

	StartOrder bool              // ask also that the starts of a firing come in the order of tokens
	Goal       func(*state) bool // no invariant: a state that must be reached
	Only       string            // look at violations with this prefix alone
	Cut        rules

	tracing bool // make labels
}

func (w *world) out() int { return max(w.Out, 1) }

// slots is the size of a job's ring.
func (w *world) slots() uint8 {
	if w.Cut.SharedSlots || w.Cut.SharedRetry {
		return uint8(w.Limit)
	}
	return uint8(min(w.Limit+1, nSlots)) // fewer than are built: "none is free" is tried too
}

func (w *world) jobs() int {
	if w.TwoJobs {
		return 2
	}
	return 1
}

// jobOf is the job of a firing.
func (w *world) jobOf(f uint8) uint8 {
	if w.TwoJobs && f == 1 {
		return 1
	}
	return 0
}

// span is the instants of a job: from, and up to but not including, to.
func (w *world) span(job uint8) (from, to uint8) {
	switch {
	case !w.TwoJobs:
		return 0, uint8(w.Instants)
	case job == 0:
		return 0, 1
	}
	return 1, 2
}

// due is the first instant of the job that is not due yet; lateOf the first that is still on time.
func (w *world) due(s *state, job uint8) uint8 {
	_, to := w.span(job)
	return min(s.Now, to)
}

func (w *world) lateOf(s *state, job uint8) uint8 {
	from, to := w.span(job)
	return max(from, min(s.Late, to))
}

// defOf is the definition of a job in etcd.
func (s *state) defOf(job uint8) definition {
	if job == 0 {
		return s.Def
	}
	return definition{UID: 1}
}

func (w *world) initial() state {
	var s state
	for m := range w.Members {
		p := &s.Members[m]
		p.Up, p.Alive, p.Mine = 1, 1, 1
	}
	if !w.Unborn {
		s.Def.UID = 1
	}
	if w.Elsewhere {
		s.Def.Elsewhere = 1
	}
	if w.TwoJobs {
		s.Jobs[1].Cursor = 1
	}
	s.Now = uint8(min(w.Instants, 1))
	s.Crashes, s.Ends, s.Ambiguous, s.Edits = w.Crashes, w.Ends, w.Ambiguous, w.Edits
	s.Freezes, s.Moves, s.Panics, s.Cancels = w.Freezes, w.Moves, w.Panics, w.Cancels
	if w.Manual {
		s.Triggers = 1 + w.Repeats
	}
	if w.Owned {
		s.Owner, s.Named = 1, 1
		w.load(&s, 0)
	}
	return s
}

// may says whether users make this change in this world.
func (w *world) may(c change) bool {
	for _, x := range w.Changes {
		if x == c {
			return true
		}
	}
	return false
}

// say makes a label, if a trace is printed.
func (w *world) say(format string, args ...any) string {
	if !w.tracing {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

// firing is the name of a firing in a trace.
func (w *world) firing(f uint8) string {
	switch {
	case f == manual:
		return "the triggered firing"
	case w.TwoJobs:
		return "the instant of job " + string(rune('A'+f))
	}
	return fmt.Sprintf("instant %d", f+1)
}

// emit takes a next state: whether a fault led there, in which words, and what it violates.
type emit func(next state, fault bool, label, violation string)

// steps are everything that can happen next.
func (w *world) steps(s *state, out emit) {
	w.userSteps(s, out)
	w.timeSteps(s, out)
	w.dispatcherSteps(s, out)
	for m := range w.Members {
		w.leaseSteps(s, m, out)
		w.processSteps(s, m, out)
		w.wireSteps(s, m, out)
		if s.Members[m].Up == 0 {
			continue
		}
		w.runSteps(s, m, out)
		w.cancelSteps(s, m, out)
		w.orphanSteps(s, m, out)
		if w.Owned {
			w.mindSteps(s, m, out)
			w.mindPlans(s, m, out)
			continue
		}
		w.planSteps(s, m, out)
	}
}

// timeSteps: instants become due, and late; deadlines pass; an attempt whose lock is gone becomes
// surely dead, which its own deadlines come before unless it is frozen.
func (w *world) timeSteps(s *state, out emit) {
	if int(s.Now) < w.Instants {
		n := *s
		n.Now++
		out(n, false, w.say("%s becomes due", w.firing(s.Now)), "")
	}
	if w.CatchUp && s.Late < s.Now {
		n := *s
		n.Late++
		out(n, false, w.say("%s is no longer on time", w.firing(s.Late)), "")
	}
	if w.Deadline && s.Past == 0 {
		n := *s
		n.Past = 1
		out(n, false, w.say("the start deadline passes"), "")
	}
	for f := range uint8(nFirings) {
		w.holdStep(s, f, out)
	}
}

func (w *world) holdStep(s *state, f uint8, out emit) {
	e := s.Jobs[w.jobOf(f)].In[f]
	if e.Attempt == 0 || s.Locks[f].Lease != 0 || s.Sure[f] == 1 {
		return
	}
	lives := false
	for m := range w.Members {
		a := s.Members[m].Run[f][e.Attempt-1]
		lives = lives || a.Token == e.Token && (a.Phase == granted || a.Phase == running)
	}
	if lives && s.Freezes == 0 && !w.Cut.NoKill {
		return
	}
	n := *s
	n.Sure[f] = 1
	if lives && !w.Cut.NoKill {
		n.Freezes--
		n.Frozen = 1
		out(n, true, w.say("the hold of %s passes while its process or node is frozen", w.firing(f)), "")
		return
	}
	out(n, false, w.say("the hold of %s passes", w.firing(f)), "")
}
