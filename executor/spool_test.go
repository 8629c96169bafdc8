package executor

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func openSpool(t *testing.T, dir string) *Spool {
	t.Helper()
	s, err := OpenSpool(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func put(t *testing.T, s *Spool, id, data string) {
	t.Helper()
	if err := s.Put(id, []byte(data)); err != nil {
		t.Fatal(err)
	}
}

// checkSpool: these entries are kept, "id=data", in this order.
func checkSpool(t *testing.T, s *Spool, want ...string) {
	t.Helper()
	entries, err := s.All()
	if err != nil {
		t.Fatal(err)
	}
	got := make([]string, 0, len(entries))
	for _, e := range entries {
		got = append(got, e.ID+"="+string(e.Data))
	}
	if diff := cmp.Diff(append([]string{}, want...), got); diff != "" {
		t.Errorf("wrong entries (-want +got):\n%s", diff)
	}
	if s.Len() != len(want) {
		t.Errorf("Len is %d, want %d", s.Len(), len(want))
	}
}

func TestSpoolKeepsThroughRestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openSpool(t, dir)
	checkSpool(t, s)
	put(t, s, "a", "1")
	put(t, s, "b", "")
	put(t, s, "c", "3")
	put(t, s, "a", "4") // takes the place of the first, and is the newest
	for _, id := range []string{"c", "c", "never there"} {
		if err := s.Delete(id); err != nil {
			t.Fatal(err)
		}
	}
	checkSpool(t, s, "b=", "a=4")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Put("x", nil); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Put on a closed spool returned %v, want ErrClosed", err)
	}
	checkSpool(t, openSpool(t, dir), "b=", "a=4")
}

// TestSpoolDropsWhatACrashLeft cuts and damages the file at every byte.
func TestSpoolDropsWhatACrashLeft(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openSpool(t, dir)
	put(t, s, "a", "one")
	first := s.size
	put(t, s, "b", "two")
	whole, err := os.ReadFile(s.path)
	if err != nil {
		t.Fatal(err)
	}
	for at := range whole {
		for _, damage := range []string{"cut", "flip"} {
			text := append([]byte{}, whole...)
			if damage == "cut" {
				text = text[:at]
			} else {
				text[at] ^= 0x41
			}
			dir := t.TempDir()
			path := filepath.Join(dir, "spool", "results")
			os.Mkdir(filepath.Dir(path), 0o700)
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
			var want []string
			if int64(at) >= first {
				want = []string{"a=one"}
			}
			s := openSpool(t, dir)
			checkSpool(t, s, want...)
			put(t, s, "c", "three")
			s.Close()
			checkSpool(t, openSpool(t, dir), append(want, "c=three")...)
			if t.Failed() {
				t.Fatalf("after %s at byte %d", damage, at)
			}
		}
	}
}

func TestSpoolIsBounded(t *testing.T) {
	t.Parallel()
	s := openSpool(t, t.TempDir())
	s.maxBytes = 1000
	data := strings.Repeat("x", 200)
	for i := range 4 {
		put(t, s, fmt.Sprint(i), data)
	}
	if err := s.Put("4", []byte(data)); !errors.Is(err, ErrSpoolFull) {
		t.Fatalf("got %v, want ErrSpoolFull", err)
	}
	if err := s.Delete("1"); err != nil {
		t.Fatal(err)
	}
	put(t, s, "4", data) // the file is rewritten to make room
	checkSpool(t, s, "0="+data, "2="+data, "3="+data, "4="+data)
	if info, err := os.Stat(s.path); err != nil || info.Size() > s.maxBytes {
		t.Errorf("the file is %d bytes long (%v), want at most %d", info.Size(), err, s.maxBytes)
	}
	for _, bad := range []string{"", strings.Repeat("i", 1<<16)} {
		if err := s.Put(bad, nil); err == nil {
			t.Errorf("an id of %d bytes was taken", len(bad))
		}
	}
}

func TestEmptySpoolTakesNoSpace(t *testing.T) {
	t.Parallel()
	s := openSpool(t, t.TempDir())
	for i := range 50 {
		put(t, s, fmt.Sprint(i), "data")
	}
	for i := range 50 {
		if err := s.Delete(fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(s.path); err != nil || info.Size() != 0 {
		t.Errorf("the file is %d bytes long (%v), want 0", info.Size(), err)
	}
	put(t, s, "again", "x")
	checkSpool(t, s, "again=x")
}

// TestSpoolIsAMap compares it with a map over random calls, with restarts among them.
func TestSpoolIsAMap(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	s := openSpool(t, dir)
	model, order := map[string]string{}, []string{}
	forget := func(id string) {
		delete(model, id)
		for i, other := range order {
			if other == id {
				order = append(order[:i:i], order[i+1:]...)
				return
			}
		}
	}
	for step := range 300 {
		id := fmt.Sprint(r.IntN(8))
		switch r.IntN(10) {
		case 0:
			s.Close()
			s = openSpool(t, dir)
		case 1, 2, 3, 4:
			forget(id)
			if err := s.Delete(id); err != nil {
				t.Fatal(err)
			}
		default:
			data := strings.Repeat(fmt.Sprint(step), r.IntN(50000))
			forget(id)
			model[id], order = data, append(order, id)
			put(t, s, id, data)
		}
		var want []string
		for _, id := range order {
			want = append(want, id+"="+model[id])
		}
		if checkSpool(t, s, want...); t.Failed() {
			t.Fatalf("seed %d, step %d", seed, step)
		}
	}
}

func TestSpoolServesManyAtOnce(t *testing.T) {
	t.Parallel()
	s := openSpool(t, t.TempDir())
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			id := fmt.Sprintf("%02d", i)
			if err := s.Put(id, []byte(id)); err != nil {
				t.Error(err)
			}
			if i%2 == 1 {
				if err := s.Delete(id); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	entries, err := s.All()
	if err != nil || len(entries) != 10 {
		t.Errorf("got %d entries (%v), want 10", len(entries), err)
	}
	for _, e := range entries {
		if e.ID != string(e.Data) {
			t.Errorf("got %q under %q", e.Data, e.ID)
		}
	}
}
