package scheduler

import (
	"cmp"
	"slices"
	"time"

	"github.com/quorumcron/quorumcron/scheduler/cron"
)

// count adds n firings that ended alike. Counters are kept in order, so that equal sums are equal
// values.
func (s *State) count(v Verdict, r Reason, n int64) {
	if n <= 0 {
		return
	}
	i, found := slices.BinarySearchFunc(s.Counters, Counter{Verdict: v, Reason: r}, func(a, b Counter) int {
		return cmp.Or(cmp.Compare(a.Verdict, b.Verdict), cmp.Compare(a.Reason, b.Reason))
	})
	s.Counters = slices.Clone(s.Counters)
	if !found {
		s.Counters = slices.Insert(s.Counters, i, Counter{Verdict: v, Reason: r})
	}
	s.Counters[i].Count += n
}

// account counts the instants of one verdict and shows them as a range. They extend the range of the
// instant directly before them if it ended alike; the oldest range beyond MaxRanges is dropped, which
// loses the bounds and not the sum, for the counters have had it from the beginning.
func (s *State) account(t *cron.Timetable, r Range) {
	if r.Count <= 0 {
		return
	}
	s.count(r.Verdict, r.Reason, r.Count)
	s.Ranges = slices.Clone(s.Ranges)
	if r.Trigger == "" {
		for i := len(s.Ranges) - 1; i >= 0; i-- {
			if old := &s.Ranges[i]; old.alike(r) && t.Next(old.Last).Equal(r.First) {
				old.Last = r.Last
				old.Count += r.Count
				return
			}
		}
	}
	s.Ranges = append(s.Ranges, r)
	if over := len(s.Ranges) - MaxRanges; over > 0 {
		s.Ranges = slices.Delete(s.Ranges, 0, over)
	}
}

func (r Range) alike(o Range) bool {
	return r.Trigger == "" && o.Trigger == "" && r.Verdict == o.Verdict && r.Reason == o.Reason
}

// accountBetween accounts the instants in (after, through] alike, by arithmetic, except those that the
// calendars exclude: they are SKIPPED(excluded by calendar) whatever becomes of the others. It returns how
// many there were of each.
func (s *State) accountBetween(view *View, after, through time.Time, v Verdict, why Reason) (accounted, excluded int64) {
	view.Excluded.runs(view.Timetable, after, through, func(r Range, out bool) bool {
		if out {
			r.Verdict, r.Reason = Skipped, ReasonExcluded
			excluded += r.Count
		} else {
			r.Verdict, r.Reason = v, why
			accounted += r.Count
		}
		s.account(view.Timetable, r)
		return true
	})
	return accounted, excluded
}

// accountTrigger accounts a triggered firing that is not granted.
func (s *State) accountTrigger(tr Trigger, v Verdict, why Reason) {
	s.account(nil, Range{Verdict: v, Reason: why, First: tr.Requested, Last: tr.Requested, Count: 1, Trigger: tr.ID})
}

// between bounds and counts the instants in (after, through].
func between(t *cron.Timetable, after, through time.Time) Range {
	n := t.Count(after, through)
	if n == 0 {
		return Range{}
	}
	return Range{First: t.Next(after), Last: t.Last(after, through), Count: n}
}
