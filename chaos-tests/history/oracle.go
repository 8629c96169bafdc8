package history

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The oracle says at which instants a definition is due. It shares no code with the scheduler: it
// counts multiples of a period, or walks over every second of a zone's wall clock. It is slow, and so
// simple that it can be believed.

// Instants are the multiples of period in (after, before), oldest first.
func Instants(period time.Duration, after, before time.Time) []time.Time {
	step := int64(period / time.Second)
	var all []time.Time
	for s := (after.Unix()/step + 1) * step; s < before.Unix() || (s == before.Unix() && before.Nanosecond() > 0); s += step {
		all = append(all, time.Unix(s, 0).UTC())
	}
	return all
}

// due is every instant of the definition in (after, before), inside its own bounds.
func (s Spec) due(after, before time.Time) []time.Time {
	if first := s.Start.Add(-time.Nanosecond); after.Before(first) && !s.Start.IsZero() {
		after = first
	}
	if !s.End.IsZero() && s.End.Before(before) {
		before = s.End
	}
	switch {
	case s.Cron != "":
		return walk(s.Cron, s.zone(), after, before)
	case s.Period > 0:
		return Instants(s.Period, after, before)
	}
	return nil
}

func (s Spec) zone() *time.Location {
	if s.Zone == nil {
		return time.UTC
	}
	return s.Zone
}

// far is the longest jump of a wall clock that is made up for: a longer one is a change of date line.
const far = 3 * time.Hour

// walk looks at every second of the zone's wall clock in (after, before).
//
// A job whose minute or hour begins with a star runs in real time: whenever its wall clock fits. Any
// other runs at wall times: one that a jump leaves out runs once, right after the jump, and one that
// comes twice runs the first time. An expression that it does not understand has no instants.
func walk(expression string, zone *time.Location, after, before time.Time) []time.Time {
	e, err := parse(expression)
	if err != nil {
		return nil
	}
	// It begins so long before that it has seen every wall time that could come again.
	at := after.Truncate(time.Second).Add(-far - time.Hour)
	highest := naive(at.In(zone)).Add(-time.Second)
	var found []time.Time
	for ; at.Before(before); at = at.Add(time.Second) {
		wall := naive(at.In(zone))
		again, jump := !wall.After(highest), wall.Sub(highest)
		if jump < -far || jump > far {
			again, jump = false, time.Second
		}
		fires := e.fits(wall) && !(again && !e.realTime)
		if jump > time.Second && !e.realTime {
			for left := highest.Add(time.Second); left.Before(wall) && !fires; left = left.Add(time.Second) {
				fires = e.fits(left)
			}
		}
		if !again {
			highest = wall
		}
		if fires && at.After(after) {
			found = append(found, at.UTC())
		}
	}
	return found
}

// naive is what a wall clock shows, as if it were UTC: so that it can be compared and counted.
func naive(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), 0, time.UTC)
}

// expression is what each of the six fields allows.
type expression struct {
	second, minute, hour, day, month, weekday [60]bool
	// anyDay and anyWeekday: the field is a star, and the other alone counts.
	anyDay, anyWeekday, realTime bool
}

func parse(text string) (e expression, err error) {
	fields := strings.Fields(text)
	if len(fields) != 6 {
		return e, fmt.Errorf("expression %q has %d fields, want 6", text, len(fields))
	}
	for i, f := range []struct {
		into        *[60]bool
		first, last int
	}{{&e.second, 0, 59}, {&e.minute, 0, 59}, {&e.hour, 0, 23}, {&e.day, 1, 31}, {&e.month, 1, 12}, {&e.weekday, 0, 6}} {
		for item := range strings.SplitSeq(fields[i], ",") {
			if err := allow(f.into, item, f.first, f.last); err != nil {
				return e, fmt.Errorf("expression %q: %w", text, err)
			}
		}
	}
	e.anyDay, e.anyWeekday = fields[3] == "*", fields[5] == "*"
	e.realTime = fields[1][0] == '*' || fields[2][0] == '*'
	return e, nil
}

// allow reads one item of a list: *, n, n-m, and any of them with a step.
func allow(into *[60]bool, item string, first, last int) error {
	span, step, stepped := strings.Cut(item, "/")
	every, err := 1, error(nil)
	if stepped {
		if every, err = strconv.Atoi(step); err != nil || every < 1 {
			return fmt.Errorf("step %q", step)
		}
	}
	from, to := first, last
	if span != "*" {
		low, high, ranged := strings.Cut(span, "-")
		if from, err = strconv.Atoi(low); err != nil {
			return fmt.Errorf("item %q", item)
		}
		switch {
		case ranged:
			if to, err = strconv.Atoi(high); err != nil {
				return fmt.Errorf("item %q", item)
			}
		case !stepped:
			to = from
		}
	}
	if from < first || to > last || from > to {
		return fmt.Errorf("item %q is not in %d-%d", item, first, last)
	}
	for n := from; n <= to; n += every {
		into[n] = true
	}
	return nil
}

// fits says whether a wall time fits all fields; of the two fields for days one is enough, unless one
// of them is a star.
func (e *expression) fits(wall time.Time) bool {
	day, weekday := e.day[wall.Day()], e.weekday[wall.Weekday()]
	onDay := day && weekday
	if !e.anyDay && !e.anyWeekday {
		onDay = day || weekday
	}
	return e.second[wall.Second()] && e.minute[wall.Minute()] && e.hour[wall.Hour()] && e.month[wall.Month()] && onDay
}
