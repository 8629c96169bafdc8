package jobfile

import (
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// splitJSON cuts a text of JSON values that follow each other into documents; ok is false if the text
// is to be read as YAML. A file named .json is JSON, right or wrong; any other is if it looks so and
// parses.
func (t *text) splitJSON() (pieces []*piece, problem *Problem, ok bool) {
	if !t.json && !t.beginsWithBrace() {
		return nil, nil, false
	}
	joined := t.join()
	decoder := json.NewDecoder(strings.NewReader(joined))
	begin := 0
	for {
		var raw json.RawMessage
		err := decoder.Decode(&raw)
		switch {
		case errors.Is(err, io.EOF):
			return pieces, nil, true
		case err != nil && !t.json:
			return nil, nil, false
		case err != nil:
			return nil, t.jsonProblem(len(joined), err), true
		}
		end := int(decoder.InputOffset())
		pieces = append(pieces, &piece{text: t, json: true, begin: begin, lines: []string{joined[begin:end]}})
		begin = end
	}
}

func (t *text) beginsWithBrace() bool {
	for _, line := range t.lines {
		if line = strings.TrimSpace(line); line != "" {
			return line[0] == '{'
		}
	}
	return false
}

// join makes one string of the lines, and notes where each begins in it.
func (t *text) join() string {
	t.starts = make([]int, len(t.lines))
	at := 0
	for i, line := range t.lines {
		t.starts[i] = at
		at += len(line) + 1
	}
	return strings.Join(t.lines, "\n")
}

// place finds line and column of a byte of the joined text.
func (t *text) place(offset int) position {
	line, exact := slices.BinarySearch(t.starts, offset)
	if !exact {
		line--
	}
	within := min(offset-t.starts[line], len(t.lines[line]))
	return position{line: line + 1, column: utf8.RuneCountInString(t.lines[line][:within]) + 1}
}

func (t *text) jsonProblem(size int, err error) *Problem {
	pos, message := t.place(size), err.Error()
	var syntax *json.SyntaxError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		message = "the JSON text ends too early"
	case errors.As(err, &syntax):
		pos = t.place(min(max(int(syntax.Offset)-1, 0), size))
	}
	return &Problem{Source: t.name, Line: pos.line, Column: pos.column, Problem: message, excerpt: t.excerpt(pos)}
}

// parseJSON makes a tree of a piece that is known to be one JSON value.
func (p *piece) parseJSON() (*node, *Problem) {
	raw := p.lines[0]
	if len(raw) > maxDocument {
		return nil, p.problem(p.text.place(p.begin), "a document has at most 1 MiB", "is this a job file?")
	}
	b := &jsonTree{piece: p, raw: raw, decoder: json.NewDecoder(strings.NewReader(raw))}
	b.decoder.UseNumber()
	return b.value(0)
}

// jsonTree builds a tree token by token, because only tokens tell where they are.
type jsonTree struct {
	piece   *piece
	raw     string
	decoder *json.Decoder
}

// next returns a token and where it begins.
func (b *jsonTree) next() (json.Token, position, *Problem) {
	at := int(b.decoder.InputOffset())
	at += len(b.raw[at:]) - len(strings.TrimLeft(b.raw[at:], " \t\r\n,:"))
	token, err := b.decoder.Token()
	pos := b.piece.text.place(b.piece.begin + at)
	if err != nil {
		return nil, pos, b.piece.problem(pos, err.Error(), "")
	}
	return token, pos, nil
}

func (b *jsonTree) value(depth int) (*node, *Problem) {
	token, pos, problem := b.next()
	if problem != nil {
		return nil, problem
	}
	if depth > maxDepth {
		return nil, b.piece.problem(pos, "values are nested too deeply", "is this a job file?")
	}
	n := &node{pos: pos}
	switch token := token.(type) {
	case nil:
		n.kind = null
	case bool:
		n.kind, n.text = boolean, "false"
		if token {
			n.text = "true"
		}
	case json.Number:
		n.kind, n.text = integer, token.String()
		if strings.ContainsAny(n.text, ".eE") {
			n.kind = float
		}
	case string:
		n.kind, n.text = str, token
	case json.Delim:
		return n, b.inside(n, token, depth)
	}
	return n, nil
}

// inside reads what a list or mapping holds, and its end.
func (b *jsonTree) inside(n *node, open json.Delim, depth int) *Problem {
	n.kind = list
	if open == '{' {
		n.kind = mapping
	}
	for b.decoder.More() {
		if n.kind == list {
			item, problem := b.value(depth + 1)
			if problem != nil {
				return problem
			}
			n.items = append(n.items, item)
			continue
		}
		key, problem := b.value(depth + 1)
		if problem != nil {
			return problem
		}
		value, problem := b.value(depth + 1)
		if problem != nil {
			return problem
		}
		n.entries = append(n.entries, entry{key, value})
	}
	_, _, problem := b.next()
	return problem
}
