package scheduler

import (
	"testing"
	"time"
)

func TestInstantsBeginWhenTheyAreDue(t *testing.T) {
	t.Parallel()
	checkPlans(t, []planRow{{
		name: "nothing is due before the first instant after the creation",
		now:  "10:00:59.999999999",
		want: "wake 10:01:00",
	}, {
		name:  "an instant begins when it is due, and the cursor moves to it",
		now:   "10:01:00",
		want:  "begin u@10:01:00Z attempt 1 slot 0",
		state: "cursor 10:01:00; entry @10:01:00 #1 slot 0 token 0",
	}, {
		name: "an instant found five seconds late is still on time",
		now:  "10:01:05",
		want: "begin u@10:01:00Z attempt 1 slot 0",
	}, {
		name:  "an instant found later than that becomes the backlog in a write of its own",
		now:   "10:01:05.000000001",
		want:  "miss 0 instants 10:01:00Z…10:01:00Z",
		state: "cursor 10:01:00; backlog 10:01:00…10:01:00 ×1",
	}, {
		name: "without room a due instant waits until it would be late",
		view: func(_ *testing.T, v *View) { v.Room = false },
		now:  "10:01:02",
		want: "wake 10:01:05.000000001",
	}, {
		name: "without room late instants are accounted all the same",
		view: func(_ *testing.T, v *View) { v.Room = false },
		now:  "10:01:06",
		want: "miss 0 instants 10:01:00Z…10:01:00Z",
	}, {
		name: "a job whose schedule has ended is never woken",
		job:  func(j *Job) { j.Schedule.End = epoch.Add(time.Minute) },
		view: func(t *testing.T, v *View) { v.State.Cursor = clockTime(t, "10:01:00") },
		now:  "10:01:30",
		want: "wake -",
	}, {
		name: "a job without timetable is never woken",
		view: func(_ *testing.T, v *View) { v.Timetable = nil },
		now:  "10:01:30",
		want: "wake -",
	}, {
		name: "on-time instants are decided one by one, the oldest first",
		job:  func(j *Job) { j.Schedule.Cron = []string{"* * * * * *"} },
		now:  "10:00:34",
		want: "begin u@10:00:31Z attempt 1 slot 0",
	}, {
		name: "an instant that is due but beyond the confirmed clock waits for as long as that is behind",
		view: func(t *testing.T, v *View) { v.NotBeyond = clockTime(t, "10:00:57") },
		now:  "10:01:00",
		want: "wake 10:01:03",
	}, {
		name:  "a clock that is ahead swallows no instants",
		view:  func(t *testing.T, v *View) { v.NotBeyond = clockTime(t, "10:03:10") },
		now:   "+10:00:00",
		want:  "miss 2 instants 10:01:00Z…10:03:00Z MISSED(catch-up policy)",
		state: "cursor 10:03:00; backlog 10:03:00…10:03:00 ×1; range 10:01:00…10:02:00 ×2 MISSED(catch-up policy); count MISSED(catch-up policy) 2",
	}, {
		name: "a bound that is after the wall clock bounds nothing",
		view: func(t *testing.T, v *View) { v.NotBeyond = clockTime(t, "10:09:00") },
		now:  "10:00:59",
		want: "wake 10:01:00",
	}, {
		name: "a clock that was set back waits for the cursor",
		view: func(t *testing.T, v *View) { v.State.Cursor = clockTime(t, "10:30:00") },
		now:  "10:02:00",
		want: "wake 10:31:00",
	}})
}

func TestABeginIsComplete(t *testing.T) {
	t.Parallel()
	v := situation(t, func(j *Job) { j.Generation = 7 })
	now := reading(clockTime(t, "10:01:01"))
	d := PlanJob(v, now).Decision
	if d == nil {
		t.Fatal("nothing is decided")
	}
	if d.Instants != 1 || !d.First.Equal(clockTime(t, "10:01:00")) || !d.Last.Equal(d.First) || d.Verdict != "" || d.Trigger != "" {
		t.Errorf("got %+v", d)
	}
	want := Entry{
		Firing: minute(t, "10:01:00"), Attempt: 1, Generation: 7, Granted: now.Wall, Due: clockTime(t, "10:01:00"),
	}
	e, ok := d.Entry()
	if !ok || e.Firing != want.Firing || e.Attempt != want.Attempt || e.Generation != want.Generation ||
		!e.Granted.Equal(want.Granted) || !e.Due.Equal(want.Due) || e.Member != "" || e.Token != 0 {
		t.Errorf("got entry %+v, want %+v", e, want)
	}

	granted := d.Grant("n2", "nonce", 13*time.Second)
	if e, _ := granted.Entry(); e.Member != "n2" || e.Nonce != "nonce" || e.Hold != 13*time.Second {
		t.Errorf("Grant left %+v", e)
	}
	if e, _ := d.Entry(); e.Member != "" || e.Nonce != "" || e.Hold != 0 {
		t.Errorf("Grant changed the decision it was asked of: %+v", e)
	}
	if filled := Fill(granted.Next, 99); filled.Entries[0].Token != 99 || granted.Next.Entries[0].Token != 0 {
		t.Errorf("Fill gave %+v and left %+v", filled.Entries[0], granted.Next.Entries[0])
	}
}

func TestOnlyABeginHasAnEntry(t *testing.T) {
	t.Parallel()
	v := situation(t, nil)
	inFlight(t, &v, "10:01:00", 1, 45)
	d := PlanJob(v, reading(clockTime(t, "10:02:00"))).Decision
	if d == nil || d.Kind != KindSkip {
		t.Fatalf("got %v, want a skip", d)
	}
	if e, ok := d.Entry(); ok {
		t.Errorf("a skip has the entry %+v", e)
	}
	if got := d.Grant("n2", "nonce", time.Second); len(got.Next.Entries) != 1 || got.Next.Entries[0].Member != "n1" {
		t.Errorf("granting a skip changed %+v", got.Next.Entries)
	}
}

func TestTriggersTakeTheirTurn(t *testing.T) {
	t.Parallel()
	const sixOClock = "0 18 * * *"
	evening := func(j *Job) { j.Schedule.Cron = []string{sixOClock} }
	checkPlans(t, []planRow{{
		name:  "a trigger begins at once and is consumed; the cursor stays",
		job:   evening,
		view:  func(t *testing.T, v *View) { waiting(t, v, "a", "10:01:10") },
		now:   "10:01:11",
		want:  "begin u+a attempt 1 slot 0",
		state: "cursor 10:00:30; entry +a #1 slot 0 token 0",
	}, {
		name: "the oldest trigger comes first",
		job:  evening,
		view: func(t *testing.T, v *View) { waiting(t, v, "b", "10:01:10"); waiting(t, v, "a", "10:01:11") },
		now:  "10:01:12",
		want: "begin u+b attempt 1 slot 0",
	}, {
		name: "a trigger asked for before an instant fell due comes before it",
		view: func(t *testing.T, v *View) { waiting(t, v, "a", "10:00:59") },
		now:  "10:01:01",
		want: "begin u+a attempt 1 slot 0",
	}, {
		name: "an instant that fell due before a trigger was asked for comes before it",
		view: func(t *testing.T, v *View) { waiting(t, v, "a", "10:01:01") },
		now:  "10:01:02",
		want: "begin u@10:01:00Z attempt 1 slot 0",
	}, {
		name: "a trigger whose member's clock is ahead does not wait for that clock",
		job:  evening,
		view: func(t *testing.T, v *View) { waiting(t, v, "a", "10:01:20") },
		now:  "10:01:11",
		want: "begin u+a attempt 1 slot 0",
	}, {
		name: "a trigger obeys the overlap policy",
		job:  evening,
		view: func(t *testing.T, v *View) {
			addEntry(v, Triggered(uid, "a"), 1, 45, clockTime(t, "10:00:40"))
			waiting(t, v, "b", "10:01:10")
		},
		now:   "10:01:11",
		want:  "skip u+b SKIPPED(overlap) because of u+a",
		state: "cursor 10:00:30; entry +a #1 slot 0 token 45; range +b SKIPPED(overlap); count SKIPPED(overlap) 1",
	}, {
		name: "a trigger without room waits",
		job:  evening,
		view: func(t *testing.T, v *View) { v.Room = false; waiting(t, v, "a", "10:01:10") },
		now:  "10:01:11",
		want: "wake 18:00:00",
	}, {
		name: "a trigger that waits has its start deadline",
		job:  func(j *Job) { evening(j); j.Policy.StartDeadline = time.Minute },
		view: func(t *testing.T, v *View) {
			v.Room = false
			waiting(t, v, "a", "10:01:10")
			waiting(t, v, "b", "10:01:00")
		},
		now:  "10:01:30",
		want: "wake 10:02:00.000000001",
	}, {
		name:  "a trigger past its start deadline is missed, room or not",
		job:   func(j *Job) { evening(j); j.Policy.StartDeadline = time.Minute },
		view:  func(t *testing.T, v *View) { v.Room = false; waiting(t, v, "a", "10:01:10") },
		now:   "10:02:10.000000001",
		want:  "miss u+a MISSED(start deadline)",
		state: "cursor 10:00:30; range +a MISSED(start deadline); count MISSED(start deadline) 1",
	}, {
		name: "a trigger that the state knows was consumed; the view of triggers is behind",
		job:  evening,
		view: func(t *testing.T, v *View) {
			addEntry(v, Triggered(uid, "a"), 1, 45, clockTime(t, "10:00:40"))
			waiting(t, v, "a", "10:00:40")
		},
		now:  "10:01:11",
		want: "wake 18:00:00",
	}, {
		name: "a trigger whose firing ended and is folded was consumed too",
		job:  evening,
		view: func(t *testing.T, v *View) {
			addEntry(v, Triggered(uid, "a"), 1, 45, clockTime(t, "10:00:40"))
			recorded(t, v, Triggered(uid, "a"), Succeeded, "", "10:00:50")
			waiting(t, v, "a", "10:00:40")
		},
		now:  "10:01:11",
		want: "fold fold 1",
	}})
}

func TestATriggerIsComparedAtItsRevision(t *testing.T) {
	t.Parallel()
	v := situation(t, nil)
	waiting(t, &v, "a", "10:00:40")
	d := PlanJob(v, reading(clockTime(t, "10:00:41"))).Decision
	if d == nil || d.Trigger != "a" || d.TriggerRevision != v.Triggers[0].Revision || d.Instants != 0 {
		t.Errorf("got %+v", d)
	}
}

func TestStartDeadlines(t *testing.T) {
	t.Parallel()
	within := func(d time.Duration) func(*Job) { return func(j *Job) { j.Policy.StartDeadline = d } }
	noRoom := func(_ *testing.T, v *View) { v.Room = false }
	checkPlans(t, []planRow{{
		name: "at its start deadline an instant may still begin",
		job:  within(2 * time.Second),
		now:  "10:01:02",
		want: "begin u@10:01:00Z attempt 1 slot 0",
	}, {
		name:  "after it an on-time instant is missed",
		job:   within(2 * time.Second),
		now:   "10:01:02.000000001",
		want:  "miss u@10:01:00Z MISSED(start deadline)",
		state: "cursor 10:01:00; range 10:01:00…10:01:00 ×1 MISSED(start deadline); count MISSED(start deadline) 1",
	}, {
		name: "an instant that waits for room is woken for its deadline",
		job:  within(2 * time.Second),
		view: noRoom,
		now:  "10:01:01",
		want: "wake 10:01:02.000000001",
	}, {
		name: "a deadline later than that is met by the backlog",
		job:  within(time.Minute),
		view: noRoom,
		now:  "10:01:01",
		want: "wake 10:01:05.000000001",
	}, {
		name:  "a late instant past its deadline is not put into the backlog",
		job:   within(30 * time.Second),
		now:   "10:01:31",
		want:  "miss 1 instants 10:01:00Z…10:01:00Z MISSED(start deadline)",
		state: "cursor 10:01:00; range 10:01:00…10:01:00 ×1 MISSED(start deadline); count MISSED(start deadline) 1",
	}})
}

func TestJitterPutsOffTheStartAndNotTheInstant(t *testing.T) {
	t.Parallel()
	v := situation(t, func(j *Job) { j.Schedule.Jitter = 40 * time.Second })
	instant := clockTime(t, "10:01:00")
	due := Due(v.Job, v.Timetable, instant)
	if !due.After(instant) {
		t.Fatalf("the table needs a firing with some jitter; due %s", due)
	}
	if got := answer(PlanJob(v, reading(due.Add(-1)))); got != "wake "+short(due) {
		t.Errorf("before it is due: got %s, want wake %s", got, short(due))
	}
	d := PlanJob(v, reading(due)).Decision
	if d == nil || d.Firing != At(uid, instant) || !d.Next.Cursor.Equal(instant) {
		t.Errorf("when it is due: got %v", d)
	}
	if e, _ := d.Entry(); !e.Due.Equal(due) {
		t.Errorf("the entry is due %s, want %s", e.Due, due)
	}
	if got := answer(PlanJob(v, reading(due.Add(OnTime)))); got != "begin u@10:01:00Z attempt 1 slot 0" {
		t.Errorf("lateness is not reckoned from due: %s", got)
	}
}

// TestATriggersRetryDoesNotWaitForTheClockOfWhoTookIt: the trigger was taken by a clock that is an hour
// ahead, and a retry is never granted before its firing is due.
func TestATriggersRetryDoesNotWaitForTheClockOfWhoTookIt(t *testing.T) {
	t.Parallel()
	v := situation(t, retried)
	waiting(t, &v, "a", "11:00:30")
	now := clockTime(t, "10:00:30")
	d := PlanJob(v, reading(now)).Decision
	if d == nil || d.Kind != KindBegin || len(d.Next.Entries) != 1 {
		t.Fatalf("got %v, want a begin of the trigger", d)
	}
	if due := d.Next.Entries[0].Due; !due.Equal(now) {
		t.Errorf("it is due %s, want %s", due, now)
	}
}
