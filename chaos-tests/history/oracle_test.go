package history

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quorumcron/quorumcron/scheduler/cron"
)

// TestTheOracleWalksOverClockChanges has the rules for wall clocks that jump, one row each.
func TestTheOracleWalksOverClockChanges(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, cron, zone, after, before string
		want                            []string
	}{
		{"a wall time that is left out comes right after", "0 30 2 * * *", "America/New_York", "2026-03-08T00:00:00-05:00", "2026-03-09T12:00:00-04:00",
			[]string{"2026-03-08T07:00:00Z", "2026-03-09T06:30:00Z"}},
		{"several that are left out come once", "0 0,30 2 * * *", "America/New_York", "2026-03-08T00:00:00-05:00", "2026-03-08T12:00:00-04:00",
			[]string{"2026-03-08T07:00:00Z"}},
		{"one that comes twice runs the first time", "0 30 1 * * *", "America/New_York", "2025-11-01T12:00:00-04:00", "2025-11-03T12:00:00-05:00",
			[]string{"2025-11-02T05:30:00Z", "2025-11-03T06:30:00Z"}},
		{"a star runs in real time", "0 */30 1 * * *", "America/New_York", "2025-11-02T00:10:00-04:00", "2025-11-02T03:00:00-05:00",
			[]string{"2025-11-02T05:00:00Z", "2025-11-02T05:30:00Z", "2025-11-02T06:00:00Z", "2025-11-02T06:30:00Z"}},
		{"a star makes nothing up", "0 */15 2 * * *", "America/New_York", "2025-03-09T00:00:00-05:00", "2025-03-09T12:00:00-04:00", nil},
		{"a day that the date line takes is not made up", "0 0 12 * * *", "Pacific/Apia", "2011-12-29T00:00:00-10:00", "2012-01-01T00:00:00+14:00",
			[]string{"2011-12-29T22:00:00Z", "2011-12-30T22:00:00Z"}},
		{"lists, ranges and steps", "10-20/5,59 0 0 1 1 *", "UTC", "2025-12-31T00:00:00Z", "2026-01-02T00:00:00Z",
			[]string{"2026-01-01T00:00:10Z", "2026-01-01T00:00:15Z", "2026-01-01T00:00:20Z", "2026-01-01T00:00:59Z"}},
		{"either day field is enough", "0 0 0 13 * 5", "UTC", "2025-06-05T00:00:00Z", "2025-06-14T00:00:00Z",
			[]string{"2025-06-06T00:00:00Z", "2025-06-13T00:00:00Z"}},
		{"what it does not understand is never due", "0 0 0 L * *", "UTC", "2025-06-05T00:00:00Z", "2025-06-14T00:00:00Z", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			zone, err := cron.LoadZone(tt.zone) // the zone alone: not what is made of it
			if err != nil {
				t.Fatal(err)
			}
			parsed := func(text string) time.Time {
				at, err := time.Parse(time.RFC3339, text)
				if err != nil {
					t.Fatal(err)
				}
				return at
			}
			var got []string
			for _, at := range (Spec{Cron: tt.cron, Zone: zone}).due(parsed(tt.after), parsed(tt.before)) {
				got = append(got, at.Format(time.RFC3339))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("instants (-want +got):\n%s", diff)
			}
		})
	}
}
