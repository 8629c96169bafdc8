package scheduler

import "testing"

func TestADecisionIsOneLineOfATrace(t *testing.T) {
	t.Parallel()
	name := JobName{"default", "report"}
	first := minute(t, "10:01:00")
	for _, row := range []struct {
		d    Decision
		want string
	}{{
		d:    Decision{Kind: KindBegin, Job: name, Firing: first, Attempt: 2, Slot: 3},
		want: "begin default/report u@2026-03-01T10:01:00Z attempt 2 slot 3",
	}, {
		d:    Decision{Kind: KindBegin, Job: name, Firing: Triggered(uid, "01a"), Attempt: 1, Folded: []Firing{first}},
		want: "begin default/report u+01a attempt 1 slot 0 fold 1",
	}, {
		d: Decision{
			Kind: KindSkip, Job: name, Firing: first, Verdict: Skipped, Reason: ReasonOverlap,
			Blame: []Blame{{Firing: Triggered(uid, "a")}, {Firing: Triggered(uid, "b")}},
		},
		want: "skip default/report u@2026-03-01T10:01:00Z SKIPPED(overlap) because of u+a, u+b",
	}, {
		d: Decision{
			Kind: KindMiss, Job: name, Instants: 42, First: clockTime(t, "10:01:00"), Last: clockTime(t, "10:42:00"),
			Verdict: Missed, Reason: ReasonWindow,
		},
		want: "miss default/report 42 instants 2026-03-01T10:01:00Z…2026-03-01T10:42:00Z MISSED(window)",
	}, {
		d:    Decision{Kind: KindLose, Job: name, Firing: first, Attempt: 1, Slot: 4, Verdict: Lost, Reason: ReasonMemberLost},
		want: "lose default/report u@2026-03-01T10:01:00Z attempt 1 slot 4 LOST(member lost)",
	}, {
		d:    Decision{Kind: KindFold, Job: name, Folded: []Firing{first, first}},
		want: "fold default/report fold 2",
	}, {
		d:    Decision{Kind: KindSweep, Job: name},
		want: "sweep default/report",
	}} {
		if got := row.d.String(); got != row.want {
			t.Errorf("\n got %s\nwant %s", got, row.want)
		}
	}
}
