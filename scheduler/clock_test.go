package scheduler

import (
	"strings"
	"testing"
	"time"
)

func TestStepGuard(t *testing.T) {
	t.Parallel()
	type tick struct {
		after   time.Duration // elapsed clock
		step    time.Duration // of the wall clock against it
		trusted bool
		behind  time.Duration // how far NotBeyond is behind the wall clock
		event   string        // part of it; "" is none
	}
	for _, row := range []struct {
		name  string
		ticks []tick
	}{{
		name:  "a clock that runs is trusted from the first reading",
		ticks: []tick{{0, 0, true, 0, ""}, {time.Second, 0, true, 0, ""}, {time.Hour, 0, true, 0, ""}},
	}, {
		name: "a step forwards stops planning for a minute, and is then believed",
		ticks: []tick{
			{0, 0, true, 0, ""},
			{time.Second, time.Hour, false, time.Hour, "stepped by 1h0m0s"},
			{59 * time.Second, 0, false, time.Hour, ""},
			{time.Second, 0, true, 0, "believed"},
			{time.Second, 0, true, 0, ""},
		},
	}, {
		name: "a step backwards too; the cursor is bounded by the wall clock",
		ticks: []tick{
			{0, 0, true, 0, ""},
			{time.Second, -time.Hour, false, 0, "stepped by -1h0m0s"},
			{time.Minute, 0, true, 0, "believed"},
		},
	}, {
		name: "half a second is no step, and still bounds the cursor",
		ticks: []tick{
			{0, 0, true, 0, ""},
			{time.Second, 500 * time.Millisecond, true, 500 * time.Millisecond, ""},
			{time.Second, 0, true, 500 * time.Millisecond, ""},
		},
	}, {
		name: "small steps that add up are one",
		ticks: []tick{
			{0, 0, true, 0, ""},
			{time.Second, 300 * time.Millisecond, true, 300 * time.Millisecond, ""},
			{time.Second, 300 * time.Millisecond, false, 600 * time.Millisecond, "stepped by 600ms"},
		},
	}, {
		name: "small corrections are followed, a minute apart",
		ticks: []tick{
			{0, 0, true, 0, ""},
			{time.Second, 400 * time.Millisecond, true, 400 * time.Millisecond, ""},
			{time.Minute, 0, true, 0, ""},
			{time.Second, 400 * time.Millisecond, true, 400 * time.Millisecond, ""},
			{time.Minute, 0, true, 0, ""},
		},
	}, {
		name: "another step begins the minute again",
		ticks: []tick{
			{0, 0, true, 0, ""},
			{time.Second, time.Hour, false, time.Hour, "stepped"},
			{50 * time.Second, time.Minute, false, time.Hour + time.Minute, "stepped"},
			{50 * time.Second, 0, false, time.Hour + time.Minute, ""},
			{10 * time.Second, 0, true, 0, "believed"},
		},
	}, {
		name: "a step back to where it was is a step as well",
		ticks: []tick{
			{0, 0, true, 0, ""},
			{time.Second, time.Hour, false, time.Hour, "stepped"},
			{time.Second, -time.Hour, false, 0, "stepped by 0s"},
			{time.Minute, 0, true, 0, "believed"},
		},
	}, {
		name:  "a suspended machine is none: both clocks count it",
		ticks: []tick{{0, 0, true, 0, ""}, {9 * time.Hour, 0, true, 0, ""}},
	}, {
		name: "a step during a suspension is one",
		ticks: []tick{
			{0, 0, true, 0, ""},
			{9 * time.Hour, -2 * time.Hour, false, 0, "stepped"},
		},
	}} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			var g StepGuard
			now := reading(epoch)
			for n, tick := range row.ticks {
				now.Elapsed += tick.after
				now.Wall = now.Wall.Add(tick.after + tick.step)
				v := g.Observe(now)
				if v.Trusted != tick.trusted {
					t.Errorf("reading %d: trusted %v, want %v", n, v.Trusted, tick.trusted)
				}
				if got := now.Wall.Sub(v.NotBeyond); got != tick.behind {
					t.Errorf("reading %d: NotBeyond is %s behind the wall clock, want %s", n, got, tick.behind)
				}
				if (v.Event == "") != (tick.event == "") || !strings.Contains(v.Event, tick.event) {
					t.Errorf("reading %d: event %q, want %q", n, v.Event, tick.event)
				}
			}
		})
	}
}

func TestLockLife(t *testing.T) {
	t.Parallel()
	life := LockLife{Sent: 100 * time.Second, TTL: 9 * time.Second, Grace: 5 * time.Second}
	for _, row := range []struct {
		name      string
		got, want time.Duration
	}{
		{"claiming stops at two thirds of the TTL", life.ClaimUntil(), 106 * time.Second},
		{"attempts are told to end three seconds before they must be dead", life.TermAt(), 111 * time.Second},
		{"they must be dead when TTL and grace have passed", life.KillAt(), 114 * time.Second},
	} {
		if row.got != row.want {
			t.Errorf("%s: got %s, want %s", row.name, row.got, row.want)
		}
	}
	for _, row := range []struct {
		name       string
		begun, now time.Duration
		want       bool
	}{
		{"a fresh grant starts", 100 * time.Second, 101 * time.Second, true},
		{"half a TTL after its Begin was sent it may just start", 100 * time.Second, 104500 * time.Millisecond, true},
		{"later not: its lock may have been lost and given on", 100 * time.Second, 104500*time.Millisecond + 1, false},
		{"nor when it would be told to end within a second", 109 * time.Second, 110 * time.Second, false},
		{"a moment before that it starts", 109 * time.Second, 110*time.Second - 1, true},
	} {
		if got := life.MayStart(row.begun, row.now); got != row.want {
			t.Errorf("%s: got %v", row.name, got)
		}
	}
	if !life.Held(109*time.Second-1) || life.Held(109*time.Second) {
		t.Error("the locks are held for less than a TTL after the keep-alive was sent")
	}
	if none := (LockLife{}); none.Held(time.Hour) || none.MayStart(time.Hour, time.Hour) {
		t.Error("a lease that was never answered permits something")
	}
}

// TestAProcessIsDeadBeforeItsAttemptIsCalledLost is the arithmetic that no overlap after a lost session
// rests on: etcd lets a lease end no sooner than a TTL after the keep-alive that it answered was sent,
// the owner waits hold + LoseMargin from when it saw the lock gone, and the member kills at KillAt.
func TestAProcessIsDeadBeforeItsAttemptIsCalledLost(t *testing.T) {
	t.Parallel()
	for ttl := 3 * time.Second; ttl <= time.Minute; ttl += time.Second {
		life := LockLife{Sent: time.Hour, TTL: ttl, Grace: 5 * time.Second}
		soonestGone := life.Sent // a lease may be revoked at once after it was answered
		hold := life.TTL + life.Grace
		if lost := soonestGone + hold + LoseMargin; lost-life.KillAt() < LoseMargin {
			t.Errorf("TTL %s: called lost %s after the kill", ttl, lost-life.KillAt())
		}
		if life.TermAt() <= life.Sent {
			t.Errorf("TTL %s: told to end before the keep-alive was sent", ttl)
		}
	}
}
