package archtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestHouseRulesHold checks the module this test is part of.
func TestHouseRulesHold(t *testing.T) {
	t.Parallel()
	m, err := Load(moduleRoot(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Packages) < 3 {
		t.Fatalf("found %d packages; the module was not read", len(m.Packages))
	}
	for _, rule := range Rules() {
		t.Run(strings.ReplaceAll(rule.Name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			breaches := rule.Check(m)
			for _, b := range breaches {
				t.Error(b)
			}
			if len(breaches) > 0 {
				t.Logf("the rule is there because %s", rule.Reason)
			}
		})
	}
}

func moduleRoot(t *testing.T) string {
	t.Helper()
	folder, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(folder, "go.mod")); err == nil {
			return folder
		}
		if folder == filepath.Dir(folder) {
			t.Fatal("no go.mod above the test")
		}
		folder = filepath.Dir(folder)
	}
}

// TestEveryRuleCanFail shows each rule a tiny module that breaks it, and one that does not.
func TestEveryRuleCanFail(t *testing.T) {
	t.Parallel()
	tried := map[string]bool{}
	for _, c := range append(importExamples(), append(purityExamples(), append(placeExamples(), docExamples()...)...)...) {
		tried[c.rule] = true
		t.Run(c.rule+"/"+c.name, func(t *testing.T) {
			t.Parallel()
			m, err := Parse(c.files)
			if err != nil {
				t.Fatal(err)
			}
			breaches := ruleNamed(t, c.rule).Check(m)
			if c.want == "" {
				for _, b := range breaches {
					t.Errorf("got breach %q, want none", b)
				}
				return
			}
			if len(breaches) != 1 || !strings.Contains(breaches[0].String(), c.want) {
				t.Errorf("got breaches %q, want one that contains %q", breaches, c.want)
			}
		})
	}
	for _, rule := range Rules() {
		if !tried[rule.Name] {
			t.Errorf("no example breaks the rule %q", rule.Name)
		}
		if len(rule.Reason) < 30 {
			t.Errorf("the rule %q has no reason: %q", rule.Name, rule.Reason)
		}
	}
}

// example is a module in small, and the breach that a rule should find in it; "" for none.
type example struct {
	rule, name string
	files      map[string]string
	want       string
}

func ruleNamed(t *testing.T, name string) Rule {
	t.Helper()
	for _, rule := range Rules() {
		if rule.Name == name {
			return rule
		}
	}
	t.Fatalf("no rule is named %q", name)
	return Rule{}
}

// one is a module of one file.
func one(path, text string) map[string]string { return map[string]string{path: text} }

func TestBadSourceIsNamed(t *testing.T) {
	t.Parallel()
	if _, err := Parse(one("node/a.go", "package node\nfunc {")); err == nil || !strings.Contains(err.Error(), "node/a.go") {
		t.Errorf("got error %v, want one that names node/a.go", err)
	}
}

func TestTableRowsHaveReasons(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, r := range table() {
		if r.reason == "" || seen[r.pkg] {
			t.Errorf("row %q has no reason or stands twice", r.pkg)
		}
		seen[r.pkg] = true
	}
	for _, pair := range [][2]string{{"election", "store"}, {"store", "executor"}, {"executor", "election"}, {"api", "node"}, {"node", "api"}} {
		for _, from := range pair {
			r, _ := find(table(), from)
			for _, to := range pair {
				if from != to && r.allows(modulePath+"/"+to) {
					t.Errorf("the table lets %s import %s", from, to)
				}
			}
		}
	}
}

// TestReadmeCommandIsWhatCIRuns keeps the command that README gives, `make test` and CI the same.
func TestReadmeCommandIsWhatCIRuns(t *testing.T) {
	t.Parallel()
	const command = "go test -p 1 -timeout 30m ./..."
	root := moduleRoot(t)
	for file, line := range map[string]string{"README.md": "\n" + command + "\n", "Makefile": "\t" + command + "\n", ".ci/run": "step " + command + "\n"} {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), line) {
			t.Errorf("%s does not run %q", file, command)
		}
	}
}

// TestRoomsAreOnTheMap holds the table for readers against the one for the machine.
func TestRoomsAreOnTheMap(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(moduleRoot(t), "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range table() {
		name := r.pkg
		switch folder, inside, _ := strings.Cut(r.pkg, "/"); folder {
		case "internal":
			name = inside // They share a line.
		case "chaos-tests":
			name = folder // Its programs have rows of their own, but no place on the map.
		}
		if !strings.Contains(string(text), name) {
			t.Errorf("docs/architecture.md does not know %s", r.pkg)
		}
	}
}

// TestConventionsNameEveryRule keeps the page for people complete: each rule is hinted at by its words.
func TestConventionsNameEveryRule(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(moduleRoot(t), "CONVENTIONS.md"))
	if err != nil {
		t.Fatal(err)
	}
	hints := map[string]string{
		"import table": "Who may import whom", "embedded server": "embedded etcd server", "pure imports": "value packages", "pure calls": "no clock",
		"one clock": "election.BootClock", "one dialer": "election.Dial", "no machine zones": "time.LoadLocation", "contexts": "context.WithoutCancel",
		"logging": "process's\n  own logger", "compares stay": "clientv3.Cmp", "package comments": "first sentence of its comment",
		"doc comments": "every exported name has a comment", "lengths": "500 lines", "no init": "no `init`", "no globals in commands": "no package-level variables",
		"names": "util, common, helpers", "no bare TODO": "TODO(#123)", "no sleeping tests": "A test sleeps",
		"tests in pages": "A page that names a test", "sabotage apart": "can go without in a test build",
		"chaos apart": "reach into a process",
	}
	for _, rule := range Rules() {
		if hint := hints[rule.Name]; hint == "" || !strings.Contains(string(text), hint) {
			t.Errorf("CONVENTIONS.md does not say %q, for the rule %q", hint, rule.Name)
		}
	}
}
