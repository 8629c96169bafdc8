package jobfile

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/quorumcron/quorumcron/scheduler"
)

// outputOnly is the number from which fields of Job and Calendar are filled in by the server (see job.proto). They
// may stand in a file, so that what `job show -o yaml` prints can be edited and applied.
const outputOnly = 20

// decoder fills a Job or Calendar from a tree by the message's own descriptor, so that file and API cannot differ.
type decoder struct {
	doc      *Document
	subject  subject
	problems []Problem
	// wrong are the paths that a problem is about already: what validation would add there is noise.
	wrong    map[string]bool
	hopeless bool // there is nothing to validate
	visited  int
}

func (d *decoder) document(root *node) {
	d.wrong = map[string]bool{}
	if root.kind != mapping {
		d.hopeless = true
		remedy := "write one document for each " + d.subject.noun + ", with " + d.subject.fields
		if root.kind == list {
			remedy = "write one document for each " + d.subject.noun + ", with lines --- between them, instead of a list"
		}
		d.fail("", root, "a "+d.subject.noun+" is a mapping, but this is "+root.kind.String(), remedy)
		return
	}
	if foreign := d.subject.foreignDocument(root); foreign != "" {
		d.hopeless = true
		remedy := "write " + d.subject.fields
		if foreign == d.subject.other {
			remedy = ""
		}
		d.fail("", root, foreign, remedy)
		return
	}
	d.message(root, d.doc.message(), "")
}

// fail notes a problem with the value n at a path.
func (d *decoder) fail(path string, n *node, problem, remedy string) {
	d.wrong[fieldPath(path)] = true
	wrong := d.doc.problem(scheduler.FieldError{Field: path, Problem: problem, Remedy: remedy})
	wrong.Line, wrong.Column, wrong.excerpt = n.pos.line, n.pos.column, d.doc.text.excerpt(n.pos)
	if n.kind != mapping && n.kind != list {
		wrong.Value = n.text
	}
	d.problems = append(d.problems, wrong)
}

// failKey is fail about a key: the path names it, so the value would only repeat it.
func (d *decoder) failKey(path string, key *node, problem, remedy string) {
	d.fail(path, key, problem, remedy)
	d.problems[len(d.problems)-1].Value = ""
}

// reported says whether a problem is known at a path, above it or below it.
func (d *decoder) reported(field string) bool {
	path := fieldPath(field)
	for wrong := range d.wrong {
		if wrong == path || strings.HasPrefix(wrong, path+".") || strings.HasPrefix(path, wrong+".") {
			return true
		}
	}
	return false
}

// visit counts, since an alias lets a short text stand for a long one.
func (d *decoder) visit(path string, n *node) bool {
	if d.visited++; d.visited == maxValues+1 {
		d.fail(path, n, fmt.Sprintf("the document stands for more than %d values", maxValues), "use fewer aliases")
	}
	return d.visited <= maxValues
}

func (d *decoder) message(n *node, m protoreflect.Message, path string) {
	seen := map[string]*node{}
	for _, e := range n.entries {
		if !d.visit(path, e.key) {
			return
		}
		fd := m.Descriptor().Fields().ByJSONName(e.key.text)
		at := join(path, e.key.text)
		switch first := seen[e.key.text]; {
		case e.key.kind != str:
			d.failKey(path, e.key, "a field has a name, but this is "+e.key.kind.String(), "")
			continue
		case fd == nil:
			d.unknown(m.Descriptor(), path, e)
			continue
		case first != nil:
			d.failKey(at, e.key, fmt.Sprintf("the field stands twice, first on line %d", first.pos.line), "leave one of them out")
			continue
		}
		seen[e.key.text] = e.key
		d.doc.places[fieldPath(at)] = e.key.pos
		if e.value.kind == null {
			continue // As if it were not there.
		}
		if path == "" && fd.Number() >= outputOnly || at == "schedule.origin" {
			continue
		}
		if oneof := fd.ContainingOneof(); oneof != nil && m.WhichOneof(oneof) != nil {
			other := m.WhichOneof(oneof).JSONName()
			d.failKey(at, e.key, fmt.Sprintf("%s is there already, and only one of them can be", join(path, other)), "leave one of them out")
			continue
		}
		d.doc.places[fieldPath(at)] = e.value.pos
		d.field(e.value, m, fd, at)
	}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// field sets one field of m to a value that is there.
func (d *decoder) field(n *node, m protoreflect.Message, fd protoreflect.FieldDescriptor, path string) {
	switch {
	case fd.IsMap():
		d.mapField(n, m.Mutable(fd).Map(), path)
	case fd.IsList():
		if n.kind != list {
			d.fail(path, n, "must be a list, but is "+n.kind.String(), listRemedy(path, n))
			return
		}
		values := m.Mutable(fd).List()
		for i, item := range n.items {
			at := fmt.Sprintf("%s[%d]", path, i)
			d.doc.places[fieldPath(at)] = item.pos
			if !d.visit(path, n) {
				return
			}
			if value, ok := d.item(item, fd, values, at); ok {
				values.Append(value)
			}
		}
	case isTimestamp(fd):
		if value, ok := d.scalar(n, fd, path); ok {
			m.Set(fd, value)
		}
	case fd.Kind() == protoreflect.MessageKind:
		if n.kind != mapping {
			d.fail(path, n, "must be a mapping, but is "+n.kind.String(), mappingRemedy(path, n))
			return
		}
		d.message(n, m.Mutable(fd).Message(), path)
	default:
		if value, ok := d.scalar(n, fd, path); ok && !d.zero(n, path) {
			m.Set(fd, value)
		}
	}
}

// unset are the fields in which the API takes zero for what was left out. Who writes a zero means something
// else, and must not get a default of ten records, a day or three attempts without a word.
var unset = map[string]string{
	"schedule.every":           "write at least 1s, or leave it out for none",
	"policy.catchUp.window":    "leave it out for 24h, or write mode: none to catch up on nothing",
	"policy.catchUp.max":       "leave it out for 100, or write mode: none to catch up on nothing",
	"policy.retry.maxAttempts": "write 1 for a single attempt",
	"policy.startDeadline":     "write how late it may start, such as 5s, or leave it out for no limit",
	"history.limit":            "write 1 to 100, or leave it out for 10",
}

// zero refuses a zero in a field where it would be taken for nothing at all.
func (d *decoder) zero(n *node, path string) bool {
	remedy, ok := unset[path]
	if !ok || d.subject != jobs || n.text == "" {
		return false
	}
	if length, err := time.ParseDuration(n.text); err != nil || length != 0 { // it reads 0 without a unit, too
		return false
	}
	d.fail(path, n, "must not be zero", remedy)
	return true
}

// item reads one item of a list.
func (d *decoder) item(n *node, fd protoreflect.FieldDescriptor, values protoreflect.List, path string) (protoreflect.Value, bool) {
	if fd.Kind() != protoreflect.MessageKind || isTimestamp(fd) {
		return d.scalar(n, fd, path)
	}
	if n.kind != mapping {
		d.fail(path, n, "must be a mapping, but is "+n.kind.String(), "write {"+strings.Join(fieldNames(fd.Message(), path), ": …, ")+": …}")
		return protoreflect.Value{}, false
	}
	value := values.NewElement()
	d.message(n, value.Message(), path)
	return value, true
}

func listRemedy(path string, n *node) string {
	if n.kind != str {
		return ""
	}
	if path == "run.command.args" && strings.Contains(n.text, " ") {
		return fmt.Sprintf(`write ["sh", "-c", %s]`, quoted(n.text))
	}
	return fmt.Sprintf("write [%s]", quoted(n.text))
}

// mapField reads a mapping of strings, such as labels.
func (d *decoder) mapField(n *node, values protoreflect.Map, path string) {
	if n.kind != mapping {
		d.fail(path, n, "must be a mapping of names to strings, but is "+n.kind.String(), "")
		return
	}
	for _, e := range n.entries {
		at := join(path, e.key.text)
		if !d.visit(path, e.key) {
			return
		}
		if e.key.kind != str {
			d.failKey(at, e.key, "a name must be a string, but is "+e.key.kind.String(), fmt.Sprintf("put it in quotes: %q", e.key.text))
			continue
		}
		key := protoreflect.ValueOfString(e.key.text).MapKey()
		if values.Has(key) {
			d.failKey(at, e.key, "the name stands twice", "leave one of them out")
			continue
		}
		d.doc.places[fieldPath(at)], d.doc.keys[fieldPath(at)] = e.value.pos, e.key.pos
		if text, ok := d.text(e.value, at); ok {
			values.Set(key, protoreflect.ValueOfString(text))
		}
	}
}

func isTimestamp(fd protoreflect.FieldDescriptor) bool {
	return fd.Kind() == protoreflect.MessageKind && fd.Message().FullName() == "google.protobuf.Timestamp"
}

// scalar reads a single value of a field, or of a list's item.
func (d *decoder) scalar(n *node, fd protoreflect.FieldDescriptor, path string) (protoreflect.Value, bool) {
	switch {
	case isTimestamp(fd):
		return d.timestamp(n, path)
	case fd.Kind() == protoreflect.StringKind:
		text, ok := d.text(n, path)
		return protoreflect.ValueOfString(text), ok
	case fd.Kind() == protoreflect.BoolKind:
		if n.kind != boolean {
			d.fail(path, n, "must be true or false, but is "+n.kind.String(), "write true or false, without quotes")
			return protoreflect.Value{}, false
		}
		return protoreflect.ValueOfBool(strings.EqualFold(n.text, "true")), true
	case fd.Kind() == protoreflect.Int32Kind:
		return d.number(n, path)
	}
	// No field of a job that a user writes has another kind; a test walks over all of them.
	d.fail(path, n, "has a kind that job files cannot hold", "")
	return protoreflect.Value{}, false
}

func (d *decoder) text(n *node, path string) (string, bool) {
	if n.kind == str {
		if at := strings.IndexByte(n.text, 0); at >= 0 {
			d.fail(path, n, "has a NUL character in it", "leave it out")
			return "", false
		}
		return n.text, true
	}
	remedy := ""
	switch n.kind {
	case integer, float, boolean:
		remedy = fmt.Sprintf("put it in quotes: %q", n.text)
		if n.kind == integer && durations[lastElement(path)] {
			remedy = fmt.Sprintf("write a duration such as %ss or %sm", n.text, n.text)
		}
	case null:
		remedy = `write "" if an empty string is meant`
	}
	d.fail(path, n, "must be a string, but is "+n.kind.String(), remedy)
	return "", false
}

// durations are the fields whose string is a duration.
var durations = map[string]bool{"every": true, "jitter": true, "window": true, "timeout": true, "startDeadline": true}

func lastElement(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }

func (d *decoder) timestamp(n *node, path string) (protoreflect.Value, bool) {
	if n.kind == str {
		if t, err := time.Parse(time.RFC3339Nano, n.text); err == nil {
			return protoreflect.ValueOfMessage(timestamppb.New(t).ProtoReflect()), true
		}
	}
	d.fail(path, n, "must be a date and time with its zone", "write it as 2026-12-24T18:00:00Z or 2026-12-24T19:00:00+01:00")
	return protoreflect.Value{}, false
}

func (d *decoder) number(n *node, path string) (protoreflect.Value, bool) {
	if n.kind == integer {
		// Only plain decimals: YAML's 010 is 8 to some parsers and 10 to others.
		if v, err := strconv.ParseInt(n.text, 10, 32); err == nil && (len(n.text) == 1 || n.text[0] != '0') {
			return protoreflect.ValueOfInt32(int32(v)), true
		}
		d.fail(path, n, "must be a plain number of at most 2147483647", "write it in decimal, without leading zeros")
		return protoreflect.Value{}, false
	}
	remedy := "write a whole number"
	if _, err := strconv.ParseInt(n.text, 10, 32); n.kind == str && err == nil {
		remedy = "write " + n.text + " without quotes"
	}
	d.fail(path, n, "must be a whole number, but is "+n.kind.String(), remedy)
	return protoreflect.Value{}, false
}
