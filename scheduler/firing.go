package scheduler

import (
	"fmt"
	"strings"
	"time"
)

// Firing identifies one firing of a job: a scheduled instant, or a trigger (manual, backfill,
// chained). Firings are comparable; their string is the idempotency key everywhere.
type Firing struct {
	UID string
	// Scheduled is the instant in Unix seconds. It counts only when Trigger is "".
	Scheduled int64
	// Trigger is the id of the trigger that asked for the firing.
	Trigger string
}

// At returns the firing of the job uid at an instant, which is cut to whole seconds.
func At(uid string, instant time.Time) Firing {
	return Firing{UID: uid, Scheduled: instant.Unix()}
}

// Triggered returns the firing that the trigger id asks for.
func Triggered(uid, id string) Firing { return Firing{UID: uid, Trigger: id} }

// Manual says whether a trigger asked for the firing, so that it has no instant.
func (f Firing) Manual() bool { return f.Trigger != "" }

// Instant is the scheduled instant in UTC, or the zero time for a triggered firing.
func (f Firing) Instant() time.Time {
	if f.Manual() {
		return time.Time{}
	}
	return time.Unix(f.Scheduled, 0).UTC()
}

// Key is the part of the string after the uid: what keys below <uid>/ are called.
func (f Firing) Key() string {
	if f.Manual() {
		return "+" + f.Trigger
	}
	return "@" + f.Instant().Format(time.RFC3339)
}

// String is <uid>@2026-12-24T18:00:00Z or <uid>+<trigger id>.
func (f Firing) String() string { return f.UID + f.Key() }

// ParseFiring reads what Firing.String writes. The error names the value and its right form.
func ParseFiring(s string) (Firing, error) {
	if i := strings.IndexByte(s, '@'); i > 0 && !strings.Contains(s[:i], "+") {
		t, err := time.Parse(time.RFC3339, s[i+1:])
		if err != nil || !t.Equal(t.Truncate(time.Second)) {
			return Firing{}, fmt.Errorf("firing %q: the part after @ must be a whole second such as 2026-12-24T18:00:00Z", s)
		}
		return At(s[:i], t), nil
	}
	if i := strings.IndexByte(s, '+'); i > 0 && i < len(s)-1 {
		return Triggered(s[:i], s[i+1:]), nil
	}
	return Firing{}, fmt.Errorf("firing %q: must be <uid>@<instant> or <uid>+<trigger id>, as `run list` shows it", s)
}
