package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/quorumcron/quorumcron/internal/sabotage"
)

// TestEveryCutIsMadeAndCaught holds the names against each other: those there are, those that some
// package asks for, those that a test catches, and those in the table for people.
func TestEveryCutIsMadeAndCaught(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	page, err := os.ReadFile(filepath.Join(root, "chaos-tests", "SABOTAGE.md"))
	if err != nil {
		t.Fatal(err)
	}
	made := map[string]string{}
	files, err := filepath.Glob(filepath.Join(root, "*", "sabotage_on.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("found %d files with switches: %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`sabotage\.On\("([^"]*)"\)`).FindAllStringSubmatch(string(text), -1) {
			if other, twice := made[m[1]]; twice {
				t.Errorf("%s is made in %s and in %s", m[1], other, file)
			}
			made[m[1]] = file
		}
	}
	rows := table()
	for i, c := range sabotage.Cuts() {
		if made[c.Name] == "" {
			t.Errorf("no package asks for %s", c.Name)
		}
		delete(made, c.Name)
		if i >= len(rows) || rows[i].cut != c.Name {
			t.Fatalf("row %d of the table is not that of %s", i, c.Name)
		}
	}
	for _, r := range rows {
		shown, _, _ := strings.Cut(r.markdown(0), "| 0.0 s")
		if !strings.Contains(string(page), shown) {
			t.Errorf("SABOTAGE.md has no row for %s as it is: print it with -markdown", r.cut)
		}
		if r.pkg == "" || r.test == "" || len(r.says) < 10 {
			t.Errorf("the row of %s does not say enough: %+v", r.cut, r)
		}
		if !slices.ContainsFunc(sabotage.Cuts(), func(c sabotage.Cut) bool { return c.Name == r.cut }) {
			t.Errorf("there is a row for %s, which is none of the cuts", r.cut)
		}
	}
	for name, file := range made {
		t.Errorf("%s asks for %s, which is none of the cuts", file, name)
	}
}

func TestPatternsMatchWholeNames(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		parent string
		names  []string
		want   string
	}{
		{"", []string{"TestA"}, "^(TestA)$"},
		{"", []string{"TestA", "TestB"}, "^(TestA|TestB)$"},
		{"TestStore/", []string{"A", "B"}, "^TestStore$/^(A|B)$"},
		{"TestStore/A/", []string{"b"}, "^TestStore$/^A$/^(b)$"},
	} {
		if got := pattern(c.parent, c.names...); got != c.want {
			t.Errorf("below %q: got %s, want %s", c.parent, got, c.want)
		}
	}
	for _, r := range table() {
		parent, name := r.split()
		if slices.Contains([]string{parent, name}, r.test) == strings.Contains(r.test, "/") {
			t.Errorf("%s is split into %q and %q", r.test, parent, name)
		}
	}
}
