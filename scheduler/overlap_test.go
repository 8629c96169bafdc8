package scheduler

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestSkipBlamesOnlyWhatIsKnown(t *testing.T) {
	t.Parallel()
	running := func(t *testing.T, v *View) { inFlight(t, v, "10:01:00", 1, 45) }
	first := minute(t, "10:01:00")
	change := func(f func(*Fact)) func(*testing.T, *View) {
		return func(t *testing.T, v *View) {
			running(t, v)
			fact := v.Facts[first]
			f(&fact)
			v.Facts[first] = fact
		}
	}
	checkPlans(t, []planRow{{
		name:  "an instant that falls due while an attempt holds its lock is skipped",
		view:  running,
		now:   "10:02:00",
		want:  "skip u@10:02:00Z SKIPPED(overlap) because of u@10:01:00Z",
		state: "cursor 10:02:00; entry @10:01:00 #1 slot 0 token 45; range 10:02:00…10:02:00 ×1 SKIPPED(overlap); count SKIPPED(overlap) 1",
	}, {
		name: "skipping needs no room",
		view: func(t *testing.T, v *View) { running(t, v); v.Room = false },
		now:  "10:02:00",
		want: "skip u@10:02:00Z SKIPPED(overlap) because of u@10:01:00Z",
	}, {
		name: "an attempt without lock and record is not surely dead, and blocks",
		view: change(func(f *Fact) { f.Lock, f.GoneSince = 0, elapsedAt(epoch.Add(85*time.Second)) }),
		now:  "10:02:00",
		want: "skip u@10:02:00Z SKIPPED(overlap) because of u@10:01:00Z",
	}, {
		name: "an entry of which nothing is known blocks silently",
		view: func(t *testing.T, v *View) { running(t, v); v.Facts = nil },
		now:  "10:02:00",
		want: "wake 10:02:05.000000001",
	}, {
		name: "a fact about another attempt of the firing is none",
		view: change(func(f *Fact) { f.Attempt = 2 }),
		now:  "10:02:00",
		want: "wake 10:02:05.000000001",
	}, {
		name: "a lock of another revision than the entry's token is out of date",
		view: change(func(f *Fact) { f.Lock = 44 }),
		now:  "10:02:00",
		want: "wake 10:02:05.000000001",
	}, {
		name: "what an unknown entry blocks becomes backlog when it is late",
		view: func(t *testing.T, v *View) { running(t, v); v.Facts = nil },
		now:  "10:02:06",
		want: "miss 0 instants 10:02:00Z…10:02:00Z",
	}, {
		name: "an ending attempt is waited for",
		view: change(func(f *Fact) {
			f.Ending, f.EndingSince = true, elapsedAt(epoch.Add(89*time.Second+800*time.Millisecond))
		}),
		now:  "10:02:00",
		want: "wake 10:02:05.000000001 elapsed 10:02:00.8",
	}, {
		name: "after a second it is blamed",
		view: change(func(f *Fact) { f.Ending, f.EndingSince = true, elapsedAt(epoch.Add(89*time.Second)) }),
		now:  "10:02:00.5",
		want: "skip u@10:02:00Z SKIPPED(overlap) because of u@10:01:00Z",
	}, {
		name: "its record ends the wait: it is folded in the same write and blocks nothing",
		view: func(t *testing.T, v *View) {
			running(t, v)
			recorded(t, v, first, Succeeded, "", "10:01:59")
		},
		now:   "10:02:00",
		want:  "begin u@10:02:00Z attempt 1 slot 1 fold 1",
		state: "cursor 10:02:00; entry @10:02:00 #1 slot 1 token 0; count SUCCEEDED() 1",
	}, {
		name: "an owed retry blocks: it is in the state that is compared",
		view: func(t *testing.T, v *View) { v.Room = false; owed(t, v, "10:01:00", 2) },
		job:  retried,
		now:  "10:02:00",
		want: "skip u@10:02:00Z SKIPPED(overlap) because of u@10:01:00Z",
	}, {
		name: "a retry that follows from entry and record blocks before it is written",
		view: func(t *testing.T, v *View) {
			v.Room = false
			running(t, v)
			recorded(t, v, first, Lost, ReasonNeverStarted, "10:01:59")
		},
		job:   retried,
		now:   "10:02:00",
		want:  "skip u@10:02:00Z SKIPPED(overlap) because of u@10:01:00Z fold 1",
		state: "cursor 10:02:00; owes @10:01:00 #2 slot 0; range 10:02:00…10:02:00 ×1 SKIPPED(overlap); count SKIPPED(overlap) 1",
	}, {
		name: "what runs on under an older definition still blocks",
		job:  func(j *Job) { j.Generation = 9; j.Schedule.Cron = []string{"30 10 * * *"} },
		view: func(t *testing.T, v *View) { running(t, v); v.State.Cursor = clockTime(t, "10:20:00") },
		now:  "10:30:00",
		want: "skip u@10:30:00Z SKIPPED(overlap) because of u@10:01:00Z",
	}})
}

// retried makes a lost attempt be tried again, three attempts in all.
func retried(j *Job) {
	j.Policy.OnLost = OnLostRetry
	j.Policy.Retry.MaxAttempts = 3
}

func TestBlameSaysWhatToCompare(t *testing.T) {
	t.Parallel()
	first, trigger := minute(t, "10:01:00"), Triggered(uid, "a")
	v := situation(t, retried)
	v.Room = false
	inFlight(t, &v, "10:01:00", 1, 45)
	addEntry(&v, trigger, 1, 46, clockTime(t, "10:01:10"))
	gone(t, &v, trigger, "10:01:50")
	unknown := Triggered(uid, "b")
	addEntry(&v, unknown, 1, 47, clockTime(t, "10:01:10"))
	delete(v.Facts, unknown)
	ending := Triggered(uid, "c")
	addEntry(&v, ending, 1, 48, clockTime(t, "10:01:10"))
	v.Facts[ending] = Fact{Attempt: 1, Lock: 48, Ending: true, EndingSince: elapsedAt(clockTime(t, "10:01:59.5"))}
	v.State.Retries = []PendingRetry{{Firing: Triggered(uid, "d"), Attempt: 2, Slot: 9, Past: []Attempt{lostLine(1)}}}

	d := PlanJob(v, reading(clockTime(t, "10:02:00"))).Decision
	if d == nil {
		t.Fatal("nothing is decided")
	}
	want := []Blame{
		{Firing: first, Lock: 45, Slot: 0, Token: 45}, // compared: the lock is this one
		{Firing: trigger, Slot: 1, Token: 46},         // compared: no lock, and the slot is older
		{Firing: Triggered(uid, "d"), Slot: 9},        // nothing to compare
		// b blocks silently, c is waited for: neither is blamed
	}
	if diff := cmp.Diff(want, d.Blame); diff != "" {
		t.Errorf("blame (-want +got):\n%s", diff)
	}
}

func TestSkipNeverOverlaps(t *testing.T) {
	t.Parallel()
	checkPlans(t, []planRow{{
		name: "an owed retry waits for another attempt that a former policy let run beside it",
		job:  retried,
		view: func(t *testing.T, v *View) {
			addEntry(v, Triggered(uid, "a"), 1, 45, clockTime(t, "10:00:40"))
			owed(t, v, "10:01:00", 2)
		},
		now:  "10:01:30",
		want: "wake 10:02:00",
	}, {
		name: "the oldest of two owed retries is granted",
		job:  retried,
		view: func(t *testing.T, v *View) { owed(t, v, "10:01:00", 2); owed(t, v, "10:02:00", 3) },
		now:  "10:02:30",
		want: "begin u@10:01:00Z attempt 2 slot 0",
	}, {
		name: "a retry whose time has not come lets an older one's turn pass and blocks what falls due",
		job:  retried,
		view: func(t *testing.T, v *View) {
			owed(t, v, "10:01:00", 2)
			v.State.Retries[0].NotBefore = clockTime(t, "10:02:30")
		},
		now:  "10:02:00",
		want: "skip u@10:02:00Z SKIPPED(overlap) because of u@10:01:00Z",
	}, {
		name: "and is granted when it comes",
		job:  retried,
		view: func(t *testing.T, v *View) {
			owed(t, v, "10:01:00", 2)
			v.State.Retries[0].NotBefore = clockTime(t, "10:01:30")
		},
		now:  "10:01:10",
		want: "wake 10:01:30",
	}})
}
