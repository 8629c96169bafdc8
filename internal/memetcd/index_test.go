package memetcd

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestIndexKeepsItsOrder(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	x, oracle := &index{}, map[string]*item{}
	for range 20_000 {
		key := fmt.Sprintf("%03d", r.IntN(2000))
		if oracle[key] == nil {
			oracle[key] = &item{key: key}
			x.insert(oracle[key])
		} else if r.IntN(3) == 0 {
			delete(oracle, key)
			x.remove(key)
		}
		if x.find(key) != oracle[key] {
			t.Fatalf("find %s: got %v, want %v", key, x.find(key), oracle[key])
		}
	}
	want := slices.Sorted(maps.Keys(oracle))
	for _, where := range []span{{all: true}, {from: "100", to: "1000"}, {from: "5", all: true}, {from: "9", to: "3"}, {from: "042", one: true}} {
		var got []string
		x.visit(where, func(it *item) { got = append(got, it.key) })
		inside := slices.DeleteFunc(slices.Clone(want), func(key string) bool { return !where.holds(key) })
		if !slices.Equal(got, inside) {
			t.Errorf("visit %+v: got %d keys, want %d", where, len(got), len(inside))
		}
	}
}

func TestTombstonesGoWithTheSecondCompaction(t *testing.T) {
	t.Parallel()
	s := New(Config{})
	defer s.Close()
	write := func(f func()) int64 {
		s.mu.Lock()
		defer s.mu.Unlock()
		f()
		s.commit()
		return s.rev
	}
	write(func() { s.put("a", nil, 0) })
	gone := write(func() { s.del(span{from: "a", one: true}) })
	if err := s.Compact(gone); err != nil {
		t.Fatal(err)
	}
	if s.keys.find("a") == nil || s.live.find("a") != nil {
		t.Error("the delete at the compaction revision must stay, for a watch that begins there")
	}
	write(func() { s.put("a", nil, 0) })
	last := write(func() { s.del(span{from: "a", one: true}) })
	end := write(func() { s.put("b", nil, 0) })
	if err := s.Compact(end); err != nil {
		t.Fatal(err)
	}
	if it := s.keys.find("a"); it != nil {
		t.Errorf("the delete at revision %d is kept after the compaction at %d: %+v", last, end, it)
	}
	if len(s.log) != 1 || s.log[0].rev != end {
		t.Errorf("the log has %d revisions, want that of the compaction alone", len(s.log))
	}
}
