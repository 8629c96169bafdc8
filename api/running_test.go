package api_test

import (
	"testing"
	"time"

	"github.com/quorumcron/quorumcron/api"
	"github.com/quorumcron/quorumcron/scheduler"
)

func TestRunningRunStartedWhenItWasGranted(t *testing.T) {
	t.Parallel()
	granted := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	running := scheduler.Run{Attempts: []scheduler.Attempt{{Number: 1, Token: 7, Granted: granted}}}
	if got := api.RunToProto(running).GetStartTime().AsTime(); !got.Equal(granted) {
		t.Errorf("a running run started %s, want when it was granted, %s", got, granted)
	}
	never := running
	never.Attempts = []scheduler.Attempt{{Number: 1, Token: 7, Granted: granted, Verdict: scheduler.Lost, Reason: scheduler.ReasonNeverStarted}}
	if got := api.RunToProto(never).GetStartTime(); got != nil {
		t.Errorf("a run that never started has the start time %s, want none", got.AsTime())
	}
}
