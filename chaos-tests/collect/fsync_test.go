package collect_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quorumcron/quorumcron/chaos-tests/collect"
)

// histogram is as etcd's members print it: counts add up from bucket to bucket.
func histogram(fast, slow, slowest string) string {
	const name = "etcd_disk_wal_fsync_duration_seconds_bucket"
	return "# TYPE etcd_disk_wal_fsync_duration_seconds histogram\n" +
		name + `{le="0.008"} ` + fast + "\n" + name + `{le="0.512"} ` + slow + "\n" + name + `{le="+Inf"} ` + slowest + "\n"
}

func TestFsyncIsMeasuredBetweenTwoReadings(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, before, after string
		want                time.Duration
		known               bool
	}{
		{"99 of 100 were fast", histogram("0", "0", "0"), histogram("99", "100", "100"), 8 * time.Millisecond, true},
		{"98 of 100 were fast", histogram("0", "0", "0"), histogram("98", "100", "100"), 512 * time.Millisecond, true},
		{"what was slow before does not count", histogram("0", "50", "50"), histogram("100", "150", "150"), 8 * time.Millisecond, true},
		{"two of 100 took longer than etcd counts", histogram("0", "0", "0"), histogram("98", "98", "100"), time.Hour, true},
		{"nothing was written", histogram("5", "5", "5"), histogram("5", "5", "5"), 0, false},
		{"the member was restarted", histogram("900", "990", "1000"), histogram("100", "100", "100"), 8 * time.Millisecond, true},
		{"no etcd", "", "go_goroutines 5\n", 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got, known := collect.FsyncP99(tt.before, tt.after); got != tt.want || known != tt.known {
				t.Errorf("p99 is %s, known %t; want %s, %t", got, known, tt.want, tt.known)
			}
		})
	}
}

func TestMetricsAreSumsByName(t *testing.T) {
	t.Parallel()
	body := "# HELP x of it\nx{a=\"1 2\"} 3\nx{a=\"2\"} 4\nplain 1.5e+07\nh_bucket{le=\"1\"} 9\nh_sum 2\nbroken\n"
	want := map[string]float64{"x": 7, "plain": 1.5e7, "h_sum": 2}
	if diff := cmp.Diff(want, collect.Metrics(body)); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}
