package archtest

import (
	"go/ast"
	"slices"
)

// pureImports is the part of the standard library that holds values only: what scheduler and all
// below it may import. A list of what is allowed, because the list of what is not has no end.
var pureImports = []string{
	"bytes", "cmp", "container/heap", "crypto/sha256", "encoding/base32", "encoding/binary", "encoding/hex", "errors",
	"fmt", "hash/crc32", "hash/fnv", "iter", "maps", "math", "math/bits", "slices", "sort", "strconv", "strings", "time",
	"unicode", "unicode/utf8",
}

// pureExtras are what one of the core's packages may import beyond pureImports.
var pureExtras = map[string][]string{
	// The zone archive is embedded, unpacked, and each zone kept once it is parsed.
	"scheduler/cron": {"archive/zip", "embed", "io", "path", "sync"},
	// Random worlds, from an explicit seed: see randomness below.
	"scheduler/sim": {"io", "math/rand/v2"},
}

// clockCalls read a clock or wait on it.
var clockCalls = []string{
	"time.Now", "time.Since", "time.Until", "time.After", "time.AfterFunc", "time.Sleep", "time.Tick", "time.NewTimer", "time.NewTicker",
}

// seeded are the names of math/rand/v2 that take their randomness from a seed.
var seeded = []string{"math/rand/v2.New", "math/rand/v2.NewPCG", "math/rand/v2.NewChaCha8", "math/rand/v2.Rand",
	"math/rand/v2.PCG", "math/rand/v2.ChaCha8", "math/rand/v2.Source", "math/rand/v2.NewZipf", "math/rand/v2.Zipf"}

func pure(p *Package) bool { return within(p.Path, "scheduler") }

func checkPureImports(m *Module) []Breach {
	var found []Breach
	for _, p := range m.Packages {
		if !pure(p) {
			continue
		}
		for _, imported := range p.Imports(false) {
			if standard(imported) && !slices.Contains(pureImports, imported) && !slices.Contains(pureExtras[p.Path], imported) {
				found = append(found, Breach{p.Path, "imports " + imported + ", which is not one of the value packages it may use"})
			}
		}
	}
	return found
}

func checkPureCalls(m *Module) []Breach {
	var found []Breach
	m.code(func(p *Package, f *File, n ast.Node) {
		if !pure(p) {
			return
		}
		switch n := n.(type) {
		case *ast.GoStmt:
			found = append(found, m.breach(n.Pos(), "starts a goroutine"))
		case *ast.SelectStmt:
			found = append(found, m.breach(n.Pos(), "waits on channels"))
		case *ast.ChanType:
			found = append(found, m.breach(n.Pos(), "uses a channel"))
		}
		name := f.Names(n)
		switch {
		case slices.Contains(clockCalls, name):
			found = append(found, m.breach(n.Pos(), "uses %s: take the instant as a parameter", name))
		case name == "fmt.Print" || name == "fmt.Println" || name == "fmt.Printf":
			found = append(found, m.breach(n.Pos(), "uses %s: return the text", name))
		case within(name, "math/rand/v2") || hasPackage(name, "math/rand/v2"):
			if !slices.Contains(seeded, name) {
				found = append(found, m.breach(n.Pos(), "uses %s, which has no seed: draw from a rand.New(rand.NewPCG(seed, …))", name))
			}
		}
	})
	return found
}

// hasPackage says whether a name that Names returned is of the package.
func hasPackage(name, pkg string) bool {
	return len(name) > len(pkg) && name[:len(pkg)] == pkg && name[len(pkg)] == '.'
}

// clockFreeFolders are where the real clock is not read, but for the default clock in election.
var clockFreeFolders = []string{"election", "store", "executor", "node"}

func checkOneClock(m *Module) []Breach {
	var found []Breach
	for _, p := range m.Packages {
		if !slices.ContainsFunc(clockFreeFolders, func(folder string) bool { return within(p.Path, folder) }) {
			continue
		}
		for _, f := range p.Code() {
			for _, decl := range f.Syntax.Decls {
				if fn, ok := decl.(*ast.FuncDecl); ok && p.Path == "election" && fn.Name.Name == "BootClock" {
					continue
				}
				ast.Inspect(decl, func(n ast.Node) bool {
					switch name := f.Names(n); name {
					case "time.Now", "time.Since", "time.Until":
						found = append(found, m.breach(n.Pos(), "uses %s: read Config.Clock once per turn", name))
					}
					return true
				})
			}
		}
	}
	return found
}
