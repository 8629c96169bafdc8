package history

import (
	"slices"
	"strconv"
	"time"
)

// overlaps is C06. From its start line to the last sign of life of it or its children, no command of a
// job lives beside another. It is excused, and its length noted, when the older grant stood still with
// its machine, slept between grant and start, or was asked to finish without its session.
// Guarantee: G6. Evidence: start lines and beats by the boot clock, which nobody sets.
func (t *trial) overlaps(j *Judgement) int {
	var before Line
	for i, s := range t.starts {
		if end := t.last[before.Nonce]; i > 0 && s.BootNS < end.BootNS {
			length := min(end.Boot(), t.last[s.Nonce].Boot()) - s.Boot()
			if t.excused(before, s) {
				j.Overlapped += length
			} else {
				t.report("C06", s.Wall(), s.Firing, "one command at a time", "beats of nonces "+before.Nonce+" and "+s.Nonce,
					"%s on %s started %s before %s on %s was dead", s.Firing, s.Node, end.Boot()-s.Boot(), before.Firing, before.Node)
			}
		}
		if t.last[s.Nonce].BootNS >= t.last[before.Nonce].BootNS {
			before = s
		}
	}
	return len(t.starts)
}

// excused says whether two commands may have lived beside each other: G6 holds unless the one with the
// lower token stood still, or slept between its grant and its start.
func (t *trial) excused(a, b Line) bool {
	old := a
	if token(b) < token(a) {
		old = b
	}
	for _, f := range t.h.Faults {
		if !f.on(old.Node) || f.From.After(t.last[old.Nonce].Wall()) {
			continue
		}
		kind := f.trait()
		slept := kind.sleeps && f.From.Before(old.Wall()) && old.Wall().Sub(f.end()) < t.h.bounds().Recovery() && old.Lateness() > time.Second
		finishes := kind.loses && (t.specOf(old).OnSessionLost == "finish")
		if kind.still || slept || finishes {
			return true
		}
	}
	return false
}

// token is the token that a command was given; 0 when it is none.
func token(l Line) int64 {
	n, err := strconv.ParseInt(l.Token, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// places is C07. A command runs on the node that it was told, that the record names, and that etcd's
// lock names; one that the job's selector allows; and all its lines are from there.
// Guarantee: G1, G6. Evidence: the node's name that the controller gave its process, past the scheduler.
func (t *trial) places(*Judgement) int {
	labels := map[string]map[string]string{}
	for _, m := range t.h.Members {
		labels[m.Name] = m.Labels
	}
	for _, s := range t.starts {
		wrong := func(evidence, what string, a ...any) {
			t.report("C07", s.Wall(), s.Firing, "one node, the same in all evidence", evidence, what, a...)
		}
		if s.Node != s.Member {
			wrong("its start line", "%s was told that it runs on %q, and runs on %q", s.Firing, s.Member, s.Node)
		}
		for _, r := range t.runs {
			for _, a := range r.Attempts {
				if r.Shortened && a.Member == "" {
					continue
				}
				if r.Firing == s.Firing && strconv.Itoa(a.Number) == s.Attempt && a.Member != s.Node {
					wrong("its record", "%s attempt %s ran on %s, and the record says %s", s.Firing, s.Attempt, s.Node, a.Member)
				}
			}
		}
		if k := t.lockOf(token(s)); k != nil && k.GetMember() != s.Node {
			wrong("its lock in etcd", "%s attempt %s ran on %s, and was granted to %s", s.Firing, s.Attempt, s.Node, k.GetMember())
		}
		if end := t.last[s.Nonce]; end.Node != s.Node {
			wrong("its own lines", "%s began on %s and lived on %s", s.Firing, s.Node, end.Node)
		}
		if has, known := labels[s.Node]; known {
			for name, value := range t.specOf(s).Selector {
				if has[name] != value {
					wrong("the node's labels", "%s ran on %s, whose %s is %q and not %q", s.Firing, s.Node, name, has[name], value)
				}
			}
		}
	}
	return len(t.starts)
}

// lockOf is the lock that a token was granted with, or nil.
func (t *trial) lockOf(token int64) *lock {
	if t.etcd == nil || token == 0 {
		return nil
	}
	return t.etcd.lockBy[token]
}

// fenced is C08. What the enforcing receiver accepted of a job has tokens that never fall; it refused
// nothing but stale tokens; every effect is from a command that started, under its token; and what the
// commands say of their effects is what the receiver noted.
// Guarantee: G2. Evidence: the receiver's log, in the order in which it answered, and the commands' lines.
func (t *trial) fenced(*Judgement) int {
	tokens, accepted, refused, plain := map[string]int64{}, map[string]int{}, map[string]int{}, map[string]int{}
	for _, s := range t.starts {
		tokens[s.Nonce] = token(s)
	}
	effects := slices.Clone(t.effects)
	slices.SortStableFunc(effects, func(a, b Effect) int { return int(a.Seq - b.Seq) })
	var highest int64
	looked := 0
	for _, e := range effects {
		at := t.h.wall(e.BootNS)
		if e.Ledger == Plain {
			plain[e.Nonce]++
			continue
		}
		looked++
		wrong := func(want, what string, a ...any) {
			t.report("C08", at, e.Firing, want, "the receiver's log", what, a...)
		}
		switch stale := e.Token < highest; {
		case e.Accepted && stale:
			wrong("tokens that never fall", "an effect of %s with token %d was accepted after one with %d", e.Firing, e.Token, highest)
		case !e.Accepted && !stale:
			wrong("stale tokens refused, no others", "an effect of %s with token %d was refused, and the highest before is %d", e.Firing, e.Token, highest)
		}
		if of, known := tokens[e.Nonce]; !known || of != e.Token {
			wrong("effects of commands that started", "an effect of nonce %s with token %d, and no command started so", e.Nonce, e.Token)
		}
		if e.Accepted {
			accepted[e.Nonce]++
			highest = max(highest, e.Token)
		} else {
			refused[e.Nonce]++
		}
	}
	t.twins(looked, accepted, refused, plain)
	return looked
}

// wall is the wall clock at a moment of the boot clock, by what the commands wrote of both.
func (h *History) wall(boot int64) time.Time {
	if len(h.Lines) == 0 {
		return time.Time{}
	}
	return h.Lines[0].Wall().Add(time.Duration(boot - h.Lines[0].BootNS))
}

// twins holds the two ledgers against each other and against what the commands were answered. A reply
// that was lost with its command is no contradiction: the receiver may know more than the command.
func (t *trial) twins(looked int, accepted, refused, plain map[string]int) {
	if looked == 0 {
		return
	}
	done, turned := map[string]int{}, map[string]int{}
	for _, l := range t.h.Lines {
		if _, ours := t.last[l.Nonce]; ours && l.Event == Done {
			done[l.Nonce]++
		} else if ours && l.Event == Refused {
			turned[l.Nonce]++
		}
	}
	for _, s := range t.starts {
		n := s.Nonce
		if plain[n] != accepted[n]+refused[n] {
			t.report("C08", s.Wall(), s.Firing, "both ledgers with the same effects", "the receiver's log",
				"the enforcing ledger has %d effects of %s, its twin %d", accepted[n]+refused[n], s.Firing, plain[n])
		}
		if done[n] > accepted[n] || turned[n] > refused[n] {
			t.report("C08", s.Wall(), s.Firing, "answers that were noted", "the command's lines against the receiver's log",
				"%s was told of %d effects accepted and %d refused, and noted are %d and %d", s.Firing, done[n], turned[n], accepted[n], refused[n])
		}
	}
}

// tokens is C09. Tokens of a job's starts rise, but for a grant that slept before its start; each is
// the create revision of a lock that etcd held for this very attempt, and that the record has.
// Guarantee: G2. Evidence: start lines, records, and the locks in etcd's log.
func (t *trial) tokens(*Judgement) int {
	var before Line
	for _, s := range t.starts {
		n := token(s)
		if n <= 0 || before.Token != "" && n <= token(before) && !(n < token(before) && t.excused(before, s)) {
			t.report("C09", s.Wall(), s.Firing, "a token above "+before.Token, "start lines",
				"%s attempt %s has token %q after one of %q", s.Firing, s.Attempt, s.Token, before.Token)
		}
		if n > token(before) {
			before = s
		}
		for _, r := range t.runs {
			for _, a := range r.Attempts {
				if r.Firing == s.Firing && strconv.Itoa(a.Number) == s.Attempt && a.Token != s.Token {
					t.report("C09", s.Wall(), s.Firing, "the token of its record", "its record",
						"%s attempt %s has token %s, and the record says %s", s.Firing, s.Attempt, s.Token, a.Token)
				}
			}
		}
		if t.etcd == nil || n <= 0 {
			continue
		}
		if k := t.lockOf(n); k == nil || k.firing != s.Firing || strconv.Itoa(int(k.GetAttempt())) != s.Attempt {
			t.report("C09", s.Wall(), s.Firing, "a token that etcd granted", "the locks in etcd's log",
				"%s attempt %s started with token %d, and no lock was ever created so", s.Firing, s.Attempt, n)
		}
	}
	return len(t.starts)
}

// orphans is C13. A command is dead at once when its node is killed, and TTL + grace after its node
// was frozen or cut off for longer than that; so are its children.
// Guarantee: G6. Evidence: the last sign of life of each command and its children, and the fault log.
func (t *trial) orphans(*Judgement) int {
	const dying = time.Second // until the last line of one that was killed
	looked := 0
	for _, s := range t.starts {
		end := t.last[s.Nonce]
		for _, f := range t.h.Faults {
			kind := f.trait()
			if f.Node != s.Node || s.Wall().After(f.From) || end.Wall().Before(f.From) || f.Proof == "" {
				continue
			}
			looked++
			limit := t.h.bounds().Hold() + dying
			switch {
			case kind.kills:
				limit = dying
			case !kind.loses, kind.still, t.specOf(s).OnSessionLost == "finish", f.kind() == Befallen, f.kind() == SupervisorKill:
				continue // it may live on, or nobody knows
			case !f.To.IsZero() && f.To.Sub(f.From) <= limit:
				continue // its session lived
			}
			if lived := end.Wall().Sub(f.From); lived > limit {
				t.report("C13", end.Wall(), s.Firing, "dead "+limit.String()+" after "+f.String(), "its beats, or those of its children",
					"%s on %s lived for %s after %s", s.Firing, s.Node, lived.Round(time.Millisecond), f)
			}
		}
	}
	return looked
}
