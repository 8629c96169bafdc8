package scheduler

import (
	"testing"
	"time"
)

func TestTombstonesSettleAndGo(t *testing.T) {
	t.Parallel()
	// Deleted at 10:01:30.
	deleted := func(j *Job) { retried(j); j.Deleted = epoch.Add(time.Minute) }
	first := minute(t, "10:01:00")
	checkPlans(t, []planRow{{
		name: "a tombstone with nothing in flight is swept an hour after the delete",
		job:  deleted,
		now:  "10:02:00",
		want: "wake 11:01:30",
	}, {
		name: "then it is swept",
		job:  deleted,
		now:  "11:01:30",
		want: "sweep default/job",
	}, {
		name: "one that settled later is swept an hour after that",
		job:  deleted,
		view: func(t *testing.T, v *View) { v.State.Settled = clockTime(t, "10:30:00") },
		now:  "11:02:00",
		want: "wake 11:30:00",
	}, {
		name: "a running attempt goes on, and nothing falls due any more",
		job:  deleted,
		view: func(t *testing.T, v *View) { inFlight(t, v, "10:01:00", 1, 45) },
		now:  "12:00:00",
		want: "wake -",
	}, {
		name: "a lost attempt is lost and not tried again",
		job:  deleted,
		view: func(t *testing.T, v *View) { inFlight(t, v, "10:01:00", 1, 45); gone(t, v, first, "10:02:00") },
		now:  "10:02:17",
		want: "lose u@10:01:00Z attempt 1 slot 0 LOST(member lost)", state: "cursor 10:01:00; count LOST(member lost) 1",
	}, {
		name:  "an owed retry that a delete left is ended",
		job:   deleted,
		view:  func(t *testing.T, v *View) { owed(t, v, "10:01:00", 2) },
		now:   "10:02:00",
		want:  "fold fold 1",
		state: "cursor 10:01:00; count LOST(member lost) 1",
	}, {
		name:  "a trigger that the delete did not see is skipped",
		job:   deleted,
		view:  func(t *testing.T, v *View) { waiting(t, v, "a", "10:01:29") },
		now:   "10:02:00",
		want:  "skip u+a SKIPPED(deleted)",
		state: "cursor 10:00:30; range +a SKIPPED(deleted); count SKIPPED(deleted) 1",
	}, {
		name: "ends come before it, and where no claims are made it waits",
		job:  deleted,
		view: func(t *testing.T, v *View) { v.EndsOnly = true; waiting(t, v, "a", "10:01:29") },
		now:  "11:30:00",
		want: "wake -",
	}, {
		name: "a paused tombstone is a tombstone",
		job:  func(j *Job) { deleted(j); j.Paused = true },
		now:  "12:00:00",
		want: "sweep default/job",
	}})
}

func TestSettledIsWhenTheLastFiringEnded(t *testing.T) {
	t.Parallel()
	v := situation(t, func(j *Job) { j.Deleted = epoch.Add(time.Minute) })
	inFlight(t, &v, "10:01:00", 1, 45)
	addEntry(&v, Triggered(uid, "a"), 1, 46, clockTime(t, "10:01:10"))
	recorded(t, &v, Triggered(uid, "a"), Succeeded, "", "10:20:00")

	at := clockTime(t, "10:20:01")
	d := PlanJob(v, reading(at)).Decision
	if d == nil || d.Kind != KindFold || !d.Next.Settled.IsZero() {
		t.Fatalf("with one still running: got %v settled %v", d, d.Next.Settled)
	}
	v.State = d.Next
	gone(t, &v, minute(t, "10:01:00"), "10:20:02")
	at = clockTime(t, "10:21:00")
	d = PlanJob(v, reading(at)).Decision
	if d == nil || d.Kind != KindLose || !d.Next.Settled.Equal(at) {
		t.Fatalf("with the last one lost: got %v settled %v, want %v", d, d.Next.Settled, at)
	}

	folded := v
	folded.Facts = map[Firing]Fact{}
	recorded(t, &folded, minute(t, "10:01:00"), Succeeded, "", "10:20:02")
	if d := PlanJob(folded, reading(at)).Decision; d == nil || d.Kind != KindFold || !d.Next.Settled.Equal(at) {
		t.Fatalf("with the last one folded: got %v settled %v, want %v", d, d.Next.Settled, at)
	}

	run := recordOf(v.Job, v.State.Entries[0], Succeeded, "")
	run.Attempts[0].Finished = clockTime(t, "10:20:30")
	if got := ApplyEnd(v.State, v.Job, run, run.Firing); !got.Settled.Equal(run.Attempts[0].Finished) {
		t.Errorf("a late result settled it at %v, want %v", got.Settled, run.Attempts[0].Finished)
	}
}
