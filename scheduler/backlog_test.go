package scheduler

import (
	"testing"
	"time"
)

func TestLateInstantsAreAdoptedInOneWrite(t *testing.T) {
	t.Parallel()
	window := func(d time.Duration) func(*Job) { return func(j *Job) { j.Policy.CatchUp.Window = d } }
	checkPlans(t, []planRow{{
		name: "latest keeps the newest and misses the others",
		now:  "10:10:20",
		want: "miss 9 instants 10:01:00Z…10:10:00Z MISSED(catch-up policy)",
		state: "cursor 10:10:00; backlog 10:10:00…10:10:00 ×1; range 10:01:00…10:09:00 ×9 MISSED(catch-up policy); " +
			"count MISSED(catch-up policy) 9",
	}, {
		name:  "none misses them all",
		job:   func(j *Job) { j.Policy.CatchUp.Mode = CatchUpNone },
		now:   "10:10:20",
		want:  "miss 10 instants 10:01:00Z…10:10:00Z MISSED(catch-up policy)",
		state: "cursor 10:10:00; range 10:01:00…10:10:00 ×10 MISSED(catch-up policy); count MISSED(catch-up policy) 10",
	}, {
		name: "an on-time instant is left for a decision of its own",
		now:  "10:10:05",
		want: "miss 8 instants 10:01:00Z…10:09:00Z MISSED(catch-up policy)",
		state: "cursor 10:09:00; backlog 10:09:00…10:09:00 ×1; range 10:01:00…10:08:00 ×8 MISSED(catch-up policy); " +
			"count MISSED(catch-up policy) 8",
	}, {
		name: "what is outside the window says so, and is the older part",
		job:  window(3*time.Minute + 20*time.Second),
		now:  "10:10:20",
		want: "miss 9 instants 10:01:00Z…10:10:00Z MISSED(catch-up policy)",
		state: "cursor 10:10:00; backlog 10:10:00…10:10:00 ×1; range 10:01:00…10:06:00 ×6 MISSED(window); " +
			"range 10:07:00…10:09:00 ×3 MISSED(catch-up policy); count MISSED(catch-up policy) 3; count MISSED(window) 6",
	}, {
		name:  "if all are outside it nothing is kept",
		job:   window(10 * time.Second),
		now:   "10:10:20",
		want:  "miss 10 instants 10:01:00Z…10:10:00Z MISSED(window)",
		state: "cursor 10:10:00; range 10:01:00…10:10:00 ×10 MISSED(window); count MISSED(window) 10",
	}, {
		name: "window, start deadline and policy each take their part, by age",
		job:  func(j *Job) { window(6 * time.Minute)(j); j.Policy.StartDeadline = 3 * time.Minute },
		now:  "10:10:30",
		want: "miss 9 instants 10:01:00Z…10:10:00Z MISSED(catch-up policy)",
		state: "cursor 10:10:00; backlog 10:10:00…10:10:00 ×1; range 10:01:00…10:04:00 ×4 MISSED(window); " +
			"range 10:05:00…10:07:00 ×3 MISSED(start deadline); range 10:08:00…10:09:00 ×2 MISSED(catch-up policy); " +
			"count MISSED(catch-up policy) 2; count MISSED(start deadline) 3; count MISSED(window) 4",
	}, {
		name:  "a deadline that is longer than the window takes nothing",
		job:   func(j *Job) { window(2 * time.Minute)(j); j.Policy.StartDeadline = time.Hour },
		now:   "10:10:30",
		want:  "miss 9 instants 10:01:00Z…10:10:00Z MISSED(catch-up policy)",
		state: "cursor 10:10:00; backlog 10:10:00…10:10:00 ×1; range 10:01:00…10:08:00 ×8 MISSED(window); range 10:09:00…10:09:00 ×1 MISSED(catch-up policy); count MISSED(catch-up policy) 1; count MISSED(window) 8",
	}, {
		name: "a deadline shorter than on time leaves on-time instants to their own decision",
		job:  func(j *Job) { j.Schedule.Cron = []string{"* * * * * *"}; j.Policy.StartDeadline = 2 * time.Second },
		now:  "10:00:40.5",
		want: "miss 5 instants 10:00:31Z…10:00:35Z MISSED(start deadline)",
	}, {
		name:  "an instant at the very edge of the window is inside",
		job:   window(20 * time.Second),
		now:   "10:01:20",
		want:  "miss 0 instants 10:01:00Z…10:01:00Z",
		state: "cursor 10:01:00; backlog 10:01:00…10:01:00 ×1",
	}, {
		name: "a backlog that waits is given up for a newer late instant",
		view: func(t *testing.T, v *View) {
			inFlight(t, v, "10:01:00", 1, 45)
			v.State.Backlog = &Backlog{First: clockTime(t, "10:00:59"), Last: clockTime(t, "10:00:59"), Count: 1}
		},
		now:  "10:02:20",
		want: "miss 1 instants 10:00:59Z…10:02:00Z MISSED(catch-up policy)",
		state: "cursor 10:02:00; backlog 10:02:00…10:02:00 ×1; entry @10:01:00 #1 slot 0 token 45; " +
			"range 10:00:59…10:00:59 ×1 MISSED(catch-up policy); count MISSED(catch-up policy) 1",
	}, {
		name: "a backlog given up when it is too old anyway says why",
		job:  window(2 * time.Minute),
		view: func(t *testing.T, v *View) {
			v.State.Cursor = clockTime(t, "10:09:00")
			v.State.Backlog = &Backlog{First: clockTime(t, "10:01:00"), Last: clockTime(t, "10:01:00"), Count: 1}
		},
		now:  "10:10:20",
		want: "miss 1 instants 10:01:00Z…10:10:00Z MISSED(window)",
	}})
}

func TestBacklogIsDrawnOneAtATime(t *testing.T) {
	t.Parallel()
	late := func(t *testing.T, v *View) {
		v.State.Cursor = clockTime(t, "10:05:00")
		v.State.Backlog = &Backlog{First: clockTime(t, "10:05:00"), Last: clockTime(t, "10:05:00"), Count: 1}
	}
	checkPlans(t, []planRow{{
		name:  "with room and nothing in the way it begins, and the cursor stays",
		view:  late,
		now:   "10:05:30",
		want:  "begin u@10:05:00Z attempt 1 slot 0",
		state: "cursor 10:05:00; entry @10:05:00 #1 slot 0 token 0",
	}, {
		name: "a clock that was ahead, and was set back, does not make it early",
		view: late,
		now:  "10:03:00",
		want: "wake 10:05:00",
	}, {
		name:  "an on-time instant that is due comes first",
		view:  late,
		now:   "10:06:01",
		want:  "begin u@10:06:00Z attempt 1 slot 0",
		state: "cursor 10:06:00; backlog 10:05:00…10:05:00 ×1; entry @10:06:00 #1 slot 0 token 0",
	}, {
		name: "a trigger comes first",
		view: func(t *testing.T, v *View) { late(t, v); waiting(t, v, "a", "10:05:20") },
		now:  "10:05:30",
		want: "begin u+a attempt 1 slot 0",
	}, {
		name: "it is not skipped for overlap, it waits",
		view: func(t *testing.T, v *View) {
			addEntry(v, Triggered(uid, "a"), 1, 45, clockTime(t, "10:05:10"))
			late(t, v)
		},
		now:  "10:05:30",
		want: "wake 10:06:00",
	}, {
		name: "it waits for an owed retry",
		job:  retried,
		view: func(t *testing.T, v *View) { owed(t, v, "10:04:00", 2); late(t, v); v.Room = false },
		now:  "10:05:30",
		want: "wake 10:06:00",
	}, {
		name: "an entry that has ended does not hold it up",
		view: func(t *testing.T, v *View) {
			addEntry(v, Triggered(uid, "a"), 1, 45, clockTime(t, "10:05:10"))
			recorded(t, v, Triggered(uid, "a"), Succeeded, "", "10:05:25")
			late(t, v)
		},
		now:  "10:05:30",
		want: "begin u@10:05:00Z attempt 1 slot 1 fold 1",
	}, {
		name: "it waits for room until it leaves the window",
		job:  func(j *Job) { j.Policy.CatchUp.Window = 40 * time.Second },
		view: func(t *testing.T, v *View) { late(t, v); v.Room = false },
		now:  "10:05:30",
		want: "wake 10:05:40.000000001",
	}, {
		name: "or until its start deadline",
		job:  func(j *Job) { j.Policy.StartDeadline = 35 * time.Second },
		view: func(t *testing.T, v *View) { late(t, v); v.Room = false },
		now:  "10:05:30",
		want: "wake 10:05:35.000000001",
	}, {
		name:  "out of the window it is missed",
		job:   func(j *Job) { j.Policy.CatchUp.Window = 40 * time.Second },
		view:  func(t *testing.T, v *View) { late(t, v); v.Room = false },
		now:   "10:05:40.000000001",
		want:  "miss 1 instants 10:05:00Z…10:05:00Z MISSED(window)",
		state: "cursor 10:05:00; range 10:05:00…10:05:00 ×1 MISSED(window); count MISSED(window) 1",
	}, {
		name:  "past its start deadline it is missed",
		job:   func(j *Job) { j.Policy.StartDeadline = 35 * time.Second },
		view:  late,
		now:   "10:05:36",
		want:  "miss 1 instants 10:05:00Z…10:05:00Z MISSED(start deadline)",
		state: "cursor 10:05:00; range 10:05:00…10:05:00 ×1 MISSED(start deadline); count MISSED(start deadline) 1",
	}, {
		name:  "an edit to none gives it up",
		job:   func(j *Job) { j.Policy.CatchUp.Mode = CatchUpNone },
		view:  late,
		now:   "10:05:36",
		want:  "miss 1 instants 10:05:00Z…10:05:00Z MISSED(catch-up policy)",
		state: "cursor 10:05:00; range 10:05:00…10:05:00 ×1 MISSED(catch-up policy); count MISSED(catch-up policy) 1",
	}, {
		name: "of a backlog of several, left by another policy, the newest is drawn and the rest given up",
		view: func(t *testing.T, v *View) {
			late(t, v)
			v.State.Backlog.First, v.State.Backlog.Count = clockTime(t, "10:02:00"), 4
		},
		now:  "10:05:30",
		want: "begin u@10:05:00Z attempt 1 slot 0",
		state: "cursor 10:05:00; entry @10:05:00 #1 slot 0 token 0; range 10:02:00…10:04:00 ×3 MISSED(catch-up policy); " +
			"count MISSED(catch-up policy) 3",
	}, {
		name: "where no claims are made it waits",
		view: func(t *testing.T, v *View) { late(t, v); v.EndsOnly = true },
		now:  "10:05:30",
		want: "wake -",
	}})
}

// TestLongAbsencesAreArithmetic would take hours, or all memory, if late instants were gone through
// one by one: a job of every second, found after ten years.
func TestLongAbsencesAreArithmetic(t *testing.T) {
	t.Parallel()
	v := situation(t, func(j *Job) { j.Schedule.Cron = []string{"* * * * * *"}; j.Schedule.Jitter = time.Hour })
	now := epoch.AddDate(10, 0, 0)
	d := PlanJob(v, reading(now)).Decision
	if d == nil || d.Kind != KindMiss {
		t.Fatalf("got %v", d)
	}
	most := int64(now.Sub(epoch)/time.Second) - int64(OnTime/time.Second)
	if n := d.Instants; n < most-3 || n > most {
		t.Errorf("got %d instants decided, want about %d", n, most)
	}
	if n := len(d.Next.Ranges); n != 2 {
		t.Errorf("got %d ranges, want one outside the window and one inside: %s", n, sketch(d.Next))
	}
	if got := d.Next.Counters[1].Count + d.Next.Counters[0].Count; got != d.Instants {
		t.Errorf("counters have %d, the decision %d", got, d.Instants)
	}
}

func TestUnaccounted(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		job  func(*Job)
		view func(*View)
		now  string
		want int64
	}{{
		name: "nothing is unaccounted for while it is on time",
		now:  "10:01:05", want: 0,
	}, {
		name: "later it is",
		now:  "10:03:05.5", want: 3,
	}, {
		name: "what a decision covers is not, though it waits in the backlog",
		view: func(v *View) {
			v.State.Cursor = epoch.Add(150 * time.Second)
			v.State.Backlog = &Backlog{First: epoch, Last: epoch, Count: 1}
		},
		now: "10:04:06", want: 1,
	}, {
		name: "a pause covers its instants",
		job:  func(j *Job) { j.Paused = true },
		now:  "11:00:00", want: 0,
	}, {
		name: "a tombstone has none",
		job:  func(j *Job) { j.Deleted = epoch },
		now:  "11:00:00", want: 0,
	}} {
		v := situation(t, row.job)
		if row.view != nil {
			row.view(&v)
		}
		if got := Unaccounted(v, reading(clockTime(t, row.now))); got != row.want {
			t.Errorf("%s: got %d, want %d", row.name, got, row.want)
		}
	}
}
