package collect

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// fsync is etcd's histogram of how long it took to make its log safe.
const fsync = "etcd_disk_wal_fsync_duration_seconds_bucket{le=\""

// FsyncP99 is within which time 99 of 100 writes of a member were safe, between two bodies of its
// metrics: the bound of the bucket that the 99th of them lies in. It is false when there were none. A
// member that was restarted between begins to count again: then all that it has counted is taken.
func FsyncP99(before, after string) (time.Duration, bool) {
	was, is := buckets(before), buckets(after)
	all := math.Inf(1)
	if was[all] > is[all] {
		was = nil
	}
	total := is[all] - was[all]
	if total <= 0 {
		return 0, false
	}
	bound := all
	for le, n := range is {
		if le < bound && n-was[le] >= 0.99*total {
			bound = le
		}
	}
	if math.IsInf(bound, 1) {
		return time.Hour, true // beyond the last bucket: too long by any measure
	}
	return time.Duration(bound * float64(time.Second)), true
}

// buckets are the counts of the histogram by their bounds in seconds.
func buckets(metrics string) map[float64]float64 {
	counts := map[float64]float64{}
	for line := range strings.Lines(metrics) {
		rest, ok := strings.CutPrefix(line, fsync)
		bound, value, cut := strings.Cut(rest, "\"} ")
		if !ok || !cut {
			continue
		}
		le, err := strconv.ParseFloat(bound, 64)
		n, bad := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err == nil && bad == nil {
			counts[le] = n
		}
	}
	return counts
}

// Metrics are the figures of a node's metrics: sums over all labels, by name. Parts of histograms are
// left out.
func Metrics(body string) map[string]float64 {
	sums := map[string]float64{}
	for line := range strings.Lines(body) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		i := strings.LastIndexByte(line, ' ')
		if i < 0 {
			continue
		}
		name, _, _ := strings.Cut(line[:i], "{")
		value, err := strconv.ParseFloat(line[i+1:], 64)
		if err != nil || strings.HasSuffix(name, "_bucket") {
			continue
		}
		sums[name] += value
	}
	return sums
}
