package cron

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"
)

var (
	seedFlag    = flag.Uint64("seed", 0, "seed of the random tests; 0 takes another one each time")
	oracleCases = flag.Int("oracle-cases", 800, "how many random schedules are compared with the slow walk")
)

// newRandom returns a random source and says in the test's log how to get the same one again.
func newRandom(t *testing.T) *rand.Rand {
	t.Helper()
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("to repeat: go test -run '^%s$' -args -seed=%d", t.Name(), seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// wallJob is an expression as the slow walk sees it: text for the package under test, and plain sets
// made beside the text, not from it.
type wallJob struct {
	text                                    string
	second, minute, hour, dom, month, dow   [60]bool
	wildcard, domStar, dowStar, withSeconds bool
}

func (j *wallJob) hits(wall time.Time) bool {
	if !j.minute[wall.Minute()] || !j.hour[wall.Hour()] || !j.month[wall.Month()] {
		return false
	}
	byDate, byDay := j.dom[wall.Day()], j.dow[wall.Weekday()]
	if j.domStar || j.dowStar {
		return byDate && byDay
	}
	return byDate || byDay
}

// walk goes through every real minute of (from, to] and looks at the clock on the wall, as a daemon
// would that keeps in mind which minute the clock showed last.
func (j *wallJob) walk(location *time.Location, from, to time.Time) []time.Time {
	var fired []time.Time
	fire := func(at time.Time) {
		if at.After(from) && !at.After(to) {
			fired = append(fired, at)
		}
	}
	const mostShifted = 180 // minutes
	at := from.Truncate(time.Minute).Add(-6 * time.Hour)
	seen := wallOf(at, location).Add(-time.Minute)
	for ; !at.After(to); at = at.Add(time.Minute) {
		wall := wallOf(at, location)
		step := int(wall.Sub(seen) / time.Minute)
		if !j.wildcard && step < 1 && 1-step <= mostShifted {
			continue // the wall clock has shown this minute before
		}
		if !j.wildcard && step > 1 && step-1 <= mostShifted {
			owed := false
			for skipped := seen.Add(time.Minute); skipped.Before(wall); skipped = skipped.Add(time.Minute) {
				owed = owed || j.hits(skipped)
			}
			if owed {
				fire(at)
			}
		}
		seen = wall
		if j.hits(wall) {
			for s := range 60 {
				if j.second[s] {
					fire(at.Add(time.Duration(s) * time.Second))
				}
			}
		}
	}
	return fired
}

func wallOf(at time.Time, location *time.Location) time.Time {
	_, offset := at.In(location).Zone()
	return at.Add(time.Duration(offset) * time.Second).UTC()
}

var (
	monthNames = strings.Fields("jan feb mar apr may jun jul aug sep oct nov dec")
	dayNames   = strings.Fields("sun mon tue wed thu fri sat")
)

// randomField makes the text of a field, and its set.
func randomField(r *rand.Rand, lowest, highest int, stars float64, names []string) (text string, set [60]bool, star bool) {
	name := func(v int) string {
		if names != nil && v-lowest < len(names) && r.IntN(4) == 0 {
			return []string{names[v-lowest], strings.ToUpper(names[v-lowest])}[r.IntN(2)]
		}
		return fmt.Sprint(v)
	}
	width := highest - lowest
	starEnd := highest
	if highest == 7 {
		starEnd = 6 // the day of the week
	}
	var items []string
	for range 1 + r.IntN(3)*r.IntN(2) {
		first, last, step := lowest+r.IntN(width+1), 0, 1
		last = first + r.IntN(highest-first+1)
		if r.IntN(2) == 0 {
			step = 1 + r.IntN(width)
		}
		kind := r.IntN(4)
		if r.Float64() < stars {
			kind = 4
		}
		switch kind {
		case 0, 1:
			last = first
			items = append(items, name(first))
		case 2:
			items = append(items, fmt.Sprintf("%s-%s/%d", name(first), name(last), step))
		case 3:
			first = min(first, starEnd)
			last = starEnd
			items = append(items, fmt.Sprintf("%s/%d", name(first), step))
		case 4:
			first, last = lowest, starEnd
			if step == 1 {
				items, star = append(items, "*"), true
			} else {
				items = append(items, fmt.Sprintf("*/%d", step))
			}
		}
		for v := first; v <= last; v += step {
			set[v] = true
		}
	}
	if highest == 7 {
		set[0] = set[0] || set[7]
	}
	return strings.Join(items, ","), set, star
}

// randomJob makes an expression, half of the time one for about the hour in which the clock changes.
func randomJob(r *rand.Rand, location *time.Location, change time.Time) *wallJob {
	j := &wallJob{withSeconds: r.IntN(4) == 0}
	var texts [6]string
	texts[0], j.second[0] = "0", true
	if j.withSeconds {
		j.second[0] = false
		texts[0], j.second, _ = randomField(r, 0, 59, 0.05, nil)
	}
	texts[1], j.minute, _ = randomField(r, 0, 59, 0.2, nil)
	texts[2], j.hour, _ = randomField(r, 0, 23, 0.2, nil)
	if r.IntN(2) == 0 {
		wall := wallOf(change.Add(time.Duration(r.IntN(3)-2)*time.Hour), location)
		first := wall.Hour()
		last := min(23, first+r.IntN(3))
		texts[2], j.hour = fmt.Sprintf("%d-%d", first, last), [60]bool{}
		for h := first; h <= last; h++ {
			j.hour[h] = true
		}
		if r.IntN(2) == 0 {
			minute := []int{0, 1, 30, 59, wall.Minute()}[r.IntN(5)]
			texts[1], j.minute = fmt.Sprint(minute), [60]bool{}
			j.minute[minute] = true
		}
		if r.IntN(3) == 0 {
			texts[2], j.hour = "*", [60]bool{}
			for h := range 24 {
				j.hour[h] = true
			}
		}
	}
	texts[3], j.dom, j.domStar = randomField(r, 1, 31, 0.7, nil)
	texts[4], j.month, _ = randomField(r, 1, 12, 0.8, monthNames)
	texts[5], j.dow, j.dowStar = randomField(r, 0, 7, 0.7, dayNames)
	j.wildcard = texts[1][0] == '*' || texts[2][0] == '*'
	j.text = strings.Join(texts[:], " ")
	if !j.withSeconds {
		j.text = strings.Join(texts[1:], " ")
	}
	return j
}

func zoneNames() []string {
	var names []string
	for name := range files() {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// randomWindow chooses three days, more often than not around a change of the clock. Otherwise change
// is only a time in their midst.
func randomWindow(r *rand.Rand, location *time.Location) (from, to, change time.Time) {
	year := 1973 + r.IntN(110)
	if r.IntN(8) == 0 {
		year = 2380 + r.IntN(300) // where the tables of changing zones end
	}
	change = time.Date(year, 1, 1+r.IntN(365), 0, 0, r.IntN(86400), 0, time.UTC)
	if _, next := change.In(location).ZoneBounds(); r.IntN(6) > 0 && !next.IsZero() {
		change = next.UTC()
	}
	from = change.Add(-time.Duration(1+r.IntN(2*86400)) * time.Second)
	return from, from.Add(72 * time.Hour), change
}

// TestSlowWalkAgrees compares Next, Last and Count with the walk over every minute, for random
// schedules of one or several sources, zones and years.
func TestSlowWalkAgrees(t *testing.T) {
	t.Parallel()
	r := newRandom(t)
	names := zoneNames()
	instants := 0
	for range *oracleCases {
		name := names[r.IntN(len(names))]
		location, err := LoadZone(name)
		if err != nil {
			t.Fatal(err)
		}
		from, to, change := randomWindow(r, location)
		spec, want := randomSpec(r, location, from, to, change)
		table, err := Compile(spec)
		if err != nil {
			var wrong *FieldError
			if !errors.As(err, &wrong) || wrong.Kind != KindNever || len(want) > 0 {
				t.Fatalf("%+v: refused: %v", spec, err)
			}
			continue // what is left of it is 30 February, or lies outside its bounds
		}
		compare(t, r, spec, table, from, to, change, want)
		instants += len(want)
	}
	if instants < *oracleCases {
		t.Errorf("only %d instants in %d cases: the generator has lost its bite", instants, *oracleCases)
	}
}

// randomSpec makes a schedule and the instants that it has in (from, to].
func randomSpec(r *rand.Rand, location *time.Location, from, to, change time.Time) (Spec, []time.Time) {
	spec := Spec{TimeZone: location.String()}
	var want []time.Time
	for range 1 + r.IntN(4)*r.IntN(2) {
		j := randomJob(r, location, change)
		spec.Cron = append(spec.Cron, j.text)
		if !j.possible() {
			spec.Cron = spec.Cron[:len(spec.Cron)-1]
			continue
		}
		want = append(want, j.walk(location, from, to)...)
	}
	if r.IntN(4) == 0 {
		spec.Every = time.Duration(1+r.IntN([]int{10, 100, 10000, 200000}[r.IntN(4)])) * time.Second
		spec.Origin = from.Add(time.Duration(r.IntN(100000)-80000) * time.Second)
		if r.IntN(2) == 0 { // meet the change of the clock
			spec.Every = spec.Every.Round(time.Minute) + time.Minute
			spec.Origin = change.Add(-time.Duration(r.IntN(3)) * spec.Every)
		}
		for at := spec.Origin.Add(spec.Every); !at.After(to); at = at.Add(spec.Every) {
			if at.After(from) {
				want = append(want, at)
			}
		}
	}
	if r.IntN(4) == 0 {
		at := from.Add(time.Duration(1+r.IntN(72*3600)) * time.Second)
		spec.At = append(spec.At, at)
		want = append(want, at)
		if len(want) > 1 {
			spec.At = append(spec.At, want[0])
		}
	}
	if r.IntN(4) == 0 {
		spec.Start = from.Add(time.Duration(r.IntN(24*3600)) * time.Second)
		spec.End = to.Add(-time.Duration(r.IntN(24*3600)) * time.Second)
	}
	want = slices.DeleteFunc(want, func(at time.Time) bool {
		return at.Before(spec.Start) || !spec.End.IsZero() && !at.Before(spec.End)
	})
	slices.SortFunc(want, time.Time.Compare)
	return spec, slices.CompactFunc(want, time.Time.Equal)
}

// possible says whether some day matches. The seven years from a leap year on are enough: an expression
// that needs both a date and a day of the week has a star for one of them.
func (j *wallJob) possible() bool {
	for day := range 7 * 366 {
		wall := time.Date(2000, 1, 1+day, 0, 0, 0, 0, time.UTC)
		any := *j
		any.hour[0], any.minute[0] = true, true
		if any.hits(wall) {
			return true
		}
	}
	return false
}

func compare(t *testing.T, r *rand.Rand, spec Spec, table *Timetable, from, to, change time.Time, want []time.Time) {
	t.Helper()
	at := from
	for i, next := range want {
		got := table.Next(at)
		if !got.Equal(next) {
			t.Fatalf("%+v: instant %d of (%s, %s]: Next(%s) = %s, want %s", spec, i, from, to, at, got, next)
		}
		at = got
	}
	if got := table.Next(at); !got.IsZero() && !got.After(to) {
		t.Fatalf("%+v: Next(%s) = %s, want nothing until %s", spec, at, got, to)
	}
	window := int(to.Sub(from) / time.Second)
	for range 12 {
		// Ends anywhere, around the change, or at an instant.
		end := func() time.Time {
			at := from.Add(time.Duration(r.IntN(window+1)) * time.Second)
			switch k := r.IntN(4); {
			case k == 0:
				at = change.Add(time.Duration(r.IntN(4*3600)-2*3600) * time.Second)
			case k == 1:
				at = change.Add(time.Duration(r.IntN(3)-1) * time.Second)
			case k == 2 && len(want) > 0:
				at = want[r.IntN(len(want))].Add(time.Duration(r.IntN(3)-1) * time.Second)
			}
			return time.Unix(min(max(at.Unix(), from.Unix()), to.Unix()), 0).UTC()
		}
		a, b := end(), end()
		if b.Before(a) {
			a, b = b, a
		}
		first, _ := slices.BinarySearchFunc(want, a.Add(time.Second), time.Time.Compare)
		last, _ := slices.BinarySearchFunc(want, b.Add(time.Second), time.Time.Compare)
		if got := table.Count(a, b); got != int64(max(0, last-first)) {
			t.Fatalf("%+v: Count(%s, %s) = %d, want %d", spec, a, b, got, max(0, last-first))
		}
		var newest time.Time
		if last > first {
			newest = want[last-1]
		}
		if got := table.Last(a, b); !got.Equal(newest) {
			t.Fatalf("%+v: Last(%s, %s) = %s, want %s", spec, a, b, got, newest)
		}
	}
}
