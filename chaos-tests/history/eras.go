package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A job's life is from the apply that made it to its deletion: one uid. Its eras are the times in
// which one definition was in force.

// window is a moment that is known to lie between two; both are the same when it is known exactly.
type window struct{ from, to time.Time }

// era is a time in which a job had one schedule, and was paused or not.
type era struct {
	spec     Spec
	paused   bool
	since    window // instants after it are this era's
	until    window // and those up to here
	ended    string // the operation that ended it; "" while it goes on
	revision int64  // of the definition, when etcd's log has it
}

// life is one uid of a job, and what was asked of it.
type life struct {
	job, uid string
	eras     []era
	created  window
	deleted  *window // when, if ever
	triggers []Change
	cancels  []Change
	plan     Plan // of a job that never changes: its own counts
}

// call is a change with what etcd's log says of it.
type call struct {
	Change
	found *definition
	at    window
}

// lives cuts the changes of one job into lives. What cannot be told apart is a doubt.
func (h *History) lives(job string, changes []Change, log *written) (lives []*life, found []Finding, doubts []string) {
	calls, found, doubts := h.calls(job, changes, log)
	var now *life
	for _, c := range calls {
		switch {
		case c.Op == Apply && (now == nil || now.deleted != nil):
			now = &life{job: job, created: c.at}
			if now.uid = c.UID; c.found != nil {
				now.uid = c.found.GetUid()
			}
			now.eras = []era{{spec: c.Spec, since: c.at, revision: c.revision()}}
			lives = append(lives, now)
		case now == nil:
			doubts = append(doubts, fmt.Sprintf("%s: %s before it was ever applied", job, c.Op))
		case c.Op == Delete:
			now.end(c)
			now.deleted = &c.at
		default:
			now.change(c)
		}
	}
	for _, c := range changes {
		l := whose(lives, c)
		switch {
		case c.Result == Failed || l == nil:
		case c.Op == Trigger:
			l.triggers = append(l.triggers, c)
		case c.Op == Cancel:
			l.cancels = append(l.cancels, c)
		}
	}
	return lives, found, doubts
}

// whose is the life that a trigger or cancel was for: by the uid in its firing, or by its time.
func whose(lives []*life, c Change) *life {
	var of *life
	for _, l := range lives {
		if l.uid != "" && strings.HasPrefix(c.Firing, l.uid) {
			return l
		}
		if of == nil || !l.created.from.After(c.Returned) {
			of = l
		}
	}
	return of
}

func (c call) revision() int64 {
	if c.found == nil {
		return c.Revision
	}
	return c.found.revision
}

// end closes the newest era.
func (l *life) end(c call) {
	last := &l.eras[len(l.eras)-1]
	last.until, last.ended = c.at, c.Op
}

// change begins a new era, unless the schedule stays what it was.
func (l *life) change(c call) {
	last := l.eras[len(l.eras)-1]
	next := era{spec: last.spec, paused: last.paused, since: c.at, revision: c.revision()}
	switch c.Op {
	case Apply:
		next.spec, next.paused = c.Spec, false
	case Pause:
		next.paused = true
	case Resume:
		next.paused = false
	}
	if next.paused == last.paused && next.spec.sameSchedule(last.spec) {
		l.eras[len(l.eras)-1].spec = next.spec // the cursor stays where it is
		return
	}
	l.end(c)
	l.eras = append(l.eras, next)
}

// calls are the changes that took effect, each with the moment from which it did. With etcd's log that
// moment is the cursor which the change wrote; without, it lies between call and reply.
func (h *History) calls(job string, changes []Change, log *written) (calls []call, found []Finding, doubts []string) {
	off := h.clocksOff()
	used := map[int]bool{} // definitions that a change has been found for
	place := func(c Change) {
		k := call{Change: c, at: window{c.Invoked, c.Returned}}
		if log != nil {
			i := log.find(c, used, off)
			if i < 0 {
				return
			}
			used[i] = true
			k.found = &log.definitions[i]
			k.at = log.moment(k.found)
		}
		calls = append(calls, k)
	}
	edits := slices.DeleteFunc(slices.Clone(changes), func(c Change) bool { return c.Result == Failed || c.Op == Trigger || c.Op == Cancel })
	// Those that are known take their place first, and before all those whose reply names what they wrote:
	// one that wrote nothing must not take the place of a later one.
	for _, named := range []bool{true, false} {
		for _, c := range edits {
			if c.Result == OK && (c.Revision != 0) == named {
				place(c)
			}
		}
	}
	for _, c := range edits {
		switch {
		case c.Result != Unknown:
		case log == nil:
			doubts = append(doubts, fmt.Sprintf("%s: nobody knows what became of %s at %s, and etcd was not watched", job, c.Op, clock(c.Invoked)))
		default:
			place(c)
		}
	}
	if log == nil {
		return calls, nil, doubts
	}
	slices.SortFunc(calls, func(a, b call) int { return cmp.Compare(a.found.revision, b.found.revision) })
	for _, c := range edits {
		if c.Result == OK && !done(calls, c) {
			found = append(found, Finding{Check: "C14", Job: job, At: c.Returned,
				What: fmt.Sprintf("the reply to %s said that it was done, and etcd was never told", c.Op),
				Want: "a reply comes after the commit", Evidence: "etcd's log has no such definition"})
		}
	}
	for i, d := range log.definitions {
		if !used[i] {
			found = append(found, Finding{Check: "C14", Job: job, At: d.at,
				What: fmt.Sprintf("generation %d was written at revision %d, and nobody asked for it", d.GetGeneration(), d.revision),
				Want: "each definition has the call that asked for it", Evidence: "etcd's log against the calls"})
		}
	}
	return calls, found, doubts
}

// find is the first definition that can be what a change wrote, and that no other change has; -1 when it
// wrote none. The definition says itself when it was made, by the clock of a member that may be so much off.
func (w *written) find(c Change, used map[int]bool, off time.Duration) int {
	for i, d := range w.definitions {
		switch made := d.made(); {
		case used[i] || d.at.Before(c.Invoked) || made.Before(c.Invoked.Add(-off)):
			continue
		case c.Revision != 0 && c.Revision != d.revision:
			continue
		case c.Result == OK && c.Revision == 0 && made.After(c.Returned.Add(off)):
			continue
		}
		paused := i > 0 && w.definitions[i-1].GetPaused() && w.definitions[i-1].GetUid() == d.GetUid()
		var fits bool
		switch c.Op {
		case Delete:
			fits = d.deleted()
		case Pause:
			fits = d.GetPaused() && !paused
		case Resume:
			fits = !d.GetPaused() && paused && !d.deleted()
		case Apply:
			fits = !d.GetPaused() && !d.deleted() && d.version() == c.Spec.Version
		}
		if fits {
			return i
		}
	}
	return -1
}

// moment is the cursor that was written with a definition: later instants are decided under it. A
// change that leaves the cursor alone has the moment at which it was made, by its member's clock.
func (w *written) moment(d *definition) window {
	at := d.made()
	for _, s := range w.states {
		if s.revision == d.revision && s.GetUid() == d.GetUid() {
			at = s.GetCursor().AsTime()
		}
	}
	return window{at, at}
}

// clocksOff is how far from the truth the clock of a member may have been.
func (h *History) clocksOff() time.Duration {
	off := 100 * time.Millisecond // one machine: what is left is rounding
	for _, f := range h.Faults {
		off = max(off, f.Skew.Abs()+100*time.Millisecond)
	}
	return off
}

// done says whether a change is among those that were written, or asked for what was so at some moment
// between its call and its reply: then it writes nothing.
func done(calls []call, c Change) bool {
	var spec *Spec
	paused := false
	asked := func() bool {
		switch c.Op {
		case Apply:
			return spec != nil && !paused && spec.Version == c.Spec.Version
		case Pause:
			return spec != nil && paused
		case Resume:
			return spec != nil && !paused
		}
		return spec == nil // deleted already
	}
	for i, b := range calls {
		if b.Op == c.Op && b.Invoked.Equal(c.Invoked) {
			return true
		}
		switch b.Op {
		case Apply:
			spec, paused = &b.Spec, false
		case Pause:
			paused = true
		case Resume:
			paused = false
		case Delete:
			spec = nil
		}
		replaced := i+1 < len(calls) && calls[i+1].Result == OK && calls[i+1].Returned.Before(c.Invoked)
		if !b.Invoked.After(c.Returned) && !replaced && asked() {
			return true
		}
	}
	return false
}

// Classes of instants.
const (
	required = iota // it must have a verdict
	optional        // it may have one: it lies where a change was on its way, or too near the end
	halted          // the job was paused: it must not run
)

// instant is one instant of a job.
type instant struct {
	at    time.Time
	class int
	era   int
}

// instants are all of a life, oldest first. What is due after horizon may still be undecided.
func (l *life) instants(horizon time.Time) []instant {
	var all []instant
	seen := map[time.Time]int{}
	for i, e := range l.eras {
		until := e.until.to
		if e.ended == "" {
			until = later(e.spec.End, horizon.Add(time.Minute))
			if !e.spec.End.IsZero() {
				until = e.spec.End
			}
		}
		for _, at := range e.spec.due(e.since.from, until.Add(time.Nanosecond)) {
			class := required
			switch {
			case !at.After(e.since.to) && e.since.from != e.since.to, e.ended != "" && at.After(e.until.from), at.After(horizon):
				class = optional
			case e.paused:
				class = halted
			}
			if j, ok := seen[at]; ok {
				if all[j].class != class {
					all[j].class = optional
				}
				continue
			}
			seen[at] = len(all)
			all = append(all, instant{at, class, i})
		}
	}
	slices.SortFunc(all, func(a, b instant) int { return a.at.Compare(b.at) })
	return all
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
