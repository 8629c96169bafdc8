package cron

import (
	"errors"
	"testing"
	"time"
)

// FuzzCompile feeds what people and programs may write. Nothing may panic or hang; a refusal says
// what to do; what is accepted gives instants that grow and that come within the search's bound.
func FuzzCompile(f *testing.F) {
	for _, expr := range []string{
		"* * * * *", "*/5 * * * *", "30 2 * * *", "0 0 29 2 *", "0 0 30 2 *", "0 0 13 * 5", "0 0 * * sat-sun", "0 0 * * fri-mon", "0 0 * * 4-7/3",
		"*/20 * * * * *", "? ? ? ? ?", "0 0 ? * ?", "@daily", "@reboot", "@every 15m", "@every", "@every -1s", "@every 99999999999h", "@at",
		"TZ=UTC", "TZ=", "CRON_TZ=Asia/Tokyo 0 9 * * *", "", " ", ",", ", * * * *", "1,,2 * * * *", "*-5 * * * *", "+5 * * * *", "5-1 * * * *",
		"*/0 * * * *", "*/90 * * * *", "60 * * * *", "99999999999999999999 * * * *", "٣ * * * *", "0 0\n* * *", "0\x00 * * * *", "H L W # *",
		"0 8 LW * 1#1", "0-59/59 0-23/23 31/1 12/1 7/7", "\xff\xfe * * * *",
	} {
		f.Add(expr, "Europe/Berlin", int64(1743210000))
		f.Add(expr, "", int64(4107542400))
	}
	for _, zone := range []string{"Australia/Lord_Howe", "Pacific/Apia", "Africa/Casablanca", "Antarctica/Troll", "Local", "+02:00", "../../etc/passwd"} {
		f.Add("15,45 0-3 * * *", zone, int64(1325200000))
		f.Add("*/15 * * * *", zone, int64(-9e18))
	}
	f.Fuzz(func(t *testing.T, expr, zone string, from int64) {
		after := time.Unix(from, 0)
		spec, err := SpecOf(expr, zone, after)
		var table *Timetable
		if err == nil {
			table, err = Compile(spec)
		}
		if err != nil {
			checkRefusal(t, expr, zone, err)
			return
		}
		checkInstants(t, expr, zone, table, after, spec.Every)
	})
}

func checkRefusal(t *testing.T, expr, zone string, err error) {
	t.Helper()
	var list Errors
	if !errors.As(err, &list) || len(list) == 0 {
		t.Fatalf("%q in %q: got %v, want Errors", expr, zone, err)
	}
	for _, one := range list {
		if one.Field == "" || one.Kind == "" || one.Problem == "" || one.Remedy == "" {
			t.Errorf("%q in %q: %+v has an empty part", expr, zone, one)
		}
	}
}

func checkInstants(t *testing.T, expr, zone string, table *Timetable, after time.Time, every time.Duration) {
	t.Helper()
	const bound = 41 * 366 * 24 * time.Hour
	at := after
	for n := int64(1); n <= 20; n++ {
		next := table.Next(at)
		if next.IsZero() {
			if at.Year() < 9999-41 && every == 0 {
				t.Fatalf("%q in %q: no instant after %s", expr, zone, at)
			}
			return
		}
		begun := at.Unix() >= firstInstant
		if !next.After(at) || next.Nanosecond() != 0 || begun && every == 0 && next.Sub(at) > bound {
			t.Fatalf("%q in %q: Next(%s) = %s", expr, zone, at, next)
		}
		at = next
		if got := table.Count(after, at); got != n {
			t.Fatalf("%q in %q: Count(%s, %s) = %d, want %d", expr, zone, after, at, got, n)
		}
		if got := table.Last(after, at); !got.Equal(at) {
			t.Fatalf("%q in %q: Last(%s, %s) = %s", expr, zone, after, at, got)
		}
	}
}
