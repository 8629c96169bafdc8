package archtest

import "strings"

func importExamples() []example {
	return []example{
		{"import table", "a spoke imports a spoke", one("store/a.go", `package store
			import _ "github.com/quorumcron/quorumcron/election"`), "store: imports github.com/quorumcron/quorumcron/election"},
		{"import table", "api imports the node", one("api/a.go", `package api
			import _ "github.com/quorumcron/quorumcron/node"`), "api: imports"},
		{"import table", "a folder nobody wrote a row for", one("plugins/a.go", `package plugins`), "plugins: has no row"},
		{"import table", "the core imports its simulation", one("scheduler/a.go", `package scheduler
			import _ "github.com/quorumcron/quorumcron/scheduler/sim"`), "scheduler: imports"},
		{"import table", "a name that only begins like an allowed one", one("scheduler/a.go", `package scheduler
			import _ "github.com/quorumcron/quorumcron/scheduler/cronjob"`), "scheduler: imports"},
		{"import table", "a library nobody agreed on", one("executor/a.go", `package executor
			import _ "github.com/sirupsen/logrus"`), "logrus"},
		{"import table", "testing in the program", one("node/a.go", `package node
			import _ "testing"`), "node: imports testing outside of tests"},
		{"import table", "a suite that tests share", one("store/storetest/a.go", `package storetest
			import (
				_ "testing"
				_ "github.com/quorumcron/quorumcron/internal/memetcd"
			)`), ""},
		{"import table", "what the table allows, and a test that goes further", map[string]string{
			"node/a.go": `package node
				import (
					_ "context"
					_ "github.com/quorumcron/quorumcron/store"
					_ "github.com/prometheus/client_golang/prometheus/promhttp"
				)`,
			"node/a_test.go": `package node
				import _ "github.com/quorumcron/quorumcron/internal/memetcd"`,
		}, ""},
		{"embedded server", "a library imports it", one("node/a.go", `package node
			import _ "go.etcd.io/etcd/server/v3/embed"`), "node: imports go.etcd.io/etcd/server/v3/embed"},
		{"embedded server", "a library starts one", one("node/a.go", `package node
			import _ "github.com/quorumcron/quorumcron/internal/devetcd"`), "node: imports internal/devetcd"},
		{"embedded server", "a test reaches it through two packages", map[string]string{
			"store/a_test.go": `package store
				import _ "github.com/quorumcron/quorumcron/internal/devetcd"`,
			"internal/devetcd/a.go": `package devetcd
				import _ "go.etcd.io/etcd/server/v3/embed"`,
		}, "store → internal/devetcd → go.etcd.io/etcd/server/v3/embed"},
		{"embedded server", "internal/itest and the program may", map[string]string{
			"internal/itest/a_test.go": `package itest
				import _ "github.com/quorumcron/quorumcron/internal/devetcd"`,
			"cmd/quorumcron/a.go": `package main
				import _ "github.com/quorumcron/quorumcron/internal/devetcd"`,
			"internal/devetcd/a.go": `package devetcd
				import _ "go.etcd.io/etcd/server/v3/embed"`,
		}, ""},
	}
}

func purityExamples() []example {
	return []example{
		{"pure imports", "context", one("scheduler/a.go", `package scheduler
			import _ "context"`), "imports context"},
		{"pure imports", "a lock outside cron", one("scheduler/a.go", `package scheduler
			import _ "sync"`), "imports sync"},
		{"pure imports", "logging in a sub-package", one("scheduler/sim/a.go", `package sim
			import _ "log/slog"`), "imports log/slog"},
		{"pure imports", "randomness outside sim", one("scheduler/a.go", `package scheduler
			import _ "math/rand/v2"`), "imports math/rand/v2"},
		{"pure imports", "cron keeps parsed zones under a lock; tests are free", map[string]string{
			"scheduler/cron/a.go": `package cron
				import _ "sync"`,
			"scheduler/a_test.go": `package scheduler
				import _ "os"`,
			"node/a.go": `package node
				import _ "net/http"`,
		}, ""},
		{"pure calls", "the clock", one("scheduler/a.go", `package scheduler
			import "time"
			func now() time.Time { return time.Now() }`), "a.go:3: uses time.Now"},
		{"pure calls", "the clock as a value, under another name", one("scheduler/cron/a.go", `package cron
			import clock "time"
			var now = clock.Now`), "uses time.Now"},
		{"pure calls", "a timer", one("scheduler/sim/a.go", `package sim
			import "time"
			var t = time.NewTimer(1)`), "uses time.NewTimer"},
		{"pure calls", "a goroutine", one("scheduler/a.go", `package scheduler
			func f() { go f() }`), "starts a goroutine"},
		{"pure calls", "a channel", one("scheduler/a.go", `package scheduler
			func f(c chan int) {}`), "uses a channel"},
		{"pure calls", "randomness without a seed", one("scheduler/sim/a.go", `package sim
			import "math/rand/v2"
			var n = rand.IntN(6)`), "uses math/rand/v2.IntN"},
		{"pure calls", "printing", one("scheduler/a.go", `package scheduler
			import "fmt"
			func f() { fmt.Println() }`), "uses fmt.Println"},
		{"pure calls", "a seed, a variable that hides the import, a test", map[string]string{
			"scheduler/sim/a.go": `package sim
				import "math/rand/v2"
				func dice(seed uint64) int { r := rand.New(rand.NewPCG(seed, 0)); return r.IntN(6) }`,
			"scheduler/a.go": `package scheduler
				import "time"
				type clock struct{}
				func (clock) Now() int { return 0 }
				func f() int { time := clock{}; return time.Now() }
				var _ time.Time`,
			"scheduler/a_test.go": `package scheduler
				import "time"
				var now = time.Now()`,
		}, ""},
		{"one clock", "a second clock", one("node/loop.go", `package node
			import "time"
			var now = time.Now()`), "loop.go:3: uses time.Now"},
		{"one clock", "another function of election", one("election/a.go", `package election
			import "time"
			func since(t time.Time) time.Duration { return time.Since(t) }`), "uses time.Since"},
		{"one clock", "the default clock", one("election/a.go", `package election
			import "time"
			func BootClock() func() time.Time { return func() time.Time { return time.Now() } }`), ""},
	}
}

func placeExamples() []example {
	const client = `import clientv3 "go.etcd.io/etcd/client/v3"` + "\n"
	return []example{
		{"one dialer", "a client of one's own", one("store/a.go", "package store\n"+client+
			`var c, _ = clientv3.New(clientv3.Config{})`), "a.go:3: uses go.etcd.io/etcd/client/v3.New"},
		{"one dialer", "in a test", one("store/a_test.go", "package store\n"+client+
			`var c, _ = clientv3.NewFromURL("x")`), "NewFromURL"},
		{"one dialer", "another function of election", one("election/a.go", "package election\nimport \"go.etcd.io/etcd/client/v3\"\n"+
			`func redial() { clientv3.New(clientv3.Config{}) }`), "client/v3.New"},
		{"one dialer", "a client without a connection", one("node/a_test.go", "package node\n"+client+
			`var c = clientv3.NewCtxClient(nil)`), "NewCtxClient"},
		{"one dialer", "Dial, and the fake", map[string]string{
			"election/dial.go": "package election\n" + client + `func Dial() { clientv3.New(clientv3.Config{}) }`,
			"internal/memetcd/a.go": "package memetcd\n" + client +
				`var c = clientv3.NewCtxClient(nil)`,
		}, ""},
		{"no machine zones", "anywhere, tests too", one("cmd/quorumcron/a_test.go", `package main
			import "time"
			var zone, _ = time.LoadLocation("Europe/Berlin")`), "a_test.go:3: uses time.LoadLocation"},
		{"no machine zones", "from our own archive", one("scheduler/cron/a.go", `package cron
			import "time"
			var zone, _ = time.LoadLocationFromTZData("", nil)`), ""},
		{"contexts", "made in a library", one("store/a.go", `package store
			import "context"
			var ctx = context.Background()`), "uses context.Background"},
		{"contexts", "put off", one("api/a.go", `package api
			import "context"
			var ctx = context.TODO()`), "uses context.TODO"},
		{"contexts", "cleanup without a word", one("node/a.go", `package node
			import "context"
			func f(ctx context.Context) { ctx = context.WithoutCancel(ctx) }`), "outlives its caller"},
		{"contexts", "cleanup that says why, main, a test", map[string]string{
			"node/a.go": `package node
				import "context"
				func f(ctx context.Context) {
					// The verdict is written even if the caller is gone.
					ctx = context.WithoutCancel(ctx)
				}`,
			"node/a_test.go": `package node
				import "context"
				var ctx = context.Background()`,
			"cmd/quorumcron/main.go": `package main
				import "context"
				func main() { _ = context.Background() }`,
		}, ""},
		{"logging", "the process-wide slog", one("node/a.go", `package node
			import "log/slog"
			func f() { slog.Info("x") }`), "uses slog.Info"},
		{"logging", "the log package", one("api/a.go", `package api
			import "log"
			func f() { log.Printf("x") }`), "uses log.Printf"},
		{"logging", "a logger that came in, and main", map[string]string{
			"node/a.go": `package node
				import "log/slog"
				func f(l *slog.Logger) { l.Info("x", slog.String("a", "b")); _ = slog.New(slog.DiscardHandler) }`,
			"cmd/quorumcron/a.go": `package main
				import "log/slog"
				func main() { slog.SetDefault(nil) }`,
		}, ""},
		{"compares stay", "an exported function takes one", one("store/a.go", "package store\n"+client+
			`func Write(guards ...clientv3.Cmp) {}`), "a.go:3: lets a clientv3.Cmp out"},
		{"compares stay", "an exported field", one("store/a.go", "package store\n"+client+
			`type Group struct { Outer []clientv3.Cmp }`), "lets a clientv3.Cmp out"},
		{"compares stay", "inside", one("store/a.go", "package store\n"+client+
			`type group struct { outer []clientv3.Cmp }
			type Group struct { outer []clientv3.Cmp }
			func write(guards ...clientv3.Cmp) {}`), ""},
		{"sabotage apart", "the program reads the switch", one("node/a.go", `package node
			import "github.com/quorumcron/quorumcron/internal/sabotage"
			var cutMarks = sabotage.On("marks")`), "node: imports internal/sabotage"},
		{"sabotage apart", "more than switches", map[string]string{
			"node/sabotage_off.go": "//go:build !sabotage\n\npackage node\n",
			"node/sabotage_on.go":  "//go:build sabotage\n\npackage node\nfunc helper() {}",
		}, "on.go:4: holds more than variables"},
		{"sabotage apart", "a file of another name", map[string]string{
			"node/extra.go": "//go:build sabotage\n\npackage node\n",
		}, "node/extra.go: has the tag"},
		{"sabotage apart", "a switch without its constant", map[string]string{
			"node/sabotage_off.go": "//go:build !sabotage\n\npackage node\n",
			"node/sabotage_on.go":  "//go:build sabotage\n\npackage node\nvar cutMarks = sabotage.On(\"marks\")",
		}, "cutMarks has no counterpart"},
		{"sabotage apart", "a constant without a reason", map[string]string{
			"node/a.go":            "package node\nvar looks = !cutMarks",
			"node/sabotage_off.go": "//go:build !sabotage\n\npackage node\nconst cutMarks = false",
			"node/sabotage_on.go":  "//go:build sabotage\n\npackage node\nvar cutMarks = sabotage.On(\"marks\")",
		}, "off.go:4: cutMarks is not false with a reason"},
		{"sabotage apart", "a switch that nothing asks", map[string]string{
			"node/a.go":            "package node",
			"node/sabotage_off.go": "//go:build !sabotage\n\npackage node\n// cutMarks: why.\nconst cutMarks = false",
			"node/sabotage_on.go":  "//go:build sabotage\n\npackage node\nvar cutMarks = sabotage.On(\"marks\")",
		}, "off.go:5: nothing asks for cutMarks"},
		{"sabotage apart", "as it should be", map[string]string{
			"scheduler/a.go":            "package scheduler\nvar looks = !cutMarks",
			"scheduler/sabotage_off.go": "//go:build !sabotage\n\npackage scheduler\n// cutMarks: why.\nconst cutMarks = false",
			"scheduler/sabotage_on.go": "//go:build sabotage\n\npackage scheduler\n" +
				"import \"github.com/quorumcron/quorumcron/internal/sabotage\"\nvar cutMarks = sabotage.On(\"marks\")",
		}, ""},
		{"pure imports", "the sabotaged build is no part of the core", map[string]string{
			"scheduler/sabotage_on.go": "//go:build sabotage\n\npackage scheduler\nimport _ \"os\"",
		}, ""},
		{"chaos apart", "the program reaches for it", one("node/a.go", `package node
			import "github.com/quorumcron/quorumcron/internal/chaos"
			var _ = chaos.Points`), "node: imports internal/chaos"},
		{"chaos apart", "a file of another name", map[string]string{
			"node/extra.go": "//go:build chaos\n\npackage node\n",
		}, "node/extra.go: has the tag"},
		{"chaos apart", "one of two", map[string]string{
			"node/chaos_on.go": "//go:build chaos\n\npackage node\nfunc failPoint() bool { return true }",
		}, "without the other"},
		{"chaos apart", "more than functions", hooks("// f: why.\nfunc f(a int) int { return a }\nvar b = 1", "func f(a int) int { return a + 1 }"), "off.go:6: holds more"},
		{"chaos apart", "a hook that the test build lacks", hooks("// f: why.\nfunc f(a int) int { return a }", ""), "f has no counterpart in chaos_on.go"},
		{"chaos apart", "a hook that only the test build has", hooks("", "func f() bool { return true }"), "f has no counterpart in chaos_off.go"},
		{"chaos apart", "a hook that does something", hooks("// f: why.\nfunc f(a int) int { return g(a) }", "func f(a int) int { return a + 1 }"), "off.go:5: f must say"},
		{"chaos apart", "a hook without a reason", hooks("func f() bool { return false }", "func f() bool { return true }"), "off.go:4: f must say"},
		{"chaos apart", "as it should be", hooks("// f: why.\nfunc f(a int) int { return a }\n// g: why.\nfunc g(string) bool { return false }",
			"func f(a int) int { return a + 1 }\nfunc g(string) bool { return true }"), ""},
		{"no sleeping tests", "a wait for luck", one("node/a_test.go", `package node
			import "time"
			func f() { time.Sleep(1) }`), "a_test.go:3: sleeps"},
		{"no sleeping tests", "a bubble, and real processes", map[string]string{
			"node/a_test.go": `package node
				import "time"
				func f() { time.Sleep(1) }`,
			"node/bubble_test.go": `package node
				import "testing/synctest"
				func bubble() { synctest.Test(nil, nil) }`,
			"chaos-tests/a_test.go": `package chaos
				import "time"
				func f() { time.Sleep(1) }`,
		}, ""},
	}
}

func docExamples() []example {
	const generated = "// Code generated by x. DO NOT EDIT.\npackage p\n"
	return []example{
		{"package comments", "none", one("node/a.go", "package node"), "node: has no package comment"},
		{"package comments", "one that says nothing", one("node/a.go", "// Package node.\npackage node"), "node: has no package comment"},
		{"package comments", "in any of its files; none for generated ones", map[string]string{
			"node/a.go":   "package node",
			"node/doc.go": "// Package node turns events into plans, and plans into calls.\npackage node",
			"proto/p.go":  generated,
		}, ""},
		{"doc comments", "a function", one("node/a.go", "package node\nfunc Run() {}"), "a.go:2: Run has no doc comment"},
		{"doc comments", "a method", one("node/a.go", "package node\n// Node is.\ntype Node[T any] struct{}\nfunc (n *Node[T]) Run() {}"), "Run has no doc comment"},
		{"doc comments", "a type in a documented group", one("node/a.go", "package node\n// Types.\ntype (\nNode struct{}\n)"), "Node has no doc comment"},
		{"doc comments", "a constant", one("node/a.go", "package node\nconst Limit = 1"), "Limit has no doc comment"},
		{"doc comments", "what needs none", map[string]string{
			"node/a.go": "package node\n// Limits of a node.\nconst (\nMin = 1\nMax = 2\n)\ntype quiet struct{}\nfunc (quiet) Run() {}\n" +
				"// Node is.\ntype Node struct{}\n",
			"node/a_test.go":        "package node\nfunc TestX() {}",
			"cmd/quorumcron/a.go":   "package main\nfunc Run() {}",
			"proto/quorumcron/p.go": generated + "func Run() {}",
		}, ""},
		{"tests in pages", "one that is gone", one("docs/a.md", "\nsee `TestGone`"), "docs/a.md:2: names the test TestGone"},
		{"tests in pages", "a subtest that is gone", map[string]string{
			"docs/a.md": "`TestAll/it_is_old`", "node/a_test.go": "package node\nfunc TestAll() { run(\"it is new\") }",
		}, "TestAll/it_is_old"},
		{"tests in pages", "those that are there, and a pattern", map[string]string{
			"docs/a.md": "`TestAll/it_is_old`, `TestSA14_…`", "node/a_test.go": "package node\nfunc TestAll() { run(\"it is old\") }",
		}, ""},
		{"lengths", "a file", one("node/a.go", "package node\n"+strings.Repeat("\n", maxFileLines)), "node/a.go: is longer than 500 lines"},
		{"lengths", "a function", one("node/a.go", "package node\nfunc f() {\n"+strings.Repeat("\n", maxFunctionLines-1)+"}"), "f has 81 lines"},
		{"lengths", "the most that is allowed, a test, generated code", map[string]string{
			"node/a.go":      "package node\nfunc f() {\n" + strings.Repeat("\n", maxFunctionLines-2) + "}" + strings.Repeat("\n", 400),
			"node/a_test.go": "package node\n" + strings.Repeat("\n", 2*maxFileLines),
			"proto/p.go":     generated + strings.Repeat("\n", 2*maxFileLines),
		}, ""},
		{"no init", "an init function", one("api/a.go", "package api\nfunc init() {}"), "a.go:2: has an init function"},
		{"no init", "a method of that name, and generated code", map[string]string{
			"api/a.go":   "package api\ntype t struct{}\nfunc (t) init() {}",
			"proto/p.go": generated + "func init() {}",
		}, ""},
		{"no globals in commands", "a flag variable", one("cmd/quorumcron/a.go", "package main\nvar server string"), "a.go:2: a program has no package-level variables"},
		{"no globals in commands", "an embedded file, a stamp, a library", map[string]string{
			"cmd/quorumcron/a.go": "package main\nimport _ \"embed\"\n//go:embed x.yaml\nvar sample []byte\n// Stamped with -ldflags -X.\nvar version string",
			"node/a.go":           "package node\nvar ErrStopping error",
		}, ""},
		{"names", "util", one("internal/util/a.go", "package util"), "internal/util: is named util"},
		{"names", "helpers above", one("helpers/retry/a.go", "package retry"), "is named helpers"},
		{"names", "a name that says something", one("internal/jobfile/a.go", "package jobfile"), ""},
		{"no bare TODO", "nobody's", one("node/a.go", "package node\n// TODO: later\n"), "a.go:2: promises without an issue"},
		{"no bare TODO", "in a test", one("node/a_test.go", "package node\nvar x = 1 // FIXME\n"), "promises without an issue"},
		{"no bare TODO", "with an issue", one("node/a.go", "package node\n// TODO(#12): later\n"), ""},
	}
}

// hooks is a package with the two files of its test build.
func hooks(off, on string) map[string]string {
	return map[string]string{
		"node/chaos_off.go": "//go:build !chaos\n\npackage node\n" + off,
		"node/chaos_on.go":  "//go:build chaos\n\npackage node\n" + on,
	}
}
