package history_test

import (
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/quorumcron/quorumcron/chaos-tests/history"
	"github.com/quorumcron/quorumcron/proto/quorumcron/stored/v1"
)

// recordDefects spoil what C10 and C11 look at.
func recordDefects() []defect {
	return []defect{
		{"C10", "a success whose command never ended", "C11", with(brief(nil), func(h *history.History) {
			h.Lines = dropOf(h.Lines, func(l history.Line) bool { return l.Event == history.End && l.Nonce == "c3" })
		})},
		{"C10", "a start without a record", "C11 C12", with(brief(nil), func(h *history.History) {
			h.Runs = h.Runs[:4]
			all := events(h, "runs/")
			forget(h, all[len(all)-1].Key)
		})},
		{"C10", "a failure whose command said another code", "", spoilt(func(h *history.History) {
			linesOf(h, "loses", 4, func(l *history.Line) {
				if l.Event == history.End {
					l.Exit = 5
				}
			})
		})},
		{"C10", "the API shows another verdict than etcd holds", "C11", spoilt(func(h *history.History) {
			h.Runs[3].Verdict, h.Runs[3].Reason = "TIMED_OUT", ""
		})},
		{"C10", "lost with a node that nothing befell", "", spoilt(func(h *history.History) { h.Faults[0].Node, h.Faults[0].Shown = "n3", "seen" })},
		{"C10", "lost before anything befell its node", "C03", with(lost("retry"), func(h *history.History) { h.Faults[0].From = at(20) })},
		{"C10", "cancelled long after its grant, and its command never began", "", canceledAfter(2.5)},
		{"C11", "an instant that the counters forgot", "", with(brief(nil), func(h *history.History) { h.Jobs[0].Counters[0].Count-- })},
		{"C11", "books that do not balance on the way", "", with(brief(nil), func(h *history.History) {
			restate(h, "one", 3, false, func(s *storedv1.State) { s.Counters[0].Count++ })
			restate(h, "one", 4, true, func(s *storedv1.State) { s.Counters[0].Count++ })
			restate(h, "one", 6, true, func(s *storedv1.State) { s.Counters[0].Count-- })
		})},
		{"C11", "a firing that never ends", "", with(brief(nil), func(h *history.History) { h.Runs[4].Verdict = "" })},
		{"C11", "an instant with two verdicts", "C10", with(brief(nil), func(h *history.History) {
			h.Jobs[0].Ranges = []history.Range{{Verdict: "SKIPPED", Reason: "overlap", First: at(4), Last: at(4), Count: 1}}
		})},
		{"C11", "a trigger that was never counted", "C14", with(brief(nil), func(h *history.History) {
			h.Changes = append(h.Changes, history.Change{Op: history.Trigger, Job: "one", Invoked: at(2), Returned: at(2.1), Result: history.OK, Firing: "01j00000000000000000000000+t9"})
		})},
		{"C11", "a sum that the API shows and etcd does not hold", "", with(brief(nil), func(h *history.History) {
			h.Jobs[0].Counters = append(h.Jobs[0].Counters, history.Counter{Verdict: "SKIPPED", Reason: "overlap", Count: 0}, history.Counter{Verdict: "LOST", Count: 1})
			h.Jobs[0].Counters[0].Count--
		})},
		{"C10", "a record that etcd holds and the API does not show", "", spoilt(func(h *history.History) { h.Runs = h.Runs[1:] })},
		{"C11", "created long after the reply", "", with(brief(nil), func(h *history.History) { h.Jobs[0].Created = at(1.7) })},
		{"C11", "a job made again over an attempt that has not ended", "", madeAgain(nothing, nothing)},
		{"C11", "a job made again over an attempt that ends after that", "", madeAgain(nothing, func(r *recording, j *recordedJob) { r.end(6.4, j, 0) })},
		{"C11", "an end under a tombstone that nobody folds", "", briefly(history.Spec{Period: time.Second, End: at(6), Kept: 10}, map[int]second{5: func(r *recording, j *recordedJob) {
			r.begin(5.05, j, "n1", 5, "")
			r.edit(5.1, j, history.Delete)
			r.end(5.25, j, 0)
		}})},
		{"C11", "a job that is not in the list", "", with(brief(nil), func(h *history.History) { h.Jobs, h.Etcd = nil, nil; h.Runs = nil })},
	}
}

// madeAgain is a history whose job is deleted while its last attempt runs, and applied again before anybody folds
// it; before that and after it something may happen.
func madeAgain(before, after second) func() history.History {
	spec := history.Spec{Period: time.Second, End: at(6), Kept: 10}
	return briefly(spec, map[int]second{5: func(r *recording, j *recordedJob) {
		r.begin(5.05, j, "n1", 5, "")
		r.edit(5.1, j, history.Delete)
		before(r, j)
		r.apply(6.2, j, "one", spec)
		after(r, j)
	}})
}

// givenUp is a history whose last attempt is called lost by its holder, which closes its lock in the same write; its
// command goes on for some seconds after that.
func givenUp(seconds int) func() history.History {
	return with(brief(map[int]second{5: func(r *recording, j *recordedJob) {
		r.begin(5.05, j, "n1", 5, "")
		if seconds == 0 {
			r.line(5.2, *j.running, history.End, 0)
		}
		r.write()
		r.remove(5.4, j.lock())
		r.record(5.4, j, storedv1.Verdict_VERDICT_LOST, storedv1.Reason_REASON_MEMBER_LOST, nil)
		j.ended = j.records[j.state.Entries[0].Slot]
		for s := range seconds {
			r.line(6+float64(s), *j.running, history.Beat, 0)
		}
	}}), func(h *history.History) {
		h.Faults = []history.Fault{{ID: "F06", Kind: history.NodeFailPoint, Node: "n1", From: at(5), To: at(6), Proof: "hit: before-verdict leave", Point: "before-verdict"}}
	})
}

// canceledAfter is a history whose last attempt was cancelled so long after its grant, and left no line.
func canceledAfter(seconds float64) func() history.History {
	return brief(map[int]second{5: func(r *recording, j *recordedJob) {
		lines, effects := len(r.h.Lines), len(r.h.Effects)
		r.begin(5.05, j, "n1", 5, "")
		r.called(history.Change{Op: history.Cancel, Job: "one", Firing: j.running.Firing}, 5.05+seconds)
		r.write()
		r.remove(5.1+seconds, j.lock())
		j.ended = r.record(5.1+seconds, j, storedv1.Verdict_VERDICT_CANCELED, storedv1.Reason_REASON_UNSPECIFIED, proto.Int32(143))
		r.h.Lines, r.h.Effects = r.h.Lines[:lines], r.h.Effects[:effects]
	}})
}

// recordLookalikes are right, though they look like what C10 and C11 are for.
func recordLookalikes() []lookalike {
	return []lookalike{
		{"C10", "a record that made room for others, and is known from etcd alone", with(brief(nil), func(h *history.History) {
			h.Runs = h.Runs[2:]
			h.Changes[0].Spec.Kept = 3
		})},
		{"C10", "killed by its signal: it wrote no end", brief(map[int]second{5: func(r *recording, j *recordedJob) {
			r.begin(5.05, j, "n1", 5, "")
			r.end(5.4, j, 137)
			r.h.Lines = r.h.Lines[:len(r.h.Lines)-1]
		}})},
		{"C10", "cancelled so soon that its command had not written a line", canceledAfter(0.3)},
		{"C11", "a job made again over an attempt that has ended, and that nobody has folded", madeAgain(func(r *recording, j *recordedJob) { r.end(5.25, j, 0) }, nothing)},
		{"C11", "a paused job whose instants nobody has accounted yet", brief(map[int]second{
			4: func(r *recording, j *recordedJob) { r.edit(3.5, j, history.Pause) }, 5: nothing,
		})},
		{"C11", "an end that is shown as counted, and not folded yet", with(brief(nil), func(h *history.History) {
			all := events(h, "state/")
			h.Etcd.Events = slices.DeleteFunc(h.Etcd.Events, func(e history.EtcdEvent) bool { return e.Revision == all[len(all)-1].Revision })
		})},
		{"C11", "created after the reply, by a clock that was made to drift", with(brief(nil), func(h *history.History) {
			drift := befell(history.ClockDrift, "n1", 0, 9)
			drift.Skew = 400 * time.Millisecond
			h.Faults, h.Jobs[0].Created = []history.Fault{drift}, at(1.7)
		})},
		{"C11", "a trigger of which nobody knows whether it was taken", with(brief(nil), func(h *history.History) {
			h.Changes = append(h.Changes, history.Change{Op: history.Trigger, Job: "one", Invoked: at(2), Returned: at(2.1), Result: history.Unknown})
		})},
	}
}

// stateDefects spoil etcd's log for C12, one kind of step each.
func stateDefects() []defect {
	log := func(name, also string, change func(h *history.History)) defect {
		return defect{"C12", name, also, spoilt(change)}
	}
	last := func(h *history.History, key string) *history.EtcdEvent {
		all := events(h, key)
		return all[len(all)-1]
	}
	return []defect{
		{"C12", "called lost by its holder, and it runs on", "", givenUp(3)},
		log("a cursor that moves back", "C11", func(h *history.History) {
			restate(h, "loses", 3, false, func(s *storedv1.State) { s.Cursor = stamp(1) })
		}),
		log("a counter that shrinks", "C11", func(h *history.History) {
			restate(h, "loses", 4, false, func(s *storedv1.State) { s.Counters[0].Count -= 2 })
		}),
		log("a ring that shrinks", "", func(h *history.History) {
			restate(h, "loses", 4, false, func(s *storedv1.State) { s.Slots = 10 })
		}),
		log("two attempts in flight", "C04 C05 C11", func(h *history.History) {
			restate(h, "loses", 4, false, func(s *storedv1.State) {
				s.Entries = append(s.Entries, &storedv1.Entry{Firing: &storedv1.Firing{Scheduled: at(99).Unix()}, Attempt: 1, Slot: 9, Due: stamp(99)})
			})
		}),
		log("an entry that leaves without its record", "", func(h *history.History) {
			forget(h, events(h, "runs/")[0].Key)
		}),
		log("a record in a slot that was not promised", "", func(h *history.History) {
			e := events(h, "runs/")[0]
			e.Key = e.Key[:len(e.Key)-3] + "009"
		}),
		log("a lock without an entry", "C07 C09", func(h *history.History) {
			rewrite(events(h, "locks/")[0], new(storedv1.Lock), func(k *storedv1.Lock) { k.Nonce, k.Attempt, k.Member = "another", 7, "n9" })
		}),
		log("a lock that hangs on no lease", "", func(h *history.History) { events(h, "locks/")[0].Lease = 0 }),
		log("an entry without a lock", "C09", func(h *history.History) { forget(h, events(h, "locks/")[0].Key) }),
		log("a token that is rewritten", "", func(h *history.History) {
			restate(h, "loses", 6, false, func(s *storedv1.State) { s.Entries[0].Token++ })
		}),
		log("called lost before it was surely dead", "", func(h *history.History) {
			for _, key := range []string{"locks/01j" + zeros(0), "locks/01j" + zeros(1)} {
				for _, e := range events(h, key) {
					if e.Deleted && e.At.After(at(8)) && e.At.Before(at(9)) {
						e.At = at(15)
					}
				}
			}
		}),
		log("a verdict that changes", "", func(h *history.History) {
			rewrite(events(h, "runs/01j"+zeros(1))[1], new(storedv1.Run), func(r *storedv1.Run) { r.Attempts[0].Verdict, r.Attempts[0].Reason = 1, 0 })
		}),
		log("a generation that is left out", "C14", func(h *history.History) {
			rewrite(last(h, "jobs/0a/default/loses"), new(storedv1.Job), func(j *storedv1.Job) { j.Generation = 1 })
			rewrite(events(h, "jobs/0a/default/edited")[1], new(storedv1.Job), func(j *storedv1.Job) { j.Generation = 3 })
		}),
	}
}

// zeros is the uid of a recorded job without its beginning.
func zeros(n int) string {
	const all = "00000000000000000000000"
	return all[:len(all)-1] + string(rune('0'+n))
}

// stateLookalikes are steps that the graph has.
func stateLookalikes() []lookalike {
	return []lookalike{
		{"C12", "lost and tried again", lost("retry")},
		{"C12", "called lost by its holder, who could not record its end", givenUp(0)},
		{"C12", "seen late, for the watch had lost its line", spoilt(func(h *history.History) {
			for _, e := range events(h, "locks/") {
				if e.Deleted && e.At.After(at(8)) && e.At.Before(at(9)) {
					e.At, e.Late = at(15), true
				}
			}
		})},
		{"C12", "an end that is counted with the next begin, long after", brief(map[int]second{3: nothing, 4: nothing, 5: func(r *recording, j *recordedJob) {
			for s := 3; s <= 5; s++ {
				r.begin(float64(s)+0.05, j, "n1", s, "")
				r.end(float64(s)+0.2, j, 0)
			}
		}})},
	}
}
