package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Limits of the lengths rule, in lines.
const (
	maxFileLines     = 500
	maxFunctionLines = 80
)

func checkPackageComments(m *Module) []Breach {
	var found []Breach
	for _, p := range m.Packages {
		written := slices.DeleteFunc(slices.Clone(p.Files), func(f *File) bool { return f.Generated })
		if len(written) == 0 {
			continue
		}
		if !slices.ContainsFunc(written, func(f *File) bool { return f.Syntax.Doc != nil && len(f.Syntax.Doc.Text()) > 40 }) {
			found = append(found, Breach{p.Path, "has no package comment: say its purpose, what it guarantees and what it leaves to others"})
		}
	}
	return found
}

func checkDocComments(m *Module) []Breach {
	var found []Breach
	for _, p := range m.Packages {
		if p.Main() {
			continue
		}
		for _, f := range p.Code() {
			for _, decl := range f.Syntax.Decls {
				for _, name := range undocumented(decl) {
					found = append(found, m.breach(name.Pos(), "%s has no doc comment", name.Name))
				}
			}
		}
	}
	return found
}

// undocumented returns the exported names of a declaration that no comment documents. A comment on
// a group covers the constants and variables in it, not the types.
func undocumented(decl ast.Decl) []*ast.Ident {
	var bare []*ast.Ident
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && d.Doc == nil && exportedReceiver(d) {
			bare = append(bare, d.Name)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() && s.Doc == nil && (d.Doc == nil || d.Lparen.IsValid()) {
					bare = append(bare, s.Name)
				}
			case *ast.ValueSpec:
				if s.Doc == nil && s.Comment == nil && d.Doc == nil {
					bare = append(bare, slices.DeleteFunc(slices.Clone(s.Names), func(n *ast.Ident) bool { return !n.IsExported() })...)
				}
			}
		}
	}
	return bare
}

// namedTest is a test as a page names it, with the path of a subtest. A name that goes on with … is a
// pattern, and ends in an underscore here.
var namedTest = regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark|Example)[A-Z]\w*(?:/\w+)*`)

// checkNamedTests looks for each test that a page names: its function, and for a subtest the text that
// names it, where the test framework has written underscores for spaces.
func checkNamedTests(m *Module) []Breach {
	functions, texts := map[string]bool{}, map[string]bool{}
	m.all(func(_ *Package, _ *File, n ast.Node) {
		switch n := n.(type) {
		case *ast.FuncDecl:
			functions[n.Name.Name] = true
		case *ast.BasicLit:
			if n.Kind == token.STRING {
				texts[strings.ReplaceAll(strings.Trim(n.Value, "`\""), " ", "_")] = true
			}
		}
	})
	var found []Breach
	for _, page := range slices.Sorted(maps.Keys(m.Pages)) {
		for i, line := range strings.Split(m.Pages[page], "\n") {
			for _, name := range namedTest.FindAllString(line, -1) {
				parts := strings.Split(name, "/")
				known := functions[parts[0]] || strings.HasSuffix(name, "_")
				for _, sub := range parts[1:] {
					known = known && texts[sub]
				}
				if !known {
					found = append(found, Breach{fmt.Sprintf("%s:%d", page, i+1), "names the test " + name + ", which is not there"})
				}
			}
		}
	}
	return found
}

// exportedReceiver says whether a function is no method, or one of an exported type.
func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return true
	}
	exported := false
	ast.Inspect(d.Recv.List[0].Type, func(n ast.Node) bool {
		if ident, ok := n.(*ast.Ident); ok {
			exported = exported || ident.IsExported()
			return false
		}
		return true
	})
	return exported
}

func checkLengths(m *Module) []Breach {
	var found []Breach
	for _, p := range m.Packages {
		for _, f := range p.Code() {
			if f.Lines > maxFileLines {
				found = append(found, Breach{f.Path, "is longer than 500 lines: split it by what it holds"})
			}
			for _, decl := range f.Syntax.Decls {
				fn, ok := decl.(*ast.FuncDecl)
				if !ok {
					continue
				}
				lines := m.fset.Position(fn.End()).Line - m.fset.Position(fn.Pos()).Line + 1
				if lines > maxFunctionLines {
					found = append(found, m.breach(fn.Pos(), "%s has %d lines, more than 80", fn.Name.Name, lines))
				}
			}
		}
	}
	return found
}

func checkInit(m *Module) []Breach {
	var found []Breach
	m.all(func(_ *Package, _ *File, n ast.Node) {
		if fn, ok := n.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
			found = append(found, m.breach(fn.Pos(), "has an init function: make it part of a constructor"))
		}
	})
	return found
}

// checkCommandGlobals allows embedded files and what the linker stamps; both are constants in effect.
func checkCommandGlobals(m *Module) []Breach {
	var found []Breach
	for _, p := range m.Packages {
		if !p.Main() {
			continue
		}
		for _, f := range p.Code() {
			for _, decl := range f.Syntax.Decls {
				d, ok := decl.(*ast.GenDecl)
				if !ok || d.Tok.String() != "var" || saysConstant(d) {
					continue
				}
				found = append(found, m.breach(d.Pos(), "a program has no package-level variables but //go:embed and what -ldflags stamps"))
			}
		}
	}
	return found
}

// saysConstant reads the raw comments: Text leaves directives out.
func saysConstant(d *ast.GenDecl) bool {
	if d.Doc == nil {
		return false
	}
	return slices.ContainsFunc(d.Doc.List, func(c *ast.Comment) bool {
		return strings.HasPrefix(c.Text, "//go:embed ") || strings.Contains(c.Text, "-ldflags")
	})
}

// ownerless are names of packages that say nothing about what is in them.
var ownerless = []string{"util", "utils", "common", "helper", "helpers", "types", "models", "misc", "shared", "base"}

func checkNames(m *Module) []Breach {
	var found []Breach
	for _, p := range m.Packages {
		for _, element := range strings.Split(p.Path, "/") {
			if slices.Contains(ownerless, element) {
				found = append(found, Breach{p.Path, "is named " + element + ": put the code next to its only caller, or name it after what it does"})
			}
		}
	}
	return found
}

var (
	promise = regexp.MustCompile(`\b(TODO|FIXME|XXX|HACK)\b`)
	filed   = regexp.MustCompile(`\bTODO\(#\d+\): `)
)

func checkTodo(m *Module) []Breach {
	var found []Breach
	for _, p := range m.Packages {
		for _, f := range p.Files {
			if f.Generated || p.Path == "internal/archtest" {
				continue // The rule's own text and examples name the words.
			}
			for _, group := range f.Syntax.Comments {
				for _, c := range group.List {
					if promise.MatchString(c.Text) && !filed.MatchString(c.Text) {
						found = append(found, m.breach(c.Pos(), "promises without an issue: write TODO(#123): …, or do it"))
					}
				}
			}
		}
	}
	return found
}
