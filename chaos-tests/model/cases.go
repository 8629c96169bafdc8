package main

// testCase is a world and what must come of its search.
type testCase struct {
	Name string
	// Want is how the violation begins that must be found; "" is none.
	Want  string
	Size  size
	World world
}

// size says how many states a world has.
type size uint8

const (
	small  size = iota // fewer than smallWorld: run with -short too
	medium             // fewer than largeWorld: run by go test
	large              // left to the program
)

// Bounds of the sizes, in states.
const (
	smallWorld = 50_000
	largeWorld = 400_000
)

// Kinds of cases, by how their names begin. What begins otherwise is the protocol, or says what it does
// not need.
const (
	reachPrefix = "reach: " // a state that must be reached: a model in which nothing happens proves nothing
	cutPrefix   = "cut: "   // one thing is taken away, and the violation that must be found
	sparePrefix = "spare: " // a guard that others imply: taken away alone, nothing breaks
	deepPrefix  = "deep: "  // larger worlds
)

// sized is the case with its size.
func (c testCase) sized(n size) testCase {
	c.Size = n
	return c
}

// with is a world with something changed.
func (w world) with(f func(*world)) world {
	f(&w)
	return w
}

// cutting is a world from which a guard is taken away.
func (w world) cutting(f func(*rules)) world {
	f(&w.Cut)
	return w
}

// cases are all cases but the deep ones, in the order of the table.
func cases() []testCase {
	var list []testCase
	for _, some := range [][]testCase{
		freeWorlds(), ownedWorlds(), goals(), claimCuts(), endCuts(), userCuts(), ownerCuts(), spares(),
	} {
		list = append(list, some...)
	}
	return list
}

// deepCases are larger worlds; some stop at the bound.
func deepCases() []testCase {
	deep := func(name string, w world) testCase {
		return testCase{Name: deepPrefix + name, Size: large, World: w}
	}
	return []testCase{
		deep("fail, 1 instant", fail1().with(func(w *world) { w.Ends, w.Ambiguous = 2, 2 })),
		deep("retry, 1 instant", retry1().with(func(w *world) { w.Edits, w.Ends, w.Changes = 1, 2, edits() })),
		deep("retry, 2 instants, allow_all", anyRetry2()),
		deep("retry, trigger, cancel, crash", cancels().with(func(w *world) { w.Ambiguous, w.Crashes = 1, 1 })),
		deep("two claims out", two()),
		deep("two claims out, retry, panic", two().with(func(w *world) { w.Panics, w.Retry = 1, true })),
		deep("groups, 2 jobs, 2 members, lease ends", groups().with(func(w *world) { w.Members = 2 })),
		deep("owner moves, retry, crash", ownRetry().with(func(w *world) { w.Crashes, w.Ambiguous = 1, 1 })),
	}
}
