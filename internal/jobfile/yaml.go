package jobfile

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// This file is the only one that knows the YAML library.

// parseYAML makes a tree of a document.
func (p *piece) parseYAML() (root *node, problem *Problem) {
	defer func() {
		// The library panics on some texts that are no YAML. They must not hide the other documents.
		if r := recover(); r != nil {
			root, problem = nil, p.problem(position{p.line, 1}, "the YAML parser cannot read this document", "check its quotes and indentation")
		}
	}()
	tokens := lexer.Tokenize(strings.Join(p.lines, "\n") + "\n")
	if deep := tooDeep(tokens); deep != nil {
		return nil, p.problem(p.at(deep.Position), "values are nested too deeply", "is this a job file?")
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, p.syntaxProblem(err)
	}
	t := &yamlTree{piece: p, anchors: map[string]*node{}}
	for _, doc := range file.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.DirectiveType {
			continue
		}
		if root != nil {
			return nil, p.problem(p.at(doc.Body.GetToken().Position), "a second document begins here", "separate documents by a line ---")
		}
		if root = t.convert(doc.Body); t.problem != nil {
			return nil, t.problem
		}
	}
	return root, nil
}

// at turns a position in the piece into one in the whole text.
func (p *piece) at(pos *token.Position) position {
	if pos == nil {
		return position{p.line, 1}
	}
	return position{line: p.line + pos.Line - 1, column: pos.Column}
}

// tooDeep returns the token at which nesting passes the limit. It is asked before parsing, because
// the parser's time grows with the square of the depth, and its stack with the depth.
func tooDeep(tokens token.Tokens) *token.Token {
	flow, onLine, line := 0, 0, 0
	for _, t := range tokens {
		if t.Position != nil && t.Position.Line != line {
			line, onLine = t.Position.Line, 0
		}
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			flow++
		case token.SequenceEndType, token.MappingEndType:
			flow--
		case token.SequenceEntryType, token.MappingKeyType, token.AnchorType, token.TagType:
			onLine++
		}
		// Block nesting costs a column for each level, and lines: the column bounds it.
		if flow > maxDepth || onLine > maxDepth || t.Type == token.MappingValueType && flow == 0 && t.Position.IndentNum > 8*maxDepth {
			return t
		}
	}
	return nil
}

// syntaxProblem is the library's error in the place where it says, with a remedy for the traps that
// job files fall into.
func (p *piece) syntaxProblem(err error) *Problem {
	var wrong yaml.Error
	pos, message := position{p.line, 1}, err.Error()
	if errors.As(err, &wrong) {
		message = wrong.GetMessage()
		if t := wrong.GetToken(); t != nil {
			pos = p.at(t.Position)
		}
	}
	index := min(max(pos.line-p.line, 0), len(p.lines)-1)
	pos.line = p.line + index
	line := p.lines[index]
	remedy := ""
	switch star := starValue(line); {
	case strings.Contains(message, "tab character") || strings.Contains(message, `'\t'`) || strings.Contains(message, "'\t'"):
		message, remedy = "a tab is used for indentation", "YAML indents with spaces"
		pos.column = utf8.RuneCountInString(line[:strings.IndexByte(line+"\t", '\t')]) + 1
	case star > 0:
		pos.column = star
		message, remedy = "a value that begins with * is a reference in YAML", `put it in quotes, such as "*/5 * * * *"`
	case strings.Contains(message, "reserved character"):
		remedy = `put the value in quotes, such as "@daily"`
	case strings.Contains(message, "mapping value is not allowed"):
		remedy = "put a value with a colon in quotes, or begin a new line"
	}
	return p.problem(pos, message, remedy)
}

// starValue returns the column of a value that begins with an unquoted star and is no plain alias, as
// cron expressions do; 0 if the line has none.
func starValue(line string) int {
	for _, before := range []string{": *", "- *", "[*", ", *"} {
		at := strings.Index(line, before)
		if at < 0 {
			continue
		}
		at += len(before) - 1
		name, _, spaced := strings.Cut(strings.TrimRight(line[at+1:], " ]"), " ")
		if spaced || name == "" || strings.ContainsAny(name, "/,-*") {
			return utf8.RuneCountInString(line[:at]) + 1
		}
	}
	return 0
}

// yamlTree converts the library's tree to ours: aliases and merges resolved, everything counted.
type yamlTree struct {
	piece   *piece
	anchors map[string]*node
	made    int // entries and items made, what merges copy included
	problem *Problem
}

func (t *yamlTree) fail(n ast.Node, problem, remedy string) *node {
	if t.problem == nil {
		t.problem = t.piece.problem(t.pos(n), problem, remedy)
	}
	return &node{pos: t.pos(n)}
}

func (t *yamlTree) pos(n ast.Node) position { return t.piece.at(n.GetToken().Position) }

// count bounds what merges and the text itself can make.
func (t *yamlTree) count(n ast.Node) bool {
	if t.made++; t.made > maxValues {
		t.fail(n, fmt.Sprintf("the document has more than %d values", maxValues), "is this a job file?")
	}
	return t.problem == nil
}

func (t *yamlTree) convert(n ast.Node) *node {
	if !t.count(n) {
		return &node{}
	}
	out := &node{pos: t.pos(n), text: n.GetToken().Value}
	switch n := n.(type) {
	case *ast.NullNode:
		out.kind, out.text = null, ""
	case *ast.BoolNode:
		out.kind = boolean
	case *ast.IntegerNode:
		out.kind = integer
	case *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		out.kind = float
	case *ast.StringNode:
		out.kind, out.text = str, n.Value
	case *ast.LiteralNode:
		out.kind, out.text = str, n.Value.Value
	case *ast.SequenceNode:
		out.kind, out.text = list, ""
		for _, item := range n.Values {
			out.items = append(out.items, t.convert(item))
		}
	case *ast.MappingNode:
		t.mapping(out, n.Values)
	case *ast.MappingValueNode:
		t.mapping(out, []*ast.MappingValueNode{n})
	case *ast.AnchorNode:
		out = t.convert(n.Value)
		t.anchors[n.Name.GetToken().Value] = out
	case *ast.AliasNode:
		return t.alias(n)
	case *ast.TagNode:
		return t.tagged(n)
	case *ast.MappingKeyNode:
		return t.convert(n.Value)
	default:
		return t.fail(n, "this form of YAML has no meaning in a job file", "")
	}
	return out
}

func (t *yamlTree) alias(n *ast.AliasNode) *node {
	name := n.Value.GetToken().Value
	if known := t.anchors[name]; known != nil {
		return known
	}
	return t.fail(n, fmt.Sprintf("there is no anchor &%s above", name), `put a value that begins with * in quotes, such as "*/5 * * * *"`)
}

// tagged takes !!str as what it says; no other tag has a use in a job file.
func (t *yamlTree) tagged(n *ast.TagNode) *node {
	if tag := n.GetToken().Value; tag != "!!str" {
		return t.fail(n, fmt.Sprintf("the tag %s has no meaning in a job file", tag), "leave it out")
	}
	value := t.convert(n.Value)
	if value.kind == mapping || value.kind == list {
		return t.fail(n, "a tag !!str stands before something that is no string", "leave it out")
	}
	return &node{kind: str, pos: value.pos, text: value.text}
}

// mapping adds the entries of a mapping, then those that merge keys add where the mapping is silent.
func (t *yamlTree) mapping(out *node, values []*ast.MappingValueNode) {
	out.kind, out.text = mapping, ""
	if len(values) > 0 && out.pos.column > t.pos(values[0].Key).column && out.pos.line == t.pos(values[0].Key).line {
		out.pos = t.pos(values[0].Key) // The library names the colon of the first key.
	}
	var merges []*ast.MappingValueNode
	for _, v := range values {
		if t.problem != nil {
			return
		}
		if v.Key.Type() == ast.MergeKeyType {
			merges = append(merges, v)
			continue
		}
		out.entries = append(out.entries, entry{t.convert(v.Key), t.convert(v.Value)})
	}
	if len(merges) == 0 {
		return
	}
	has := map[string]bool{}
	for _, e := range out.entries {
		has[e.key.text] = true
	}
	for _, m := range merges {
		source := t.convert(m.Value)
		sources := []*node{source}
		if source.kind == list {
			sources = source.items
		}
		for _, s := range sources {
			if s.kind != mapping {
				t.fail(m.Value, "<< merges a mapping, or a list of mappings", "")
				return
			}
			t.merge(out, s, has, m)
		}
	}
}

func (t *yamlTree) merge(out, from *node, has map[string]bool, at ast.Node) {
	for _, e := range from.entries {
		if has[e.key.text] {
			continue
		}
		if !t.count(at) {
			return
		}
		has[e.key.text] = true
		out.entries = append(out.entries, e)
	}
}
