package sim

import (
	"flag"
	"slices"
	"strings"
	"testing"
	"time"
)

var cutsFlag = flag.Bool("cuts", false, "look for every cut by seeds, the rare ones too")

// TestEveryCutBreaksAPromise is what makes the other tests worth something: each protection has a script
// without it that breaks a promise, and with it the same script breaks none.
func TestEveryCutBreaksAPromise(t *testing.T) {
	t.Parallel()
	for _, cut := range Cuts() {
		t.Run(string(cut), func(t *testing.T) {
			t.Parallel()
			s := commands(t, read(t, "testdata/without/"+string(cut)+".txt"))
			r, err := s.Run()
			if err != nil || len(r.Violations) == 0 {
				t.Fatalf("without %s every promise is kept: %v\n%s", cut, err, strings.Join(r.Tail, "\n"))
			}
			i := slices.IndexFunc(s, func(c Command) bool { return c.Verb == "without" })
			if i < 0 || s[i].Args[0] != string(cut) {
				t.Fatalf("the script does not say: without %s", cut)
			}
			whole := append(slices.Delete(slices.Clone(s), i, i+1), Command{Verb: "settle"})
			if r, err := whole.Run(); err != nil || len(r.Violations) > 0 {
				t.Errorf("with %s a promise is broken too: %v %v\n%s", cut, err, r.Violations, strings.Join(r.Tail, "\n"))
			}
		})
	}
	if n := len(files(t, "testdata/without/*.txt")); n != len(Cuts()) {
		t.Errorf("%d scripts for %d cuts", n, len(Cuts()))
	}
}

// sabotaged is a history in which so much happens that the lack of a protection soon shows.
func sabotaged(seed uint64, cut Cut) Shape {
	return Shape{
		Seed: seed, Members: 3, Jobs: 30, Span: 6 * time.Hour, FaultEvery: 2 * time.Minute, UserEvery: 20 * time.Second, Without: cut,
	}
}

// rare are the cuts that need luck: a message between two others of a few milliseconds.
var rare = []Cut{CutJobCompare, CutTriggerCompare, CutFence, CutNonce, CutResolvedState, CutEditCompare, CutIncarnation}

// TestSeedsFindTheCuts shows that chance finds what the scripts show.
func TestSeedsFindTheCuts(t *testing.T) {
	if testing.Short() {
		t.Skip("not under the race detector")
	}
	t.Parallel()
	for _, cut := range Cuts() {
		if cut == CutIncarnation || slices.Contains(rare, cut) && !*cutsFlag {
			continue // by script alone: it takes a dispatcher that stalls at the right moment
		}
		t.Run(string(cut), func(t *testing.T) {
			t.Parallel()
			const most = 30
			for seed := uint64(1); seed <= most; seed++ {
				r, err := sabotaged(seed, cut).Script().Run()
				if err != nil {
					t.Fatal(err)
				}
				if len(r.Violations) > 0 {
					t.Logf("seed %d after %s: %s", seed, r.Violations[0].At, r.Violations[0])
					return
				}
			}
			t.Errorf("%d histories without %s keep every promise", most, cut)
		})
	}
}

// TestAFailingSeedIsShrunkToAScript: what is printed is short, and fails the same way when it is fed back.
func TestAFailingSeedIsShrunkToAScript(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		cut  Cut
		most int // commands
	}{
		{CutBooks, 11}, {CutDeleteState, 8}, {CutClock, 7}, {CutKill, 9},
	} {
		t.Run(string(row.cut), func(t *testing.T) {
			t.Parallel()
			long := sabotaged(1, row.cut).Script()
			first, err := long.Run()
			if err != nil || len(first.Violations) == 0 {
				t.Fatalf("it does not fail: %v", err)
			}
			printed, trace, _ := strings.Cut(explain(long), divider+"\n")
			short, err := Parse(printed)
			if err != nil {
				t.Fatalf("what is printed cannot be read: %v\n%s", err, printed)
			}
			if len(short) > row.most {
				t.Errorf("%d commands were shrunk to %d, want at most %d:\n%s", len(long), len(short), row.most, short)
			}
			again, err := short.Run()
			if err != nil || len(again.Violations) == 0 || again.Violations[0].Kind != first.Violations[0].Kind {
				t.Fatalf("fed back it fails in another way: %v %v, want %s", again.Violations, err, first.Violations[0])
			}
			if !strings.Contains(trace, again.Violations[0].String()) {
				t.Errorf("the trace does not end with %s:\n%s", again.Violations[0], trace)
			}
		})
	}
}

func TestAScriptThatKeepsItsPromisesIsNotShrunk(t *testing.T) {
	t.Parallel()
	s, err := Parse("members n1\napply report every=1m runs=5s\nadvance 5m")
	if err != nil {
		t.Fatal(err)
	}
	if got := Shrink(s); got.String() != s.String() {
		t.Errorf("it came back as\n%s", got)
	}
}
