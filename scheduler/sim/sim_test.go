package sim

import (
	"flag"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "play only the history of this seed")
	seedsFlag = flag.Uint64("seeds", 1, "how many seeds of a bad day to play")
	weekFlag  = flag.Bool("week", false, "play a week of 1,000 jobs, which takes about half a minute")
)

// play runs the history of a shape. If a promise is broken it says so with the shortest script that breaks
// the same one.
func play(t *testing.T, shape Shape) Report {
	t.Helper()
	s := shape.Script()
	r, err := s.Run()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("seed %d: %d lines, at most %s late, %v", shape.Seed, r.Lines, r.Latest.Round(time.Millisecond), r.Count)
	if len(r.Violations) > 0 {
		t.Errorf("%+v\n%v\nthe last lines:\n%s\nthe shortest script:\n%s", shape, r.Violations, strings.Join(r.Tail, "\n"), explain(s))
	}
	return r
}

// explain is the shortest script that breaks the promise that s breaks, with its trace, as a file in
// testdata.
func explain(s Script) string {
	short := Shrink(s)
	h := Begin(true)
	for _, c := range short {
		if err := h.Do(c); err != nil {
			return err.Error()
		}
	}
	return short.String() + divider + "\n" + h.Trace()
}

// badDay is a cluster of three members with a fault every few minutes and busy users.
func badDay(seed uint64) Shape {
	return Shape{Seed: seed, Members: 3, Jobs: 60, Span: 24 * time.Hour, FaultEvery: 5 * time.Minute, UserEvery: 2 * time.Minute}
}

// week is a load: members machines run a thousand jobs every five minutes, with a fault every 20 minutes.
func week(seed uint64, span time.Duration) Shape {
	return Shape{
		Seed: seed, Members: 5, Jobs: 1000, Span: span, Every: 5 * time.Minute,
		FaultEvery: 20 * time.Minute, UserEvery: 10 * time.Minute,
	}
}

func TestABadDayKeepsEveryPromise(t *testing.T) {
	t.Parallel()
	first, last := uint64(1), *seedsFlag
	if *seedFlag != 0 {
		first, last = *seedFlag, *seedFlag
	}
	sum := map[string]int{}
	for seed := first; seed <= last; seed++ {
		shape := badDay(seed)
		if testing.Short() {
			shape.Span /= 6
		}
		for what, n := range play(t, shape).Count {
			sum[what] += n
		}
	}
	if *seedFlag != 0 || testing.Short() || t.Failed() {
		return
	}
	// A day in which nothing went wrong proves nothing.
	for _, what := range []string{
		"crash", "drain", "stall", "freeze", "cut link", "slow link", "deaf", "stepped clock", "ordered loss", "panic", "revoked",
		"etcd down", "unknown outcome", "resolved claim", "fence", "found grant", "refused write", "fenced claim", "never started",
		"doubted session", "lost session", "ended lease", "lost lock", "kill", "late result", "dropped result", "closed orphan",
		"found lost event", "begin", "skip", "miss", "lose", "fold", "sweep", "retry", "edit", "trigger",
		"calendar", "excluded",
	} {
		if sum[what] == 0 {
			t.Errorf("it never came to: %s", what)
		}
	}
	if sum["decided"] < 10_000 {
		t.Errorf("only %d firings were decided", sum["decided"])
	}
}

func TestACalmDayRunsEverythingOnTime(t *testing.T) {
	t.Parallel()
	shape := badDay(3)
	shape.Span, shape.FaultEvery, shape.UserEvery = 3*time.Hour, 0, 0
	r := play(t, shape)
	for _, what := range []string{"miss", "lose", "retry", "late result", "kill", "lost lock", "unknown outcome", "never started", "fence"} {
		if r.Count[what] != 0 {
			t.Errorf("%d times %s, and nothing was wrong", r.Count[what], what)
		}
	}
	if r.Latest > time.Second {
		t.Errorf("an instant was decided %s late", r.Latest)
	}
	if r.Count["excluded"] == 0 {
		t.Error("nothing was excluded")
	}
	// A pass is a skip of what calendars exclude, which may be many instants.
	if r.Count["start"] != r.Count["begin"] || r.Count["begin"]+r.Count["skip"]-r.Count["pass"]+r.Count["excluded"] != r.Count["decided"] {
		t.Errorf("not every instant was run or skipped: %v", r.Count)
	}
}

func TestClustersOfEverySizeKeepTheirPromises(t *testing.T) {
	t.Parallel()
	for _, shape := range []Shape{
		{Seed: 11, Members: 1, Jobs: 20, FaultEvery: 10 * time.Minute, UserEvery: time.Minute},
		{Seed: 12, Members: 2, Jobs: 20, FaultEvery: 5 * time.Minute, UserEvery: time.Minute},
		{Seed: 13, Members: 7, Jobs: 40, FaultEvery: time.Minute, UserEvery: 30 * time.Second},
		{Seed: 14, Members: 3, Jobs: 10, FaultEvery: 30 * time.Second, UserEvery: 10 * time.Second}, // never at rest
	} {
		if shape.Span = 3 * time.Hour; testing.Short() {
			shape.Span = time.Hour
		}
		t.Run(fmt.Sprint(shape.Members, "-members"), func(t *testing.T) {
			t.Parallel()
			play(t, shape)
		})
	}
}

func TestAThousandJobsKeepTheirPromises(t *testing.T) {
	if testing.Short() {
		t.Skip("not under the race detector")
	}
	span := 2 * time.Hour
	if *weekFlag {
		span = 7 * 24 * time.Hour
		// What is alive is small, and what is made goes at once: without this a third of the time is spent
		// on finding that out.
		defer debug.SetGCPercent(debug.SetGCPercent(800))
	} else {
		t.Parallel()
	}
	r := play(t, week(max(*seedFlag, 1), span))
	if want := int(span/(5*time.Minute)) * 999; r.Count["decided"] < want {
		t.Errorf("%d firings were decided, want %d at least", r.Count["decided"], want)
	}
}

func TestTheSameSeedHasTheSameHistory(t *testing.T) {
	t.Parallel()
	shape := badDay(42)
	shape.Span = 3 * time.Hour
	a, errA := shape.Script().Run()
	b, errB := shape.Script().Run()
	if errA != nil || errB != nil {
		t.Fatal(errA, errB)
	}
	if a.Digest != b.Digest || a.Lines != b.Lines || !slices.Equal(a.Tail, b.Tail) {
		t.Errorf("two histories of one seed: %d lines %x and %d lines %x", a.Lines, a.Digest, b.Lines, b.Digest)
	}
	shape.Seed++
	if c, _ := shape.Script().Run(); c.Digest == a.Digest {
		t.Error("another seed has the same history")
	}
}
