package scheduler

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestSpaceLevelsHoldAtTheirBoundsAndAreLeftBelowThem(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		does    string
		from    SpaceLevel
		share   int
		noSpace bool
		want    SpaceLevel
	}{
		{"empty", SpaceNormal, 0, false, SpaceNormal},
		{"nothing known yet", "", 79, false, SpaceNormal},
		{"below the first bound", SpaceNormal, 79, false, SpaceNormal},
		{"at the first bound", SpaceNormal, 80, false, SpaceTight},
		{"tight does not breathe", SpaceTight, 77, false, SpaceTight},
		{"tight is left", SpaceTight, 76, false, SpaceNormal},
		{"below the second bound", SpaceTight, 89, false, SpaceTight},
		{"at the second bound", SpaceTight, 90, false, SpaceFull},
		{"both bounds at once", SpaceNormal, 97, false, SpaceFull},
		{"beyond the quota", SpaceFull, 104, false, SpaceFull},
		{"full does not breathe", SpaceFull, 87, false, SpaceFull},
		{"full is left for tight", SpaceFull, 86, false, SpaceTight},
		{"full is left for tight, which does not breathe either", SpaceFull, 77, false, SpaceTight},
		{"full is left for normal", SpaceFull, 76, false, SpaceNormal},
		{"the alarm is as good as full", SpaceNormal, 10, true, SpaceFull},
		{"the alarm is cleared", SpaceFull, 10, false, SpaceNormal},
	} {
		if got := c.from.Next(c.share, c.noSpace); got != c.want {
			t.Errorf("%s: %q at %d %%, alarm %v: got %q, want %q", c.does, c.from, c.share, c.noSpace, got, c.want)
		}
	}
}

func TestShareIsOfTheWholeFile(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		does               string
		size, inUse, quota int64
		want               int
	}{
		{"free pages count", 1700, 100, 2000, 85},
		{"just below", 1_599_999, 0, 2_000_000, 79},
		{"terabytes do not overflow", 9 << 60 >> 1, 0, 5 << 60, 90},
		{"no quota", 1 << 40, 0, -1, 0},
		{"a server that does not tell", 1 << 40, 0, 0, 0},
	} {
		if got := (EtcdHealth{DBSize: c.size, DBInUse: c.inUse, DBQuota: c.quota}).Share(); got != c.want {
			t.Errorf("%s: got %d %%, want %d", c.does, got, c.want)
		}
	}
}

func TestRefusalSaysShareQuotaAndRemedy(t *testing.T) {
	t.Parallel()
	h := EtcdHealth{DBSize: 1900 << 20, DBQuota: 2000 << 20, Space: SpaceTight}
	if err := h.Refusal(); err != nil {
		t.Errorf("refused while tight: %v", err)
	}
	h.Space = SpaceFull
	err := h.Refusal()
	if !errors.Is(err, ErrNoRoom) {
		t.Fatalf("got %v, want ErrNoRoom", err)
	}
	for _, word := range []string{"95 %", "1900.0 of 2000.0 MiB", "compact", "defragment", "--quota-backend-bytes"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q does not say %q", err, word)
		}
	}
	h = EtcdHealth{Alarms: []string{AlarmNoSpace}, Space: SpaceFull}
	if err := h.Refusal(); err == nil || !strings.Contains(err.Error(), "NOSPACE") {
		t.Errorf("under the alarm: %v", err)
	}
}

func TestHistoryWatch(t *testing.T) {
	t.Parallel()
	type reading struct {
		after               time.Duration
		revision, compacted int64
	}
	every := func(step, through time.Duration, f func(time.Duration) reading) (all []reading) {
		for at := time.Duration(0); at <= through; at += step {
			r := f(at)
			r.after = at
			all = append(all, r)
		}
		return all
	}
	for _, c := range []struct {
		does     string
		readings []reading
		want     bool // the last reading is warned of
		before   int  // and how many before it may be; -1 any
	}{
		{"a new cluster is young", every(time.Minute, 2*time.Hour, func(at time.Duration) reading {
			return reading{revision: 1 + int64(at/time.Second)}
		}), false, 0},
		{"never compacted", every(time.Minute, 150*time.Minute, func(at time.Duration) reading {
			return reading{revision: 1 + int64(at/time.Second)}
		}), true, 0},
		{"an idle cluster writes next to nothing", every(time.Hour, 1000*time.Hour, func(at time.Duration) reading {
			return reading{revision: 900 + int64(at/time.Hour)/20}
		}), false, 0},
		{"auto-compaction of one hour, from the start of etcd", every(time.Minute, 24*time.Hour, func(at time.Duration) reading {
			// The history of the last hour is kept, and compacted once an hour: after the first one to where
			// etcd began. A thousand revisions a second are full speed.
			hours := int64(at / time.Hour)
			return reading{revision: int64(at / time.Millisecond), compacted: max(0, hours-1) * 3_600_000}
		}), false, 0},
		{"compaction that has stopped", append(every(time.Minute, time.Hour, func(at time.Duration) reading {
			return reading{revision: 100_000 + int64(at/time.Second), compacted: 90_000 + int64(at/time.Second)}
		}), reading{3*time.Hour + 29*time.Minute, 200_000, 93_600}, reading{3*time.Hour + 30*time.Minute, 200_001, 93_600}), true, 0},
		{"compacted again", []reading{{0, 10_000, 5}, {3 * time.Hour, 90_000, 5}, {3*time.Hour + time.Minute, 90_010, 80_000}}, false, 1},
		{"ten million and never compacted does not wait", []reading{{0, 10_000_000, 0}}, true, 0},
		{"many that were compacted once wait", []reading{{0, 25_000_000, 7}}, false, 0},
		{"restored from a snapshot", []reading{{0, 90_000, 5}, {3 * time.Hour, 50_000, 5}}, false, 0},
	} {
		var watch HistoryWatch
		warned, last := 0, false
		for _, r := range c.readings {
			still, written := watch.Observe(r.revision, r.compacted, Reading{Elapsed: time.Hour + r.after})
			if last {
				warned++
			}
			if last = still > 0; last != (written > 0) {
				t.Errorf("%s: stood for %s, %d written", c.does, still, written)
			}
		}
		if last != c.want || warned != c.before {
			t.Errorf("%s: warned at the end %v and %d times before, want %v and %d", c.does, last, warned, c.want, c.before)
		}
	}
}
