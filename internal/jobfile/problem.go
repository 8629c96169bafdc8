package jobfile

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Problem is one thing wrong with a job file.
type Problem struct {
	Source       string
	Line, Column int    // from 1; 0 if it is about the file as a whole
	Field        string // path in the document, as "schedule.cron[0]"; "" if it is about the form
	Value        string // what was written; "" if it is missing or the problem says it
	Problem      string
	Remedy       string // the next thing to try; "" if the problem says it

	excerpt []string // the lines around it, with a caret
}

// String is the problem on one line, and below it the line of the file with a caret.
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.Source)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", p.Line, p.Column)
	}
	b.WriteString(": ")
	if p.Field != "" {
		b.WriteString(p.Field + ": ")
	}
	if p.Value != "" && !strings.Contains(p.Problem, quoted(p.Value)) {
		b.WriteString(quoted(p.Value) + ": ")
	}
	b.WriteString(p.Problem)
	if p.Remedy != "" {
		b.WriteString("; " + p.Remedy)
	}
	for _, line := range p.excerpt {
		b.WriteString("\n" + line)
	}
	return b.String()
}

// quoted shows a value on one line, shortened.
func quoted(value string) string {
	const most = 60
	if utf8.RuneCountInString(value) > most {
		value = string([]rune(value)[:most]) + "…"
	}
	return fmt.Sprintf("%q", value)
}

// Problems is everything wrong with a set of job files. It is the error of Parse.
type Problems struct {
	List      []Problem // at most 1,000
	More      int       // how many beyond those
	Documents int       // read, good or bad
	Bad       int       // documents with a problem
}

// Error shows every problem, and how many there are.
func (p *Problems) Error() string {
	var b strings.Builder
	for _, problem := range p.List {
		b.WriteString(problem.String() + "\n")
	}
	if p.More > 0 {
		fmt.Fprintf(&b, "… and %d more\n", p.More)
	}
	total := len(p.List) + p.More
	fmt.Fprintf(&b, "%d %s", total, plural(total, "error"))
	if p.Documents > 0 && p.Bad > 0 {
		fmt.Fprintf(&b, " in %d of %d %s", p.Bad, p.Documents, plural(p.Documents, "document"))
	}
	return b.String()
}

func plural(n int, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}

func (p *Problems) empty() bool { return len(p.List) == 0 }

func (p *Problems) add(problem Problem) {
	if len(p.List) == maxProblems {
		p.More++
		return
	}
	p.List = append(p.List, problem)
}

// excerpt is the line at pos and the one above, with a caret below the column.
func (t *text) excerpt(pos position) []string {
	if pos.line < 1 || pos.line > len(t.lines) {
		return nil
	}
	// A long line is cut on both sides, so that the caret stays in sight.
	const before, width = 40, 100
	line := []rune(t.lines[pos.line-1])
	column := min(max(pos.column, 1), len(line)+1)
	start := 0
	if len(line) > width && column > before {
		start = column - before
	}
	var out []string
	if pos.line > 1 && start == 0 {
		if above := strings.TrimRight(t.lines[pos.line-2], " \t"); above != "" {
			out = append(out, fmt.Sprintf("  %4d | %s", pos.line-1, cut([]rune(above), 0, width)))
		}
	}
	out = append(out, fmt.Sprintf("> %4d | %s", pos.line, cut(line, start, width)))
	return append(out, strings.Repeat(" ", 9+column-1-start)+"^")
}

// cut shows a part of a line: one column for each character, nothing that moves a terminal's cursor.
func cut(line []rune, start, width int) string {
	end := min(len(line), start+width)
	shown := []rune{}
	for _, r := range line[start:end] {
		if r == '\t' {
			r = ' '
		}
		if !unicode.IsPrint(r) {
			r = '·'
		}
		shown = append(shown, r)
	}
	if end < len(line) {
		shown = append(shown, '…')
	}
	return string(shown)
}
