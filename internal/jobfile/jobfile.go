// Package jobfile reads job files and calendar files: YAML or JSON, many documents to a file, the same
// fields as the API's Job or Calendar message, spelled the same.
//
// It guarantees that everything wrong is said at once, over all documents and files, each with file,
// line, column, field, value and the next thing to try; that nothing is guessed (a number is no
// string, an unknown field is an error, a key stands once); and that its work is bounded whatever the
// text is: files of 4 MiB, 10,000 documents, 64 levels, aliases that may not multiply.
//
// It leaves to its caller what a definition means: Parse is given a function that validates a job,
// and finds the lines that the answer is about. It talks to no server and starts no goroutines.
package jobfile

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	quorumcronv1 "github.com/quorumcron/quorumcron/proto/quorumcron/v1"
	"github.com/quorumcron/quorumcron/scheduler"
)

// Limits of what is read. What is beyond is a mistake, or an attack on whoever reviews it.
const (
	maxFile      = 4 << 20 // bytes
	maxDocuments = 10_000
	maxDocument  = 1 << 20 // bytes: what the API takes
	maxLines     = 10_000  // in one document: the YAML parser's time grows with their square
	maxDepth     = 64
	maxValues    = 100_000 // in one document, counting what aliases stand for
	maxProblems  = 1_000   // kept; the rest is only counted
)

// Document is one job or calendar of a file.
type Document struct {
	Job      *quorumcronv1.Job      // nil for a calendar
	Calendar *quorumcronv1.Calendar // nil for a job
	// Source is the file's name as it was given, and Line where the document begins in it.
	Source string
	Line   int

	text   *text
	places map[string]position // by field path: of its value, or of its key if the value is missing
	keys   map[string]position // by path of an entry that the user named, such as a label: of the name
}

// Options say how documents are read.
type Options struct {
	// Namespace is given to those that name none. If Fixed is set, one that names another is wrong.
	Namespace string
	Fixed     bool
	// Calendars says that the documents are calendars, not jobs.
	Calendars bool
	// Check and CheckCalendar say everything that is wrong with a job or a calendar by itself; nil checks
	// nothing beyond the form.
	Check         func(*quorumcronv1.Job) []scheduler.FieldError
	CheckCalendar func(*quorumcronv1.Calendar) []scheduler.FieldError
}

// subject is what the documents of one Parse are.
type subject struct {
	noun, fields string // "job", and what a document must have
	other        string // what a document of the other kind is recognised by, and what to do with it
}

var (
	jobs      = subject{noun: "job", fields: "name, schedule and run", other: "this is a calendar, not a job: use `calendar apply`"}
	calendars = subject{noun: "calendar", fields: "name, and dates, weekdays or hours", other: "this is a job, not a calendar: use `job apply`"}
)

func (o Options) subject() subject {
	if o.Calendars {
		return calendars
	}
	return jobs
}

// blank is a document of this kind with nothing in it.
func (o Options) blank() *Document {
	if o.Calendars {
		return &Document{Calendar: &quorumcronv1.Calendar{}}
	}
	return &Document{Job: &quorumcronv1.Job{}}
}

// message is what is decoded into.
func (d *Document) message() protoreflect.Message {
	if d.Calendar != nil {
		return d.Calendar.ProtoReflect()
	}
	return d.Job.ProtoReflect()
}

// Name is the namespace and name of the job or calendar.
func (d *Document) Name() (namespace, name string) {
	if d.Calendar != nil {
		return d.Calendar.GetNamespace(), d.Calendar.GetName()
	}
	return d.Job.GetNamespace(), d.Job.GetName()
}

func (d *Document) setNamespace(namespace string) {
	if d.Calendar != nil {
		d.Calendar.Namespace = namespace
	} else {
		d.Job.Namespace = namespace
	}
}

// check says what is wrong with it by itself.
func (o Options) check(d *Document) []scheduler.FieldError {
	switch {
	case d.Calendar != nil && o.CheckCalendar != nil:
		return o.CheckCalendar(d.Calendar)
	case d.Job != nil && o.Check != nil:
		return o.Check(d.Job)
	}
	return nil
}

// Parse reads all documents of all sources. The error is a Problems value with everything that is
// wrong; then no document is returned, so that a caller cannot store half of a set by accident.
func Parse(sources []Source, options Options) ([]*Document, error) {
	p := &parse{options: options, named: map[scheduler.JobName]*Document{}}
	for _, source := range sources {
		p.source(source)
	}
	if p.found.empty() && p.seen == 0 {
		p.found.add(Problem{Source: sourceNames(sources), Problem: "there is no " + options.subject().noun + " in it",
			Remedy: "write a document with " + options.subject().fields})
	}
	if !p.found.empty() {
		p.found.Documents = p.seen
		return nil, &p.found
	}
	return p.documents, nil
}

func sourceNames(sources []Source) string {
	names := make([]string, len(sources))
	for i, s := range sources {
		names[i] = s.Name
	}
	return strings.Join(names, ", ")
}

// parse is the state of one Parse.
type parse struct {
	options   Options
	documents []*Document
	seen      int // documents that are not empty, good or bad
	named     map[scheduler.JobName]*Document
	found     Problems
}

func (p *parse) source(source Source) {
	t, problem := clean(source)
	if problem != nil {
		p.found.add(*problem)
		return
	}
	pieces, problem := t.split()
	if problem != nil {
		p.found.add(*problem)
		return
	}
	for _, piece := range pieces {
		if p.seen == maxDocuments {
			p.found.add(Problem{Source: source.Name, Line: piece.line, Column: 1,
				Problem: fmt.Sprintf("there are more than %d documents", maxDocuments), Remedy: "apply them in several calls"})
			return
		}
		root, problem := piece.parse()
		if problem != nil {
			p.seen++
			p.found.Bad++
			p.found.add(*problem)
			continue
		}
		if root == nil {
			continue // nothing but blanks and comments
		}
		p.seen++
		p.document(t, root)
	}
}

// document decodes and checks one document, and keeps it if it is good.
func (p *parse) document(t *text, root *node) {
	doc := p.options.blank()
	doc.Source, doc.Line, doc.text, doc.places, doc.keys = t.name, root.pos.line, t, map[string]position{}, map[string]position{}
	d := &decoder{doc: doc, subject: p.options.subject()}
	d.document(root)
	problems := d.problems
	namespace, name := doc.Name()
	if namespace == "" {
		doc.setNamespace(p.options.Namespace)
	} else if p.options.Fixed && namespace != p.options.Namespace {
		problems = append(problems, doc.problem(scheduler.FieldError{Field: "namespace", Value: namespace,
			Problem: fmt.Sprintf("the command line says --namespace %s", p.options.Namespace), Remedy: "leave one of them out"}))
	}
	if !d.hopeless {
		for _, wrong := range p.options.check(doc) {
			if !d.reported(wrong.Field) {
				problems = append(problems, doc.problem(wrong))
			}
		}
	}
	namespace, _ = doc.Name()
	if first := p.named[scheduler.JobName{Namespace: namespace, Name: name}]; first != nil && name != "" {
		noun := p.options.subject().noun
		problems = append(problems, doc.problem(scheduler.FieldError{Field: "name", Value: namespace + "/" + name,
			Problem: fmt.Sprintf("this %s stands at %s too", noun, first.Where()), Remedy: "give each " + noun + " of one apply its own name"}))
	} else {
		p.named[scheduler.JobName{Namespace: namespace, Name: name}] = doc
	}
	slices.SortStableFunc(problems, func(a, b Problem) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	for _, problem := range problems {
		p.found.add(problem)
	}
	if len(problems) > 0 {
		p.found.Bad++
		return
	}
	p.documents = append(p.documents, doc)
}

// Where is the document's file and first line, as "jobs.yaml:12".
func (d *Document) Where() string { return fmt.Sprintf("%s:%d", d.Source, d.Line) }

// Problems finds the lines that errors about the document's fields are about.
func (d *Document) Problems(wrong []scheduler.FieldError) []Problem {
	problems := make([]Problem, len(wrong))
	for i, w := range wrong {
		problems[i] = d.problem(w)
	}
	return problems
}

// problem places an error about a field: at the field, or at the nearest thing above that is there.
func (d *Document) problem(wrong scheduler.FieldError) Problem {
	pos := position{line: d.Line, column: 1}
	for path := fieldPath(wrong.Field); path != ""; path = above(path) {
		found, ok := d.places[path]
		if key, named := d.keys[path]; named && wrong.Value != "" && strings.HasSuffix(wrong.Field, "."+wrong.Value) {
			found, ok = key, true // It is the name that is wrong.
		}
		if ok {
			pos = found
			break
		}
	}
	p := Problem{Source: d.Source, Line: pos.line, Column: pos.column, Field: wrong.Field, Value: wrong.Value,
		Problem: wrong.Problem, Remedy: wrong.Remedy}
	p.excerpt = d.text.excerpt(pos)
	return p
}

// fieldPath brings the ways to write a field's path to one: a.b[0], a.b["k"] and a.b.k become
// elements with a dot before each.
func fieldPath(field string) string {
	var b strings.Builder
	for _, element := range strings.FieldsFunc(field, func(r rune) bool { return r == '.' || r == '[' || r == ']' }) {
		b.WriteString("." + strings.Trim(element, `"`))
	}
	return b.String()
}

// above cuts the last element off a path.
func above(path string) string {
	return path[:max(0, strings.LastIndexByte(path, '.'))]
}
