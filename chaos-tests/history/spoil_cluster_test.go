package history_test

import (
	"slices"
	"strings"
	"time"

	"github.com/quorumcron/quorumcron/chaos-tests/history"
)

// apiDefects spoil what C14 and C18 look at.
func apiDefects() []defect {
	return []defect{
		{"C14", "a reply without a commit", "", spoilt(func(h *history.History) {
			h.Changes = append(h.Changes, history.Change{Op: history.Apply, Job: "loses", Invoked: at(30), Returned: at(30.1), Result: history.OK, Spec: history.Spec{Version: 9}})
		})},
		{"C14", "a definition that nobody asked for", "", spoilt(func(h *history.History) {
			for i, c := range h.Changes {
				if c.Op == history.Pause {
					h.Changes[i].Result = history.Failed
				}
			}
		})},
		{"C14", "a read that is behind a reply", "", spoilt(func(h *history.History) { h.Reads[4].Generation = 3 })},
		{"C14", "a job that a node has forgotten", "", spoilt(func(h *history.History) { h.Reads[6].Found, h.Reads[6].UID = false, "" })},
		{"C14", "a read that goes back behind another", "", with(brief(nil), func(h *history.History) {
			h.Etcd = nil
			read := history.Read{Job: "one", Node: "n1", Invoked: at(3), Returned: at(3.1), Result: history.OK, Found: true, UID: "01j" + zeros(0), Generation: 2}
			older := read
			older.Invoked, older.Returned, older.Node, older.Generation = at(3.2), at(3.3), "n2", 1
			h.Reads = []history.Read{read, older}
		})},
		{"C14", "a trigger that was acknowledged and never stored", "C11", spoilt(func(h *history.History) {
			h.Changes = append(h.Changes, history.Change{Op: history.Trigger, Job: "loses", Invoked: at(30), Returned: at(30.1), Result: history.OK, Firing: "01j" + zeros(0) + "+t8"})
		})},
		{"C18", "an instant that is left out", "", spoilt(func(h *history.History) { h.Previews[0].Next[1] = at(6) })},
		{"C18", "the instants of an older definition", "", spoilt(func(h *history.History) {
			h.Previews[1].Next = []time.Time{at(20), at(22)}
		})},
		{"C18", "nothing shown, and something due", "", spoilt(func(h *history.History) { h.Previews[0].Next = nil })},
	}
}

// apiLookalikes are right, though they look like what C14 and C18 are for.
func apiLookalikes() []lookalike {
	return []lookalike{
		{"C14", "an apply that changes nothing", spoilt(func(h *history.History) {
			h.Changes = append(h.Changes, history.Change{Op: history.Apply, Job: "loses", Invoked: at(30), Returned: at(30.1), Result: history.OK, Spec: h.Changes[0].Spec})
		})},
		{"C14", "a read beside the change that it does not see yet", spoilt(func(h *history.History) {
			h.Reads = append(h.Reads, history.Read{Job: "edited", Node: "n1", Invoked: at(14.59), Returned: at(14.63), Result: history.OK, Found: true, UID: "01j" + zeros(2), Generation: 3})
		})},
		{"C14", "an unknown change that took effect", spoilt(func(h *history.History) {
			for i, c := range h.Changes {
				if c.Op == history.Pause {
					h.Changes[i].Result = history.Unknown
				}
			}
		})},
		{"C14", "an unknown change that did not", spoilt(func(h *history.History) {
			h.Changes = append(h.Changes, history.Change{Op: history.Pause, Job: "loses", Invoked: at(30), Returned: at(35), Result: history.Unknown})
		})},
		{"C14", "a resume of what an unknown pause never paused", spoilt(func(h *history.History) {
			pause := history.Change{Op: history.Pause, Job: "edited", Invoked: at(2.5), Returned: at(3), Result: history.Unknown}
			resume := history.Change{Op: history.Resume, Job: "edited", Invoked: at(3.1), Returned: at(3.2), Result: history.OK}
			h.Changes = slices.Insert(h.Changes, 3, pause, resume)
		})},
		{"C14", "a pause of what was paused, while a clock was far off", spoilt(func(h *history.History) {
			f := befell(history.ClockOffset, "n1", 30, 31)
			f.Skew = 10 * time.Second
			h.Faults = append(h.Faults, f)
			again := history.Change{Op: history.Pause, Job: "edited", Invoked: at(9), Returned: at(9.1), Result: history.OK, Generation: 2}
			i := slices.IndexFunc(h.Changes, func(c history.Change) bool { return c.Op == history.Resume })
			h.Changes = slices.Insert(h.Changes, i, again)
		})},
		{"C14", "calls that change nothing, long before those that do, while a clock was far off", spoilt(func(h *history.History) {
			f := befell(history.ClockOffset, "n1", 30, 31)
			f.Skew = time.Hour
			h.Faults = append(h.Faults, f)
			written := slices.DeleteFunc(events(h, "jobs/"), func(e *history.EtcdEvent) bool { return !strings.HasSuffix(e.Key, "/edited") })
			edits := 0
			for i, c := range h.Changes {
				if c.Job == "edited" && c.Op != history.Trigger && c.Op != history.Cancel && edits < len(written) {
					h.Changes[i].Revision = written[edits].Revision
					edits++
				}
			}
			idle := func(op string, s float64) history.Change {
				return history.Change{Op: op, Job: "edited", Invoked: at(s), Returned: at(s + 0.1), Result: history.OK}
			}
			h.Changes = slices.Insert(h.Changes, 3, idle(history.Resume, 1.5), idle(history.Resume, 2.5))
			i := slices.IndexFunc(h.Changes, func(c history.Change) bool { return c.Job == "edited" && c.Op == history.Resume && c.Revision != 0 })
			h.Changes = slices.Insert(h.Changes, i, idle(history.Pause, 9))
		})},
		{"C18", "a node whose clock is ahead", spoilt(func(h *history.History) {
			f := befell(history.ClockOffset, "n1", 3, 3.5)
			f.Skew = 2300 * time.Millisecond
			h.Faults = append(h.Faults, f)
			h.Previews[0].Next = []time.Time{at(6), at(7)}
		})},
		{"C14", "a repeated delete", spoilt(func(h *history.History) {
			for i, c := range h.Changes {
				if c.Op == history.Delete {
					c.Invoked, c.Returned, c.Revision = at(21), at(21.1), 0
					h.Changes = slices.Insert(h.Changes, i+1, c)
					return
				}
			}
		})},
		{"C18", "an instant that had just passed when the answer was on its way", spoilt(func(h *history.History) {
			h.Previews[0].At = at(4.05)
		})},
	}
}

// clusterDefects spoil what C15 to C17 look at.
func clusterDefects() []defect {
	return []defect{
		{"C15", "no dispatcher R after the last fault", "", spoilt(func(h *history.History) { h.Statuses[20].Dispatcher = "" })},
		{"C15", "shards without an owner", "", spoilt(func(h *history.History) { h.Statuses[30].ShardsOwned = 255 })},
		{"C15", "two dispatchers", "", spoilt(func(h *history.History) { h.Statuses[30].Dispatcher = "n3" })},
		{"C15", "a node that never gets ready again", "", spoilt(func(h *history.History) {
			h.Samples = append(h.Samples, history.Sample{At: at(30), Node: "n3", Readyz: "etcd is away"})
		})},
		{"C16", "goroutines that stay", "", spoilt(func(h *history.History) { grown(h, "go_goroutines", 3) })},
		{"C16", "descriptors that stay", "", spoilt(func(h *history.History) { grown(h, "process_open_fds", 4) })},
		{"C16", "memory that stays", "", spoilt(func(h *history.History) { grown(h, "process_resident_memory_bytes", 4) })},
		{"C16", "leases of the dead", "", spoilt(func(h *history.History) { h.Spaces[1].Leases = 6 })},
		{"C16", "locks of nobody", "", spoilt(func(h *history.History) { h.Spaces[1].Locks = 1 })},
		{"C16", "a database without bound", "", spoilt(func(h *history.History) { h.Spaces[1].DatabaseBytes = 1 << 30 })},
		{"C17", "a dead node that stays a member", "", spoilt(func(h *history.History) {
			for i := range h.Statuses {
				h.Statuses[i].Members = []history.MemberStatus{{Name: "n1"}, {Name: "n2"}, {Name: "n3"}}
			}
		})},
		{"C17", "a node that is cut off and says that it is ready", "", spoilt(func(h *history.History) {
			h.Faults = append(h.Faults, history.Fault{ID: "F11", Kind: history.NodeCut, Node: "n3", From: at(6), To: at(16), Proof: "3 requests fell"})
		})},
		{"C17", "frozen for long after etcd's leader was, and still a member", "", spoilt(func(h *history.History) {
			f, leader := befell(history.NodeFreeze, "n3", 6, 30), befell(history.EtcdFreeze, "", 6, 8)
			f.Shown, leader.Etcd = "", "etcd1"
			h.Faults = append(h.Faults, f, leader)
		})},
		{"C17", "etcd without space, and nobody says so", "", spoilt(func(h *history.History) {
			h.Faults = append(h.Faults, history.Fault{ID: "F22", Kind: history.NoSpace, From: at(6), To: at(16), Proof: "alarm"})
		})},
	}
}

// grown multiplies a figure of the time after the faults.
func grown(h *history.History, name string, times float64) {
	for i, s := range h.Samples {
		if s.At.After(at(15.5)) && s.Node == "n1" {
			h.Samples[i].Metrics[name] *= times
		}
	}
}

// clusterLookalikes are right, though they look like what C15 to C17 are for.
func clusterLookalikes() []lookalike {
	return []lookalike{
		{"C15", "not ready while it recovers", spoilt(func(h *history.History) {
			h.Statuses[10].Dispatcher, h.Statuses[10].ShardsOwned = "", 170
			h.Samples = append(h.Samples, history.Sample{At: at(12), Node: "n3", Readyz: "rejoining"})
		})},
		{"C16", "a peak that passed", spoilt(func(h *history.History) {
			for i, s := range h.Samples {
				if s.At.After(at(20)) && s.At.Before(at(24)) {
					h.Samples[i].Metrics["go_goroutines"] = 5000
				}
			}
		})},
		{"C17", "cut off for less than its session lives", spoilt(func(h *history.History) {
			h.Faults = append(h.Faults, history.Fault{ID: "F11", Kind: history.NodeCut, Node: "n3", From: at(6), To: at(7), Proof: "3 requests fell"})
		})},
		{"C17", "frozen while etcd's leader was, too: its lease begins anew with the next one", spoilt(func(h *history.History) {
			f, leader := befell(history.NodeFreeze, "n3", 6, 16), befell(history.EtcdFreeze, "", 6, 15)
			f.Shown, leader.Etcd = "", "etcd1"
			h.Faults = append(h.Faults, f, leader)
		})},
		{"C17", "a node that drains for long, and says so", spoilt(func(h *history.History) {
			h.Faults = append(h.Faults, history.Fault{ID: "F05", Kind: history.NodeTerm, Node: "n3", From: at(6), To: at(16), Proof: "ended by itself"})
			h.Samples = append(h.Samples, history.Sample{At: at(8), Node: "n3", Readyz: "draining"})
			for i, s := range h.Statuses {
				if !slices.ContainsFunc(s.Members, func(m history.MemberStatus) bool { return m.Name == "n3" }) {
					h.Statuses[i].Members = append(s.Members, history.MemberStatus{Name: "n3"})
				}
			}
			h.Phases[2].From = at(17)
		})},
		{"C17", "cut off from one member of etcd alone", spoilt(func(h *history.History) {
			h.Faults = append(h.Faults, history.Fault{ID: "F17", Kind: history.NodeHalfCut, Node: "n3", From: at(6), To: at(16), Proof: "30 replies held"})
			h.Phases[2].From = at(17)
		})},
		{"C17", "a clock that is off by less than stops anything", spoilt(func(h *history.History) {
			h.Faults = append(h.Faults, history.Fault{ID: "F31", Kind: history.ClockOffset, Node: "n3", From: at(6), To: at(15), Proof: "its status says so", Skew: 300 * time.Millisecond})
		})},
		{"C17", "seen by the controller alone", spoilt(func(h *history.History) {
			h.Faults = append(h.Faults, history.Fault{ID: "F22", Kind: history.NoSpace, From: at(6), To: at(16), Proof: "alarm", Shown: "status: NOSPACE"})
			h.Phases[2].From = at(17)
		})},
	}
}
