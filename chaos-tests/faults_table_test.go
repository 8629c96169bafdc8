package chaos

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestEveryFaultIsInTheTable holds FAULTS.md against the deck: every number of the catalogue has a row, and
// every card stands in one.
func TestEveryFaultIsInTheTable(t *testing.T) {
	table, err := os.ReadFile("FAULTS.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for line := range strings.Lines(string(table)) {
		if id, rest, ok := strings.Cut(strings.TrimPrefix(line, "| "), " | "); ok && strings.HasPrefix(id, "F") {
			rows[id] = rest
		}
	}
	for i := 1; i <= 45; i++ {
		if id := fmt.Sprintf("F%02d", i); strings.Count(rows[id], "|") != 4 {
			t.Errorf("%s has no row, or one of the wrong width: %q", id, rows[id])
		}
	}
	cards := deck(&bed{disk: "any"})
	for _, c := range cards {
		if !strings.Contains(string(table), "`"+c.name+"`") {
			t.Errorf("no row names the card %s", c.name)
		}
	}
	if len(cards) < 40 {
		t.Errorf("%d cards", len(cards))
	}
}
