package history

import (
	"fmt"
	"slices"
	"time"
)

// Late returns the starts that came later after their instants than limit allows each: for tests that
// know better than the fault log what is the most.
func (h History) Late(limit func(Line) time.Duration) []Finding {
	var found []Finding
	for _, l := range h.Lines {
		if l.Event != Start || l.Child || l.Due().IsZero() {
			continue
		}
		if late, most := l.Lateness(), limit(l); late > most {
			found = append(found, Finding{Check: "C03", Job: l.Job, Firing: l.Firing, At: l.Wall(), Want: "at most " + most.String(), Evidence: "its start line",
				What: fmt.Sprintf("%s attempt %s started on %s at %s, %s after it was due, and %s is the most",
					l.Firing, l.Attempt, l.Node, clock(l.Wall()), late, most)})
		}
	}
	return found
}

// Lateness is a distribution of how long after their instants commands started.
type Lateness struct {
	N             int
	P50, P99, Max time.Duration
}

// String fits on one line of a log.
func (l Lateness) String() string {
	return fmt.Sprintf("%d starts, lateness p50 %s p99 %s max %s", l.N,
		l.P50.Round(time.Millisecond), l.P99.Round(time.Millisecond), l.Max.Round(time.Millisecond))
}

// Lateness of the starts that counts says count.
func (h History) Lateness(counts func(Line) bool) Lateness {
	var all []time.Duration
	for _, l := range h.Lines {
		if l.Event == Start && !l.Child && counts(l) {
			all = append(all, l.Lateness())
		}
	}
	return distribution(all)
}

func distribution(all []time.Duration) Lateness {
	if len(all) == 0 {
		return Lateness{}
	}
	slices.Sort(all)
	at := func(percent int) time.Duration { return all[min(len(all)-1, len(all)*percent/100)] }
	return Lateness{N: len(all), P50: at(50), P99: at(99), Max: all[len(all)-1]}
}
