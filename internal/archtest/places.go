package archtest

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// checkOneDialer covers tests too: a test that dials for itself proves nothing about our clients.
func checkOneDialer(m *Module) []Breach {
	var found []Breach
	dialers := []string{etcdClient + ".New", etcdClient + ".NewFromURL", etcdClient + ".NewFromURLs"}
	for _, p := range m.Packages {
		for _, f := range p.Files {
			for _, decl := range f.Syntax.Decls {
				fn, ok := decl.(*ast.FuncDecl)
				inDial := ok && p.Path == "election" && fn.Recv == nil && fn.Name.Name == "Dial"
				ast.Inspect(decl, func(n ast.Node) bool {
					if n == nil {
						return false
					}
					name := f.Names(n)
					if slices.Contains(dialers, name) && !inDial {
						found = append(found, m.breach(n.Pos(), "uses %s: clients are made by election.Dial", name))
					}
					if name == etcdClient+".NewCtxClient" && p.Path != "internal/memetcd" && p.Path != "election" {
						found = append(found, m.breach(n.Pos(), "uses %s: clients are made by election and internal/memetcd", name))
					}
					return true
				})
			}
		}
	}
	return found
}

func checkZones(m *Module) []Breach {
	var found []Breach
	m.all(func(_ *Package, f *File, n ast.Node) {
		if f.Names(n) == "time.LoadLocation" {
			found = append(found, m.breach(n.Pos(), "uses time.LoadLocation: use scheduler/cron.LoadZone"))
		}
	})
	return found
}

func checkContexts(m *Module) []Breach {
	var found []Breach
	m.code(func(p *Package, f *File, n ast.Node) {
		if p.Main() {
			return
		}
		switch name := f.Names(n); name {
		case "context.Background", "context.TODO":
			found = append(found, m.breach(n.Pos(), "uses %s: take the context as the first parameter", name))
		case "context.WithoutCancel":
			if !m.commented(f, n.Pos()) {
				found = append(found, m.breach(n.Pos(), "outlives its caller without a comment on the line, or just above, that says why"))
			}
		}
	})
	return found
}

// commented says whether a comment stands on the line of pos, or ends on one of the two above it.
func (m *Module) commented(f *File, pos token.Pos) bool {
	line := m.fset.Position(pos).Line
	return slices.ContainsFunc(f.Syntax.Comments, func(c *ast.CommentGroup) bool {
		start, end := m.fset.Position(c.Pos()).Line, m.fset.Position(c.End()).Line
		return start <= line && end >= line-2
	})
}

// slogPackage are the functions of log/slog that use the process-wide logger.
var slogPackage = []string{"Debug", "DebugContext", "Info", "InfoContext", "Warn", "WarnContext", "Error", "ErrorContext",
	"Log", "LogAttrs", "With", "Default", "SetDefault", "SetLogLoggerLevel"}

func checkLogging(m *Module) []Breach {
	var found []Breach
	m.code(func(p *Package, f *File, n ast.Node) {
		if p.Main() {
			return
		}
		name := f.Names(n)
		short, isSlog := strings.CutPrefix(name, "log/slog.")
		if isSlog && slices.Contains(slogPackage, short) {
			found = append(found, m.breach(n.Pos(), "uses slog.%s: use the logger of Config", short))
		}
		if hasPackage(name, "log") {
			found = append(found, m.breach(n.Pos(), "uses %s: use the *slog.Logger of Config", name))
		}
	})
	return found
}

func checkCompares(m *Module) []Breach {
	var found []Breach
	for _, p := range m.Packages {
		for _, f := range p.Code() {
			for _, decl := range f.Syntax.Decls {
				for _, exported := range exportedTypes(decl) {
					ast.Inspect(exported, func(n ast.Node) bool {
						if n != nil && f.Names(n) == etcdClient+".Cmp" {
							found = append(found, m.breach(n.Pos(), "lets a clientv3.Cmp out of the package: hand out a scheduler.Guard or Lock"))
						}
						return true
					})
				}
			}
		}
	}
	return found
}

// exportedTypes returns the parts of a declaration that other packages can see a type in.
func exportedTypes(decl ast.Decl) []ast.Node {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() {
			return []ast.Node{d.Type}
		}
	case *ast.GenDecl:
		var seen []ast.Node
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() {
					seen = append(seen, visibleType(s.Type)...)
				}
			case *ast.ValueSpec:
				if s.Type != nil && slices.ContainsFunc(s.Names, (*ast.Ident).IsExported) {
					seen = append(seen, s.Type)
				}
			}
		}
		return seen
	}
	return nil
}

// visibleType is a type, or for a struct the types of its exported fields.
func visibleType(t ast.Expr) []ast.Node {
	structure, ok := t.(*ast.StructType)
	if !ok {
		return []ast.Node{t}
	}
	var seen []ast.Node
	for _, field := range structure.Fields.List {
		if len(field.Names) == 0 || slices.ContainsFunc(field.Names, (*ast.Ident).IsExported) {
			seen = append(seen, field.Type)
		}
	}
	return seen
}

// sleepFolders are where tests wait in real time because they judge real processes.
var sleepFolders = []string{"chaos-tests"}

// checkSleep sees where time is real by package: helpers that open a bubble for a test stand in
// another file than the test.
func checkSleep(m *Module) []Breach {
	var found []Breach
	m.all(func(p *Package, f *File, n ast.Node) {
		if !f.Test || f.Names(n) != "time.Sleep" || slices.Contains(sleepFolders, p.Path) {
			return
		}
		if !slices.Contains(p.Imports(true), "testing/synctest") {
			found = append(found, m.breach(n.Pos(), "sleeps, and no test here uses testing/synctest: wait for an event"))
		}
	})
	return found
}
