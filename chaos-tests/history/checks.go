package history

// Check is one thing that must hold of every history.
type Check struct {
	ID, Name string
	// Says is what must hold, in one sentence.
	Says string
	// Guarantee is the promise of docs/guarantees.md that it tries, Evidence what it needs.
	Guarantee, Evidence string
	// job looks at one life of one job, all at the whole history; each says how many things it looked at.
	job func(*trial, *Judgement) int
	all func(*History, *Judgement) int
}

// Checks are all of them, in the order of CHECKS.md, which says what each of them rests on.
func Checks() []Check {
	return []Check{
		{ID: "C01", Name: "missed",
			Says:      "every required instant was started, or has a reason why not that is true",
			Guarantee: "G2, G5", Evidence: "required instants", job: (*trial).missed},
		{ID: "C02", Name: "duplicate",
			Says:      "a firing has no more starts than attempts, and each attempt one; a further one follows a lost or failed one only",
			Guarantee: "G1, G2", Evidence: "starts", job: (*trial).duplicates},
		{ID: "C03", Name: "late",
			Says:      "a start comes within 2 s of its instant, or within R (R_busy where something was in flight) after the faults that reach it; nothing is granted after its start deadline, or caught up where nothing is, or started when its grant is old",
			Guarantee: "G1, G4", Evidence: "starts of instants, and the fault log", job: (*trial).late},
		{ID: "C04", Name: "early",
			Says:      "no start before its instant, but for what a fault had put its clock ahead; no grant before it is due",
			Guarantee: "G3", Evidence: "starts of instants", job: (*trial).early},
		{ID: "C05", Name: "phantom",
			Says:      "a start is for an instant of the definition in force, or a trigger that was asked for; nothing is granted after a pause, deletion or edit",
			Guarantee: "G1, G7", Evidence: "starts, and the calls that changed jobs", job: (*trial).phantoms, all: (*History).strangers},
		{ID: "C06", Name: "overlap",
			Says:      "no command of a job lives beside another, but where the older grant stood still with its machine, slept before its start, or was to finish",
			Guarantee: "G6", Evidence: "starts and beats", job: (*trial).overlaps},
		{ID: "C07", Name: "wrong node",
			Says:      "a command runs where it was told, where its record and lock say, and where its selector allows",
			Guarantee: "G1, G6", Evidence: "starts", job: (*trial).places},
		{ID: "C08", Name: "unfenced",
			Says:      "the enforcing receiver accepts tokens that never fall, and refuses stale ones alone; both ledgers have the same effects",
			Guarantee: "G2", Evidence: "the receiver's log", job: (*trial).fenced},
		{ID: "C09", Name: "tokens",
			Says:      "tokens of starts rise, but for a sleeper; each is the create revision of a lock of this very attempt",
			Guarantee: "G2", Evidence: "starts, and etcd's log", job: (*trial).tokens},
		{ID: "C10", Name: "record and effect",
			Says:      "records and effects can both be true: ends, exit codes, losses, skips",
			Guarantee: "G5", Evidence: "records", job: (*trial).contradictions},
		{ID: "C11", Name: "accounted",
			Says:      "each instant has one verdict, the counters know all, nothing is left in flight; in etcd the books balance at every revision",
			Guarantee: "G5", Evidence: "counters of jobs", job: (*trial).account},
		{ID: "C12", Name: "states",
			Says:      "each write is a step of the state graph: cursor, counters and ring only grow, entries come with a lock and leave with a record, LOST comes after hold + 2 s",
			Guarantee: "G1, G5, G6", Evidence: "etcd's log", job: (*trial).steps},
		{ID: "C13", Name: "orphans",
			Says:      "a command is dead at once with its killed node, and after TTL + grace with one that froze or was cut off",
			Guarantee: "G6", Evidence: "beats after a fault of their node", job: (*trial).orphans},
		{ID: "C14", Name: "API",
			Says:      "what was answered is in etcd, what is in etcd was asked for; reads show what was in force, and never go back",
			Guarantee: "G8", Evidence: "calls and reads of jobs", job: (*trial).answers},
		{ID: "C15", Name: "recovery",
			Says:      "R after the last fault all nodes are ready, one dispatcher is named, all shards are owned, each node starts something on time",
			Guarantee: "G4", Evidence: "statuses after the last fault", all: (*History).recovered},
		{ID: "C16", Name: "leaks",
			Says:      "after the run goroutines, descriptors, memory, leases, locks and etcd's file are near what they were before",
			Guarantee: "G10", Evidence: "samples of nodes and of etcd, before and after", all: (*History).leaks},
		{ID: "C17", Name: "visibility",
			Says:      "a dead node is no member any more, one that is cut off says why it is not ready, a full etcd and an untrusted clock are named",
			Guarantee: "G5", Evidence: "samples of nodes under fault", all: (*History).visible},
		{ID: "C18", Name: "next times",
			Says:      "the next instants that are shown are the oracle's",
			Guarantee: "G5", Evidence: "next instants as they were shown", job: (*trial).previews},
	}
}
