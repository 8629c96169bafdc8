package history_test

import (
	"github.com/quorumcron/quorumcron/chaos-tests/history"
	"github.com/quorumcron/quorumcron/proto/quorumcron/stored/v1"
)

// frozen is a job whose attempt of 3 stands still with n2's whole machine from 3.3 to 20.0: it is called
// lost, the next one runs on n1 from 17.1, and the old one wakes up beside it, with a stale token.
func frozen() history.History {
	r := newRecording()
	j := r.apply(0.3, nil, "one", history.Spec{Period: 3e9, End: at(6), Kept: 10, OnLost: "retry"})
	r.begin(3.05, j, "n2", 3, "")
	old := *j.running
	r.line(3.25, old, history.Beat, 0)
	r.lockEnds(6.5, j)
	r.lose(17, j, true)
	r.begin(17.1, j, "n1", 3, "")
	r.line(20.1, old, history.Beat, 0)
	r.effect(20.11, old)
	r.line(20.2, old, history.Beat, 0)
	r.end(25, j, 0)
	r.foldAlone(36, j)
	h := r.taken(40)
	h.Faults = []history.Fault{befell(history.MachineFreeze, "n2", 3.3, 20)}
	return h
}

// slept is a job whose attempt of 3 was granted to n2, which froze before it started the command, and
// started it when it woke up at 18, after its successor.
func slept() history.History {
	r := newRecording()
	j := r.apply(0.3, nil, "one", history.Spec{Period: 3e9, End: at(6), Kept: 10, OnLost: "retry"})
	r.begin(3.05, j, "n2", 3, "")
	late := *j.running
	r.h.Lines, r.h.Effects = nil, nil // not yet
	r.lockEnds(6.5, j)
	r.lose(17, j, true)
	r.begin(17.1, j, "n1", 3, "")
	r.line(18.05, late, history.Start, 0)
	r.effect(18.06, late)
	r.line(18.1, late, history.Beat, 0)
	r.end(20, j, 0)
	r.foldAlone(31, j)
	h := r.taken(40)
	h.Faults = []history.Fault{befell(history.NodeFreeze, "n2", 3.055, 18)}
	return h
}

// accept changes the first effect that fits.
func accept(h *history.History, fits func(e history.Effect) bool, change func(e *history.Effect)) {
	for i := range h.Effects {
		if fits(h.Effects[i]) {
			change(&h.Effects[i])
			return
		}
	}
	panic("no effect fits")
}

// attemptDefects spoil what C06 to C09 and C13 look at.
func attemptDefects() []defect {
	stale := func(e history.Effect) bool { return e.Ledger == history.Fenced && !e.Accepted }
	return []defect{
		{"C06", "two commands of one job at a time", "", with(brief(nil), func(h *history.History) {
			i := len(h.Lines) - 1
			for h.Lines[i].Nonce != "c4" {
				i--
			}
			moved(&h.Lines[i], 1)
		})},
		{"C06", "a child of a dead command lives into the next firing", "", with(brief(nil), func(h *history.History) {
			child := h.Lines[0]
			child.Child, child.Event = true, history.Beat
			moved(&child, 1.2)
			h.Lines = append(h.Lines, child)
		})},
		{"C06", "beside each other, and no machine stood still", "C08 C13", with(frozen, func(h *history.History) {
			h.Faults[0].Kind = history.LostReplies
			h.Faults[0].Proof = "fell"
			accept(h, stale, func(e *history.Effect) { e.Accepted = true })
		})},
		{"C07", "a command that was told another node", "", spoilt(func(h *history.History) {
			linesOf(h, "loses", 3, func(l *history.Line) { l.Member = "n3" })
		})},
		{"C07", "a lock of another member", "C12", with(brief(nil), func(h *history.History) {
			rewrite(events(h, "locks/")[0], new(storedv1.Lock), func(k *storedv1.Lock) { k.Member = "n3" })
		})},
		{"C07", "a record that names another node", "", spoilt(func(h *history.History) { h.Runs[2].Attempts[0].Member = "n3" })},
		{"C07", "a record that names no node", "", spoilt(func(h *history.History) { h.Runs[2].Attempts[0].Member = "" })},
		{"C07", "a node that the selector leaves out", "", with(briefly(history.Spec{Period: 1e9, End: at(6), Kept: 10, Selector: map[string]string{"zone": "b"}}, nil),
			func(h *history.History) {
				h.Members = []history.Member{{Name: "n1", Labels: map[string]string{"zone": "a"}}}
			})},
		{"C08", "a stale effect is accepted", "", with(frozen, func(h *history.History) {
			accept(h, stale, func(e *history.Effect) { e.Accepted = true })
			for i := range h.Lines {
				if h.Lines[i].Event == history.Refused {
					h.Lines[i].Event = history.Done
				}
			}
		})},
		{"C08", "an effect in order is refused", "", with(brief(nil), func(h *history.History) {
			accept(h, func(e history.Effect) bool { return e.Ledger == history.Fenced && e.Nonce == "c4" }, func(e *history.Effect) { e.Accepted = false })
		})},
		{"C08", "an effect of a command that never started", "", with(brief(nil), func(h *history.History) {
			h.Effects = append(h.Effects, history.Effect{Ledger: history.Fenced, Accepted: true, Seq: 99, Job: "one", Token: 999, Nonce: "nobody"})
		})},
		{"C08", "a twin that has not seen it", "", with(brief(nil), func(h *history.History) { h.Effects = h.Effects[:len(h.Effects)-1] })},
		{"C09", "a token that does not rise", "", with(brief(nil), func(h *history.History) {
			var before string
			linesOf(h, "one", 4, func(l *history.Line) { before = l.Token })
			linesOf(h, "one", 5, func(l *history.Line) { l.Token = before })
			h.Runs[4].Token, h.Runs[4].Attempts[0].Token = before, before
			h.Etcd, h.Effects = nil, nil
		})},
		{"C09", "a token that etcd never granted", "C08 C10", with(brief(nil), func(h *history.History) {
			linesOf(h, "one", 5, func(l *history.Line) { l.Token = "9999" })
		})},
		{"C09", "a sleeper's token, and nobody slept", "C03 C06 C10", with(slept, func(h *history.History) { h.Faults = nil })},
		{"C13", "a command outlives its killed node", "", spoilt(func(h *history.History) {
			linesOf(h, "loses", 5, func(l *history.Line) {
				if l.Event == history.Beat && l.WallNS > at(5.4).UnixNano() {
					moved(l, 2)
				}
			})
		})},
		{"C13", "a command outlives the hold of its frozen node", "", with(slept, func(h *history.History) {
			h.Lines, h.Effects = h.Lines[3:], nil // as if it had run before it froze
			first := h.Lines[0]
			first.Firing, first.Attempt, first.Token, first.Node, first.Member, first.Nonce = sleeper(h)
			for i, seconds := range []float64{3.06, 5, 14} {
				l := first
				l.Event = []string{history.Start, history.Beat, history.Beat}[i]
				l.WallNS, l.BootNS = at(seconds).UnixNano(), int64(seconds*1e9)+1e12
				h.Lines = append(h.Lines, l)
			}
			h.Faults[0].From = at(3.2)
			h.Lines = dropOf(h.Lines, func(l history.Line) bool { return l.Node == "n2" && l.WallNS > at(17).UnixNano() })
		})},
		{"C13", "a child outlives its killed node", "", spoilt(func(h *history.History) {
			i := find(h, "loses", history.Beat, 5)
			child := h.Lines[i]
			child.Child = true
			moved(&child, 3)
			h.Lines = append(h.Lines, child)
		})},
	}
}

// sleeper is who the attempt on n2 is.
func sleeper(h *history.History) (firing, attempt, token, node, member, nonce string) {
	for _, l := range h.Lines {
		if l.Node == "n2" {
			return l.Firing, l.Attempt, l.Token, l.Node, l.Member, l.Nonce
		}
	}
	panic("nobody ran on n2")
}

func dropOf(lines []history.Line, bad func(history.Line) bool) []history.Line {
	var left []history.Line
	for _, l := range lines {
		if !bad(l) {
			left = append(left, l)
		}
	}
	return left
}

// attemptLookalikes are right, though they look like what C06 to C09 and C13 are for.
func attemptLookalikes() []lookalike {
	return []lookalike{
		{"C06", "one begins in the moment in which the other ends", with(brief(nil), func(h *history.History) {
			linesOf(h, "one", 4, func(l *history.Line) {
				if l.Event == history.End {
					moved(l, 0.815)
				}
			})
		})},
		{"C06", "one had stood still with its machine", frozen},
		{"C07", "the second attempt runs elsewhere", lost("retry")},
		{"C07", "a record in short form", spoilt(func(h *history.History) { h.Runs[2].Attempts[0].Member, h.Runs[2].Shortened = "", true })},
		{"C08", "a stale effect is refused", frozen},
		{"C08", "the answer to an effect was lost with its command", with(brief(nil), func(h *history.History) {
			h.Lines = dropOf(h.Lines, func(l history.Line) bool { return l.Event == history.Done && l.Nonce == "c3" })
		})},
		{"C09", "a lower token starts later, because its node slept", slept},
		{"C13", "it had been frozen for less than its session lives", with(brief(map[int]second{5: func(r *recording, j *recordedJob) {
			r.begin(5.05, j, "n1", 5, "")
			r.end(14.5, j, 0)
		}}), func(h *history.History) { h.Faults = []history.Fault{befell(history.NodeFreeze, "n1", 5.1, 7)} })},
		{"C13", "it was asked to finish", with(briefly(history.Spec{Period: 1e9, End: at(6), Kept: 10, OnSessionLost: "finish"}, map[int]second{
			5: func(r *recording, j *recordedJob) {
				r.begin(5.05, j, "n1", 5, "")
				r.end(15.1, j, 0)
			}}), func(h *history.History) {
			h.Faults = []history.Fault{befell(history.NodeCut, "n1", 5.1, 14.9), befell(history.NodeKill, "n1", 14.95, 18)}
			h.Faults = h.Faults[:1]
			h.Faults = append(h.Faults, befell(history.NodeFreeze, "n1", 14.9, 15))
		})},
	}
}
