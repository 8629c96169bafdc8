package scheduler

import (
	"testing"
	"time"
)

func TestClosingTheBooks(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name   string // a sentence
		job    func(*Job)
		view   func(*testing.T, *View)
		now    string
		reason Reason
		want   string
	}{{
		name:   "an edit accounts what is due under the old schedule, and the cursor becomes now",
		now:    "10:03:10",
		reason: ReasonEdited,
		want:   "cursor 10:03:10; range 10:01:00…10:03:00 ×3 SKIPPED(edited); count SKIPPED(edited) 3",
	}, {
		name:   "nothing due accounts nothing",
		now:    "10:00:59.9",
		reason: ReasonEdited,
		want:   "cursor 10:00:59",
	}, {
		name:   "an instant due at this very second is decided too",
		now:    "10:01:00",
		reason: ReasonPaused,
		want:   "cursor 10:01:00; range 10:01:00…10:01:00 ×1 SKIPPED(paused); count SKIPPED(paused) 1",
	}, {
		name:   "the backlog goes with it",
		view:   backlogOf("10:01:00"),
		now:    "10:02:03",
		reason: ReasonPaused,
		want:   "cursor 10:02:03; range 10:01:00…10:02:00 ×2 SKIPPED(paused); count SKIPPED(paused) 2",
	}, {
		name:   "the resume accounts the time of the pause",
		job:    func(j *Job) { j.Paused = true },
		now:    "+10:00:45",
		reason: ReasonPaused,
		want:   "cursor 2.10:00:45; range 10:01:00…2.10:00:00 ×1440 SKIPPED(paused); count SKIPPED(paused) 1440",
	}, {
		name:   "an edit during a pause does not rewrite why they were not run",
		job:    func(j *Job) { j.Paused = true },
		now:    "10:02:30",
		reason: ReasonEdited,
		want:   "cursor 10:02:30; range 10:01:00…10:02:00 ×2 SKIPPED(paused); count SKIPPED(paused) 2",
	}, {
		name:   "what is in flight stays, with its token filled in",
		view:   func(t *testing.T, v *View) { inFlight(t, v, "10:01:00", 1, 0) },
		now:    "10:01:30",
		reason: ReasonEdited,
		want:   "cursor 10:01:30; entry @10:01:00 #1 slot 0 token 50",
	}, {
		name:   "an edit keeps an owed retry",
		job:    retried,
		view:   func(t *testing.T, v *View) { owed(t, v, "10:01:00", 2) },
		now:    "10:01:30",
		reason: ReasonEdited,
		want:   "cursor 10:01:30; owes @10:01:00 #2 slot 0",
	}, {
		name:   "an edit and a pause leave triggers to the owner",
		view:   func(t *testing.T, v *View) { waiting(t, v, "a", "10:00:40") },
		now:    "10:00:50",
		reason: ReasonPaused,
		want:   "cursor 10:00:50",
	}, {
		name: "a delete skips triggers and ends owed retries with their last verdict",
		job:  retried,
		view: func(t *testing.T, v *View) {
			owed(t, v, "10:01:00", 2)
			waiting(t, v, "a", "10:00:40")
		},
		now:    "10:02:30",
		reason: ReasonDeleted,
		want: "cursor 10:02:30; range 10:02:00…10:02:00 ×1 SKIPPED(deleted); range +a SKIPPED(deleted); " +
			"count LOST(member lost) 1; count SKIPPED(deleted) 2",
	}, {
		name: "a delete does not count a trigger that a grant consumed",
		view: func(t *testing.T, v *View) {
			addEntry(v, Triggered(uid, "a"), 1, 45, clockTime(t, "10:00:40"))
			waiting(t, v, "a", "10:00:40")
		},
		now:    "10:00:50",
		reason: ReasonDeleted,
		want:   "cursor 10:00:50; entry +a #1 slot 0 token 45",
	}, {
		name:   "a delete of a paused job says of each why",
		job:    func(j *Job) { j.Paused = true },
		view:   func(t *testing.T, v *View) { waiting(t, v, "a", "10:00:40") },
		now:    "10:01:50",
		reason: ReasonDeleted,
		want: "cursor 10:01:50; range 10:01:00…10:01:00 ×1 SKIPPED(paused); range +a SKIPPED(deleted); " +
			"count SKIPPED(deleted) 1; count SKIPPED(paused) 1",
	}, {
		name:   "the cursor never moves back, not even for a clock that is behind",
		view:   func(t *testing.T, v *View) { v.State.Cursor = clockTime(t, "10:30:00") },
		now:    "10:10:00",
		reason: ReasonEdited,
		want:   "cursor 10:30:00",
	}, {
		name:   "nor beyond the confirmed clock",
		view:   func(t *testing.T, v *View) { v.NotBeyond = clockTime(t, "10:01:30") },
		now:    "10:10:00",
		reason: ReasonEdited,
		want:   "cursor 10:01:30; range 10:01:00…10:01:00 ×1 SKIPPED(edited); count SKIPPED(edited) 1",
	}, {
		name:   "an instant put off by jitter beyond now is decided by the old definition, for its instant is past",
		job:    func(j *Job) { j.Schedule.Jitter = 50 * time.Second },
		now:    "10:01:00",
		reason: ReasonEdited,
		want:   "cursor 10:01:00; range 10:01:00…10:01:00 ×1 SKIPPED(edited); count SKIPPED(edited) 1",
	}}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			v := situation(t, row.job)
			if row.view != nil {
				row.view(t, &v)
			}
			before := sketch(v.State)
			got := CloseBooks(v, reading(clockTime(t, row.now)), row.reason)
			if sketch(got) != row.want {
				t.Errorf("from %s\n got %s\nwant %s", before, sketch(got), row.want)
			}
			if sketch(v.State) != before {
				t.Errorf("the state that was handed in changed to %s", sketch(v.State))
			}
		})
	}
}

func backlogOf(instant string) func(*testing.T, *View) {
	return func(t *testing.T, v *View) {
		at := clockTime(t, instant)
		v.State.Cursor = at
		v.State.Backlog = &Backlog{First: at, Last: at, Count: 1}
	}
}

func TestADeleteWithNothingInFlightIsSettled(t *testing.T) {
	t.Parallel()
	at := clockTime(t, "10:00:50")
	v := situation(t, nil)
	if got := CloseBooks(v, reading(at), ReasonDeleted).Settled; !got.Equal(at) {
		t.Errorf("settled %v, want %v", got, at)
	}
	if got := CloseBooks(v, reading(at), ReasonEdited).Settled; !got.IsZero() {
		t.Errorf("an edit settled it at %v", got)
	}
	inFlight(t, &v, "10:01:00", 1, 45)
	if got := CloseBooks(v, reading(at), ReasonDeleted).Settled; !got.IsZero() {
		t.Errorf("settled %v with an attempt in flight", got)
	}
}

// TestEditsKeepWhatIsDue follows one instant over an edit of each kind: it is decided once, under the
// definition that the rules name.
func TestEditsKeepWhatIsDue(t *testing.T) {
	t.Parallel()
	v := situation(t, nil)
	now := reading(clockTime(t, "10:01:02"))

	edited := v.Job
	edited.Generation = 2
	edited.Policy.Timeout = time.Minute
	if ClosesBooks(v.Job, edited) {
		t.Fatal("a time-out closes the books")
	}
	v.Job, v.State = edited, Fill(v.State, v.StateRevision)
	d := PlanJob(v, now).Decision
	if d == nil || d.Kind != KindBegin {
		t.Fatalf("after an edit that keeps the cursor: got %v, want the due instant to begin", d)
	}
	if e, _ := d.Entry(); e.Generation != 2 {
		t.Errorf("it begins under generation %d, want the new one", e.Generation)
	}

	v = situation(t, nil)
	changed := v.Job
	changed.Schedule.Cron = []string{"*/2 * * * * *"}
	if !ClosesBooks(v.Job, changed) {
		t.Fatal("a new schedule does not close the books")
	}
	v.State = CloseBooks(v, now, ReasonEdited)
	v.Job, v.Timetable = changed, compile(t, changed.Schedule)
	if got, want := answer(PlanJob(v, now)), "wake 10:01:04"; got != want {
		t.Errorf("after a change of the schedule: got %s, want only later instants: %s", got, want)
	}
}

func TestNewStateOwesNothing(t *testing.T) {
	t.Parallel()
	v := situation(t, nil)
	at := clockTime(t, "10:01:00.7")
	s := NewState(v.Job, at)
	if got := sketch(s); got != "cursor 10:01:00" {
		t.Errorf("got %s", got)
	}
	if s.UID != uid || s.Slots != v.Job.HistoryLimit+1 {
		t.Errorf("got uid %q and %d slots", s.UID, s.Slots)
	}
	v.State = s
	if got := answer(PlanJob(v, reading(at))); got != "wake 10:02:00" {
		t.Errorf("a job created at %s: got %s", short(at), got)
	}
}
