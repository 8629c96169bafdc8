package scheduler

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func members(names ...string) []Member {
	var list []Member
	for i, name := range names {
		list = append(list, Member{Name: name, Incarnation: 1, CreateRevision: int64(10 + i)})
	}
	return list
}

// numbered are n members called m000, m001 and so on.
func numbered(n int) []Member {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("m%03d", i))
	}
	return members(names...)
}

var everybody = Pool{ID: PoolAll}

// loads counts the shards of each member by name.
func loads(a Assignment) map[string]int {
	n := map[string]int{}
	for s := range ShardCount {
		n[memberName(a.Owner(Shard(s)))]++
	}
	return n
}

// moved lists the shards whose owner has another name.
func moved(a, b Assignment) []Shard {
	var list []Shard
	for s := range ShardCount {
		if memberName(a.Owner(Shard(s))) != memberName(b.Owner(Shard(s))) {
			list = append(list, Shard(s))
		}
	}
	return list
}

// checkBalanced checks that every shard has an owner and any two members differ by at most one.
func checkBalanced(t *testing.T, a Assignment) {
	t.Helper()
	n := loads(a)
	if n[""] > 0 {
		t.Fatalf("%d shards have no owner", n[""])
	}
	floor := ShardCount / len(a.Members)
	for _, id := range a.Members {
		if got := n[memberName(id)]; got != floor && got != floor+1 {
			t.Fatalf("%s owns %d shards, want %d or %d: %v", id, got, floor, floor+1, n)
		}
	}
}

func TestOneMemberOwnsEverything(t *testing.T) {
	t.Parallel()
	a := Assign(nil, members("a"), everybody)
	if got := loads(a)["a"]; got != ShardCount {
		t.Errorf("it owns %d", got)
	}
	if a.Pool != PoolAll || !slices.Equal(a.Members, []string{"a#1"}) {
		t.Errorf("got %q %v", a.Pool, a.Members)
	}
}

func TestAPoolWithoutMembersHasNoOwners(t *testing.T) {
	t.Parallel()
	prev := Assign(nil, members("a", "b"), everybody)
	a := Assign(&prev, nil, everybody)
	if got := loads(a)[""]; got != ShardCount || len(a.Members) != 0 {
		t.Errorf("got %d shards without owner and members %v", got, a.Members)
	}
	if got := (Assignment{Owners: [ShardCount]uint8{3}, Members: []string{"a#1"}}).Owner(0); got != "" {
		t.Errorf("an index without a member owns as %q", got)
	}
}

func TestAssignIgnoresTheOrderOfMembers(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	list := numbered(17)
	want := Assign(nil, list, everybody)
	prev := Assign(nil, list[:11], everybody)
	wantNext := Assign(&prev, list, everybody)
	for range 20 {
		rng.Shuffle(len(list), func(i, k int) { list[i], list[k] = list[k], list[i] })
		if got := Assign(nil, list, everybody); !reflect.DeepEqual(got, want) {
			t.Fatal("the order of members shows in a first assignment")
		}
		if got := Assign(&prev, list, everybody); !reflect.DeepEqual(got, wantNext) {
			t.Fatal("the order of members shows in a later assignment")
		}
	}
}

func TestAssignBalancesForAnyNumberOfMembers(t *testing.T) {
	t.Parallel()
	for n := 1; n <= maxMembers; n++ {
		checkBalanced(t, Assign(nil, numbered(n), everybody))
	}
}

// TestAssignMovesNothingItNeedNot states the cost of each change in shards, of 256.
func TestAssignMovesNothingItNeedNot(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name     string
		from, to int
		most     int // shards that move
	}{
		{"3→4: the fourth gets its quarter", 3, 4, 64},
		{"4→3: only what the fourth had", 4, 3, 64},
		{"10→9: only what the tenth had, a tenth", 10, 9, 26},
		{"9→10: a tenth goes to the tenth", 9, 10, 26},
		{"5→6: a sixth goes to the sixth", 5, 6, 43},
		{"1→2: one half", 1, 2, 128},
		{"2→1: one half", 2, 1, 128},
		{"100→101: at most three", 100, 101, 3},
		{"5→5: nothing", 5, 5, 0},
	} {
		a := Assign(nil, numbered(row.from), everybody)
		b := Assign(&a, numbered(row.to), everybody)
		checkBalanced(t, b)
		if got := len(moved(a, b)); got > row.most {
			t.Errorf("%s: %d shards moved, want at most %d", row.name, got, row.most)
		}
	}
}

func TestAJoinTakesOnlyForItself(t *testing.T) {
	t.Parallel()
	for n := 1; n < 60; n++ {
		a := Assign(nil, numbered(n), everybody)
		b := Assign(&a, append(numbered(n), Member{Name: "joiner", Incarnation: 3}), everybody)
		for _, s := range moved(a, b) {
			if b.Owner(s) != "joiner#3" {
				t.Fatalf("%d members: shard %s moved from %s to %s", n, s, a.Owner(s), b.Owner(s))
			}
		}
	}
}

func TestALeaveMovesOnlyTheLeaversShards(t *testing.T) {
	t.Parallel()
	for n := 2; n < 60; n++ {
		list := numbered(n)
		a := Assign(nil, list, everybody)
		leaver := list[n/2]
		b := Assign(&a, slices.Delete(slices.Clone(list), n/2, n/2+1), everybody)
		for _, s := range moved(a, b) {
			if a.Owner(s) != leaver.ID() {
				t.Fatalf("%d members: shard %s of %s moved to %s", n, s, a.Owner(s), b.Owner(s))
			}
		}
	}
}

// TestALongHistoryStaysBalanced lets members come, go, drain and restart at random.
func TestALongHistoryStaysBalanced(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 2))
		live := numbered(1 + rng.IntN(8))
		a := Assign(nil, live, everybody)
		for step := range 60 {
			before := a
			i := rng.IntN(len(live))
			what, restarted := rng.IntN(4), false
			switch {
			case what == 0 || len(live) == 1:
				live = append(live, Member{Name: fmt.Sprint("x", step), Incarnation: 1, CreateRevision: int64(1000 + step)})
			case what == 1:
				live = slices.Delete(live, i, i+1)
			case what == 2:
				live[i].Incarnation++
				restarted = true
			default:
				live[i].Draining = !live[i].Draining
			}
			a = Assign(&a, live, everybody)
			checkBalanced(t, a)
			if again := Assign(&a, live, everybody); !reflect.DeepEqual(a, again) {
				t.Fatalf("seed %d step %d: assigning again changed something", seed, step)
			}
			if n := len(moved(before, a)); restarted && n > 0 {
				t.Fatalf("seed %d step %d: a restart moved %d shards", seed, step, n)
			}
		}
	}
}

func TestARestartedMemberGetsItsShardsUnderItsNewID(t *testing.T) {
	t.Parallel()
	list := members("a", "b", "c")
	a := Assign(nil, list, everybody)
	list[1].Incarnation, list[1].CreateRevision = 2, 99
	b := Assign(&a, list, everybody)
	if n := len(moved(a, b)); n != 0 {
		t.Errorf("%d shards moved", n)
	}
	for s := range ShardCount {
		if a.Owner(Shard(s)) == "b#1" && b.Owner(Shard(s)) != "b#2" {
			t.Fatalf("shard %d went from b#1 to %s", s, b.Owner(Shard(s)))
		}
		if b.Owner(Shard(s)) == "b#1" {
			t.Fatalf("shard %d still belongs to the former process", s)
		}
	}
}

func TestAMemberThatReturnsFindsMuchOfWhatItHad(t *testing.T) {
	t.Parallel()
	list := numbered(5)
	a := Assign(nil, list, everybody)
	without := Assign(&a, list[:4], everybody)
	b := Assign(&without, list, everybody)
	same := 0
	for s := range ShardCount {
		if a.Owner(Shard(s)) == list[4].ID() && b.Owner(Shard(s)) == list[4].ID() {
			same++
		}
	}
	if same < 15 { // of 51; ten would be chance
		t.Errorf("only %d of its shards came back to it", same)
	}
}

func TestDrainingMembersGetNothing(t *testing.T) {
	t.Parallel()
	draining := func(which ...string) []Member {
		list := members("a", "b", "c")
		for i := range list {
			list[i].Draining = slices.Contains(which, list[i].Name)
		}
		return list
	}
	for _, row := range []struct {
		name string
		list []Member
		want []string
	}{
		{"as long as there is another", draining("b"), []string{"a#1", "c#1"}},
		{"even if only one is left", draining("a", "b"), []string{"c#1"}},
		{"all draining: they share, for somebody must", draining("a", "b", "c"), []string{"a#1", "b#1", "c#1"}},
		{"alone it keeps everything", draining("b")[1:2], []string{"b#1"}},
	} {
		prev := Assign(nil, members("a", "b", "c"), everybody)
		a := Assign(&prev, row.list, everybody)
		checkBalanced(t, a)
		if !slices.Equal(a.Members, row.want) {
			t.Errorf("%s: got owners %v, want %v", row.name, a.Members, row.want)
		}
	}
}

func TestOnlyMembersOfThePoolOwnItsShards(t *testing.T) {
	t.Parallel()
	list := members("a", "b", "c", "d")
	list[0].Labels = map[string]string{"zone": "eu"}
	list[2].Labels = map[string]string{"zone": "eu", "disk": "ssd"}
	pool := Pool{ID: "p", Selector: map[string]string{"zone": "eu"}}
	a := Assign(nil, list, pool)
	checkBalanced(t, a)
	if !slices.Equal(a.Members, []string{"a#1", "c#1"}) || a.Pool != "p" {
		t.Errorf("got %q owned by %v", a.Pool, a.Members)
	}
}

func TestOfTwoProcessesWithOneNameTheLaterCounts(t *testing.T) {
	t.Parallel()
	list := members("a", "b")
	list = append(list, Member{Name: "a", Incarnation: 2})
	a := Assign(nil, list, everybody)
	if !slices.Equal(a.Members, []string{"a#2", "b#1"}) {
		t.Errorf("got %v", a.Members)
	}
}

func TestMembersAreInOrderOfName(t *testing.T) {
	t.Parallel()
	// As strings "a!#1" sorts before "a#1".
	a := Assign(nil, members("b", "a!", "a"), everybody)
	if want := []string{"a#1", "a!#1", "b#1"}; !slices.Equal(a.Members, want) {
		t.Errorf("got %v, want %v", a.Members, want)
	}
}

func TestOfTooManyMembersTheOldestAreTaken(t *testing.T) {
	t.Parallel()
	list := numbered(300)
	list[7].CreateRevision = 100_000 // joined last
	a := Assign(nil, list, everybody)
	checkBalanced(t, a)
	if len(a.Members) != maxMembers {
		t.Fatalf("got %d members", len(a.Members))
	}
	if slices.ContainsFunc(a.Members, func(id string) bool { return strings.HasPrefix(id, "m007#") }) {
		t.Error("a newcomer displaced an older member")
	}
}
