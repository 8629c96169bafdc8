package jobfile

// kind is what a value is by its form.
type kind int

const (
	null kind = iota
	boolean
	integer
	float
	str
	list
	mapping
)

// String is the kind with its article, for messages.
func (k kind) String() string {
	return [...]string{"nothing", "a boolean", "a number", "a number", "a string", "a list", "a mapping"}[k]
}

// node is a value of a document, whether it was written as YAML or as JSON. An alias is the node that
// it stands for, so one node may be reached on several ways.
type node struct {
	kind    kind
	pos     position
	text    string  // of a scalar: what it says; of a number as it was written
	items   []*node // of a list
	entries []entry // of a mapping, in the order of the file
}

// entry is one key of a mapping with its value.
type entry struct{ key, value *node }
