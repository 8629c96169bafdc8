package chaos

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestEveryScenarioIsATest holds the table of scenarios.md against the scenarios and against the sources:
// each scenario has a row, each test it names is there, and no test of a scenario is left out.
func TestEveryScenarioIsATest(t *testing.T) {
	table, err := os.ReadFile("scenarios.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for line := range strings.Lines(string(table)) {
		if id, rest, ok := strings.Cut(strings.TrimPrefix(line, "| "), " | "); ok && strings.HasPrefix(id, "SA-") && strings.Count(line, "|") == 5 {
			rows[id] = rest
		}
	}
	sources := testsOfScenarios(t)
	name := regexp.MustCompile("`(TestSA[0-9]+_[A-Za-z0-9_]+)` in ([a-z-]+)")
	named := map[string]bool{}
	for _, id := range scenarioIDs(t) {
		row, ok := rows[id]
		if !ok {
			t.Errorf("%s has no row in scenarios.md", id)
			continue
		}
		tests := name.FindAllStringSubmatch(row, -1)
		if len(tests) == 0 {
			t.Errorf("%s names no test", id)
		}
		for _, test := range tests {
			named[test[1]] = true
			if !strings.HasPrefix(test[1], "TestSA"+strings.TrimPrefix(id, "SA-")+"_") {
				t.Errorf("%s names %s, which is another scenario's", id, test[1])
			}
			if sources[test[1]] != test[2] {
				t.Errorf("%s names %s in %s; it is in %q", id, test[1], test[2], sources[test[1]])
			}
		}
	}
	for test, where := range sources {
		if !named[test] {
			t.Errorf("%s in %s is in no row of scenarios.md", test, where)
		}
	}
}

// scenarioIDs are the ids of all scenarios; there are 55.
func scenarioIDs(t *testing.T) []string {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "scenarios-a.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var ids []string
	for in := bufio.NewScanner(f); in.Scan(); {
		var scenario struct{ ID string }
		if err := json.Unmarshal(in.Bytes(), &scenario); err != nil {
			t.Fatalf("scenario %d: %v", len(ids)+1, err)
		}
		ids = append(ids, scenario.ID)
	}
	if len(ids) != 55 || len(slices.Compact(slices.Sorted(slices.Values(ids)))) != 55 {
		t.Fatalf("%d scenarios, want 55 different ones", len(ids))
	}
	return ids
}

// testsOfScenarios are the tests that the sources define, with the folder of each.
func testsOfScenarios(t *testing.T) map[string]string {
	t.Helper()
	defined := regexp.MustCompile(`(?m)^func (TestSA[0-9]+_\w+)\(`)
	found := map[string]string{}
	for _, folder := range []string{"node", "chaos-tests"} {
		files, err := filepath.Glob(filepath.Join("..", folder, "*_test.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no tests in %s: %v", folder, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, test := range defined.FindAllStringSubmatch(string(text), -1) {
				found[test[1]] = folder
			}
		}
	}
	return found
}
