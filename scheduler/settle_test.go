package scheduler

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestLostAttempts(t *testing.T) {
	t.Parallel()
	// Hold is 15 s, so an attempt whose lock went at 10:01:10 is surely dead at 10:01:27.
	first := minute(t, "10:01:00")
	lockGone := func(t *testing.T, v *View) {
		inFlight(t, v, "10:01:00", 1, 45)
		gone(t, v, first, "10:01:10")
	}
	checkPlans(t, []planRow{{
		name: "an attempt without lock is not lost before its hold and a margin have passed",
		view: lockGone,
		now:  "10:01:26.999999999",
		want: "wake 10:02:00 elapsed 10:01:27",
	}, {
		name:  "then it is lost, and its firing ends so",
		view:  lockGone,
		now:   "10:01:27",
		want:  "lose u@10:01:00Z attempt 1 slot 0 LOST(member lost)",
		state: "cursor 10:01:00; count LOST(member lost) 1",
	}, {
		name:  "with retries a further attempt is owed, in the same slot, and nothing is counted yet",
		job:   retried,
		view:  lockGone,
		now:   "10:01:27",
		want:  "lose u@10:01:00Z attempt 1 slot 0 LOST(member lost)",
		state: "cursor 10:01:00; owes @10:01:00 #2 slot 0",
	}, {
		name: "the last attempt is not followed by another",
		job:  retried,
		view: func(t *testing.T, v *View) {
			inFlight(t, v, "10:01:00", 3, 45)
			gone(t, v, first, "10:01:10")
		},
		now:   "10:01:27",
		want:  "lose u@10:01:00Z attempt 3 slot 0 LOST(member lost)",
		state: "cursor 10:01:00; count LOST(member lost) 1",
	}, {
		name: "a retry that its start deadline forbids is not owed: the firing has its verdict",
		job:  func(j *Job) { retried(j); j.Policy.StartDeadline = 20 * time.Second },
		view: lockGone,
		now:  "10:01:27", want: "lose u@10:01:00Z attempt 1 slot 0 LOST(member lost)",
		state: "cursor 10:01:00; count LOST(member lost) 1",
	}, {
		name: "an entry whose lock is alive is never lost",
		view: func(t *testing.T, v *View) { inFlight(t, v, "10:01:00", 1, 45) },
		now:  "10:01:59",
		want: "wake 10:02:00",
	}, {
		name: "an entry of which nothing is known is never lost",
		view: func(t *testing.T, v *View) { lockGone(t, v); v.Facts = nil },
		now:  "10:01:59",
		want: "wake 10:02:00",
	}, {
		name: "the gone lock of a former attempt says nothing of this one",
		job:  retried,
		view: func(t *testing.T, v *View) {
			inFlight(t, v, "10:01:00", 2, 45)
			v.Facts[first] = Fact{Attempt: 1, GoneSince: elapsedAt(clockTime(t, "10:01:00"))}
		},
		now:  "10:01:59",
		want: "wake 10:02:00",
	}, {
		name: "an attempt whose record was seen is not lost, whatever became of its lock",
		view: func(t *testing.T, v *View) {
			inFlight(t, v, "10:01:00", 1, 45)
			recorded(t, v, first, Failed, ReasonExitCode, "10:01:20")
		},
		now:  "10:01:29",
		want: "wake 10:02:00",
	}, {
		name: "losing comes before what is due, needs no room and does not wait for a pause to end",
		job:  func(j *Job) { j.Paused = true },
		view: func(t *testing.T, v *View) { lockGone(t, v); v.Room = false },
		now:  "10:09:00",
		want: "lose u@10:01:00Z attempt 1 slot 0 LOST(member lost)",
	}, {
		name: "where no claims are made lost attempts are settled all the same",
		view: func(t *testing.T, v *View) { lockGone(t, v); v.EndsOnly = true },
		now:  "10:09:00",
		want: "lose u@10:01:00Z attempt 1 slot 0 LOST(member lost)",
	}, {
		name: "and nothing else is done about what is due",
		view: func(t *testing.T, v *View) { lockGone(t, v); v.EndsOnly = true },
		now:  "10:01:20",
		want: "wake - elapsed 10:01:27",
	}, {
		name: "a wall clock that was set does not shorten the hold",
		view: func(t *testing.T, v *View) {
			inFlight(t, v, "10:01:00", 1, 45)
			v.Facts[first] = Fact{Attempt: 1, GoneSince: elapsedAt(clockTime(t, "10:01:10")) + 2*time.Hour}
		},
		now:  "10:01:50",
		want: "wake 10:02:00 elapsed 12:01:27",
	}})
}

func TestLoseCarriesItsRecordAndItsCompare(t *testing.T) {
	t.Parallel()
	v := situation(t, retried)
	inFlight(t, &v, "10:01:00", 2, 0) // the value that is planned on granted it: token 0
	first := minute(t, "10:01:00")
	gone(t, &v, first, "10:01:10")
	d := PlanJob(v, reading(clockTime(t, "10:01:30"))).Decision
	if d == nil || d.SlotBelow != v.StateRevision {
		t.Fatalf("got %+v, want the slot compared with the revision of the state, %d", d, v.StateRevision)
	}
	want := &Run{
		Job: v.Job.Name, Firing: first, Generation: 1,
		Attempts: []Attempt{lostLine(1), {
			Number: 2, Token: v.StateRevision, Member: "n1", Granted: clockTime(t, "10:01:00"), Verdict: Lost, Reason: ReasonMemberLost,
		}},
	}
	if diff := cmp.Diff(want, d.Record); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
	owed := d.Next.Retries
	if len(owed) != 1 || owed[0].Attempt != 3 || !cmp.Equal(owed[0].Past, want.Attempts) || !owed[0].Due.Equal(clockTime(t, "10:01:00")) {
		t.Errorf("the retry does not carry its former attempts: %+v", owed)
	}
}

func TestFolds(t *testing.T) {
	t.Parallel()
	first := minute(t, "10:01:00")
	ended := func(v Verdict, why Reason) func(*testing.T, *View) {
		return func(t *testing.T, view *View) {
			inFlight(t, view, "10:01:00", 1, 45)
			recorded(t, view, first, v, why, "10:01:20")
		}
	}
	daily := func(j *Job) { j.Schedule.Cron = []string{"0 10 * * *"} }
	checkPlans(t, []planRow{{
		name: "an ended entry waits to ride on the next instant, which is near",
		view: ended(Succeeded, ""),
		now:  "10:01:59.999999999",
		want: "wake 10:02:00",
	}, {
		name: "with none within an hour it waits ten seconds to ride on something else",
		job:  daily,
		view: ended(Succeeded, ""),
		now:  "10:01:29.999999999",
		want: "wake 2.10:00:00 elapsed 10:01:30",
	}, {
		name:  "and then it is folded by a write of its own",
		job:   daily,
		view:  ended(Failed, ReasonExitCode),
		now:   "10:01:30",
		want:  "fold fold 1",
		state: "cursor 10:01:00; count FAILED(exit code) 1",
	}, {
		name:  "so it is in a paused job, where nothing is begun",
		job:   func(j *Job) { j.Paused = true },
		view:  ended(Failed, ReasonExitCode),
		now:   "10:01:30",
		want:  "fold fold 1",
		state: "cursor 10:01:00; count FAILED(exit code) 1",
	}, {
		name:  "and where no claims are made",
		view:  func(t *testing.T, v *View) { v.EndsOnly = true; ended(Failed, ReasonExitCode)(t, v) },
		now:   "10:01:30",
		want:  "fold fold 1",
		state: "cursor 10:01:00; count FAILED(exit code) 1",
	}, {
		name:  "it rides on the next begin",
		view:  ended(TimedOut, ""),
		now:   "10:02:00",
		want:  "begin u@10:02:00Z attempt 1 slot 1 fold 1",
		state: "cursor 10:02:00; entry @10:02:00 #1 slot 1 token 0; count TIMED_OUT() 1",
	}, {
		name:  "it rides on a miss",
		view:  func(t *testing.T, v *View) { v.Room = false; ended(Succeeded, "")(t, v) },
		job:   func(j *Job) { j.Policy.CatchUp.Mode = CatchUpNone },
		now:   "10:02:06",
		want:  "miss 1 instants 10:02:00Z…10:02:00Z MISSED(catch-up policy) fold 1",
		state: "cursor 10:02:00; range 10:02:00…10:02:00 ×1 MISSED(catch-up policy); count MISSED(catch-up policy) 1; count SUCCEEDED() 1",
	}, {
		name:  "a lost attempt becomes an owed retry, which is granted at once in the same write",
		job:   retried,
		view:  ended(Lost, ReasonNeverStarted),
		now:   "10:01:20",
		want:  "begin u@10:01:00Z attempt 2 slot 0 fold 1",
		state: "cursor 10:01:00; entry @10:01:00 #2 slot 0 token 0",
	}, {
		name:  "without room the retry is derived when the fold is due",
		job:   retried,
		view:  func(t *testing.T, v *View) { v.Room = false; ended(Lost, ReasonNeverStarted)(t, v) },
		now:   "10:01:30",
		want:  "fold fold 1",
		state: "cursor 10:01:00; owes @10:01:00 #2 slot 0",
	}, {
		name:  "an attempt that was killed for its lock is a lost one: it is tried again",
		job:   retried,
		view:  ended(Failed, ReasonLockLost),
		now:   "10:01:20",
		want:  "begin u@10:01:00Z attempt 2 slot 0 fold 1",
		state: "cursor 10:01:00; entry @10:01:00 #2 slot 0 token 0",
	}, {
		name:  "it is not under onLost: fail, whatever retry.maxAttempts says",
		job:   func(j *Job) { retried(j); daily(j); j.Policy.OnLost = OnLostFail },
		view:  ended(Failed, ReasonLockLost),
		now:   "10:01:30",
		want:  "fold fold 1",
		state: "cursor 10:01:00; count FAILED(lock lost) 1",
	}, {
		name:  "one that was killed because its node stopped is not",
		job:   func(j *Job) { retried(j); daily(j) },
		view:  ended(Failed, ReasonStopping),
		now:   "10:01:30",
		want:  "fold fold 1",
		state: "cursor 10:01:00; count FAILED(node stopping) 1",
	}, {
		name:  "a failed attempt is not tried again",
		job:   func(j *Job) { retried(j); daily(j) },
		view:  ended(Failed, ReasonExitCode),
		now:   "10:01:30",
		want:  "fold fold 1",
		state: "cursor 10:01:00; count FAILED(exit code) 1",
	}, {
		name: "under a tombstone it is folded at once and ends with its attempt's verdict",
		job:  func(j *Job) { retried(j); j.Deleted = epoch.Add(40 * time.Second) },
		view: ended(Lost, ReasonNeverStarted),
		now:  "10:01:20",
		want: "fold fold 1", state: "cursor 10:01:00; count LOST(never started) 1",
	}, {
		name: "a record of the former attempt in the same slot is not this one's end",
		job:  retried,
		view: func(t *testing.T, v *View) {
			inFlight(t, v, "10:01:00", 2, 45)
			v.Facts[first] = Fact{Attempt: 2, Lock: 45, Record: &Run{Firing: first, Attempts: []Attempt{lostLine(1)}}}
		},
		now:  "10:01:40",
		want: "wake 10:02:00",
	}, {
		name: "a record that does not say how the attempt ended is no end",
		view: func(t *testing.T, v *View) {
			inFlight(t, v, "10:01:00", 1, 45)
			v.Facts[first] = Fact{Attempt: 1, Lock: 45, Record: &Run{Firing: first, Attempts: []Attempt{{Number: 1, Token: 45}}}}
		},
		now:  "10:01:40",
		want: "wake 10:02:00",
	}, {
		name: "the record of another firing in the slot is no end",
		view: func(t *testing.T, v *View) {
			ended(Succeeded, "")(t, v)
			v.Facts[first].Record.Firing = minute(t, "09:00:00")
		},
		now:  "10:01:40",
		want: "wake 10:02:00",
	}})
}

func TestOwedRetries(t *testing.T) {
	t.Parallel()
	owes := func(t *testing.T, v *View) { owed(t, v, "10:01:00", 2) }
	checkPlans(t, []planRow{{
		name:  "an owed attempt is granted at once, in its slot, before anything newly due",
		job:   retried,
		view:  owes,
		now:   "10:02:00",
		want:  "begin u@10:01:00Z attempt 2 slot 0",
		state: "cursor 10:01:00; entry @10:01:00 #2 slot 0 token 0",
	}, {
		name: "it is never early, though the attempt before was granted by a clock that was ahead",
		job:  retried,
		view: owes,
		now:  "10:00:58",
		want: "wake 10:01:00",
	}, {
		name: "it waits for room",
		job:  retried,
		view: func(t *testing.T, v *View) { owes(t, v); v.Room = false },
		now:  "10:01:30",
		want: "wake 10:02:00",
	}, {
		name: "it waits for the end of a pause",
		job:  func(j *Job) { retried(j); j.Paused = true },
		view: owes,
		now:  "10:01:30",
		want: "wake -",
	}, {
		name: "its start deadline ends the wait",
		job:  func(j *Job) { retried(j); j.Paused = true; j.Policy.StartDeadline = 50 * time.Second },
		view: owes,
		now:  "10:01:30",
		want: "wake 10:01:50.000000001",
	}, {
		name:  "the firing then ends with the verdict of its last attempt",
		job:   func(j *Job) { retried(j); j.Policy.StartDeadline = 50 * time.Second },
		view:  owes,
		now:   "10:01:50.000000001",
		want:  "fold fold 1",
		state: "cursor 10:01:00; count LOST(member lost) 1",
	}, {
		name:  "a retry that would begin only after its deadline is ended at once",
		job:   func(j *Job) { retried(j); j.Policy.StartDeadline = 50 * time.Second },
		view:  func(t *testing.T, v *View) { owes(t, v); v.State.Retries[0].NotBefore = clockTime(t, "10:02:00") },
		now:   "10:01:20",
		want:  "fold fold 1",
		state: "cursor 10:01:00; count LOST(member lost) 1",
	}, {
		name:  "an edit to onLost fail cancels it",
		view:  owes,
		now:   "10:01:20",
		want:  "fold fold 1",
		state: "cursor 10:01:00; count LOST(member lost) 1",
	}, {
		name:  "an edit of maxAttempts cancels it",
		job:   func(j *Job) { retried(j); j.Policy.Retry.MaxAttempts = 1 },
		view:  owes,
		now:   "10:01:20",
		want:  "fold fold 1",
		state: "cursor 10:01:00; count LOST(member lost) 1",
	}, {
		name:  "a cancelled retry blocks nothing: it leaves with the begin of what is due",
		view:  func(t *testing.T, v *View) { owes(t, v); waiting(t, v, "a", "10:01:10") },
		now:   "10:01:20",
		want:  "fold fold 1",
		state: "cursor 10:01:00; count LOST(member lost) 1",
	}, {
		name: "where no claims are made a retry is ended but never granted",
		job:  retried,
		view: func(t *testing.T, v *View) { owes(t, v); v.EndsOnly = true },
		now:  "10:01:20",
		want: "wake -",
	}})
}

// TestALaterAttemptKeepsWhatTheFirstOneHad follows a triggered firing, whose trigger is gone after the
// first grant, to its second and third attempt.
func TestALaterAttemptKeepsWhatTheFirstOneHad(t *testing.T) {
	t.Parallel()
	v := situation(t, retried)
	v.State.NextSlot = 4
	requested := clockTime(t, "10:00:40")
	waiting(t, &v, "a", "10:00:40")
	now := reading(clockTime(t, "10:00:41"))
	for attempt := 1; attempt <= 3; attempt++ {
		d := PlanJob(v, now).Decision
		if d == nil || d.Kind != KindBegin || d.Attempt != attempt || d.Slot != 4 {
			t.Fatalf("got %v, want attempt %d in slot 4", d, attempt)
		}
		e, _ := d.Entry()
		if !e.Due.Equal(requested) || len(e.Past) != attempt-1 {
			t.Fatalf("attempt %d is due %s after %d others", attempt, e.Due, len(e.Past))
		}
		if (d.Trigger == "a") != (attempt == 1) {
			t.Fatalf("attempt %d consumes the trigger %q", attempt, d.Trigger)
		}
		v.StateRevision++
		v.State, v.Triggers = Fill(d.Next, v.StateRevision), nil
		v.Facts = map[Firing]Fact{d.Firing: {Attempt: attempt, GoneSince: now.Elapsed}}
		now = reading(now.Wall.Add(3 * time.Second))
		if attempt == 2 { // once by its record, once by its hold
			recorded(t, &v, d.Firing, Lost, ReasonNeverStarted, "10:01:00")
			continue
		}
		now = reading(now.Wall.Add(e.Hold + LoseMargin))
		lost := PlanJob(v, now).Decision
		if lost == nil || lost.Kind != KindLose || lost.Slot != 4 {
			t.Fatalf("got %v, want attempt %d lost", lost, attempt)
		}
		v.StateRevision++
		v.State, v.Facts = Fill(lost.Next, v.StateRevision), map[Firing]Fact{}
	}
	if got := sketch(v.State); got != "cursor 10:00:30; count LOST(member lost) 1" {
		t.Errorf("got %s", got)
	}
}

func TestTheDefaultIsThreeAttemptsForLostOnes(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		policy Policy
		want   int
	}{
		{"fail", Policy{OnLost: OnLostFail}, 1},
		{"retry", Policy{OnLost: OnLostRetry}, 3},
		{"retry, given", Policy{OnLost: OnLostRetry, Retry: Retry{MaxAttempts: 7}}, 7},
	} {
		if got := maxAttempts(Job{Policy: row.policy}); got != row.want {
			t.Errorf("%s: got %d, want %d", row.name, got, row.want)
		}
	}
}

func TestApplyEnd(t *testing.T) {
	t.Parallel()
	first := minute(t, "10:01:00")
	v := situation(t, retried)
	inFlight(t, &v, "10:01:00", 1, 45)
	e := v.State.Entries[0]
	for _, row := range []struct {
		name string
		run  Run
		job  func(*Job)
		want string
	}{{
		name: "a late success is counted and leaves the state",
		run:  recordOf(v.Job, e, Succeeded, ""),
		want: "cursor 10:01:00; count SUCCEEDED() 1",
	}, {
		name: "a lost one is owed a retry",
		run:  recordOf(v.Job, e, Lost, ReasonNeverStarted),
		want: "cursor 10:01:00; owes @10:01:00 #2 slot 0",
	}, {
		name: "so is one that its own member killed for its lock",
		run:  recordOf(v.Job, e, Failed, ReasonLockLost),
		want: "cursor 10:01:00; owes @10:01:00 #2 slot 0",
	}, {
		name: "a lost one of a deleted job is not",
		run:  recordOf(v.Job, e, Lost, ReasonNeverStarted),
		job:  func(j *Job) { j.Deleted = epoch },
		want: "cursor 10:01:00; count LOST(never started) 1",
	}, {
		name: "a cancelled one is counted",
		run:  recordOf(v.Job, e, Canceled, ""),
		want: "cursor 10:01:00; count CANCELED() 1",
	}, {
		name: "the end of another attempt changes nothing",
		run:  Run{Firing: first, Attempts: []Attempt{{Number: 2, Verdict: Succeeded}}},
		want: sketch(v.State),
	}, {
		name: "the end of the same number under another token changes nothing",
		run:  Run{Firing: first, Attempts: []Attempt{{Number: 1, Token: 44, Verdict: Succeeded}}},
		want: sketch(v.State),
	}, {
		name: "an empty record changes nothing",
		run:  Run{Firing: first},
		want: sketch(v.State),
	}} {
		job := v.Job
		if row.job != nil {
			row.job(&job)
		}
		before := sketch(v.State)
		got := ApplyEnd(v.State, job, row.run, first)
		if sketch(got) != row.want {
			t.Errorf("%s:\n got %s\nwant %s", row.name, sketch(got), row.want)
		}
		if again := ApplyEnd(got, job, row.run, first); sketch(again) != row.want {
			t.Errorf("%s, twice:\n got %s\nwant %s", row.name, sketch(again), row.want)
		}
		if sketch(v.State) != before {
			t.Errorf("%s changed the state it was given", row.name)
		}
	}
	if got := ApplyEnd(v.State, v.Job, recordOf(v.Job, e, Succeeded, ""), Triggered(uid, "zz")); sketch(got) != sketch(v.State) {
		t.Errorf("the end of a firing that is not in flight changed %s to %s", sketch(v.State), sketch(got))
	}
}

func TestFoldedNamesEveryFiringThatLeaves(t *testing.T) {
	t.Parallel()
	v := situation(t, nil)
	for _, id := range []string{"a", "b", "c"} {
		addEntry(&v, Triggered(uid, id), 1, 45, clockTime(t, "10:00:40"))
	}
	recorded(t, &v, Triggered(uid, "a"), Succeeded, "", "10:00:50")
	recorded(t, &v, Triggered(uid, "c"), Failed, ReasonError, "10:00:58")
	d := PlanJob(v, reading(clockTime(t, "10:01:00"))).Decision
	want := []Firing{Triggered(uid, "a"), Triggered(uid, "c")}
	if d == nil || !slices.Equal(d.Folded, want) {
		t.Fatalf("got %+v, want %v folded", d, want)
	}
	if got := sketch(d.Next); got != "cursor 10:01:00; entry +b #1 slot 1 token 45; range 10:01:00…10:01:00 ×1 SKIPPED(overlap); "+
		"count FAILED(error) 1; count SKIPPED(overlap) 1; count SUCCEEDED() 1" {
		t.Errorf("got %s", got)
	}
}
