package scheduler

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

func TestConsecutiveInstantsExtendOneRange(t *testing.T) {
	t.Parallel()
	v := situation(t, nil)
	one := func(at string, verdict Verdict, why Reason) Range {
		i := clockTime(t, at)
		return Range{Verdict: verdict, Reason: why, First: i, Last: i, Count: 1}
	}
	trigger := Range{Verdict: Skipped, Reason: ReasonOverlap, First: epoch, Last: epoch, Count: 1, Trigger: "a"}
	for _, row := range []struct {
		name string
		add  []Range
		want string
	}{{
		name: "the next instant with the same reason extends it",
		add:  []Range{one("10:01:00", Skipped, ReasonOverlap), one("10:02:00", Skipped, ReasonOverlap), one("10:03:00", Skipped, ReasonOverlap)},
		want: "range 10:01:00…10:03:00 ×3 SKIPPED(overlap)",
	}, {
		name: "an instant in between that ended otherwise begins a new one",
		add:  []Range{one("10:01:00", Skipped, ReasonOverlap), one("10:03:00", Skipped, ReasonOverlap)},
		want: "range 10:01:00…10:01:00 ×1 SKIPPED(overlap); range 10:03:00…10:03:00 ×1 SKIPPED(overlap)",
	}, {
		name: "another reason begins a new one",
		add:  []Range{one("10:01:00", Skipped, ReasonOverlap), one("10:02:00", Skipped, ReasonPaused)},
		want: "range 10:01:00…10:01:00 ×1 SKIPPED(overlap); range 10:02:00…10:02:00 ×1 SKIPPED(paused)",
	}, {
		name: "the same reason with another verdict begins a new one",
		add:  []Range{one("10:01:00", Skipped, ReasonOverlap), one("10:02:00", Missed, ReasonOverlap)},
		want: "range 10:01:00…10:01:00 ×1 SKIPPED(overlap); range 10:02:00…10:02:00 ×1 MISSED(overlap)",
	}, {
		name: "a trigger stands alone, and does not part the instants around it",
		add:  []Range{one("10:01:00", Skipped, ReasonOverlap), trigger, trigger, one("10:02:00", Skipped, ReasonOverlap)},
		want: "range 10:01:00…10:02:00 ×2 SKIPPED(overlap); range +a SKIPPED(overlap); range +a SKIPPED(overlap)",
	}, {
		name: "no instants make no range",
		add:  []Range{{Verdict: Missed, Reason: ReasonWindow}},
		want: "",
	}} {
		s := State{}
		for _, r := range row.add {
			s.account(v.Timetable, r)
		}
		s.Counters = nil
		want := "cursor -"
		if row.want != "" {
			want += "; " + row.want
		}
		if got := sketch(s); got != want {
			t.Errorf("%s:\n got %s\nwant %s", row.name, got, want)
		}
	}
}

func TestTheOldestRangeIsDroppedAndStaysCounted(t *testing.T) {
	t.Parallel()
	v := situation(t, nil)
	s := State{}
	for n := range MaxRanges + 4 {
		i := clockTime(t, "10:01:00").Add(time.Duration(2*n) * time.Minute) // every other instant
		s.account(v.Timetable, Range{Verdict: Skipped, Reason: ReasonOverlap, First: i, Last: i, Count: 1})
	}
	if len(s.Ranges) != MaxRanges || !s.Ranges[0].First.Equal(clockTime(t, "10:09:00")) {
		t.Errorf("got %d ranges from %v; want %d, the four oldest dropped", len(s.Ranges), s.Ranges[0].First, MaxRanges)
	}
	if want := []Counter{{Skipped, ReasonOverlap, MaxRanges + 4}}; !slices.Equal(s.Counters, want) {
		t.Errorf("got counters %v, want %v", s.Counters, want)
	}
}

func TestCountersAreKeptInOrder(t *testing.T) {
	t.Parallel()
	var a, b State
	ends := []Counter{{Succeeded, "", 2}, {Failed, ReasonExitCode, 1}, {Failed, ReasonError, 3}, {Missed, ReasonWindow, 5}, {Lost, ReasonMemberLost, 1}}
	for i := range ends {
		x, y := ends[i], ends[len(ends)-1-i]
		a.count(x.Verdict, x.Reason, x.Count)
		b.count(y.Verdict, y.Reason, y.Count)
	}
	if !slices.Equal(a.Counters, b.Counters) || len(a.Counters) != len(ends) {
		t.Errorf("the order of ends shows:\n%v\n%v", a.Counters, b.Counters)
	}
	a.count(Failed, ReasonError, 0)
	a.count(Canceled, "", -1)
	if !slices.Equal(a.Counters, b.Counters) {
		t.Errorf("nothing was counted, and the counters are %v", a.Counters)
	}
}

func TestSlotsAreGivenOutInTurn(t *testing.T) {
	t.Parallel()
	v := situation(t, func(j *Job) { j.HistoryLimit = 2 }) // a ring of 3
	s := v.State
	var given []int
	for range 7 {
		given = append(given, s.takeSlot(v.Job))
	}
	if want := []int{0, 1, 2, 0, 1, 2, 0}; !slices.Equal(given, want) {
		t.Errorf("got %v, want %v", given, want)
	}
}

func TestPromisedSlotsAreJumpedOver(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name    string
		entries []int
		retries []int
		next    int
		want    int
		ring    int
	}{
		{name: "the slot of an entry, whose record is its only proof", entries: []int{1}, next: 1, want: 2, ring: 4},
		{name: "the slot of a pending retry, whose record has the former attempts", retries: []int{1}, next: 1, want: 2, ring: 4},
		{name: "round the end of the ring", entries: []int{3}, next: 3, want: 0, ring: 4},
		{name: "more in flight than the policy allows make the ring grow", entries: []int{0, 1, 2}, retries: []int{3}, next: 0, want: 4, ring: 7},
		{name: "a promise outside what the ring has become", entries: []int{17}, next: 0, want: 0, ring: 4},
	} {
		j := Job{HistoryLimit: 2}
		s := State{NextSlot: row.next, Slots: 4}
		for _, slot := range row.entries {
			s.Entries = append(s.Entries, Entry{Slot: slot})
		}
		for _, slot := range row.retries {
			s.Retries = append(s.Retries, PendingRetry{Slot: slot})
		}
		if got := s.takeSlot(j); got != row.want || row.ring != s.Slots {
			t.Errorf("%s: got slot %d of %d, want %d of %d", row.name, got, s.Slots, row.want, row.ring)
		}
	}
}

func TestTheRingNeverShrinks(t *testing.T) {
	t.Parallel()
	s := State{}
	for _, step := range []struct{ limit, want int }{{10, 11}, {20, 21}, {1, 21}, {100, 101}} {
		s.takeSlot(Job{HistoryLimit: step.limit})
		if s.Slots != step.want {
			t.Errorf("with a limit of %d the ring has %d slots, want %d", step.limit, s.Slots, step.want)
		}
	}
}

func TestFillFillsOnlyWhatIsNotKnown(t *testing.T) {
	t.Parallel()
	s := State{
		Backlog: &Backlog{Count: 1}, Entries: []Entry{{Token: 0}, {Token: 7}}, Retries: []PendingRetry{{Slot: 1}},
		Ranges: []Range{{Count: 1}}, Counters: []Counter{{Count: 1}},
	}
	f := Fill(s, 9)
	if f.Entries[0].Token != 9 || f.Entries[1].Token != 7 || s.Entries[0].Token != 0 {
		t.Errorf("got tokens %d and %d, and left %d", f.Entries[0].Token, f.Entries[1].Token, s.Entries[0].Token)
	}
	f.Backlog.Count, f.Retries[0].Slot, f.Ranges[0].Count, f.Counters[0].Count = 5, 5, 5, 5
	if got := fmt.Sprint(*s.Backlog, s.Retries[0].Slot, s.Ranges[0].Count, s.Counters[0].Count); got != fmt.Sprint(Backlog{Count: 1}, 1, 1, 1) {
		t.Errorf("the filled state shares with the one it came from: %s", got)
	}
}
