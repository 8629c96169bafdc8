package history

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// What a calm cluster may hold more after a run than before it: a share, for what grows with what it has
// learnt, and an amount, for what comes and goes.
const (
	moreGoroutines  = 50
	moreDescriptors = 30
	moreMemory      = 64 << 20
	moreShare       = 1.5
	// leasesPerMember are the member's own and the one of its locks.
	leasesPerMember = 2
	// moreDatabase and databasePerLine bound etcd's file: its history is compacted every few minutes.
	moreDatabase    = 64 << 20
	databasePerLine = 8 << 10
)

// Names of what Leaks looks at, as the nodes' metrics have them.
const (
	goroutines  = "go_goroutines"
	descriptors = "process_open_fds"
	memory      = "process_resident_memory_bytes"
)

// Leaks compares the calm before a run with the calm after it: goroutines, descriptors and memory of
// each node, by the median, and leases, locks and size of etcd. It returns what has grown, and how many
// figures it compared; lines is how much the run wrote.
func Leaks(before, after []Sample, space, left *Space, lines int) (found []Finding, looked int) {
	leak := func(what string, a ...any) {
		var at time.Time
		if len(after) > 0 {
			at = after[0].At
		}
		found = append(found, Finding{Check: "C16", At: at, Want: "no more than in the calm before", Evidence: "metrics and etcd, before and after", What: fmt.Sprintf(what, a...)})
	}
	most := map[string]float64{goroutines: moreGoroutines, descriptors: moreDescriptors, memory: moreMemory}
	first, last := medians(before), medians(after)
	for _, node := range slices.Sorted(maps.Keys(last)) {
		for _, name := range []string{goroutines, descriptors, memory} {
			was, ok := first[node][name]
			is, still := last[node][name]
			if !ok || !still {
				continue
			}
			looked++
			if is > max(was*moreShare, was+most[name]) {
				leak("%s of %s went from %.0f to %.0f", name, node, was, is)
			}
		}
	}
	if left == nil {
		return found, looked
	}
	looked++
	if left.Members > 0 && left.Leases > leasesPerMember*left.Members {
		leak("%d leases are left in etcd, and %d members need %d", left.Leases, left.Members, leasesPerMember*left.Members)
	}
	if left.Locks > 0 {
		leak("%d locks are left in etcd, and nothing runs", left.Locks)
	}
	if space != nil && left.DatabaseBytes > space.DatabaseBytes+moreDatabase+int64(lines)*databasePerLine {
		leak("etcd's file went from %d to %d MiB", space.DatabaseBytes>>20, left.DatabaseBytes>>20)
	}
	return found, looked
}

// medians are the median of each figure of each node.
func medians(samples []Sample) map[string]map[string]float64 {
	all := map[string]map[string][]float64{}
	for _, s := range samples {
		if all[s.Node] == nil {
			all[s.Node] = map[string][]float64{}
		}
		for name, value := range s.Metrics {
			all[s.Node][name] = append(all[s.Node][name], value)
		}
	}
	medians := map[string]map[string]float64{}
	for node, figures := range all {
		medians[node] = map[string]float64{}
		for name, values := range figures {
			slices.Sort(values)
			medians[node][name] = values[len(values)/2]
		}
	}
	return medians
}
