package history

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// cluster notes a finding that is about no job.
func (j *Judgement) cluster(check string, at time.Time, want, evidence, what string, a ...any) {
	j.Findings = append(j.Findings, Finding{Check: check, At: at, Want: want, Evidence: evidence, What: fmt.Sprintf(what, a...)})
}

// shards is how many shards there are: fixed for ever.
const shards = 256

// healed is when the last fault was over and its recovery with it; zero when there was none.
func (h *History) healed() time.Time {
	var last time.Time
	for _, f := range h.Faults {
		last = later(last, f.end().Add(f.trait().trial))
	}
	if last.IsZero() {
		return last
	}
	return last.Add(h.bounds().Recovery())
}

// recovered is C15. R after the last fault every living node is ready, all of them name one dispatcher,
// every shard has an owner; and each of them has started something on time again.
// Guarantee: G4. Evidence: samples and statuses after that, and start lines.
func (h *History) recovered(j *Judgement) int {
	healed := h.healed()
	if healed.IsZero() {
		return 0
	}
	before := len(j.Findings)
	defer func() {
		for i := range j.Findings[before:] { // all of it is about how soon
			j.Findings[before+i].Slow = true
		}
	}()
	looked := 0
	dispatchers := map[string]bool{}
	for _, s := range h.Statuses {
		if s.At.Before(healed) {
			continue
		}
		looked++
		dispatchers[s.Dispatcher] = true
		if s.Dispatcher == "" || s.ShardsOwned != shards || s.Unaccounted != 0 {
			j.cluster("C15", s.At, "a dispatcher, 256 shards owned, nothing unaccounted for", "cluster status",
				"%s after the last fault %s says: dispatcher %q, %d shards owned, %d unaccounted", since(healed, s.At), s.Node, s.Dispatcher, s.ShardsOwned, s.Unaccounted)
		}
	}
	if len(dispatchers) > 1 {
		j.cluster("C15", healed, "one dispatcher", "cluster status", "after the last fault %d dispatchers were named", len(dispatchers))
	}
	living := h.living()
	for _, s := range h.Samples {
		if s.At.After(healed) && living[s.Node] && !s.Ready {
			looked++
			j.cluster("C15", s.At, "every living node ready", "readyz", "%s after the last fault %s is not ready: %s", since(healed, s.At), s.Node, s.Readyz)
		}
	}
	for node := range living {
		j.probe(h, node, healed)
	}
	return looked
}

func since(healed, at time.Time) string {
	return fmt.Sprintf("R + %s", at.Sub(healed).Round(100*time.Millisecond))
}

// living are the nodes that answered and were not killed for good.
func (h *History) living() map[string]bool {
	living := map[string]bool{}
	for _, s := range h.Samples {
		living[s.Node] = true
	}
	for _, f := range h.Faults {
		if (f.kind() == NodeKill || f.kind() == NodeTerm) && f.To.IsZero() {
			delete(living, f.Node)
		}
	}
	return living
}

// probe looks for a start on time on a node, if jobs were still due long enough after the last fault.
func (j *Judgement) probe(h *History, node string, healed time.Time) {
	const long = 30 * time.Second // by then each node has had its turn, at a job a second
	var last time.Time
	for _, t := range j.trials {
		if n := len(t.due); n > 0 && t.due[n-1].at.After(last) {
			last = t.due[n-1].at
		}
	}
	if last.Before(healed.Add(long)) {
		return
	}
	for _, l := range h.Lines {
		if l.Event == Start && l.Node == node && l.Wall().After(healed) && l.Lateness() <= h.bounds().Calm {
			return
		}
	}
	j.cluster("C15", healed, "a start on time on each node", "start lines", "%s has started nothing on time since the last fault", node)
}

// leaks is C16. After the run the cluster holds no more than before: see Leaks for what that is.
// Guarantee: G10. Evidence: samples and spaces of the calm before and of the time after.
func (h *History) leaks(j *Judgement) int {
	before, after := h.phase(Before), h.phase(After)
	if before == nil || after == nil {
		return 0
	}
	var first, last []Sample
	for _, s := range h.Samples {
		switch {
		case len(s.Metrics) == 0:
		case before.covers(s.At):
			first = append(first, s)
		case after.covers(s.At) && s.At.After(h.healed()):
			last = append(last, s)
		}
	}
	var space, left *Space
	for i := range h.Spaces {
		switch s := &h.Spaces[i]; {
		case !s.At.After(before.To):
			space = s
		case !s.At.Before(after.From):
			left = s
		}
	}
	found, looked := Leaks(first, last, space, left, len(h.Lines))
	j.Findings = append(j.Findings, found...)
	return looked
}

func (h *History) phase(name string) *Phase {
	for i := range h.Phases {
		if h.Phases[i].Name == name {
			return &h.Phases[i]
		}
	}
	return nil
}

func (p *Phase) covers(at time.Time) bool {
	return !at.Before(p.From) && (p.To.IsZero() || !at.After(p.To))
}

// visible is C17. What befalls a node is seen by whoever asks: a dead one is no member any more, one that
// is cut off is not ready and says why, and a full etcd is named.
// Guarantee: G5. Evidence: samples, statuses, and what the controller noted (Shown).
func (h *History) visible(j *Judgement) int {
	looked := 0
	for _, f := range h.Faults {
		by := h.visibleBy(f)
		lasted := f.To.IsZero() || f.To.After(by)
		if !f.trait().shows || !lasted || f.Proof == "" || len(h.Samples)+len(h.Statuses) == 0 && f.Shown == "" {
			continue
		}
		looked++
		if f.Shown == "" && !h.seen(f, by) {
			j.cluster("C17", f.From, sign(f), "readyz, metrics and cluster status while it lasted", "nobody could see %s", f)
		}
	}
	return looked
}

// sign is what must be seen of a fault.
func sign(f Fault) string {
	switch f.kind() {
	case NodeKill, NodeFreeze, MachineFreeze:
		return f.Node + " missing from the members within 2 TTL + E"
	case NodeTerm:
		return f.Node + " not ready, with a reason, or missing from the members within 2 TTL + E"
	case NoSpace:
		return "not ready, with a reason that names the space"
	case ClockOffset, ClockStep:
		return "a clock that is not trusted, or a reason that names it"
	}
	return "not ready, with a reason, within 2 TTL + E"
}

// visibleBy is when a fault must be visible at last: within 2 TTL + E, reckoned from the last that befell etcd
// meanwhile, for its leases begin anew with each leader, and without one nobody learns anything.
func (h *History) visibleBy(f Fault) time.Time {
	within := 2*h.bounds().TTL + h.bounds().Election
	by := f.From.Add(within)
	for _, g := range h.faultLine().faults {
		itself := g.kind() == f.kind() && g.From.Equal(f.From)
		ofEtcd := g.Node == "" && g.trait().loses
		if ofEtcd && !itself && g.From.Before(by) && g.end().After(f.From) {
			by = later(by, g.end().Add(within))
		}
	}
	return by
}

// seen says whether a fault was visible in time.
func (h *History) seen(f Fault, by time.Time) bool {
	during := func(at time.Time) bool { return at.After(f.From) && !at.After(by.Add(time.Second)) }
	switch f.kind() {
	case NodeKill, NodeFreeze, MachineFreeze, NodeTerm:
		gone := slices.ContainsFunc(h.Statuses, func(s Status) bool {
			return during(s.At) && len(s.Members) > 0 && !slices.ContainsFunc(s.Members, func(m MemberStatus) bool { return m.Name == f.Node })
		})
		if gone || f.kind() != NodeTerm { // one that drains for long is still a member, and says that it is not ready
			return gone
		}
	case ClockOffset, ClockStep:
		return slices.ContainsFunc(h.Samples, func(s Sample) bool {
			trusted, ok := s.Metrics["quorumcron_clock_trusted"]
			return during(s.At) && f.on(s.Node) && (ok && trusted == 0 || strings.Contains(s.Readyz, "clock"))
		})
	case NoSpace:
		return slices.ContainsFunc(h.Samples, func(s Sample) bool { return during(s.At) && strings.Contains(s.Readyz, "space") }) ||
			slices.ContainsFunc(h.Statuses, func(s Status) bool {
				return during(s.At) && strings.Contains(strings.ToLower(strings.Join(s.Warnings, " ")), "space")
			})
	}
	return slices.ContainsFunc(h.Samples, func(s Sample) bool { return during(s.At) && f.on(s.Node) && !s.Ready && s.Readyz != "" })
}
