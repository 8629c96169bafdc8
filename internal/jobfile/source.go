package jobfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// Source is a text to read documents from.
type Source struct {
	Name string // for messages: the path as it was given, or "<stdin>"
	Text []byte
}

// extensions are the names of job files in a folder.
var extensions = []string{".yaml", ".yml", ".json"}

// Read reads what -f names: a file, a folder (its *.yaml, *.yml and *.json files by name; not the
// folders in it), or "-" for stdin.
func Read(name string, stdin io.Reader) ([]Source, error) {
	if name == "-" {
		source, err := readAll("<stdin>", stdin)
		return []Source{source}, err
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, reading(name, err)
	}
	if !info.IsDir() {
		source, err := readFile(name)
		return []Source{source}, err
	}
	return readFolder(name)
}

func readFolder(name string) ([]Source, error) {
	entries, err := os.ReadDir(name) // sorted by name
	if err != nil {
		return nil, reading(name, err)
	}
	var sources []Source
	for _, entry := range entries {
		file := filepath.Join(name, entry.Name())
		if strings.HasPrefix(entry.Name(), ".") || !slices.Contains(extensions, filepath.Ext(entry.Name())) {
			continue
		}
		// Mounted configuration is made of links, so what counts is where they lead.
		if info, err := os.Stat(file); err == nil && info.IsDir() {
			continue
		}
		source, err := readFile(file)
		if err != nil {
			return nil, err
		}
		sources = append(sources, source)
	}
	if sources == nil {
		return nil, fmt.Errorf("read %s: there is no *.yaml, *.yml or *.json file in it", name)
	}
	return sources, nil
}

func readFile(name string) (Source, error) {
	f, err := os.Open(name)
	if err != nil {
		return Source{}, reading(name, err)
	}
	defer f.Close()
	return readAll(name, f)
}

func readAll(name string, r io.Reader) (Source, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return Source{}, reading(name, err)
	}
	if len(text) > maxFile {
		return Source{}, fmt.Errorf("read %s: it is larger than %d MiB; split it", name, maxFile>>20)
	}
	return Source{Name: name, Text: text}, nil
}

// reading says what was attempted once: the error of an open names the path a second time.
func reading(name string, err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	return fmt.Errorf("read %s: %w", name, err)
}

// text is a source made fit for parsing: UTF-8 without a byte order mark, lines that end in \n.
type text struct {
	name  string
	json  bool // its name says that it is JSON
	lines []string
	// starts are the offsets of the lines in the joined text, for JSON, whose parser counts bytes.
	starts []int
}

// position is a place in a text; both count from 1, columns in characters.
type position struct{ line, column int }

// clean refuses what is no text, and brings line ends to one form. Columns and lines stay as an
// editor shows them.
func clean(source Source) (*text, *Problem) {
	t := &text{name: source.Name, json: strings.HasSuffix(source.Name, ".json")}
	raw := source.Text
	if bytes.HasPrefix(raw, []byte{0xFE, 0xFF}) || bytes.HasPrefix(raw, []byte{0xFF, 0xFE}) {
		return nil, &Problem{Source: t.name, Problem: "the text is UTF-16", Remedy: "save it as UTF-8"}
	}
	raw = bytes.TrimPrefix(raw, []byte("\uFEFF"))
	if len(raw) > maxFile {
		return nil, &Problem{Source: t.name, Problem: fmt.Sprintf("it is larger than %d MiB", maxFile>>20), Remedy: "split it"}
	}
	t.lines = strings.Split(strings.ReplaceAll(string(raw), "\r\n", "\n"), "\n")
	for i, line := range t.lines {
		if at := forbidden(line); at >= 0 {
			r, _ := utf8.DecodeRuneInString(line[at:])
			what := fmt.Sprintf("the character U+%04X is not text", r)
			if r == utf8.RuneError {
				what = fmt.Sprintf("the byte 0x%02X is not UTF-8", line[at])
			}
			return nil, &Problem{Source: t.name, Line: i + 1, Column: utf8.RuneCountInString(line[:at]) + 1,
				Problem: what, Remedy: "is this a job file? write " + `"\u…" in quotes if the character is meant`}
		}
	}
	return t, nil
}

// forbidden returns where a line holds what no text holds: bytes that are not UTF-8, or control
// characters but for tabs. -1 if nowhere.
func forbidden(line string) int {
	for i, r := range line {
		if r == utf8.RuneError {
			if _, size := utf8.DecodeRuneInString(line[i:]); size <= 1 {
				return i
			}
		}
		if r < ' ' && r != '\t' || r == 0x7F || r == 0xFEFF {
			return i
		}
	}
	return -1
}

// piece is the text of one document.
type piece struct {
	text  *text
	line  int // of its first line in the whole text, from 1
	lines []string
	json  bool
	begin int // of a JSON document, its offset in the joined text
}

// split cuts a text into documents, so that a document that cannot be parsed hides no other. A line
// that begins with --- ends a document wherever it stands, even in a quoted string.
func (t *text) split() ([]*piece, *Problem) {
	if pieces, problem, ok := t.splitJSON(); ok {
		return pieces, problem
	}
	var pieces []*piece
	current := &piece{text: t, line: 1}
	for i, line := range t.lines {
		rest, marker := strings.CutPrefix(line, "---")
		if end := strings.HasPrefix(line, "..."); end && strings.TrimSpace(line) == "..." {
			pieces = append(pieces, current)
			current = &piece{text: t, line: i + 2}
			continue
		}
		if marker && (rest == "" || rest[0] == ' ' || rest[0] == '\t') {
			pieces = append(pieces, current)
			// What follows the marker on its line belongs to the document, in its column.
			current = &piece{text: t, line: i + 1, lines: []string{"   " + rest}}
			continue
		}
		current.lines = append(current.lines, line)
	}
	return append(pieces, current), nil
}

// blank says whether a document has no content: only blank lines, comments and directives.
func (p *piece) blank() bool {
	for _, line := range p.lines {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' && line[0] != '%' {
			return false
		}
	}
	return true
}

// parse makes a tree of a document; nil if there is nothing in it.
func (p *piece) parse() (*node, *Problem) {
	if p.json {
		return p.parseJSON()
	}
	if p.blank() {
		return nil, nil
	}
	size := 0
	for _, line := range p.lines {
		size += len(line) + 1
	}
	if size > maxDocument || len(p.lines) > maxLines {
		return nil, p.problem(position{p.line, 1}, fmt.Sprintf("a document has at most %d MiB and %d lines", maxDocument>>20, maxLines), "is this a job file?")
	}
	return p.parseYAML()
}

// problem makes a problem at a position in the whole text.
func (p *piece) problem(pos position, problem, remedy string) *Problem {
	return &Problem{Source: p.text.name, Line: pos.line, Column: pos.column, Problem: problem, Remedy: remedy, excerpt: p.text.excerpt(pos)}
}
