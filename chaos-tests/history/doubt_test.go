package history_test

import (
	"strings"
	"testing"
	"time"

	"github.com/quorumcron/quorumcron/chaos-tests/history"
)

// TestWhatShowsNothingIsInconclusive takes away, one at a time, what a history needs to show anything: it
// must not pass, and must say what it lacks.
func TestWhatShowsNothingIsInconclusive(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		history func() history.History
		needs   history.Needs
		says    string
	}{
		{"a fault without proof", spoilt(func(h *history.History) { h.Faults[0].Proof = "" }), history.Needs{}, "nothing proves that this fault took hold: F01 node-kill n2"},
		{"a gap in the watch", spoilt(func(h *history.History) { h.Etcd.Gaps = []history.Gap{{From: 110, To: 112}} }), history.Needs{}, "the first of revisions 110 to 112"},
		{"a watch that ends too early", spoilt(func(h *history.History) { h.Etcd.Head++ }), history.Needs{}, "ends at revision"},
		{"a watch that saw nothing", spoilt(func(h *history.History) { h.Etcd.Events = nil }), history.Needs{}, "saw nothing"},
		{"no watch, and one is needed", spoilt(func(h *history.History) { h.Etcd = nil }), history.Needs{Checks: []string{"C12"}}, "C12 (states) had nothing to look at: it needs etcd's log"},
		{"a slow disk", spoilt(func(h *history.History) { h.FsyncP99 = 513 * time.Millisecond }), history.Needs{}, "fsync p99 was 513ms"},
		{"too few instants", story, history.Needs{Required: 1000}, "41 instants needed a verdict, and 1000 are the least"},
		{"too few of them under fault", story, history.Needs{InFaults: 1000}, "37 instants fell into faults, and 1000 are the least"},
		{"nothing in flight where a fault struck", spoilt(func(h *history.History) {
			h.Faults = append(h.Faults[:0:0], h.Faults...)
			h.Faults = append(h.Faults, befell(history.Slow, "n1", 9, 9.5))
		}), history.Needs{InFlight: 2}, "1 faults met an attempt in flight"},
		{"no effect that the fence was needed for", frozen, history.Needs{Refused: 3}, "1 effects were refused for their token"},
		{"a fence that its twin contradicts", with(frozen, func(h *history.History) {
			accept(h, func(e history.Effect) bool { return e.Ledger == history.Plain && e.Token < e.Highest }, func(e *history.Effect) { e.Highest = e.Token })
		}), history.Needs{Refused: 1}, "0 effects were refused for their token"},
		{"effects that reached nobody", with(brief(nil), func(h *history.History) {
			h.Lines[1].Event = history.Unsent
		}), history.Needs{}, "1 effects of 10 reached no receiver"},
		{"no effects", spoilt(func(h *history.History) { h.Effects = nil; h.Lines = dropOf(h.Lines, sent) }), history.Full(), "C08 (unfenced) had nothing to look at"},
		{"nothing asked of the nodes", spoilt(func(h *history.History) { h.Statuses, h.Samples = nil, nil }), history.Full(), "C15 (recovery) had nothing to look at"},
		{"nothing at all", func() history.History { return history.History{} }, history.Full(), "C02 (duplicate) had nothing to look at"},
		{"an unknown call, and no log that knows", with(brief(nil), func(h *history.History) {
			h.Etcd = nil
			h.Changes = append(h.Changes, history.Change{Op: history.Pause, Job: "one", Invoked: at(30), Returned: at(31), Result: history.Unknown})
		}), history.Needs{}, "nobody knows what became of pause"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			j := tt.history().Judge(tt.needs)
			if j.Verdict != history.Inconclusive || !strings.Contains(strings.Join(j.Doubts, "\n"), tt.says) {
				t.Errorf("it is %s with doubts %q\n%s\nwant inconclusive, and %q", j.Verdict, j.Doubts, lines(j.Findings), tt.says)
			}
		})
	}
}

// TestASlowDiskExcusesWhatIsLateAndNothingElse: etcd was slower than its own time-outs, so that nothing is
// promised of when; all else holds however slow it is.
func TestASlowDiskExcusesWhatIsLateAndNothingElse(t *testing.T) {
	t.Parallel()
	tests := []struct {
		check, name string
		want        history.Verdict
	}{
		{"C01", "missed, and the fault log is empty", history.Inconclusive},
		{"C01", "skipped for an edit that came much later", history.Inconclusive},
		{"C03", "late without a fault", history.Inconclusive},
		{"C10", "lost with a node that nothing befell", history.Inconclusive},
		{"C15", "no dispatcher R after the last fault", history.Inconclusive},
		{"C01", "an instant that nothing says anything of", history.Invalid},
		{"C01", "a skip for an overlap with an attempt that had ended", history.Invalid},
		{"C02", "one attempt starts twice", history.Invalid},
		{"C03", "started long after its grant", history.Invalid},
		{"C03", "granted after its start deadline", history.Invalid},
	}
	for _, tt := range tests {
		t.Run(tt.check+"/"+tt.name, func(t *testing.T) {
			t.Parallel()
			for _, d := range defects() {
				if d.check != tt.check || d.name != tt.name {
					continue
				}
				h := d.history()
				h.FsyncP99 = history.SlowestFsync + 1
				if j := h.Judge(history.Needs{}); j.Verdict != tt.want {
					t.Errorf("it is %s with doubts %q, want %s\n%s", j.Verdict, j.Doubts, tt.want, lines(j.Findings))
				}
				return
			}
			t.Error("there is no such defect")
		})
	}
}

func sent(l history.Line) bool {
	return l.Event == history.Done || l.Event == history.Refused || l.Event == history.Unsent
}

// TestInvalidIsInvalidWhateverIsMissing: a doubt is no excuse for what was found.
func TestInvalidIsInvalidWhateverIsMissing(t *testing.T) {
	t.Parallel()
	h := story()
	h.Faults[0].Proof = ""
	linesOf(&h, "loses", 3, func(l *history.Line) { l.Member = "n3" })
	if j := h.Judge(history.Full()); j.Verdict != history.Invalid || len(j.Doubts) == 0 {
		t.Errorf("it is %s with doubts %q", j.Verdict, j.Doubts)
	}
}

func TestLeaksCompareTheCalmBeforeWithTheCalmAfter(t *testing.T) {
	t.Parallel()
	samples := func(goroutines, descriptors, memory float64) []history.Sample {
		var all []history.Sample
		for i := range 5 {
			all = append(all, history.Sample{At: at(float64(i)), Node: "n1", Ready: true, Metrics: map[string]float64{
				"go_goroutines": goroutines + float64(i%3), "process_open_fds": descriptors, "process_resident_memory_bytes": memory * (1 << 20),
			}})
		}
		return all
	}
	before := samples(100, 20, 40)
	space := history.Space{Leases: 6, Members: 3, DatabaseBytes: 1 << 20}
	tests := []struct {
		name  string
		after []history.Sample
		left  history.Space
		lines int
		want  string // part of the one thing that leaked; "" for nothing
	}{
		{"as before", samples(100, 20, 40), space, 0, ""},
		{"a little more", samples(140, 40, 90), space, 0, ""},
		{"goroutines", samples(200, 20, 40), space, 0, "go_goroutines of n1 went from 101 to 201"},
		{"descriptors", samples(100, 60, 40), space, 0, "process_open_fds of n1 went from 20 to 60"},
		{"memory", samples(100, 20, 140), space, 0, "process_resident_memory_bytes"},
		{"a lease that nobody keeps", samples(100, 20, 40), history.Space{Leases: 7, Members: 3, DatabaseBytes: 1 << 20}, 0, "7 leases are left in etcd, and 3 members need 6"},
		{"a lock that nobody holds", samples(100, 20, 40), history.Space{Leases: 6, Members: 3, Locks: 1, DatabaseBytes: 1 << 20}, 0, "1 locks"},
		{"a file that has grown", samples(100, 20, 40), history.Space{Leases: 6, Members: 3, DatabaseBytes: 200 << 20}, 0, "from 1 to 200 MiB"},
		{"a file that has grown with what was written", samples(100, 20, 40), history.Space{Leases: 6, Members: 3, DatabaseBytes: 200 << 20}, 50_000, ""},
		{"a node that was not there before", nil, space, 0, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			found, looked := history.Leaks(before, tt.after, &space, &tt.left, tt.lines)
			switch {
			case looked == 0:
				t.Error("nothing was compared")
			case tt.want == "" && len(found) > 0:
				t.Errorf("found %q", found)
			case tt.want != "" && (len(found) != 1 || !strings.Contains(found[0].What, tt.want)):
				t.Errorf("found %q, want one with %q", found, tt.want)
			}
		})
	}
}
