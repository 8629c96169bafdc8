package main

import (
	"hash/maphash"
	"slices"
	"strings"
	"time"
	"unsafe"
)

// result is what a search found.
type result struct {
	States, Edges, Depth int
	Violation            string   // "" if there is none
	Trace                []string // the shortest one that leads to it
	Full                 bool     // every reachable state was visited
	Took                 time.Duration
}

// fingerprint stands for a state: two hashes of 64 bits.
type fingerprint [2]uint64

// search visits every reachable state of a world, breadth first, so that a violation has a shortest
// trace. Afterwards it asks of every state whether some path without further faults settles
// everything.
type search struct {
	w     *world
	seeds [2]maphash.Seed
	names [][]int // the ways to rename members

	spare []block // of fronts that are behind

	ids      map[fingerprint]uint32
	keys     []fingerprint
	parents  []uint32
	good     []bool
	from, to []uint32 // steps that are no faults
}

func newSearch(w world) *search {
	names := map[int][][]int{
		1: {{0}},
		2: {{0, 1}, {1, 0}},
		3: {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}},
	}
	return &search{w: &w, seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, names: names[w.Members], ids: map[fingerprint]uint32{}}
}

// visited is a state that is still to be gone on from.
type visited struct {
	id    uint32
	state state
}

// block holds a part of a front. Fronts of millions of states are made of blocks, for to grow them as one piece
// would copy them again and again, which took longer than the search.
type block []visited

const blockSize = 1 << 10

// push adds a state to a front.
func (x *search) push(front *[]block, v visited) {
	last := len(*front) - 1
	if last < 0 || len((*front)[last]) == blockSize {
		var b block
		if n := len(x.spare); n > 0 {
			b, x.spare = x.spare[n-1], x.spare[:n-1]
		} else {
			b = make(block, 0, blockSize)
		}
		*front = append(*front, b)
		last++
	}
	(*front)[last] = append((*front)[last], v)
}

// run searches until all is visited, something is violated, or there are more states than the bound.
func (x *search) run(maxStates int) (r result) {
	began := time.Now()
	defer func() { r.Took = time.Since(began) }()
	start := x.canonical(x.w.initial())
	x.note(&start, 0)
	var front []block
	x.push(&front, visited{0, start})
	for len(front) > 0 {
		r.Depth++
		var next []block
		for _, b := range front {
			for i := range b {
				if r.Violation = x.expand(&b[i], &next, &r.Edges); r.Violation != "" {
					r.States, r.Trace = len(x.keys), x.replay(b[i].id, r.Violation)
					return r
				}
				if len(x.keys) > maxStates {
					r.States = len(x.keys)
					return r
				}
			}
			x.spare = append(x.spare, b[:0])
		}
		front = next
	}
	r.States, r.Full = len(x.keys), true
	if id, found := x.unsettled(); found && strings.HasPrefix(stuckForever, x.w.Only) {
		r.Violation, r.Trace = stuckForever, x.replay(id, "")
	}
	return r
}

// expand takes every step from a state, and returns what the first bad one violates.
func (x *search) expand(v *visited, next *[]block, edges *int) (violation string) {
	x.w.steps(&v.state, func(n state, fault bool, _, violated string) {
		if violation != "" {
			return
		}
		x.w.tidy(&n)
		n = x.canonical(n)
		*edges++
		id, isNew := x.note(&n, v.id)
		if isNew {
			x.push(next, visited{id, n})
		}
		if !fault {
			x.from, x.to = append(x.from, v.id), append(x.to, id)
		}
		violation = x.violation(violated, &n)
	})
	return violation
}

// note gives a state its number.
func (x *search) note(s *state, parent uint32) (id uint32, isNew bool) {
	k := x.fingerprint(s)
	id, known := x.ids[k]
	if known {
		return id, false
	}
	id = uint32(len(x.keys))
	x.ids[k] = id
	x.keys, x.parents = append(x.keys, k), append(x.parents, parent)
	x.good = append(x.good, x.w.settled(s))
	return id, true
}

func (x *search) fingerprint(s *state) fingerprint {
	b := bytesOf(s)
	return fingerprint{maphash.Bytes(x.seeds[0], b), maphash.Bytes(x.seeds[1], b)}
}

// canonical picks one of the states that differ by the names of members alone.
func (x *search) canonical(s state) state {
	best := s
	for _, places := range x.names[1:] {
		if t := s.renamed(places); string(bytesOf(&t)) < string(bytesOf(&best)) {
			best = t
		}
	}
	return best
}

// bytesOf is a state as memory: all its fields are bytes. It makes the choice of canonical, and with it
// every number that is printed, the same in each run.
func bytesOf(s *state) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(s)), unsafe.Sizeof(*s))
}

// violation is what the step, or the state that it led to, breaks, if it is of the kind asked for.
func (x *search) violation(step string, s *state) string {
	for _, v := range []string{step, x.w.bad(s)} {
		if v != "" && strings.HasPrefix(v, x.w.Only) {
			return v
		}
	}
	return ""
}

// unsettled finds the first state from which no path without faults leads to a settled one.
func (x *search) unsettled() (uint32, bool) {
	start := make([]uint32, len(x.good)+1)
	for _, t := range x.to {
		start[t+1]++
	}
	for i := 1; i < len(start); i++ {
		start[i] += start[i-1]
	}
	before, fill := make([]uint32, len(x.to)), slices.Clone(start)
	for i, t := range x.to {
		before[fill[t]] = x.from[i]
		fill[t]++
	}
	var todo []uint32
	for i, good := range x.good {
		if good {
			todo = append(todo, uint32(i))
		}
	}
	for len(todo) > 0 {
		t := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, b := range before[start[t]:start[t+1]] {
			if !x.good[b] {
				x.good[b] = true
				todo = append(todo, b)
			}
		}
	}
	i := slices.Index(x.good, false)
	return uint32(max(i, 0)), i >= 0
}

// replay walks to a state again without renaming members, and on to the violation if there is one, and
// says each step in words.
func (x *search) replay(id uint32, violation string) (words []string) {
	path := []fingerprint{x.keys[id]}
	for id != 0 {
		id = x.parents[id]
		path = append(path, x.keys[id])
	}
	slices.Reverse(path)
	x.w.tracing = true
	defer func() { x.w.tracing = false }()
	s := x.w.initial()
	for i := 1; i <= len(path); i++ {
		found := false
		var n state
		x.w.steps(&s, func(t state, _ bool, label, violated string) {
			if found {
				return
			}
			x.w.tidy(&t)
			if i < len(path) {
				k := x.canonical(t)
				found = x.fingerprint(&k) == path[i]
			} else {
				found = violation != "" && x.violation(violated, &t) == violation
			}
			if found {
				n = t
				words = append(words, label)
			}
		})
		s = n
	}
	return words
}
