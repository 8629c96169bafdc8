package history

// Check is one thing that must hold of every history.
type Check struct {
	ID, Name string
	// Guarantee is the promise of docs/guarantees.md that it tries, Evidence what it needs.
	Guarantee, Evidence string
	// job looks at one life of one job, all at the whole history; each says how many things it looked at.
	job func(*trial, *Judgement) int
	all func(*History, *Judgement) int
}

// Checks are all of them, in the order of CHECKS.md, which says what each of them rests on.
func Checks() []Check {
	return []Check{
		{ID: "C01", Name: "missed", Guarantee: "G2, G5", Evidence: "required instants", job: (*trial).missed},
		{ID: "C02", Name: "duplicate", Guarantee: "G1, G2", Evidence: "starts", job: (*trial).duplicates},
		{ID: "C03", Name: "late", Guarantee: "G4", Evidence: "starts of instants, and the fault log", job: (*trial).late},
		{ID: "C04", Name: "early", Guarantee: "G3", Evidence: "starts of instants", job: (*trial).early},
		{ID: "C05", Name: "phantom", Guarantee: "G1, G7", Evidence: "starts, and the calls that changed jobs", job: (*trial).phantoms, all: (*History).strangers},
		{ID: "C06", Name: "overlap", Guarantee: "G6", Evidence: "starts and beats", job: (*trial).overlaps},
		{ID: "C07", Name: "wrong node", Guarantee: "G1, G6", Evidence: "starts", job: (*trial).places},
		{ID: "C08", Name: "unfenced", Guarantee: "G2", Evidence: "the receiver's log", job: (*trial).fenced},
		{ID: "C09", Name: "tokens", Guarantee: "G2", Evidence: "starts, and etcd's log", job: (*trial).tokens},
		{ID: "C10", Name: "record and effect", Guarantee: "G5", Evidence: "records", job: (*trial).contradictions},
		{ID: "C11", Name: "accounted", Guarantee: "G5", Evidence: "counters of jobs", job: (*trial).account},
		{ID: "C12", Name: "states", Guarantee: "G1, G5, G6", Evidence: "etcd's log", job: (*trial).steps},
		{ID: "C13", Name: "orphans", Guarantee: "G6", Evidence: "beats after a fault of their node", job: (*trial).orphans},
		{ID: "C14", Name: "API", Guarantee: "G8", Evidence: "calls and reads of jobs", job: (*trial).answers},
		{ID: "C15", Name: "recovery", Guarantee: "G4", Evidence: "statuses after the last fault", all: (*History).recovered},
		{ID: "C16", Name: "leaks", Guarantee: "G10", Evidence: "samples of nodes and of etcd, before and after", all: (*History).leaks},
		{ID: "C17", Name: "visibility", Guarantee: "G5", Evidence: "samples of nodes under fault", all: (*History).visible},
		{ID: "C18", Name: "next times", Guarantee: "G5", Evidence: "next instants as they were shown", job: (*trial).previews},
	}
}
