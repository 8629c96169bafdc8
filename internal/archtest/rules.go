package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
)

// Rule is one rule of the house.
type Rule struct {
	Name   string
	Reason string // why it exists: printed with every breach
	Check  func(*Module) []Breach
}

// Breach is one place that breaks a rule, and what to do about it.
type Breach struct {
	Where string // file:line, or a package
	What  string
}

// String is one line of a failing test.
func (b Breach) String() string { return b.Where + ": " + b.What }

// Rules returns all rules, each with its reason.
func Rules() []Rule {
	return []Rule{
		{"import table", "the folders draw the system only as long as nothing imports past them; " +
			"changing the table is a design decision and needs an ADR", checkImports},
		{"embedded server", "an embedding program links etcd's client only (13.7 MB, not 23.5), and a test binary " +
			"with the server compiles for 126 s under the race detector: one such binary, not one per package", checkEmbeddedServer},
		{"pure imports", "a simulated year runs in a moment, and twice with the same answer, only if nothing " +
			"in the core can reach the world", checkPureImports},
		{"pure calls", "the core gets the instant as a value: a clock, timer or goroutine of its own would make " +
			"plans that no test can repeat", checkPureCalls},
		{"one clock", "every decision of a turn uses one reading of wall and elapsed time, and tests bend it: " +
			"a second clock sees a step differently", checkOneClock},
		{"one dialer", "gRPC's default back-off grows to 120 s and keep-alives are off: a client made elsewhere " +
			"would be away for minutes after etcd is back", checkOneDialer},
		{"no machine zones", "time.LoadLocation prefers the machine's files: nodes would disagree about instants", checkZones},
		{"contexts", "a context made in a library outlives the shutdown that should end it; only cleanup may, " +
			"with a comment that says why", checkContexts},
		{"logging", "an embedding program decides where logs go: the logger comes in through Config", checkLogging},
		{"compares stay", "a clientv3.Cmp that crosses a package border hides which right is proved; " +
			"guards are values and only store turns them into compares", checkCompares},
		{"package comments", "what a package promises, and what it leaves to others, is the map a newcomer reads first", checkPackageComments},
		{"doc comments", "an exported name is a promise: say what it promises", checkDocComments},
		{"tests in pages", "a promise that names a test which is gone looks tried, and is not", checkNamedTests},
		{"lengths", "a file over 500 lines or a function over 80 does more than one thing", checkLengths},
		{"no init", "code that runs on import cannot be configured, tested or left out", checkInit},
		{"no globals in commands", "two commands, or two tests, in one process must not share state", checkCommandGlobals},
		{"names", "a package named util, common, helpers, types or models attracts what has no owner", checkNames},
		{"sabotage apart", "a protection that can be switched off must not be so in the program: what is built without the tag " +
			"knows no switch, only constants that are false", checkSabotage},
		{"chaos apart", "a process that dies or bends its clock when a file says so must not be the program: what is built without " +
			"the tag knows only functions that do nothing", checkChaos},
		{"no bare TODO", "a promise without an issue is forgotten", checkTodo},
		{"no sleeping tests", "a test that waits for a duration is slow when it passes and flaky when it matters; " +
			"wait for an event, or sleep in a synctest bubble", checkSleep},
	}
}

// code visits every node of the module's own code: no tests, nothing generated.
func (m *Module) code(visit func(p *Package, f *File, n ast.Node)) {
	for _, p := range m.Packages {
		for _, f := range p.Code() {
			ast.Inspect(f.Syntax, func(n ast.Node) bool {
				if n != nil {
					visit(p, f, n)
				}
				return true
			})
		}
	}
}

// all visits every node of the module, tests included, except in generated files.
func (m *Module) all(visit func(p *Package, f *File, n ast.Node)) {
	for _, p := range m.Packages {
		for _, f := range p.Files {
			if f.Generated {
				continue
			}
			ast.Inspect(f.Syntax, func(n ast.Node) bool {
				if n != nil {
					visit(p, f, n)
				}
				return true
			})
		}
	}
}

// breach makes a breach at a position.
func (m *Module) breach(pos token.Pos, format string, args ...any) Breach {
	return Breach{Where: m.At(pos), What: fmt.Sprintf(format, args...)}
}
