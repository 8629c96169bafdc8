package history_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quorumcron/quorumcron/chaos-tests/history"
)

const uid = "01jzzzzzzzzzzzzzzzzzzzzzzz"

// epoch is a whole second from which the hand-made histories count.
var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// at is so many seconds after epoch.
func at(seconds float64) time.Time {
	return epoch.Add(time.Duration(seconds * float64(time.Second)))
}

func firing(second int) string { return uid + "@" + at(float64(second)).Format(time.RFC3339) }

// clean is a history of one job each second with twelve instants, at which nothing is wrong: two of
// them SKIPPED for an overlap, two MISSED, one run FAILED, one LOST with the node n2.
//
//	 1  2  3   4   5       6       7    8    9  10 11   12
//	ok ok ok fail LOST skipped skipped missed.. ok  ok  ok
func clean() history.History {
	h := history.History{
		Plans: []history.Plan{{
			Job: "j", Period: time.Second, Applied: at(0.2), Acknowledged: at(0.4), End: at(13), Attempts: 1, Kept: 100,
		}},
		Jobs: []history.Job{{
			Name: "j", Namespace: "default", UID: uid, Created: at(0.3), Cursor: at(12),
			Counters: []history.Counter{
				{Verdict: "FAILED", Reason: "exit code", Count: 1}, {Verdict: "LOST", Reason: "member lost", Count: 1},
				{Verdict: "MISSED", Reason: "catch-up policy", Count: 2}, {Verdict: "SKIPPED", Reason: "overlap", Count: 2},
				{Verdict: "SUCCEEDED", Count: 6},
			},
			Ranges: []history.Range{
				{Verdict: "SKIPPED", Reason: "overlap", First: at(6), Last: at(7), Count: 2},
				{Verdict: "MISSED", Reason: "catch-up policy", First: at(8), Last: at(9), Count: 2},
			},
		}},
		Faults: []history.Fault{{Node: "n2", From: at(5.5)}},
	}
	for _, second := range []int{1, 2, 3, 4, 5, 10, 11, 12} {
		node, verdict, reason, exit := "n1", "SUCCEEDED", "", 0
		switch second {
		case 4:
			verdict, reason, exit = "FAILED", "exit code", 3
		case 5:
			node, verdict, reason = "n2", "LOST", "member lost"
		}
		token := fmt.Sprint(100 + second)
		r := history.Run{
			Job: "j", Namespace: "default", Firing: firing(second), Instant: at(float64(second)), Attempt: 1,
			Verdict: verdict, Reason: reason, Member: node, Token: token,
			Attempts: []history.Attempt{{Number: 1, Token: token, Member: node, Verdict: verdict, Reason: reason}},
		}
		begin := line(history.Start, node, second, float64(second)+0.1)
		h.Lines = append(h.Lines, begin, line(history.Beat, node, second, float64(second)+0.2))
		if verdict != "LOST" {
			end := line(history.End, node, second, float64(second)+0.3)
			end.Exit, r.ExitCode = exit, &exit
			h.Lines = append(h.Lines, end)
		}
		h.Runs = append(h.Runs, r)
	}
	return h
}

// line is what the command of the firing of a second wrote at another.
func line(event, node string, second int, written float64) history.Line {
	return history.Line{
		Event: event, BootNS: int64(written * 1e9), WallNS: at(written).UnixNano(), Node: node, Namespace: "default", Job: "j",
		Firing: firing(second), Instant: at(float64(second)).Format(time.RFC3339), Attempt: "1", Token: fmt.Sprint(100 + second),
		Member: node, PID: 1000 + second, Nonce: fmt.Sprint("nonce", second),
	}
}

// of finds the lines of the firing of a second.
func of(h *history.History, second int) []*history.Line {
	var found []*history.Line
	for i := range h.Lines {
		if h.Lines[i].Firing == firing(second) {
			found = append(found, &h.Lines[i])
		}
	}
	return found
}

// run finds the run of a second.
func run(h *history.History, second int) *history.Run {
	i := slices.IndexFunc(h.Runs, func(r history.Run) bool { return r.Firing == firing(second) })
	return &h.Runs[i]
}

func drop[T any](list *[]T, bad func(T) bool) { *list = slices.DeleteFunc(*list, bad) }

func TestACleanHistoryPasses(t *testing.T) {
	t.Parallel()
	h := clean()
	if found := h.Check(); len(found) > 0 {
		t.Errorf("found %q in a history without fault", found)
	}
	if found := h.Late(func(history.Line) time.Duration { return 100 * time.Millisecond }); len(found) > 0 {
		t.Errorf("found %q late", found)
	}
}

// TestEveryDefectIsFound spoils the clean history in one way each: a checker that does not fail proves
// nothing when it passes.
func TestEveryDefectIsFound(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		spoil func(h *history.History)
		kinds []string // all that must be found, and nothing else
	}{
		{"the same attempt starts twice", func(h *history.History) {
			again := line(history.Start, "n1", 3, 3.6)
			again.Nonce = "another"
			h.Lines = append(h.Lines, again)
		}, []string{"C02", "C05", "C05", "C05", "C09"}},
		{"a second attempt starts where one is allowed", func(h *history.History) {
			for _, event := range []string{history.Start, history.End} {
				again := line(event, "n1", 3, 3.6)
				again.Nonce, again.Attempt, again.Token = "another", "2", "1035"
				h.Lines = append(h.Lines, again)
			}
			drop(&h.Lines, func(l history.Line) bool { return l.BootNS > 4e9 })
			drop(&h.Runs, func(r history.Run) bool { return r.Instant.After(at(3)) })
			r := run(h, 3)
			r.Attempts = append(r.Attempts, history.Attempt{Number: 2, Token: "1035", Member: "n1", Verdict: "SUCCEEDED"})
			r.Token = "1035"
			h.Plans[0].End = at(4)
			h.Jobs[0].Ranges, h.Jobs[0].Counters = nil, []history.Counter{{Verdict: "SUCCEEDED", Count: 3}}
		}, []string{"C02"}},
		{"a start for an instant that the schedule does not have", func(h *history.History) {
			for _, l := range of(h, 12) {
				l.Instant = at(12).Add(500 * time.Millisecond).Format(time.RFC3339Nano)
			}
		}, []string{"C04", "C05"}},
		{"a start of a job that nobody applied", func(h *history.History) {
			other := line(history.Start, "n1", 12, 12.5)
			other.Job = "k"
			h.Lines = append(h.Lines, other)
		}, []string{"C05"}},
		{"a start of an earlier uid", func(h *history.History) {
			for _, l := range of(h, 12) {
				l.Firing = strings.Replace(l.Firing, uid, "01jyyyyyyyyyyyyyyyyyyyyyyy", 1)
			}
			run(h, 12).Firing = strings.Replace(firing(12), uid, "01jyyyyyyyyyyyyyyyyyyyyyyy", 1)
		}, []string{"C05"}},
		{"a start before its instant", func(h *history.History) {
			of(h, 12)[0].WallNS = at(11.99).UnixNano()
		}, []string{"C04"}},
		{"more starts than instants that were due", func(h *history.History) {
			// All clocks of the scheduler's own making are right: only counting finds it.
			for _, second := range []int{1, 2, 3} {
				for _, l := range of(h, second) {
					l.WallNS -= int64(time.Second)
				}
			}
		}, []string{"C04", "C04", "C04", "C05", "C05", "C05"}},
		{"two commands of one job at a time", func(h *history.History) {
			lines := of(h, 2)
			for _, l := range lines[1:] {
				l.BootNS += 1e9
			}
		}, []string{"C06"}},
		{"a child of a dead command lives into the next firing", func(h *history.History) {
			child := line(history.Beat, "n1", 2, 3.15)
			child.Child = true
			h.Lines = append(h.Lines, child)
		}, []string{"C06"}},
		{"a long life hides a later overlap", func(h *history.History) {
			beat := line(history.Beat, "n2", 5, 11.15) // over the whole of 10 and into 11
			h.Lines = append(h.Lines, beat)
		}, []string{"C06", "C06"}},
		{"a token that does not grow", func(h *history.History) {
			for _, l := range of(h, 11) {
				l.Token = "110"
			}
			run(h, 11).Token, run(h, 11).Attempts[0].Token = "110", "110"
		}, []string{"C09"}},
		{"a token that the record does not have", func(h *history.History) {
			for _, l := range of(h, 4) {
				l.Token = "99999"
			}
			run(h, 4).Verdict, run(h, 4).Reason = "CANCELED", ""
			h.Jobs[0].Counters[0] = history.Counter{Verdict: "CANCELED", Count: 1}
			drop(&h.Lines, func(l history.Line) bool { return l.BootNS > 5e9 })
			drop(&h.Runs, func(r history.Run) bool { return r.Instant.After(at(4)) })
			h.Plans[0].End = at(5)
			h.Jobs[0].Ranges, h.Jobs[0].Counters = nil, []history.Counter{{Verdict: "CANCELED", Count: 1}, {Verdict: "SUCCEEDED", Count: 3}}
		}, []string{"C09"}},
		{"an instant without record or range", func(h *history.History) {
			drop(&h.Runs, func(r history.Run) bool { return r.Firing == firing(12) })
			drop(&h.Lines, func(l history.Line) bool { return l.Firing == firing(12) })
			h.Jobs[0].Counters[4].Count--
		}, []string{"C01", "C11", "C11"}},
		{"an instant after the cursor", func(h *history.History) {
			drop(&h.Runs, func(r history.Run) bool { return r.Firing == firing(12) })
			drop(&h.Lines, func(l history.Line) bool { return l.Firing == firing(12) })
			h.Jobs[0].Counters[4].Count--
			h.Jobs[0].Cursor = at(11)
		}, []string{"C01", "C11", "C11"}},
		{"an instant that the counters forgot", func(h *history.History) {
			h.Jobs[0].Counters[2].Count--
		}, []string{"C11", "C11"}},
		{"an instant counted twice", func(h *history.History) {
			h.Jobs[0].Counters[3].Count++
		}, []string{"C11", "C11"}},
		{"an instant both skipped and missed", func(h *history.History) {
			h.Jobs[0].Ranges[1].First, h.Jobs[0].Ranges[1].Count = at(7), 3
		}, []string{"C11", "C11"}},
		{"a range that says more than it covers", func(h *history.History) {
			h.Jobs[0].Ranges[0].Count = 3
			h.Jobs[0].Counters[3].Count = 3
			h.Jobs[0].Counters[2].Count = 1
			h.Jobs[0].Ranges[1].Last, h.Jobs[0].Ranges[1].Count = at(8), 1
		}, []string{"C01", "C11", "C11"}},
		{"two records of one firing", func(h *history.History) {
			h.Runs = append(h.Runs, *run(h, 3))
		}, []string{"C11", "C11", "C11"}},
		{"a record of an instant that is none", func(h *history.History) {
			run(h, 12).Instant = at(12.5)
		}, []string{"C11", "C11"}},
		{"a firing that never ends", func(h *history.History) {
			run(h, 5).Verdict, run(h, 5).Reason = "", ""
			h.Jobs[0].Counters[1].Count = 0
		}, []string{"C11", "C11"}},
		{"a start without a record", func(h *history.History) {
			drop(&h.Runs, func(r history.Run) bool { return r.Firing == firing(12) })
		}, []string{"C10", "C11", "C11"}},
		{"a skipped firing that started", func(h *history.History) {
			drop(&h.Runs, func(r history.Run) bool { return r.Firing == firing(10) })
			h.Jobs[0].Ranges[1].Last, h.Jobs[0].Ranges[1].Count = at(10), 3
			h.Jobs[0].Counters[2].Count, h.Jobs[0].Counters[4].Count = 3, 5
		}, []string{"C10", "C10"}},
		{"a success whose command never ended", func(h *history.History) {
			drop(&h.Lines, func(l history.Line) bool { return l.Firing == firing(3) && l.Event == history.End })
		}, []string{"C10", "C11"}},
		{"a success whose command failed", func(h *history.History) {
			of(h, 3)[2].Exit = 1
		}, []string{"C10", "C11"}},
		{"a failure whose command succeeded", func(h *history.History) {
			of(h, 4)[2].Exit = 0
		}, []string{"C10"}},
		{"a success that nothing started", func(h *history.History) {
			drop(&h.Lines, func(l history.Line) bool { return l.Firing == firing(3) })
		}, []string{"C10", "C11"}},
		{"never started, and yet it did", func(h *history.History) {
			run(h, 5).Attempts[0].Reason, run(h, 5).Reason = "never started", "never started"
		}, []string{"C10"}},
		{"lost with a node that lives", func(h *history.History) {
			h.Faults = nil
		}, []string{"C01", "C01", "C10"}},
		{"a node that passes for another", func(h *history.History) {
			for _, l := range of(h, 3) {
				l.Member = "n3"
			}
		}, []string{"C07"}},
		{"a record that names another node", func(h *history.History) {
			run(h, 3).Attempts[0].Member = "n3"
		}, []string{"C07"}},
		{"a trigger that nobody asked for", func(h *history.History) {
			for _, l := range of(h, 12) {
				l.Instant, l.Firing = "", uid+"+t1"
			}
			r := run(h, 12)
			r.Instant, r.Firing = time.Time{}, uid+"+t1"
			h.Plans[0].End = at(12)
		}, []string{"C05", "C11"}},
		{"a trigger that is forgotten", func(h *history.History) {
			h.Plans[0].Triggers = 1
		}, []string{"C11"}},
		{"a job that the cluster does not know", func(h *history.History) {
			h.Jobs[0].Name = "k"
		}, nil},
		{"created before it was asked for", func(h *history.History) {
			h.Jobs[0].Created = at(0.1)
		}, []string{"C11"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := clean()
			tt.spoil(&h)
			found := h.Judge(history.Needs{}).Findings
			if tt.kinds == nil {
				if len(found) == 0 {
					t.Error("found nothing")
				}
				return
			}
			var kinds []string
			for _, v := range found {
				kinds = append(kinds, v.Check)
			}
			slices.Sort(kinds)
			slices.Sort(tt.kinds)
			if diff := cmp.Diff(tt.kinds, kinds); diff != "" {
				t.Errorf("kinds (-want +got):\n%s%q", diff, found)
			}
		})
	}
}

func TestLateStartsAreFound(t *testing.T) {
	t.Parallel()
	h := clean()
	of(&h, 11)[0].WallNS = at(13).UnixNano()
	found := h.Late(func(history.Line) time.Duration { return 1999 * time.Millisecond })
	if len(found) != 1 || found[0].Check != "C03" {
		t.Errorf("found %q, want the one start that is 2 s late", found)
	}
	all := h.Lateness(func(history.Line) bool { return true })
	if all.N != 8 || all.Max != 2*time.Second || all.P50 != 100*time.Millisecond {
		t.Errorf("lateness is %s", all)
	}
}

func TestATriggeredFiringIsAccountedFor(t *testing.T) {
	t.Parallel()
	h := clean()
	for _, l := range of(&h, 12) {
		l.Instant, l.Firing = "", uid+"+t1"
	}
	r := run(&h, 12)
	r.Instant, r.Firing = time.Time{}, uid+"+t1"
	h.Plans[0].End, h.Plans[0].Triggers = at(12), 1
	if found := h.Check(); len(found) > 0 {
		t.Errorf("found %q in a history without fault", found)
	}
}

// TestAgedRecordsLiveOnInTheCounters keeps the three newest runs: what is older is known by sums alone.
func TestAgedRecordsLiveOnInTheCounters(t *testing.T) {
	t.Parallel()
	aged := func() history.History {
		h := clean()
		h.Plans[0].Kept = 3
		drop(&h.Runs, func(r history.Run) bool { return r.Instant.Before(at(10)) })
		return h
	}
	h := aged()
	if found := h.Check(); len(found) > 0 {
		t.Errorf("found %q in a history without fault", found)
	}
	h = aged()
	h.Jobs[0].Counters[4].Count, h.Jobs[0].Counters[0].Count = 7, 0
	if found := h.Check(); len(found) == 0 {
		t.Error("seven are counted SUCCEEDED, six ended with 0, and nothing is found")
	}
	h = aged()
	drop(&h.Runs, func(r history.Run) bool { return r.Instant.Equal(at(12)) })
	if found := h.Check(); len(found) == 0 {
		t.Error("the newest run is gone, fewer are left than must be kept, and nothing is found")
	}
}

func TestTheOracleCountsMultiples(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name          string
		period        time.Duration
		after, before float64
		want          []float64
	}{
		{"both ends are left out", time.Second, 1, 4, []float64{2, 3}},
		{"a fraction before the end counts", time.Second, 0.9, 3.1, []float64{1, 2, 3}},
		{"minutes begin with the clock's", time.Minute, -1, 61, []float64{0, 60}},
		{"none", time.Second, 1.1, 1.9, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var want []time.Time
			for _, s := range tt.want {
				want = append(want, at(s))
			}
			if diff := cmp.Diff(want, history.Instants(tt.period, at(tt.after), at(tt.before))); diff != "" {
				t.Errorf("instants (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNothingIsDueBeforeTheScheduleStarts(t *testing.T) {
	t.Parallel()
	p := history.Plan{Period: time.Second, Start: at(3), End: at(5)}
	if diff := cmp.Diff([]time.Time{at(3), at(4)}, p.Due(at(0.5))); diff != "" {
		t.Errorf("due (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]time.Time{at(4)}, p.Due(at(3.5))); diff != "" {
		t.Errorf("due when created after the start (-want +got):\n%s", diff)
	}
}

func TestALineCutOffByAKillIsNoLine(t *testing.T) {
	t.Parallel()
	lines, err := history.ReadLines(strings.NewReader(`{"ev":"start","boot":5}` + "\n" + `{"ev":"en`))
	if err != nil || len(lines) != 1 || lines[0].BootNS != 5 {
		t.Errorf("read %v, %v", lines, err)
	}
	if _, err := history.ReadLines(strings.NewReader("{\"ev\":\n{}\n")); err == nil {
		t.Error("read a broken line in the middle")
	}
}
