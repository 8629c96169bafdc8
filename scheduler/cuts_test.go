package scheduler

import (
	"testing"
	"time"
)

// TestWhatTheModelCut has one case for each thing that research with an exhaustive model took out of
// the protocol and saw break, as far as the core decides it: the comparisons themselves are the
// store's, what they are made of is decided here. The names are those of the model's table.
func TestWhatTheModelCut(t *testing.T) {
	t.Parallel()
	first := minute(t, "10:01:00")
	at := func(s string) Reading { return reading(clockTime(t, s)) }
	for _, c := range []struct {
		name  string
		check func(*testing.T)
	}{{
		// I6: a record destroys the proof of an attempt still in state.
		"7: ring slots shared", func(t *testing.T) {
			v := situation(t, nil)
			inFlight(t, &v, "10:01:00", 1, 45)
			v.State.NextSlot = 0
			if got := v.State.takeSlot(v.Job); got == 0 {
				t.Error("the slot of an attempt in flight is given out")
			}
		},
	}, {
		"7: slot of a pending retry shared", func(t *testing.T) {
			v := situation(t, retried)
			owed(t, &v, "10:01:00", 2)
			v.State.NextSlot = 0
			if got := v.State.takeSlot(v.Job); got == 0 {
				t.Error("the slot of a pending retry is given out")
			}
		},
	}, {
		// I3: a decided firing has no verdict, no attempt and no retry.
		"7: fold forgets the last attempt", func(t *testing.T) {
			v := situation(t, func(j *Job) { retried(j); j.Deleted = epoch })
			inFlight(t, &v, "10:01:00", 1, 45)
			recorded(t, &v, first, Lost, ReasonNeverStarted, "10:01:10")
			d := PlanJob(v, at("10:01:10")).Decision
			if d == nil || sketch(d.Next) != "cursor 10:01:00; count LOST(never started) 1" {
				t.Errorf("got %v", d)
			}
		},
	}, {
		"9: delete wipes state", func(t *testing.T) {
			v := situation(t, nil)
			inFlight(t, &v, "10:01:00", 1, 45)
			if got := sketch(CloseBooks(v, at("10:01:10"), ReasonDeleted)); got != "cursor 10:01:10; entry @10:01:00 #1 slot 0 token 45" {
				t.Errorf("got %s", got)
			}
		},
	}, {
		// Stuck: nobody grants it, nobody drops it.
		"9: delete keeps retries", func(t *testing.T) {
			v := situation(t, retried)
			owed(t, &v, "10:01:00", 2)
			if got := sketch(CloseBooks(v, at("10:01:10"), ReasonDeleted)); got != "cursor 10:01:10; count LOST(member lost) 1" {
				t.Errorf("got %s", got)
			}
		},
	}, {
		"9: books not closed", func(t *testing.T) {
			v := situation(t, nil)
			if got := CloseBooks(v, at("10:02:10"), ReasonEdited).Counters; len(got) != 1 || got[0].Count != 2 {
				t.Errorf("two instants were due, counted: %v", got)
			}
		},
	}, {
		"1: state compare: cursor", func(t *testing.T) {
			v := situation(t, nil)
			v.State.Cursor = clockTime(t, "10:05:00")
			for s := 0; s < 400; s += 7 {
				now := reading(epoch.Add(time.Duration(s) * time.Second))
				if d := PlanJob(v, now).Decision; d != nil && d.Next.Cursor.Before(v.State.Cursor) {
					t.Fatalf("%s moves the cursor back to %s", d, d.Next.Cursor)
				}
				if s := CloseBooks(v, now, ReasonEdited); s.Cursor.Before(v.State.Cursor) {
					t.Fatalf("closing the books moves it back to %s", s.Cursor)
				}
			}
		},
	}, {
		"1: in-flight entry", func(t *testing.T) {
			v := situation(t, nil)
			d := PlanJob(v, at("10:01:00")).Decision
			if d == nil || len(d.Next.Entries) != 1 || d.Next.Entries[0].Firing != first {
				t.Errorf("a grant without its entry: %v", d)
			}
		},
	}, {
		// I12: two processes run at once though nobody was paused.
		"5: LOST without hold", func(t *testing.T) {
			v := situation(t, retried)
			inFlight(t, &v, "10:01:00", 1, 45)
			gone(t, &v, first, "10:01:10")
			for s := 10; s < 27; s++ {
				if d := PlanJob(v, reading(clockTime(t, "10:01:00").Add(time.Duration(s)*time.Second))).Decision; d != nil {
					t.Fatalf("%d s after the grant: %s", s, d)
				}
			}
		},
	}, {
		"5: LOST without slot compare", func(t *testing.T) {
			v := situation(t, nil)
			inFlight(t, &v, "10:01:00", 1, 0)
			gone(t, &v, first, "10:01:10")
			if d := PlanJob(v, at("10:01:40")).Decision; d == nil || d.SlotBelow != v.StateRevision {
				t.Errorf("the slot is compared with nothing: %+v", d)
			}
		},
	}, {
		"8: trigger not compared by begin, or not deleted", func(t *testing.T) {
			v := situation(t, nil)
			waiting(t, &v, "a", "10:00:40")
			if d := PlanJob(v, at("10:00:41")).Decision; d == nil || d.Trigger != "a" || d.TriggerRevision != 60 {
				t.Errorf("got %+v", d)
			}
		},
	}, {
		// I10: skipped for overlap with an attempt that had ended.
		"10: skip blames a lock, or an entry, uncompared", func(t *testing.T) {
			v := situation(t, nil)
			inFlight(t, &v, "10:01:00", 1, 45)
			d := PlanJob(v, at("10:02:00")).Decision
			if d == nil || len(d.Blame) != 1 || d.Blame[0].Lock != 45 {
				t.Errorf("with a lock: %+v", d)
			}
			gone(t, &v, first, "10:01:59")
			d = PlanJob(v, at("10:02:00")).Decision
			if d == nil || len(d.Blame) != 1 || d.Blame[0] != (Blame{Firing: first, Slot: 0, Token: 45}) {
				t.Errorf("without a lock: %+v", d)
			}
		},
	}, {
		// Stuck: an owner that does not know of an entry never settles it; it must ask, not guess.
		"2: resolution reads no state", func(t *testing.T) {
			v := situation(t, nil)
			inFlight(t, &v, "10:01:00", 1, 45)
			v.Facts = nil
			if d := PlanJob(v, at("10:01:59")).Decision; d != nil {
				t.Errorf("decided without knowing: %s", d)
			}
		},
	}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.check(t)
		})
	}
}
