package history

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// trial is the case of one life of one job: all evidence that concerns it.
type trial struct {
	*life
	h       *History
	due     []instant
	starts  []Line            // of commands, not of their children, by boot time
	last    map[string]Line   // the last line of each nonce, children included
	ends    map[string][]Line // by firing
	shown   *Job              // as the cluster shows it at the end; nil when it does not
	runs    []Run             // as the cluster shows them
	effects []Effect
	etcd    *written // what etcd's log has of this uid; nil when it was not watched, or not wholly
	owners  *owners  // of all shards; nil when nobody knows
	found   []Finding
	// concerned are the faults, by their place in the fault line, that were asked about.
	concerned map[int]bool
	verdicts  map[time.Time][]ended // of instants, from all evidence
}

// ended is one verdict that something gives an instant.
type ended struct {
	verdict, reason string
	by              string // where it stands
	written         int    // the place in etcd's log of the state that says so first; -1 when no state does
}

// byRange is where what was not run stands.
const byRange = "a range of the job's state"

// report notes a finding of a check against the job.
func (t *trial) report(check string, at time.Time, firing, want, evidence, what string, a ...any) {
	t.found = append(t.found, Finding{
		Check: check, Job: t.job, Firing: firing, At: at, Want: want, Evidence: evidence, What: fmt.Sprintf(what, a...),
	})
}

// blameSlow notes of what was reported last that a slow etcd may have done it.
func (t *trial) blameSlow() { t.found[len(t.found)-1].Slow = true }

// settled is how long before the end of the history an instant must lie to have its verdict for sure.
const settled = 5 * time.Second

// horizon is the last moment of which all verdicts must be there.
func (h *History) horizon() time.Time {
	if !h.Taken.IsZero() {
		return h.Taken.Add(-settled)
	}
	var last time.Time
	for _, c := range h.changes() {
		last = later(last, c.Spec.End)
	}
	return last
}

// changes are all calls that write, those that Plans stand for too.
func (h *History) changes() []Change {
	all := make([]Change, 0, len(h.Plans)+len(h.Changes))
	for _, p := range h.Plans {
		all = append(all, Change{Op: Apply, Job: p.Job, Invoked: p.Applied, Returned: p.Acknowledged, Result: OK, Spec: p.spec()})
	}
	return append(all, h.Changes...)
}

// trials makes a trial of each life, in order of name and time, and says what is wrong with the calls
// themselves, and what cannot be judged.
func (h *History) trials() (trials []*trial, found []Finding, doubts []string) {
	byName := map[string][]Change{}
	for _, c := range h.changes() {
		byName[c.Job] = append(byName[c.Job], c)
	}
	var logs map[string]*written
	var owners *owners
	if h.Etcd.missing() == "" {
		logs, owners = h.Etcd.byJob(), h.Etcd.owners()
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		log := logs[name]
		if logs != nil && log == nil {
			log = &written{shard: -1}
		}
		if log != nil && len(log.unreadable) > 0 {
			log = nil // somebody spoilt its records: judge it by all else
		}
		lives, wrong, unclear := h.lives(name, byName[name], log)
		if len(h.Changes) > 0 {
			found = append(found, wrong...)
		}
		doubts = append(doubts, unclear...)
		for i, l := range lives {
			t := h.trial(l, log, i == len(lives)-1)
			t.owners = owners
			trials = append(trials, t)
		}
	}
	h.distribute(trials)
	return trials, found, doubts
}

func (h *History) trial(l *life, log *written, newest bool) *trial {
	t := &trial{life: l, h: h, last: map[string]Line{}, ends: map[string][]Line{}}
	for _, p := range h.Plans {
		if p.Job == l.job {
			l.plan = p
		}
	}
	for i := range h.Jobs {
		if j := &h.Jobs[i]; j.Name == l.job && newest && (l.uid == "" || l.uid == j.UID) {
			t.shown, l.uid = j, j.UID
		}
	}
	t.etcd = log.of(l.uid)
	if t.shown != nil && t.etcd == nil && !t.shown.Created.Before(l.created.from) && !t.shown.Created.After(l.created.to) {
		l.created = window{t.shown.Created, t.shown.Created} // it says so itself
		l.eras[0].since = l.created
	}
	t.due = l.instants(h.horizon())
	return t
}

// of is what the log has of one uid.
func (w *written) of(uid string) *written {
	if w == nil {
		return nil
	}
	of := &written{shard: w.shard}
	for _, d := range w.definitions {
		switch {
		case d.GetUid() == uid:
			of.definitions = append(of.definitions, d)
		case len(of.definitions) > 0 && of.replaced == 0:
			of.replaced = d.revision
		}
	}
	for _, k := range w.triggers { // their keys name the job alone
		if len(of.definitions) > 0 && k.revision >= of.definitions[0].revision && (of.replaced == 0 || k.revision < of.replaced) {
			of.triggers = append(of.triggers, k)
		}
	}
	for _, s := range w.states {
		if s.GetUid() == uid {
			of.states = append(of.states, s)
		}
	}
	for _, k := range w.locks {
		if strings.HasPrefix(k.firing, uid) {
			of.locks = append(of.locks, k)
		}
	}
	of.lockBy, of.recordsOf = map[int64]*lock{}, map[string][]record{}
	for i := range of.locks {
		if k := &of.locks[i]; !k.deleted && of.lockBy[k.created] == nil {
			of.lockBy[k.created] = k
		}
	}
	for _, r := range w.records {
		if r.uid == uid {
			of.records = append(of.records, r)
			firing := firingOf(uid, r.GetFiring())
			of.recordsOf[firing] = append(of.recordsOf[firing], r)
		}
	}
	return of
}

// distribute gives each trial its lines, runs and effects: by uid where the job had several lives.
func (h *History) distribute(trials []*trial) {
	byJob := map[string][]*trial{}
	for _, t := range trials {
		byJob[t.job] = append(byJob[t.job], t)
	}
	whose := func(job, firing string) *trial {
		of := byJob[job]
		for _, t := range of {
			if t.uid != "" && strings.HasPrefix(firing, t.uid) {
				return t
			}
		}
		if len(of) == 0 {
			return nil
		}
		return of[len(of)-1]
	}
	lines := slices.Clone(h.Lines)
	slices.SortStableFunc(lines, func(a, b Line) int { return cmp.Compare(a.BootNS, b.BootNS) })
	for _, l := range lines {
		t := whose(l.Job, l.Firing)
		if t == nil {
			continue
		}
		t.last[l.Nonce] = l
		switch {
		case l.Child:
		case l.Event == Start:
			t.starts = append(t.starts, l)
		case l.Event == End:
			t.ends[l.Firing] = append(t.ends[l.Firing], l)
		}
	}
	for _, r := range h.Runs {
		if t := whose(r.Job, r.Firing); t != nil {
			t.runs = append(t.runs, r)
		}
	}
	for _, e := range h.Effects {
		if t := whose(e.Job, e.Firing); t != nil {
			t.effects = append(t.effects, e)
		}
	}
	for _, t := range trials {
		t.verdicts = t.collect()
	}
}

// collect is every verdict that an instant is given anywhere: in the records and ranges that are shown,
// and in all that ever lay in etcd.
func (t *trial) collect() map[time.Time][]ended {
	all := map[time.Time][]ended{}
	give := func(at time.Time, e ended) {
		if !slices.ContainsFunc(all[at], func(o ended) bool { return o.verdict == e.verdict && o.reason == e.reason }) {
			all[at] = append(all[at], e)
		}
	}
	for _, r := range t.runs {
		if !r.Instant.IsZero() && r.Verdict != "" {
			give(r.Instant, ended{r.Verdict, r.Reason, "its record", -1})
		}
	}
	cover := func(verdict, reason string, first, last time.Time, written int) {
		i, _ := slices.BinarySearchFunc(t.due, first, func(d instant, at time.Time) int { return d.at.Compare(at) })
		for ; i < len(t.due) && !t.due[i].at.After(last); i++ {
			give(t.due[i].at, ended{verdict, reason, byRange, written})
		}
	}
	if t.etcd != nil {
		t.collectLog(give, cover)
	}
	if t.shown != nil {
		for _, g := range t.shown.Ranges {
			if g.Trigger == "" {
				cover(g.Verdict, g.Reason, g.First, g.Last, -1)
			}
		}
	}
	return all
}

// collectLog is what ever lay in etcd.
func (t *trial) collectLog(give func(time.Time, ended), cover func(verdict, reason string, first, last time.Time, written int)) {
	newest := map[int64]record{} // of attempts of one firing the last record counts
	for _, r := range t.etcd.records {
		if r.GetFiring().GetTrigger() == "" {
			newest[r.GetFiring().GetScheduled()] = r
		}
	}
	for seconds, r := range newest {
		last := r.last()
		give(time.Unix(seconds, 0).UTC(), ended{verdictOf(last.GetVerdict()), reasonOf(last.GetReason()), "its record in etcd's log", -1})
	}
	covered := map[string]time.Time{} // how far a range was followed
	for i, s := range t.etcd.states {
		for _, g := range s.GetRanges() {
			if g.GetTrigger() != "" {
				continue
			}
			verdict, reason := verdictOf(g.GetVerdict()), reasonOf(g.GetReason())
			first, last := g.GetFirst().AsTime(), g.GetLast().AsTime()
			id := shown(verdict, reason) + first.String()
			if to, ok := covered[id]; ok {
				first = to.Add(time.Nanosecond) // what it has grown by
			}
			covered[id] = last
			cover(verdict, reason, first, last, i)
		}
	}
}
