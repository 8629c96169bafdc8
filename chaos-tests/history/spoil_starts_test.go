package history_test

import (
	"github.com/quorumcron/quorumcron/chaos-tests/history"
	"github.com/quorumcron/quorumcron/proto/quorumcron/stored/v1"
)

// startDefects spoil what C01 to C05 look at.
func startDefects() []defect {
	return []defect{
		{"C01", "an instant that nothing says anything of", "C11", brief(map[int]second{3: nothing})},
		{"C01", "a skip for an overlap with an attempt that had ended", "", brief(map[int]second{3: func(r *recording, j *recordedJob) {
			r.skip(3.05, j, skipped, overlap, 3)
		}})},
		{"C01", "missed without a fault", "", brief(map[int]second{3: func(r *recording, j *recordedJob) {
			r.skip(3.05, j, missed, catchUp, 3)
		}})},
		{"C01", "skipped for an edit that came much later", "", brief(map[int]second{
			2: func(r *recording, j *recordedJob) { r.skip(2.05, j, skipped, storedv1.Reason_REASON_EDITED, 2) },
			6: func(r *recording, j *recordedJob) { r.edit(5.5, j, history.Pause) },
		})},
		{"C01", "missed under a fault, while it was still on time", "", with(brief(map[int]second{3: func(r *recording, j *recordedJob) {
			r.skip(3.9, j, missed, catchUp, 3)
		}}), func(h *history.History) { h.Faults = []history.Fault{befell(history.NodeCut, "n1", 2.5, 3.8)} })},
		{"C01", "missed, and the fault log is empty", "C03 C10", spoilt(func(h *history.History) { h.Faults = nil })},
		{"C02", "one attempt starts twice", "C05 C09", brief(map[int]second{5: func(r *recording, j *recordedJob) {
			ran(5)(r, j)
			again := *j.running
			again.Nonce = "another"
			r.line(5.4, again, history.Start, 0)
			r.line(5.5, again, history.End, 0)
		}})},
		{"C02", "tried again after it had succeeded", "C12", brief(map[int]second{5: func(r *recording, j *recordedJob) {
			ran(5)(r, j)
			e := j.state.Entries[0]
			r.fold(j)
			j.state.Retries = []*storedv1.PendingRetry{{Firing: e.Firing, Attempt: 2, Slot: e.Slot, Past: j.records[e.Slot].Attempts, Generation: 1, Due: e.Due}}
			j.state.Counters[0].Count--
			r.putState(5.6, j)
			r.begin(5.7, j, "n1", 5, "")
			r.end(5.9, j, 0)
		}})},
		{"C02", "tried again where one attempt is all", "", lost("fail")},
		{"C03", "late without a fault", "", brief(map[int]second{5: func(r *recording, j *recordedJob) {
			r.begin(7.1, j, "n1", 5, "")
			r.end(7.3, j, 0)
		}})},
		{"C03", "late, and a fault befell only a node that had no part in it", "", late("n1", "n2")},
		{"C01", "missed, and a fault befell only a node that had no part in it", "", with(func() history.History {
			r := newRecording()
			r.assign(0.1, "n1")
			j := r.apply(0.3, nil, "one", history.Spec{Period: 1e9, End: at(4), Kept: 10})
			ran(1)(r, j)
			r.skip(2.05, j, missed, catchUp, 2)
			ran(3)(r, j)
			r.foldAlone(14, j)
			return r.taken(20)
		}, func(h *history.History) { h.Faults = []history.Fault{befell(history.NodeCut, "n2", 1.5, 3)} })},
		{"C03", "granted after its start deadline", "", briefly(history.Spec{Period: 1e9, End: at(6), Kept: 10, StartDeadline: 1e9}, map[int]second{5: begun(6.2)})},
		{"C03", "started long after its grant", "", with(heldUp, func(h *history.History) { h.Faults[0].Point = history.AfterClaim })},
		{"C03", "caught up, and the policy is to catch up nothing", "", with(briefly(history.Spec{Period: 1e9, End: at(6), Kept: 10, CatchUp: "none"},
			map[int]second{5: begun(10.5)}), func(h *history.History) { h.Faults = []history.Fault{befell(history.NodeCut, "n1", 4.5, 8)} })},
		{"C03", "later than the promised recovery", "", spoilt(func(h *history.History) {
			linesOf(h, "tries", 25, func(l *history.Line) { moved(l, 3) })
		})},
		{"C04", "a start before its instant", "C05", brief(map[int]second{3: func(r *recording, j *recordedJob) {
			ran(3)(r, j)
			at := len(r.h.Lines) - 5
			if r.h.Lines[at].Event != history.Start {
				panic(r.h.Lines[at].Event)
			}
			moved(&r.h.Lines[at], -0.08)
		}})},
		{"C04", "a grant before it is due", "", with(brief(nil), func(h *history.History) {
			restate(h, "one", 3, false, func(s *storedv1.State) { s.Entries[0].Granted = stamp(2.99) })
		})},
		{"C05", "a start while the job is paused", "", brief(map[int]second{3: func(r *recording, j *recordedJob) {
			r.edit(2.5, j, history.Pause)
			ran(3)(r, j)
			r.edit(3.5, j, history.Resume)
		}})},
		{"C05", "a grant under a definition that was replaced", "", spoilt(func(h *history.History) {
			restate(h, "edited", 10, false, func(s *storedv1.State) { s.Entries[0].Generation = 3 })
		})},
		{"C05", "a start after the deletion", "C11", brief(map[int]second{
			4: func(r *recording, j *recordedJob) { r.edit(4.5, j, history.Delete) }, 5: ran(5),
		})},
		{"C05", "a start of a job that nobody applied", "", spoilt(func(h *history.History) {
			l := h.Lines[0]
			l.Job = "stranger"
			h.Lines = append(h.Lines, l)
		})},
		{"C05", "a trigger that nobody asked for", "C14", spoilt(func(h *history.History) {
			for i := range h.Changes {
				if h.Changes[i].Op == history.Trigger {
					h.Changes[i].Firing += "x"
				}
			}
		})},
		{"C05", "an instant that the schedule does not have", "C11", with(brief(nil), func(h *history.History) {
			h.Changes[0].Spec.End = at(5)
		})},
	}
}

// late is a job whose instant 3 starts 3 s late, with an owner and a node that a fault befell before.
func late(owner, befallen string) func() history.History {
	return with(func() history.History {
		r := newRecording()
		r.assign(0.1, owner)
		j := r.apply(0.3, nil, "one", history.Spec{Period: 3e9, End: at(4), Kept: 10})
		r.begin(6, j, "n1", 3, "")
		r.end(6.2, j, 0)
		r.foldAlone(17, j)
		return r.taken(30)
	}, func(h *history.History) { h.Faults = []history.Fault{befell(history.NodeCut, befallen, 2.5, 4)} })
}

// heldUp is a job whose command starts 6 s after it was granted, on a node that a fail point held up.
func heldUp() history.History {
	r := newRecording()
	j := r.apply(0.3, nil, "one", history.Spec{Period: 3e9, End: at(4), Kept: 10})
	r.begin(3.05, j, "n1", 3, "")
	for i := range r.h.Lines {
		moved(&r.h.Lines[i], 6)
	}
	r.h.Effects = nil
	r.h.Lines = dropOf(r.h.Lines, sent)
	r.end(9.3, j, 0)
	r.foldAlone(20, j)
	h := r.taken(30)
	h.Faults = []history.Fault{befell(history.NodeFailPoint, "n1", 3.06, 9.05)}
	return h
}

// begun is the second 5 whose run begins at a moment.
func begun(moment float64) second {
	return func(r *recording, j *recordedJob) {
		r.begin(moment, j, "n1", 5, "")
		r.end(moment+0.2, j, 0)
	}
}

// lost is a job whose attempt of 3 is lost with n2, and tried again whatever its policy says.
func lost(onLost string) func() history.History {
	spec := history.Spec{Period: 3e9, End: at(6), Kept: 10, OnLost: onLost}
	return with(func() history.History {
		r := newRecording()
		j := r.apply(0.3, nil, "one", spec)
		r.begin(3.05, j, "n2", 3, "")
		r.lockEnds(6.5, j)
		r.lose(17, j, true)
		r.begin(17.1, j, "n1", 3, "")
		r.end(17.4, j, 0)
		r.foldAlone(28, j)
		return r.taken(30)
	}, func(h *history.History) { h.Faults = []history.Fault{befell(history.NodeKill, "n2", 3.5, 0)} })
}

// startLookalikes are right, though they look like what C01 to C05 are for.
func startLookalikes() []lookalike {
	return []lookalike{
		{"C01", "a skip for a command that still ran", brief(map[int]second{
			3: func(r *recording, j *recordedJob) { r.begin(3.05, j, "n1", 3, "") },
			4: func(r *recording, j *recordedJob) {
				r.skip(4.05, j, skipped, overlap, 4)
				r.end(4.5, j, 0)
			},
		})},
		{"C01", "skipped for a pause that came just before it was granted", brief(map[int]second{5: func(r *recording, j *recordedJob) {
			r.edit(5.02, j, history.Pause)
		}})},
		{"C02", "a child's own start", with(brief(nil), func(h *history.History) {
			child := h.Lines[0]
			child.Child = true
			child.BootNS, child.WallNS = child.BootNS+1e6, child.WallNS+1e6
			h.Lines = append(h.Lines, child)
		})},
		{"C02", "a further attempt after a lost one", lost("retry")},
		{"C03", "late, and just within what is promised in calm", brief(map[int]second{5: func(r *recording, j *recordedJob) {
			r.begin(6.9, j, "n1", 5, "")
			r.end(7.2, j, 0)
		}})},
		{"C03", "granted just before its start deadline", briefly(history.Spec{Period: 1e9, End: at(6), Kept: 10, StartDeadline: 1e9}, map[int]second{5: begun(5.95)})},
		{"C03", "late, and a fault befell the node that owned it", late("n2", "n2")},
		{"C03", "started long after its grant, for its node stood still just before", heldUp},
		{"C03", "tried again long after its instant, once it was surely dead", with(func() history.History {
			r := newRecording()
			j := r.apply(0.3, nil, "one", history.Spec{Period: 3e9, End: at(6), Kept: 10, OnLost: "retry"})
			r.begin(3.05, j, "n2", 3, "")
			r.line(20, *j.running, history.Beat, 0)
			r.lockEnds(23, j)
			r.lose(33.1, j, true)
			r.begin(33.2, j, "n1", 3, "")
			r.end(33.5, j, 0)
			r.foldAlone(44, j)
			return r.taken(50)
		}, func(h *history.History) { h.Faults = []history.Fault{befell(history.NodeKill, "n2", 20.01, 0)} })},
		{"C04", "early by the true clock, on a node whose own was ahead", with(brief(map[int]second{5: func(r *recording, j *recordedJob) {
			r.begin(4.8, j, "n1", 5, "")
			r.end(4.95, j, 0)
		}}), func(h *history.History) {
			f := befell(history.ClockOffset, "n1", 4.5, 5.5)
			f.Skew = 300e6
			h.Faults = []history.Fault{f}
			restate(h, "one", 5, false, func(s *storedv1.State) { s.Entries[0].Granted = stamp(5.1) })
		})},
		{"C05", "granted before the edit, and running on after it", brief(map[int]second{5: func(r *recording, j *recordedJob) {
			r.begin(5.05, j, "n1", 5, "")
			spec := j.spec
			spec.Version = 2
			r.apply(5.1, j, "one", spec)
			r.end(5.3, j, 0)
		}})},
		{"C05", "the reply to the trigger was lost", spoilt(func(h *history.History) {
			for i := range h.Changes {
				if h.Changes[i].Op == history.Trigger {
					h.Changes[i].Result, h.Changes[i].Firing = history.Unknown, ""
				}
			}
		})},
	}
}
