package store

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/quorumcron/quorumcron/proto/quorumcron/stored/v1"
	"github.com/quorumcron/quorumcron/scheduler"
)

// TestShortRecordsAreShortWhateverIsInThem has every field as long as it may be.
func TestShortRecordsAreShortWhateverIsInThem(t *testing.T) {
	t.Parallel()
	code := int32(math.MinInt32)
	late := time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC)
	for _, c := range []struct {
		does            string
		name, namespace int
		member          int
		attempts        int
		firing          scheduler.Firing
		wantLines       int // at least
		wantName        bool
	}{
		{"an ordinary one", 12, 7, 8, 1, scheduler.At("uid", late), 1, true},
		{"three attempts", 12, 7, 8, 3, scheduler.At("uid", late), 3, true},
		{"a hundred attempts", 12, 7, 8, 100, scheduler.At("uid", late), 2, true},
		{"a long name", 253, 63, 8, 2, scheduler.At("uid", late), 2, false},
		{"everything at its bound", 253, 63, 63, 100, scheduler.Triggered("uid", strings.Repeat("t", 26)), 1, false},
	} {
		run := scheduler.Run{
			Job:    scheduler.JobName{Namespace: strings.Repeat("s", c.namespace), Name: strings.Repeat("n", c.name)},
			Firing: c.firing, Generation: 12, Output: make([]byte, 8<<10), OutputBytes: 1 << 20, OutputDropped: 5,
		}
		if c.member == 63 {
			run.Generation, run.OutputBytes = math.MaxInt64, math.MaxInt64
		}
		token := int64(1 << 35)
		if c.member == 63 {
			token = math.MaxInt64 - 200
		}
		for i := range c.attempts {
			run.Attempts = append(run.Attempts, scheduler.Attempt{
				Number: i + 1, Token: token + int64(i), Member: strings.Repeat("m", c.member), Granted: late, Started: late, Finished: late,
				Verdict: scheduler.Lost, Reason: scheduler.ReasonNeverStarted, Message: strings.Repeat("x", 1<<10), ExitCode: &code,
			})
		}
		whole := run.Attempts[0].Message
		value, err := shortRecord(run)
		if err != nil || len(value) > mostShort {
			t.Errorf("%s: %d bytes, %v; want at most %d", c.does, len(value), err, mostShort)
		}
		if run.Attempts[0].Message != whole {
			t.Errorf("%s: the caller's run was changed", c.does)
		}
		got, last := decodedRun(t, value), run.Last()
		end := got.Last()
		if !got.Shortened || got.Firing != run.Firing || end.Number != last.Number || end.Token != last.Token || end.Verdict != last.Verdict ||
			end.Reason != last.Reason || end.Member != last.Member || !end.Granted.Equal(late) || !end.Finished.Equal(late) || *end.ExitCode != code {
			t.Errorf("%s: the newest attempt is %+v", c.does, end)
		}
		if len(got.Attempts) < c.wantLines || (got.Job == run.Job) != c.wantName {
			t.Errorf("%s: %d lines, job %v; want at least %d, and the name %v", c.does, len(got.Attempts), got.Job, c.wantLines, c.wantName)
		}
		if n := len(got.Attempts); n > 1 && (got.Attempts[0].Number != 1 || got.Attempts[n-2].Number != c.attempts-1) {
			t.Errorf("%s: kept the lines %+v, want the first and the newest", c.does, got.Attempts)
		}
	}
}

func decodedRun(t *testing.T, value string) scheduler.Run {
	t.Helper()
	var m storedv1.Run
	if err := unmarshal([]byte(value), &m); err != nil {
		t.Fatal(err)
	}
	r, err := decodeRun("uid", 0, &m)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
