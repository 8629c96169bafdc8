package archtest

import (
	"go/ast"
	"go/token"
	"maps"
	"path"
	"slices"
)

// The pair of files in which a package says where chaos-tests reach into it: functions that do nothing,
// and the same ones of the test build.
const (
	chaosOff = "chaos_off.go"
	chaosOn  = "chaos_on.go"
)

func checkChaos(m *Module) []Breach {
	var found []Breach
	for _, p := range m.Packages {
		if p.Path != "internal/chaos" && slices.Contains(p.Imports(false), modulePath+"/internal/chaos") {
			found = append(found, Breach{p.Path, "imports internal/chaos; only files with the tag chaos do"})
		}
		var on, off *File
		for _, f := range p.Files {
			switch base := path.Base(f.Path); {
			case base == chaosOff && constrained(f.Syntax, "//go:build !chaos"):
				off = f
			case f.Chaos && base == chaosOn:
				on = f
			case f.Chaos:
				found = append(found, Breach{f.Path, "has the tag chaos, which only a " + chaosOn + " has"})
			}
		}
		if on != nil || off != nil {
			found = append(found, m.checkHooks(p, on, off)...)
		}
	}
	return found
}

// checkHooks holds the two files of a package against each other.
func (m *Module) checkHooks(p *Package, on, off *File) []Breach {
	if on == nil || off == nil {
		return []Breach{{p.Path, "has " + chaosOff + " or " + chaosOn + " without the other, or without its build tag"}}
	}
	found := m.onlyFunctions(on)
	found = append(found, m.onlyFunctions(off)...)
	tested := functions(on)
	for name, f := range functions(off) {
		if tested[name] == nil {
			found = append(found, m.breach(f.Pos(), "%s has no counterpart in %s", name, chaosOn))
		}
		delete(tested, name)
		if f.Doc == nil || !handsBack(f) {
			found = append(found, m.breach(f.Pos(), "%s must say what it stands for, and only return false or what it was given", name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(tested)) {
		found = append(found, m.breach(tested[name].Pos(), "%s has no counterpart in %s", name, chaosOff))
	}
	return found
}

func (m *Module) onlyFunctions(f *File) []Breach {
	var found []Breach
	for _, decl := range f.Syntax.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			continue
		case *ast.GenDecl:
			if d.Tok == token.IMPORT {
				continue
			}
		}
		found = append(found, m.breach(decl.Pos(), "holds more than functions: the test build is the program with hooks"))
	}
	return found
}

func functions(f *File) map[string]*ast.FuncDecl {
	all := map[string]*ast.FuncDecl{}
	for _, decl := range f.Syntax.Decls {
		if d, ok := decl.(*ast.FuncDecl); ok {
			all[d.Name.Name] = d
		}
	}
	return all
}

// handsBack says whether a function is one return, of false or of a parameter.
func handsBack(f *ast.FuncDecl) bool {
	if len(f.Body.List) != 1 {
		return false
	}
	back, ok := f.Body.List[0].(*ast.ReturnStmt)
	if !ok || len(back.Results) != 1 {
		return false
	}
	value, ok := back.Results[0].(*ast.Ident)
	return ok && (value.Name == "false" || slices.ContainsFunc(f.Type.Params.List, func(field *ast.Field) bool {
		return slices.ContainsFunc(field.Names, func(n *ast.Ident) bool { return n.Name == value.Name })
	}))
}
