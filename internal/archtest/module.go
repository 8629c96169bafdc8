// Package archtest holds the rules of the house that a machine can check, and checks them as plain
// Go tests: who may import whom, what the pure core may not touch, where a client, a context or a
// logger may be made, that everything is documented, and that nothing grows too long.
//
// A rule is data: a name, the reason it exists (printed when it is broken), and a function from the
// parsed module to what breaks it. The package reads source text only. It compiles nothing, so that
// a package that does not build or does not exist yet disturbs no rule about the others. It leaves
// style to gofmt and vet. It starts no goroutines.
package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// modulePath is the path of the module that the rules are about.
const modulePath = "github.com/quorumcron/quorumcron"

// Module is the parsed source of the whole module, whatever build tags its files carry.
type Module struct {
	fset     *token.FileSet
	Packages []*Package        // sorted by Path
	Pages    map[string]string // what is written for people: the text of each .md file, by its path
}

// Package is one folder of Go files. An external test package counts to the folder it lies in.
type Package struct {
	Path  string // from the module's root, with slashes
	Files []*File
}

// File is one parsed Go file.
type File struct {
	Path      string // from the module's root
	Test      bool   // its name ends in _test.go, or it is part of a suite that tests share
	Generated bool   // it says "Code generated … DO NOT EDIT."
	Sabotage  bool   // it is built with the tag sabotage only: no part of the program
	Chaos     bool   // the same, with the tag chaos
	Lines     int
	Syntax    *ast.File
	names     map[string]string // local name of an import → its path
}

// Load parses every Go file below root, and reads every page, except in testdata, hidden folders and other
// modules.
func Load(root string) (*Module, error) {
	sources := map[string]string{}
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return skipFolder(root, name)
		}
		if !strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, ".md") {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, name)
		sources[filepath.ToSlash(relative)] = string(text)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the module at %s: %w", root, err)
	}
	return Parse(sources)
}

// skipFolder returns fs.SkipDir for a folder whose Go files are not packages of the module.
func skipFolder(root, name string) error {
	if name == root {
		return nil
	}
	base := filepath.Base(name)
	if base == "testdata" || base == "node_modules" || base[0] == '.' || base[0] == '_' {
		return fs.SkipDir
	}
	// What .gitignore keeps out of the repository: builds, and what people try.
	if name == filepath.Join(root, "bin") || name == filepath.Join(root, "tmp") {
		return fs.SkipDir
	}
	if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil {
		return fs.SkipDir
	}
	return nil
}

// Parse makes a module of source texts by path. The tests of the rules use it for bad examples.
func Parse(sources map[string]string) (*Module, error) {
	m := &Module{fset: token.NewFileSet(), Pages: map[string]string{}}
	byPath := map[string]*Package{}
	names := make([]string, 0, len(sources))
	for name := range sources {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if strings.HasSuffix(name, ".md") {
			m.Pages[name] = sources[name]
			continue
		}
		file, err := m.parseFile(name, sources[name])
		if err != nil {
			return nil, err
		}
		folder := path.Dir(name)
		if byPath[folder] == nil {
			byPath[folder] = &Package{Path: folder}
			m.Packages = append(m.Packages, byPath[folder])
		}
		byPath[folder].Files = append(byPath[folder].Files, file)
	}
	slices.SortFunc(m.Packages, func(a, b *Package) int { return strings.Compare(a.Path, b.Path) })
	return m, nil
}

func (m *Module) parseFile(name, text string) (*File, error) {
	syntax, err := parser.ParseFile(m.fset, name, text, parser.ParseComments)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", name, err)
	}
	file := &File{
		Path:      name,
		Test:      strings.HasSuffix(name, "_test.go"),
		Generated: ast.IsGenerated(syntax),
		Sabotage:  constrained(syntax, "//go:build sabotage"),
		Chaos:     constrained(syntax, "//go:build chaos"),
		Lines:     strings.Count(text, "\n"),
		Syntax:    syntax,
		names:     map[string]string{},
	}
	for _, spec := range syntax.Imports {
		file.names[importName(spec)] = importPath(spec)
	}
	if suite(syntax.Name.Name) {
		file.Test = file.Test || slices.ContainsFunc(syntax.Imports, func(s *ast.ImportSpec) bool { return importPath(s) == "testing" })
	}
	return file, nil
}

// suite says whether a package's name tells that it is there for tests only, though the tests of
// several packages import it: storetest, or conformance.
func suite(name string) bool { return strings.HasSuffix(name, "test") || name == "conformance" }

// constrained says whether the file begins with the build constraint.
func constrained(syntax *ast.File, constraint string) bool {
	return slices.ContainsFunc(syntax.Comments, func(group *ast.CommentGroup) bool {
		return group.Pos() < syntax.Package && group.List[0].Text == constraint
	})
}

// At renders a position as file:line.
func (m *Module) At(pos token.Pos) string {
	p := m.fset.Position(pos)
	return p.Filename + ":" + strconv.Itoa(p.Line)
}

// Main says whether the package is a program.
func (p *Package) Main() bool { return p.Files[0].Syntax.Name.Name == "main" }

// Code is the package's files that are neither tests nor generated, nor of a test build.
func (p *Package) Code() []*File {
	return slices.DeleteFunc(slices.Clone(p.Files), func(f *File) bool { return f.Test || f.Generated || f.Sabotage || f.Chaos })
}

// Imports is what the package's files import, sorted; those of its tests only if withTests is set, those
// of test builds never.
func (p *Package) Imports(withTests bool) []string {
	var all []string
	for _, f := range p.Files {
		if f.Test && !withTests || f.Sabotage || f.Chaos {
			continue
		}
		for _, spec := range f.Syntax.Imports {
			all = append(all, importPath(spec))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Names returns "path.Name" if n is a selector on an imported package, such as "time.Now"; else "".
func (f *File) Names(n ast.Node) string {
	selector, ok := n.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	// The parser resolves what the file declares: an identifier with an object is a variable that
	// hides the import.
	ident, ok := selector.X.(*ast.Ident)
	if !ok || ident.Obj != nil || f.names[ident.Name] == "" {
		return ""
	}
	return f.names[ident.Name] + "." + selector.Sel.Name
}

func importPath(spec *ast.ImportSpec) string {
	p, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		return spec.Path.Value // The parser has accepted it as a string literal.
	}
	return p
}

// importName is the name an import has in its file. For one without a name of its own it is guessed
// from the path as Go's tools do: the last element that is not a major version.
func importName(spec *ast.ImportSpec) string {
	if spec.Name != nil {
		return spec.Name.Name
	}
	p := importPath(spec)
	if p == etcdClient {
		return "clientv3"
	}
	base := path.Base(p)
	if len(base) > 1 && base[0] == 'v' && strings.Trim(base[1:], "0123456789") == "" {
		base = path.Base(path.Dir(p))
	}
	return base
}

// within says whether the path is the folder or lies below it.
func within(p, folder string) bool { return p == folder || strings.HasPrefix(p, folder+"/") }

// own returns the path of an import from the module's root, if it is a package of the module.
func own(importPath string) (string, bool) {
	return strings.CutPrefix(importPath, modulePath+"/")
}

// standard says whether an import is of the standard library: its first element has no dot.
func standard(importPath string) bool {
	first, _, _ := strings.Cut(importPath, "/")
	return !strings.Contains(first, ".")
}
