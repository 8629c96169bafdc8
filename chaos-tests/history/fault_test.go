package history

import (
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"strconv"
	"testing"
	"time"
)

// TestEachKindOfFaultHasItsTraits: a kind that the table does not know excuses nothing, silently.
func TestEachKindOfFaultHasItsTraits(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(gotoken.NewFileSet(), "fault.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	kinds := 0
	for _, d := range file.Decls {
		group, ok := d.(*ast.GenDecl)
		if !ok || group.Tok != gotoken.CONST {
			continue
		}
		for _, spec := range group.Specs {
			for _, value := range spec.(*ast.ValueSpec).Values {
				literal, ok := value.(*ast.BasicLit)
				if !ok || literal.Kind != gotoken.STRING {
					continue
				}
				kind, err := strconv.Unquote(literal.Value)
				if err != nil {
					t.Fatal(err)
				}
				if kind == oneLine {
					continue // no kind
				}
				if _, known := traits[kind]; !known {
					t.Errorf("no traits for %q", kind)
				}
				kinds++
			}
		}
	}
	if kinds != len(traits) {
		t.Errorf("%d kinds, and traits of %d", kinds, len(traits))
	}
}

// TestFaultsReachWhatTheyKeepFromStarting has the arithmetic of C03, with R = 10 s.
func TestFaultsReachWhatTheyKeepFromStarting(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	after := func(seconds float64) time.Time { return begin.Add(time.Duration(seconds * float64(time.Second))) }
	on := func(kind string, from, to float64) Fault {
		f := Fault{Kind: kind, Node: "n1", From: after(from)}
		if to > 0 {
			f.To = after(to)
		}
		return f
	}
	step := on(ClockStep, 5, 6)
	step.Skew = time.Hour
	small := on(ClockOffset, 5, 6)
	small.Skew = 300 * time.Millisecond
	tests := []struct {
		name   string
		faults []Fault
		due    float64
		until  float64
	}{
		{"none", nil, 10, 12},
		{"one long before", []Fault{on(NodeCut, 1, 2)}, 30, 32},
		{"one that is on", []Fault{on(NodeCut, 5, 20)}, 10, 20 + 10 + 2},
		{"one that is overcome just now", []Fault{on(NodeCut, 1, 2)}, 11, 2 + 10 + 2},
		{"one that begins before the start may be late", []Fault{on(NodeCut, 11, 15)}, 10, 15 + 10 + 2},
		{"one that begins after that", []Fault{on(NodeCut, 12.5, 15)}, 10, 12},
		{"one that is never healed: others take over", []Fault{on(NodeKill, 9, 0)}, 10, 9 + 10 + 2},
		{"one after the other", []Fault{on(NodeCut, 5, 8), on(NodeCut, 19, 25)}, 10, 25 + 10 + 2},
		{"one that holds nothing up", []Fault{{Kind: "unheard of", From: after(9), To: after(20)}}, 10, 12},
		{"a step of the clock, with its trial", []Fault{step}, 10, 6 + 60 + 10 + 2},
		{"a clock that is hardly off", []Fault{small}, 10, 12},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := History{Faults: tt.faults}
			until, _ := h.reach(after(tt.due), func(Fault) time.Duration { return h.bounds().Recovery() }, func(int, Fault) bool { return true })
			if got := until.Sub(begin).Seconds(); got != tt.until {
				t.Errorf("what is due at %v may start until %v, want %v", tt.due, got, tt.until)
			}
		})
	}
}
