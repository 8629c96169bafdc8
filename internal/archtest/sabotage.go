package archtest

import (
	"go/ast"
	"go/token"
	"maps"
	"path"
	"slices"
)

// The pair of files in which a package says what it can go without in a test build: the constants of
// every other build, and the variables of that one.
const (
	sabotageOff = "sabotage_off.go"
	sabotageOn  = "sabotage_on.go"
)

// sabotageUsers may import internal/sabotage outside of files with its tag.
var sabotageUsers = []string{"internal/sabotage", "chaos-tests/sabotage"}

func checkSabotage(m *Module) []Breach {
	var found []Breach
	for _, p := range m.Packages {
		if slices.Contains(p.Imports(false), modulePath+"/internal/sabotage") && !slices.Contains(sabotageUsers, p.Path) {
			found = append(found, Breach{p.Path, "imports internal/sabotage; only files with the tag sabotage do"})
		}
		var on, off *File
		for _, f := range p.Files {
			switch base := path.Base(f.Path); {
			case base == sabotageOff && constrained(f.Syntax, "//go:build !sabotage"):
				off = f
			case f.Sabotage && base == sabotageOn:
				on = f
			case f.Sabotage:
				found = append(found, Breach{f.Path, "has the tag sabotage, which only a " + sabotageOn + " has"})
			}
		}
		if on != nil {
			found = append(found, m.checkPair(p, on, off)...)
		}
	}
	return found
}

// checkPair holds the two files of a package against each other, and against the code that asks.
func (m *Module) checkPair(p *Package, on, off *File) []Breach {
	var found []Breach
	constants := map[string]*ast.ValueSpec{}
	if off != nil {
		for _, spec := range values(off, token.CONST) {
			constants[spec.Names[0].Name] = spec
		}
	}
	for _, decl := range on.Syntax.Decls {
		if d, ok := decl.(*ast.GenDecl); !ok || d.Tok != token.VAR && d.Tok != token.IMPORT {
			found = append(found, m.breach(decl.Pos(), "holds more than variables: the sabotaged build is the program with a condition less"))
		}
	}
	for _, spec := range values(on, token.VAR) {
		name := spec.Names[0].Name
		constant := constants[name]
		delete(constants, name)
		switch {
		case constant == nil:
			found = append(found, m.breach(spec.Pos(), "%s has no counterpart in %s", name, sabotageOff))
		case !falseWithReason(off, constant):
			found = append(found, m.breach(constant.Pos(), "%s is not false with a reason: say which accident it would let happen", name))
		case !asked(p, name):
			found = append(found, m.breach(constant.Pos(), "nothing asks for %s", name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(constants)) {
		found = append(found, m.breach(constants[name].Pos(), "%s has no counterpart in %s", name, sabotageOn))
	}
	return found
}

// values are the single constants or variables of a file.
func values(f *File, tok token.Token) []*ast.ValueSpec {
	var list []*ast.ValueSpec
	for _, decl := range f.Syntax.Decls {
		d, ok := decl.(*ast.GenDecl)
		if !ok || d.Tok != tok {
			continue
		}
		for _, spec := range d.Specs {
			list = append(list, spec.(*ast.ValueSpec))
		}
	}
	return list
}

func falseWithReason(f *File, spec *ast.ValueSpec) bool {
	documented := spec.Doc != nil
	for _, decl := range f.Syntax.Decls {
		d, ok := decl.(*ast.GenDecl)
		documented = documented || ok && !d.Lparen.IsValid() && d.Doc != nil && d.Specs[0] == ast.Spec(spec)
	}
	if !documented || len(spec.Values) != 1 {
		return false
	}
	value, ok := spec.Values[0].(*ast.Ident)
	return ok && value.Name == "false"
}

// asked says whether the package's code has a condition on the constant.
func asked(p *Package, name string) bool {
	return slices.ContainsFunc(p.Code(), func(f *File) bool {
		if path.Base(f.Path) == sabotageOff {
			return false
		}
		used := false
		ast.Inspect(f.Syntax, func(n ast.Node) bool {
			ident, ok := n.(*ast.Ident)
			used = used || ok && ident.Name == name
			return !used
		})
		return used
	})
}
