package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// mostLines bounds a timeline: one page.
const mostLines = 60

// moment is one line of a timeline.
type moment struct {
	at     time.Time
	what   string
	text   string
	firing string
}

// Timeline is one page about the smallest failing job: what was expected, what speaks against it, and
// what happened around it, in times relative to the finding. It is empty when nothing was found.
func (h History) Timeline(j Judgement) string {
	f, t := j.smallest()
	if f == nil {
		return ""
	}
	var b strings.Builder
	guarantee := ""
	for _, c := range Checks() {
		if c.ID == f.Check {
			guarantee = c.Guarantee
		}
	}
	fmt.Fprintf(&b, "%s\n", f)
	fmt.Fprintf(&b, "  expected:   %s\n", f.Want)
	fmt.Fprintf(&b, "  against it: %s\n", f.Evidence)
	fmt.Fprintf(&b, "  guarantee:  %s (docs/guarantees.md)\n", guarantee)
	fmt.Fprintf(&b, "  besides:    %s\n", j.besides(f))
	if f.At.IsZero() {
		return b.String()
	}
	fmt.Fprintf(&b, "\n  0 is %s UTC; * marks what the finding is about\n", clock(f.At.UTC()))
	all := h.faultMoments()
	if t != nil {
		all = append(all, t.moments()...)
	} else {
		all = append(all, h.statusMoments()...)
	}
	slices.SortStableFunc(all, func(a, b moment) int { return a.at.Compare(b.at) })
	around := nearest(all, f.At, mostLines-strings.Count(b.String(), "\n")-2)
	for _, m := range around {
		mark := " "
		if f.Firing != "" && m.firing == f.Firing {
			mark = "*"
		}
		fmt.Fprintf(&b, "%s %+10.3f  %-8s %s\n", mark, m.at.Sub(f.At).Seconds(), m.what, m.text)
	}
	if left := len(all) - len(around); left > 0 {
		fmt.Fprintf(&b, "  (%d more, further away)\n", left)
	}
	return b.String()
}

// smallest is the first finding of the job about which the least has to be read; those of the cluster
// come last.
func (j *Judgement) smallest() (*Finding, *trial) {
	size := func(f *Finding) (int, *trial) {
		const cluster = 1 << 30
		for _, t := range j.trials {
			if t.job == f.Job && (t.uid == "" || f.Firing == "" || strings.HasPrefix(f.Firing, t.uid)) {
				return len(t.starts) + len(t.due), t
			}
		}
		if f.Job != "" {
			return cluster - 1, nil
		}
		return cluster, nil
	}
	var best *Finding
	var of *trial
	least := 0
	for i := range j.Findings {
		f := &j.Findings[i]
		if n, t := size(f); best == nil || n < least {
			best, of, least = f, t, n
		}
	}
	return best, of
}

func (j *Judgement) besides(f *Finding) string {
	same, others := 0, 0
	for i := range j.Findings {
		switch o := &j.Findings[i]; {
		case o == f:
		case o.Job == f.Job:
			same++
		default:
			others++
		}
	}
	return fmt.Sprintf("%d more findings about this, %d about others", same, others)
}

// nearest are the lines closest to a moment, in order.
func nearest(all []moment, at time.Time, most int) []moment {
	if len(all) <= most {
		return all
	}
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(all[a].at.Sub(at).Abs(), all[b].at.Sub(at).Abs())
	})
	order = order[:most]
	slices.Sort(order)
	near := make([]moment, 0, most)
	for _, i := range order {
		near = append(near, all[i])
	}
	return near
}

// faultMoments are the beginnings and ends of all faults.
func (h *History) faultMoments() []moment {
	var all []moment
	for _, f := range h.Faults {
		all = append(all, moment{at: f.From, what: "FAULT", text: f.String() + ": " + cmp.Or(f.Proof, "no proof that it took hold")})
		if !f.To.IsZero() {
			all = append(all, moment{at: f.To, what: "healed", text: f.String()})
		}
	}
	return all
}

// statusMoments are the changes in what nodes said of the cluster.
func (h *History) statusMoments() []moment {
	var all []moment
	said := map[string]string{}
	for _, s := range h.Statuses {
		text := fmt.Sprintf("dispatcher %q, %d shards owned, %d members, %d unaccounted", s.Dispatcher, s.ShardsOwned, len(s.Members), s.Unaccounted)
		if said[s.Node] != text {
			all = append(all, moment{at: s.At, what: "status", text: s.Node + " says: " + text})
		}
		said[s.Node] = text
	}
	for _, s := range h.Samples {
		text := "ready"
		if !s.Ready {
			text = "not ready: " + s.Readyz
		}
		if said["readyz "+s.Node] != text {
			all = append(all, moment{at: s.At, what: "readyz", text: s.Node + " is " + text})
		}
		said["readyz "+s.Node] = text
	}
	return all
}

// moments are all that happened to the job: instants, calls, grants, starts, ends and records.
func (t *trial) moments() []moment {
	var all []moment
	add := func(at time.Time, what, firing, text string, a ...any) {
		all = append(all, moment{at, what, fmt.Sprintf(text, a...), firing})
	}
	class := map[int]string{required: "", optional: " (a change was on its way)", halted: " (paused)"}
	for _, d := range t.due {
		add(d.at, "due", t.firing(d.at), "%s%s", t.name(t.firing(d.at)), class[d.class])
	}
	for _, c := range t.h.changes() {
		if c.Job == t.job {
			add(c.Invoked, c.Op, c.Firing, "called, %s after %s", c.Result, c.Returned.Sub(c.Invoked).Round(time.Millisecond))
		}
	}
	for _, s := range t.starts {
		add(s.Wall(), "start", s.Firing, "%s attempt %s on %s, token %s, nonce %s", t.name(s.Firing), s.Attempt, s.Node, s.Token, s.Nonce)
		switch l := t.last[s.Nonce]; {
		case l.Event == End:
			add(l.Wall(), "end", s.Firing, "%s attempt %s on %s, exit code %d, nonce %s", t.name(s.Firing), s.Attempt, l.Node, l.Exit, s.Nonce)
		default:
			add(l.Wall(), "silent", s.Firing, "%s attempt %s on %s: its last line is %q, nonce %s", t.name(s.Firing), s.Attempt, l.Node, l.Event, s.Nonce)
		}
	}
	for _, e := range t.effects { // those that went well say nothing new
		if e.Ledger == Fenced && (!e.Accepted || e.Token < e.Highest) {
			add(t.h.wall(e.BootNS), "effect", e.Firing, "%s attempt %s, token %d after one of %d: accepted %t", t.name(e.Firing), e.Attempt, e.Token, e.Highest, e.Accepted)
		}
	}
	if t.etcd != nil {
		return append(all, t.writes()...)
	}
	for _, r := range t.runs {
		if !r.EndTime.IsZero() {
			add(r.EndTime, "record", r.Firing, "%s %s on %s, token %s", t.name(r.Firing), shown(r.Verdict, r.Reason), r.Member, r.Token)
		}
	}
	return all
}

// writes are what etcd was told about the job: grants, lost locks, records, decisions without a run.
func (t *trial) writes() []moment {
	var all []moment
	add := func(at time.Time, what, firing, text string, a ...any) {
		all = append(all, moment{at, what, fmt.Sprintf(text, a...), firing})
	}
	seen := map[int64]time.Time{}
	for _, k := range t.etcd.locks {
		seen[k.revision] = k.at
		if !k.deleted {
			add(k.at, "grant", k.firing, "%s attempt %d to %s, token %d", t.name(k.firing), k.GetAttempt(), k.GetMember(), k.created)
		}
	}
	var before state
	for _, s := range t.etcd.states {
		seen[s.revision] = s.at
		for _, g := range s.GetRanges() {
			if before.State == nil || !hasRange(before, g.GetFirst().AsTime(), g.GetLast().AsTime()) {
				add(s.at, "decided", "", "%s until %s, %d in all, revision %d", ending(g.GetVerdict(), g.GetReason()), clock(g.GetLast().AsTime()), g.GetCount(), s.revision)
			}
		}
		before = s
	}
	for _, r := range t.etcd.records {
		firing := firingOf(t.uid, r.GetFiring())
		if at, ok := seen[r.revision]; ok {
			add(at, "record", firing, "%s attempt %d %s, token %d, revision %d", t.name(firing), r.last().GetNumber(),
				ending(r.last().GetVerdict(), r.last().GetReason()), r.last().GetToken(), r.revision)
		}
	}
	for _, k := range t.etcd.locks {
		if k.deleted && !slices.ContainsFunc(t.etcd.records, func(r record) bool { return r.revision == k.revision }) {
			add(k.at, "lock", k.firing, "%s: gone without a record, revision %d", t.name(k.firing), k.revision)
		}
	}
	return all
}

func hasRange(s state, first, last time.Time) bool {
	for _, g := range s.GetRanges() {
		if g.GetFirst().AsTime().Equal(first) && g.GetLast().AsTime().Equal(last) {
			return true
		}
	}
	return false
}

// name is a firing without the uid of its job, and without the date.
func (t *trial) name(firing string) string {
	short, ours := strings.CutPrefix(firing, t.uid)
	if !ours {
		return firing
	}
	if at, err := time.Parse("@"+time.RFC3339, short); err == nil {
		return at.Format("@15:04:05")
	}
	return short
}
