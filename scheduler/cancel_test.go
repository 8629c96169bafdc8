package scheduler

import "testing"

func TestCancellingWhatDoesNotRun(t *testing.T) {
	t.Parallel()
	v := situation(t, retried)
	owed(t, &v, "10:01:00", 2)
	before := sketch(v.State)

	s, ok := CancelRetry(v.State, minute(t, "10:01:00"))
	if want := "cursor 10:01:00; count LOST(member lost) 1"; !ok || sketch(s) != want {
		t.Errorf("an owed retry: got %v %s, want %s: the firing ends as its last attempt did", ok, sketch(s), want)
	}
	if s, ok := CancelRetry(v.State, minute(t, "10:02:00")); ok || sketch(s) != before {
		t.Errorf("a retry that is not owed: got %v %s", ok, sketch(s))
	}
	v = situation(t, retried)
	inFlight(t, &v, "10:01:00", 1, 45)
	ended := recordOf(v.Job, v.State.Entries[0], Lost, ReasonNeverStarted)
	s, ok = CancelEnded(v.State, v.Job, ended)
	if want := "cursor 10:01:00; count LOST(never started) 1"; !ok || sketch(s) != want {
		t.Errorf("a retry that its fold would make: got %v %s, want %s", ok, sketch(s), want)
	}
	ended = recordOf(v.Job, v.State.Entries[0], Succeeded, "")
	if s, ok := CancelEnded(v.State, v.Job, ended); ok || sketch(s) != sketch(v.State) {
		t.Errorf("an end that nothing follows: got %v %s, want it left to its fold", ok, sketch(s))
	}

	v = situation(t, retried)
	owed(t, &v, "10:01:00", 2)
	s = CancelTrigger(v.State, Trigger{ID: "a", Requested: epoch})
	if want := before + "; range +a SKIPPED(canceled); count SKIPPED(canceled) 1"; sketch(s) != want {
		t.Errorf("a trigger:\n got %s\nwant %s", sketch(s), want)
	}
	if sketch(v.State) != before {
		t.Errorf("the state that was handed in changed to %s", sketch(v.State))
	}
}
