package sim

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	seedFlag = flag.Uint64("seed", 0, "play only the history of this seed")
	daysFlag = flag.Int("days", 1, "how many simulated days a history has")
)

// badDay is a cluster of three members with a fault every few minutes and busy users.
func badDay(seed uint64) Config {
	return Config{
		Seed: seed, Members: 3, Jobs: 60, Span: time.Duration(*daysFlag) * 24 * time.Hour,
		FaultEvery: 8 * time.Minute, UserEvery: 2 * time.Minute,
	}
}

func check(t *testing.T, cfg Config) Report {
	t.Helper()
	r := Run(cfg)
	t.Logf("seed %d: %d lines, %v", cfg.Seed, r.Lines, r.Count)
	if len(r.Violations) > 0 {
		t.Errorf("%+v\nviolations:\n%s\nthe last lines:\n%s", cfg, strings.Join(r.Violations, "\n"), strings.Join(r.Tail, "\n"))
	}
	return r
}

func TestADayWithCrashesHasNoDuplicateAndNothingWithoutVerdict(t *testing.T) {
	t.Parallel()
	seeds := []uint64{1}
	if *seedFlag != 0 {
		seeds = []uint64{*seedFlag}
	}
	sum := map[string]int{}
	for _, seed := range seeds {
		cfg := badDay(seed)
		if testing.Short() {
			cfg.Span /= 6
		}
		r := check(t, cfg)
		for what, n := range r.Count {
			sum[what] += n
		}
	}
	if *seedFlag != 0 || testing.Short() {
		return
	}
	// A day in which nothing went wrong proves nothing.
	for _, what := range []string{
		"crash", "stall", "cut link", "stepped clock", "unknown outcome", "resolved claim", "refused write", "fenced claim",
		"lost session", "lost lock", "kill", "late result", "dropped result",
		"begin", "skip", "miss", "lose", "fold", "retry", "edit", "trigger",
	} {
		if sum[what] == 0 {
			t.Errorf("it never came to: %s", what)
		}
	}
	if sum["decided"] < 10_000 {
		t.Errorf("only %d firings were decided", sum["decided"])
	}
}

func TestACalmDayRunsEverythingAtOnce(t *testing.T) {
	t.Parallel()
	cfg := badDay(1)
	cfg.Span, cfg.FaultEvery, cfg.UserEvery = 3*time.Hour, 0, 0
	r := check(t, cfg)
	for _, what := range []string{"miss", "lose", "retry", "late result", "kill", "lost lock", "unknown outcome", "never started"} {
		if r.Count[what] != 0 {
			t.Errorf("%d times %s, and nothing was wrong", r.Count[what], what)
		}
	}
	if r.Count["start"] != r.Count["begin"] || r.Count["begin"]+r.Count["skip"] < r.Count["decided"] {
		t.Errorf("not every instant was run or skipped: %v", r.Count)
	}
}

func TestClustersOfEverySizeKeepTheirPromises(t *testing.T) {
	t.Parallel()
	for _, cfg := range []Config{
		{Seed: 11, Members: 1, Jobs: 20, FaultEvery: 10 * time.Minute, UserEvery: time.Minute},
		{Seed: 12, Members: 2, Jobs: 20, FaultEvery: 5 * time.Minute, UserEvery: time.Minute},
		{Seed: 13, Members: 7, Jobs: 40, FaultEvery: time.Minute, UserEvery: 30 * time.Second},
		{Seed: 14, Members: 3, Jobs: 10, FaultEvery: 30 * time.Second, UserEvery: 10 * time.Second}, // never at rest
	} {
		cfg.Span = 3 * time.Hour
		t.Run(fmt.Sprint(cfg.Members, "-members"), func(t *testing.T) {
			t.Parallel()
			check(t, cfg)
		})
	}
}

func TestTheSameSeedHasTheSameHistory(t *testing.T) {
	t.Parallel()
	cfg := badDay(42)
	cfg.Span = 3 * time.Hour
	a, b := Run(cfg), Run(cfg)
	if a.Digest != b.Digest || a.Lines != b.Lines || !slices.Equal(a.Tail, b.Tail) {
		t.Errorf("two histories of one seed: %d lines %x and %d lines %x", a.Lines, a.Digest, b.Lines, b.Digest)
	}
	cfg.Seed++
	if c := Run(cfg); c.Digest == a.Digest {
		t.Error("another seed has the same history")
	}
}

// TestEverySabotageIsSeen is what makes the other tests worth something: without any one of these the
// simulation must see a promise break.
func TestEverySabotageIsSeen(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		cut    Cut
		breaks []string // the kinds of promise, one of which must break
		change func(*Config)
	}{
		{cut: CutStateCompare, breaks: []string{"cursor", "balance", "second verdict", "second grant", "grant after verdict"}},
		{cut: CutJobCompare, breaks: []string{"edit"}, change: func(c *Config) { c.UserEvery, c.Jobs = time.Second, 20 }},
		{cut: CutRulesGuard, breaks: []string{"owner"}},
		{cut: CutFinish, breaks: []string{"record after verdict", "second verdict", "second grant", "slot", "stuck"}},
		{cut: CutHold, breaks: []string{"overlap"}},
		{cut: CutKill, breaks: []string{"overlap"}},
		{cut: CutFence, breaks: []string{"stuck"}},
	} {
		t.Run(strings.ReplaceAll(string(row.cut), " ", "-"), func(t *testing.T) {
			t.Parallel()
			const most = 8
			for seed := uint64(1); seed <= most; seed++ {
				cfg := Config{
					Seed: seed, Members: 3, Jobs: 40, Span: 6 * time.Hour,
					FaultEvery: 2 * time.Minute, UserEvery: 20 * time.Second, Cut: row.cut,
				}
				if row.change != nil {
					row.change(&cfg)
				}
				r := Run(cfg)
				if len(r.Violations) == 0 {
					continue
				}
				if !slices.ContainsFunc(row.breaks, func(kind string) bool { return strings.Contains(r.Violations[0], " "+kind+": ") }) {
					t.Errorf("seed %d breaks %s, want one of %q", seed, r.Violations[0], row.breaks)
				}
				t.Logf("seed %d: %s", seed, r.Violations[0])
				return
			}
			t.Errorf("%d histories without %s keep every promise", most, row.cut)
		})
	}
}
