package history

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// answers is C14. A call that was answered "done" is in etcd, and what is there was asked for (see
// calls); a read at any node shows a definition that was in force between its call and its reply, and no
// later read an older one. The order of the definitions is known, by revision: so no search is needed.
// Guarantee: G8. Evidence: the calls and reads with their times, against the definitions in etcd's log.
func (t *trial) answers(*Judgement) int {
	looked := 0
	if t.etcd != nil && len(t.h.Changes) > 0 {
		looked = len(t.etcd.definitions)
		for _, c := range t.triggers {
			looked++
			if c.Result == OK && !t.stored(c.Firing) {
				t.report("C14", c.Returned, c.Firing, "a reply after the commit", "etcd's log has no such trigger", "the reply said that %s will run, and etcd was never told", c.Firing)
			}
		}
	}
	reads := slices.Clone(t.h.Reads)
	slices.SortStableFunc(reads, func(a, b Read) int { return a.Returned.Compare(b.Returned) })
	for i, r := range reads {
		if r.Job != t.job || r.Result != OK || r.Found && r.UID != t.uid {
			continue
		}
		looked++
		if !r.Found {
			if t.created.to.Before(r.Invoked) && t.acknowledged().Before(r.Invoked) && t.stillThere(r.Returned) {
				t.report("C14", r.Returned, "", "a job that is there", "the calls", "%s did not know the job, which had been applied and not deleted", r.Node)
			}
			continue
		}
		t.inForce(r)
		for _, earlier := range reads[:i] {
			if earlier.Job == t.job && earlier.Found && earlier.UID == r.UID && earlier.Returned.Before(r.Invoked) && earlier.Generation > r.Generation {
				t.report("C14", r.Returned, "", "no step back", "an earlier read", "%s showed generation %d at %s, and %s generation %d at %s",
					earlier.Node, earlier.Generation, clock(earlier.Returned), r.Node, r.Generation, clock(r.Returned))
				break
			}
		}
	}
	return looked
}

// acknowledged is when the reply to the job's first apply had come.
func (t *trial) acknowledged() time.Time {
	for _, c := range t.h.changes() {
		if c.Job == t.job && c.Op == Apply && !c.Returned.Before(t.created.from) {
			return c.Returned
		}
	}
	return t.created.to
}

// stillThere says whether nobody had begun to delete the job by a moment.
func (t *trial) stillThere(at time.Time) bool {
	return !slices.ContainsFunc(t.h.changes(), func(c Change) bool {
		return c.Job == t.job && c.Op == Delete && c.Result != Failed && c.Invoked.Before(at) && !c.Returned.Before(t.created.from)
	})
}

// stored says whether etcd ever held the trigger of a firing.
func (t *trial) stored(firing string) bool {
	id := strings.TrimPrefix(firing, t.uid+"+")
	return slices.ContainsFunc(t.etcd.triggers, func(k trigger) bool { return k.id == id })
}

// inForce holds a read against the definitions of its job.
func (t *trial) inForce(r Read) {
	if t.etcd == nil {
		return
	}
	for i, d := range t.etcd.definitions {
		if d.GetGeneration() != r.Generation || d.deleted() {
			continue
		}
		if d.GetPaused() != r.Paused {
			t.report("C14", r.Returned, "", "the definition as it is", "etcd's log", "%s showed generation %d with paused %t", r.Node, r.Generation, r.Paused)
		}
		if i+1 < len(t.etcd.definitions) {
			if next := t.etcd.definitions[i+1]; t.committed(next).Before(r.Invoked) {
				t.report("C14", r.Returned, "", "what was in force after "+clock(r.Invoked), "etcd's log", "%s showed generation %d, and generation %d had been committed by %s",
					r.Node, r.Generation, next.GetGeneration(), clock(t.committed(next)))
			}
		}
		return
	}
	t.report("C14", r.Returned, "", "a definition that was written", "etcd's log", "%s showed generation %d, which etcd never had", r.Node, r.Generation)
}

// committed is when a definition was surely committed: it had been seen, or its call had been answered.
func (t *trial) committed(d definition) time.Time {
	at := d.at
	for _, c := range t.h.Changes {
		if c.Job == t.job && c.Result == OK && c.Revision == d.revision && c.Returned.Before(at) {
			at = c.Returned
		}
	}
	return at
}

// previews is C18. The next instants that a node shows are those that the oracle has, from the moment of
// the answer by its clock on, without a hole.
// Guarantee: G5. Evidence: previews, against the oracle under the definition in force.
func (t *trial) previews(*Judgement) int {
	const before, after = 2 * time.Second, time.Second // the answer was made between these, about the moment noted
	looked := 0
	for _, p := range t.h.Previews {
		if p.Job != t.job {
			continue
		}
		era := t.eraAt(p.At, before)
		if era == nil || era.paused {
			continue
		}
		looked++
		until := p.At.Add(time.Minute)
		if n := len(p.Next); n > 0 {
			until = later(until, p.Next[n-1])
		}
		behind, ahead := t.h.skewOf(p.Node, p.At)
		all := era.spec.due(p.At.Add(behind-before), until.Add(time.Nanosecond))
		first := slices.IndexFunc(all, func(at time.Time) bool { return at.After(p.At.Add(ahead + after)) })
		if len(p.Next) > 0 {
			from := slices.IndexFunc(all, func(at time.Time) bool { return at.Equal(p.Next[0]) })
			if from >= 0 && (first < 0 || from <= first) {
				first = from
			}
		}
		var want []time.Time
		if first >= 0 {
			want = all[first:]
		}
		if n := len(p.Next); n > 0 && n < len(want) {
			want = want[:n]
		}
		if !slices.EqualFunc(want, p.Next, time.Time.Equal) {
			t.report("C18", p.At, "", instantsOf(want), "what "+p.Node+" showed, and the oracle", "%s showed as next %s", p.Node, instantsOf(p.Next))
		}
	}
	return looked
}

// skewOf is how far behind the truth, and ahead of it, a node's clock may have been.
func (h *History) skewOf(node string, at time.Time) (behind, ahead time.Duration) {
	for _, f := range h.Faults {
		if f.on(node) && f.lasted(at) {
			behind, ahead = min(behind, f.Skew), max(ahead, f.Skew)
		}
	}
	return behind, ahead
}

// eraAt is the era that was surely in force at a moment, and for so long before; nil when none was.
func (t *trial) eraAt(at time.Time, before time.Duration) *era {
	for i := range t.eras {
		e := &t.eras[i]
		if e.since.to.Before(at.Add(-before)) && (e.ended == "" || e.until.from.After(at)) {
			return e
		}
	}
	return nil
}

func instantsOf(all []time.Time) string {
	const most = 5
	var texts []string
	for i, at := range all {
		if i == most {
			texts = append(texts, "…")
			break
		}
		texts = append(texts, at.UTC().Format(time.RFC3339))
	}
	if len(texts) == 0 {
		return "no instants"
	}
	return strings.Join(texts, " ")
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
