package sim

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorumcron/quorumcron/scheduler"
	"github.com/quorumcron/quorumcron/scheduler/cron"
)

// mostTries bounds how often a user's change is planned again because what it was planned on had moved.
const mostTries = 10

// change is what a user's request writes, with what it was planned on (rules 8, 9, 13).
type change struct {
	job      *job
	rec      *record // as read; nil if there was none
	defRev   int64
	stateRev int64
	by       *member
	now      scheduler.Reading // of the member that serves it

	def    *scheduler.Job   // put, if not nil; another uid starts a new record
	state  *scheduler.State // put, if not nil
	drop   []scheduler.Trigger
	add    *scheduler.Trigger
	cancel *cancelKey
	closes bool // the books
	// calendars are those that were read.
	calendars map[scheduler.CalendarName]scheduler.Calendar
	said      string
}

// request is what a user asks for: given what one read shows, the change, or why not.
type request func(c *change) (refusal string)

// ask has a member serve a request: read, plan, commit, and again if somebody was faster.
func (w *world) ask(j *job, by string, what string, plan request) {
	m := w.server(by)
	if m == nil {
		w.tell("user", "%s %s: nobody answers", what, j.name.Name)
		return
	}
	w.try(m, j, what, plan, 1)
}

// server is the member that serves a request: the one that is named, or the first that can; nil if it cannot.
func (w *world) server(by string) *member {
	m := w.member(by)
	for _, o := range w.members {
		if m == nil && o.serves() {
			m = o
		}
	}
	if m == nil || !m.serves() {
		return nil
	}
	return m
}

func (w *world) try(m *member, j *job, what string, plan request, tries int) {
	c := &change{job: j, rec: j.rec, by: m, now: m.reading(), calendars: w.etcd.rules.calendars}
	if c.rec != nil {
		c.defRev, c.stateRev = c.rec.defRev, c.rec.stateRev
	}
	if refusal := plan(c); refusal != "" {
		w.tell("user", "%s %s: %s", what, j.name.Name, refusal)
		return
	}
	w.after(w.lagOf(m, j), func() {
		switch {
		case w.etcd.down:
			w.tell("user", "%s %s: etcd does not answer", what, j.name.Name)
		case w.etcd.change(c):
			w.tell("user", "%s %s: %s", what, j.name.Name, c.said)
			w.count("edit")
		case tries == mostTries:
			w.tell("user", "%s %s: conflict, it changed %d times", what, j.name.Name, tries)
		default:
			w.try(m, j, what, plan, tries+1)
		}
	})
}

// change commits a user's change, if what it was planned on is still there. As in the program, the
// state is compared when it is written, and the definition when it, the state or a trigger is.
func (e *etcd) change(c *change) bool {
	r := c.job.rec
	if r != c.rec {
		return false
	}
	if r != nil {
		edited := c.def != nil || c.add != nil
		switch {
		case edited && r.defRev != c.defRev,
			c.state != nil && r.stateRev != c.stateRev && e.world.without != CutEditCompare,
			c.cancel != nil && (r.lock(c.cancel.firing) == nil || r.lock(c.cancel.firing).created != c.cancel.token):
			return false
		}
		for _, t := range c.drop {
			if !slices.ContainsFunc(r.triggers, func(o scheduler.Trigger) bool { return o == t }) {
				return false
			}
		}
	}
	if c.def != nil && (e.calendarsMoved(c.def, c.calendars) || r != nil && e.calendarsMoved(r.def, c.calendars)) {
		return false
	}
	e.rev++
	if c.def != nil && (r == nil || r.def.UID != c.def.UID) {
		r = &record{job: c.job}
		c.job.uids++
	}
	e.world.oracle.changed(r, c)
	if c.def != nil {
		c.def.Revision = e.rev
		r.def, r.defRev, r.table = c.def, e.rev, nil
		if !c.def.Tombstone() {
			r.table = compile(*c.def)
		}
	}
	if c.add != nil {
		c.add.Revision = e.rev
		r.triggers = append(slices.Clone(r.triggers), *c.add)
	}
	if len(c.drop) > 0 {
		r.triggers = slices.DeleteFunc(slices.Clone(r.triggers), func(t scheduler.Trigger) bool { return slices.Contains(c.drop, t) })
	}
	if c.state != nil {
		e.putState(r, c.state)
	}
	c.job.rec = r
	if c.cancel != nil {
		e.putCancel(*c.cancel)
	} else {
		e.changed(r)
	}
	return true
}

func (e *etcd) putCancel(key cancelKey) {
	e.dropCancel(key.member, key.firing)
	e.cancels = append(e.cancels, key)
	if m := e.world.member(key.member); m != nil {
		m.hear(key.rec.job, func() { m.takeCancel(key) })
	}
}

// compile makes the timetable of a definition that was checked when the script was read.
func compile(j scheduler.Job) *cron.Timetable {
	table, err := cron.Compile(j.Schedule.Spec())
	if err != nil {
		panic(fmt.Sprintf("the schedule of %s is refused: %v", j.Name, err))
	}
	return table
}

// apply makes a definition hold.
func (w *world) apply(want scheduler.Job, by string) {
	j := w.named(want.Name.Name)
	w.ask(j, by, "apply", func(c *change) string {
		now := c.now.Wall
		r := c.rec
		for _, name := range want.Schedule.Exclude {
			if _, there := c.calendars[calendarNamed(name)]; !there {
				return "refused, there is no calendar " + name
			}
		}
		if r == nil || r.def.Tombstone() {
			if r != nil && len(r.filled.Entries)+len(r.filled.Retries) > 0 {
				return "conflict, an attempt still runs on " + r.filled.Entries[0].Member
			}
			def := want.Anchored(scheduler.Job{}, now)
			def.UID, def.Generation, def.Created, def.Edited = j.uid(), 1, now, now
			state := scheduler.NewState(def, c.instant())
			c.def, c.state, c.said = &def, &state, "created"
			if r != nil {
				c.said = "created as " + def.UID
			}
			return ""
		}
		def := want.Anchored(*r.def, now)
		if def.SameDefinition(*r.def) {
			return "unchanged"
		}
		def.UID, def.Generation, def.Created, def.Edited = r.def.UID, r.def.Generation+1, r.def.Created, now
		c.define(def, scheduler.ReasonEdited)
		return ""
	})
}

// uid is the uid that the next creation of the name gets: the name, so that scripts can be read.
func (j *job) uid() string {
	if j.uids == 0 {
		return j.name.Name
	}
	return fmt.Sprintf("%s.%d", j.name.Name, j.uids+1)
}

// define puts a changed definition, and closes the books of the old one if the change asks for it.
func (c *change) define(def scheduler.Job, reason scheduler.Reason) {
	old := c.rec
	c.def = &def
	c.said = fmt.Sprintf("generation %d", def.Generation)
	if !scheduler.ClosesBooks(*old.def, def) || c.by.world.without == CutBooks && !def.Tombstone() {
		return
	}
	if def.Paused && !old.def.Paused {
		reason = scheduler.ReasonPaused
	}
	c.closes = true
	view := c.view()
	if reason == scheduler.ReasonDeleted {
		view.State = c.rec.settled() // so that a settled name can be applied again at once
	}
	state := scheduler.CloseBooks(view, c.now, reason)
	if c.by.world.without == CutFill {
		state.Entries = old.state.Entries
	}
	c.state = &state
	if skipped := skips(state) - skips(*old.filled); skipped > 0 {
		if old.def.Paused {
			reason = scheduler.ReasonPaused
		}
		c.said += fmt.Sprintf(", %d SKIPPED(%s)", skipped, reason)
	}
}

func (c *change) view() scheduler.View {
	r := c.rec
	return scheduler.View{
		Job: *r.def, Timetable: r.table, Excluded: excluded(r.def, c.calendars), State: *r.filled, StateRevision: r.stateRev,
		Triggers: r.triggers, NotBeyond: c.by.beyond(c.now),
	}
}

// instant is the latest that a cursor may be moved to by this change.
func (c *change) instant() time.Time {
	if beyond := c.by.beyond(c.now); beyond.Before(c.now.Wall) {
		return beyond
	}
	return c.now.Wall
}

func skips(s scheduler.State) (n int64) {
	for _, c := range s.Counters {
		if c.Verdict == scheduler.Skipped {
			n += c.Count
		}
	}
	return n
}

// usable says why nothing can be asked of a job: it is not there.
func (c *change) usable() string {
	switch {
	case c.rec == nil:
		return "not found"
	case c.rec.def.Tombstone():
		return "not found, it was deleted"
	}
	return ""
}

func (w *world) pause(j *job, by string, paused bool) {
	w.ask(j, by, map[bool]string{true: "pause", false: "resume"}[paused], func(c *change) string {
		if no := c.usable(); no != "" {
			return no
		}
		if c.rec.def.Paused == paused {
			return "unchanged"
		}
		def := *c.rec.def
		def.Paused, def.Generation, def.Edited = paused, def.Generation+1, c.now.Wall
		c.define(def, scheduler.ReasonPaused)
		return ""
	})
}

func (w *world) remove(j *job, by string) {
	w.ask(j, by, "delete", func(c *change) string {
		if no := c.usable(); no != "" {
			return no
		}
		def := *c.rec.def
		def.Deleted, def.Generation = c.now.Wall, def.Generation+1
		c.define(def, scheduler.ReasonDeleted)
		if w.without == CutDeleteState {
			none := scheduler.NewState(def, c.instant())
			c.state = &none
		}
		c.drop = c.rec.triggers
		if n := len(c.state.Entries); n > 0 {
			c.said += fmt.Sprintf(", %d still in flight", n)
		}
		return ""
	})
}

func (w *world) trigger(j *job, by string) {
	w.etcd.drawn++
	id := fmt.Sprint("t", w.etcd.drawn)
	w.count("trigger")
	w.ask(j, by, "trigger", func(c *change) string {
		if no := c.usable(); no != "" {
			return no
		}
		if c.rec.def.Paused {
			return "refused, it is paused"
		}
		c.add = &scheduler.Trigger{ID: id, Requested: c.now.Wall}
		c.said = w.trace.short(scheduler.Triggered(c.rec.def.UID, id))
		return ""
	})
}

// cancel ends what is going on of a job: the attempt in flight, else the owed retry, else the oldest
// trigger that waits (rule 13).
func (w *world) cancel(j *job, by string) {
	w.ask(j, by, "cancel", func(c *change) string {
		if c.rec == nil {
			return "not found"
		}
		s := c.rec.filled
		ended := ""
		if len(s.Entries) > 0 {
			said, over := c.cancelRunning(s.Entries[0])
			if !over {
				return said
			}
			ended = said
		}
		if len(s.Retries) > 0 {
			state, _ := scheduler.CancelRetry(*s, s.Retries[0].Firing)
			c.state, c.said = &state, w.trace.short(s.Retries[0].Firing)+" gets no further attempt"
			return ""
		}
		if len(c.rec.triggers) > 0 {
			t := c.rec.triggers[0]
			state := scheduler.CancelTrigger(*s, t)
			c.state, c.drop = &state, []scheduler.Trigger{t}
			c.said = w.trace.short(scheduler.Triggered(s.UID, t.ID)) + " is SKIPPED(canceled)"
			return ""
		}
		return cmp.Or(ended, "nothing to cancel")
	})
}

// cancelRunning says why nothing is cancelled, and whether that is because the attempt has ended.
func (c *change) cancelRunning(x scheduler.Entry) (said string, ended bool) {
	f := c.rec.fact(x)
	short := c.by.world.trace.short(x.Firing)
	switch {
	case f.record != nil:
		state, owed := scheduler.CancelEnded(*c.rec.filled, *c.rec.def, *f.record)
		if !owed {
			return short + " has ended", true
		}
		c.state, c.said = &state, short+" gets no further attempt"
		return "", false
	case f.lock == 0:
		return short + " has lost its lock, it ends by itself", false
	}
	c.cancel = &cancelKey{member: x.Member, rec: c.rec, firing: x.Firing, token: f.lock}
	c.said = fmt.Sprintf("%s is told to end %s", x.Member, short)
	return "", false
}

// summary is a job's books in one line.
func (w *world) summary(j *job) string {
	r := j.rec
	if r == nil {
		return "is gone"
	}
	var parts []string
	switch {
	case r.def.Tombstone():
		parts = append(parts, "deleted")
	case r.def.Paused:
		parts = append(parts, "paused")
	}
	parts = append(parts, "cursor "+w.trace.clock(r.filled.Cursor))
	if b := r.filled.Backlog; b != nil {
		parts = append(parts, "backlog "+w.trace.clock(b.Last))
	}
	s := r.settled()
	for _, x := range s.Entries {
		parts = append(parts, fmt.Sprintf("%s #%d in flight on %s", w.trace.short(x.Firing), x.Attempt, x.Member))
	}
	for _, x := range s.Retries {
		parts = append(parts, fmt.Sprintf("%s #%d owed", w.trace.short(x.Firing), x.Attempt))
	}
	for _, t := range r.triggers {
		parts = append(parts, "trigger "+t.ID+" waits")
	}
	for _, c := range s.Counters {
		parts = append(parts, fmt.Sprintf("%d %s", c.Count, outcomeText(c.Verdict, c.Reason)))
	}
	return strings.Join(parts, ", ")
}
