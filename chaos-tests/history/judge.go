package history

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Finding is one thing that must not be: what a check has found, what it expected, and what evidence
// speaks against it.
type Finding struct {
	Check    string // C01 to C18
	Job      string // empty when it is about the cluster
	Firing   string // when it is about one
	At       time.Time
	What     string
	Want     string
	Evidence string
	// Slow says that an etcd that is slower than its own time-outs may have done it.
	Slow bool
}

// String is one line of a failing test.
func (f Finding) String() string {
	name := f.Check
	for _, c := range Checks() {
		if c.ID == f.Check {
			name += " " + c.Name
		}
	}
	if f.Job != "" {
		name += ": " + f.Job
	}
	return name + ": " + f.What
}

// Verdict is what a judgement comes to.
type Verdict string

// A history is Inconclusive when it could not have shown what it was to show: that is never a pass. One in
// which etcd's disk was too slow is so, too, if all that was found comes of that.
const (
	Valid        Verdict = "valid"
	Invalid      Verdict = "invalid"
	Inconclusive Verdict = "inconclusive"
)

// Needs are how much must be there for a history to show anything.
type Needs struct {
	// Required is how many instants must have needed a verdict, InFaults how many of them under fault.
	Required, InFaults int
	// InFlight is how many faults of nodes must have met an attempt in flight there.
	InFlight int
	// Refused is how many effects the enforcing receiver must have refused for their token, which its twin
	// took out of order: without one nobody has seen what the token is for.
	Refused int
	// Checks must have had something to look at.
	Checks []string
}

// Full is what a run of mixed faults needs: every check, and enough to look at.
func Full() Needs {
	n := Needs{Required: 100, InFaults: 10, InFlight: 1}
	for _, c := range Checks() {
		n.Checks = append(n.Checks, c.ID)
	}
	return n
}

// Judgement is the outcome for one history.
type Judgement struct {
	Verdict  Verdict
	Findings []Finding
	// Doubts are why nothing, or not everything, is shown.
	Doubts []string
	// Looked is how many things each check held against the evidence.
	Looked map[string]int
	// Overlapped is how long commands of one job ran beside each other where the promise leaves it open:
	// one of them stood still with its machine, or was asked to finish.
	Overlapped time.Duration
	// Required and InFaults are the instants that needed a verdict, and those of them under fault; InFlight
	// are the faults that met an attempt in flight on their node.
	Required, InFaults, InFlight int

	trials []*trial
}

// SlowestFsync is what etcd's disk may take, half a second: beyond it etcd misses its own time-outs, and
// what the cluster then does shows nothing. Etcd counts in buckets, and the one that it falls into ends here.
const SlowestFsync = 512 * time.Millisecond

// Judge holds a history against all checks.
func (h History) Judge(n Needs) Judgement {
	j := Judgement{Looked: map[string]int{}}
	trials, found, doubts := h.trials()
	j.trials, j.Findings, j.Doubts = trials, found, doubts
	for _, t := range trials {
		for _, i := range t.due {
			if i.class == required {
				j.Required++
				if t.inFault(i.at) {
					j.InFaults++
				}
			}
		}
	}
	for _, f := range h.Faults {
		if f.Node != "" && slices.ContainsFunc(trials, func(t *trial) bool { return t.inFlight(f.Node, f.From) }) {
			j.InFlight++
		}
	}
	for _, c := range Checks() {
		for _, t := range trials {
			if c.job != nil {
				j.Looked[c.ID] += c.job(t, &j)
			}
		}
		if c.all != nil {
			j.Looked[c.ID] += c.all(&h, &j)
		}
	}
	for _, t := range trials {
		j.Findings = append(j.Findings, t.found...)
	}
	slices.SortStableFunc(j.Findings, func(a, b Finding) int {
		if c := strings.Compare(a.Check, b.Check); c != 0 {
			return c
		}
		return strings.Compare(a.Job, b.Job)
	})
	j.Doubts = append(j.Doubts, h.doubts(n, &j)...)
	grave := func(f Finding) bool { return !f.Slow || h.FsyncP99 <= SlowestFsync }
	switch {
	case slices.ContainsFunc(j.Findings, grave):
		j.Verdict = Invalid
	case len(j.Doubts) > 0: // that etcd was so slow is one of them
		j.Verdict = Inconclusive
	default:
		j.Verdict = Valid
	}
	return j
}

// Check is what is wrong with a history, whatever it shows besides, and whatever befell the cluster: what
// is late or was missed depends on the faults, and those who do not log them all must look for
// themselves.
func (h History) Check() []Finding {
	return slices.DeleteFunc(h.Judge(Needs{}).Findings, func(f Finding) bool { return f.Check == "C01" || f.Check == "C03" })
}

// doubts are what the history lacks to show anything.
func (h *History) doubts(n Needs, j *Judgement) []string {
	var all []string
	doubt := func(format string, a ...any) { all = append(all, fmt.Sprintf(format, a...)) }
	for _, f := range h.Faults {
		if f.Proof == "" {
			doubt("nothing proves that this fault took hold: %s at %s", f, clock(f.From))
		}
	}
	if h.FsyncP99 > SlowestFsync {
		doubt("etcd's fsync p99 was %s, and beyond %s nothing is shown: the disk is too slow, or busy with something else", h.FsyncP99, SlowestFsync)
	}
	if h.Etcd != nil && h.Etcd.missing() != "" {
		doubt("%s", h.Etcd.missing())
	}
	if j.Required < n.Required {
		doubt("%d instants needed a verdict, and %d are the least that shows anything", j.Required, n.Required)
	}
	if j.InFaults < n.InFaults {
		doubt("%d instants fell into faults, and %d are the least that shows anything", j.InFaults, n.InFaults)
	}
	if j.InFlight < n.InFlight {
		doubt("%d faults met an attempt in flight on their node, and %d are the least that shows anything", j.InFlight, n.InFlight)
	}
	if _, refused, disorder := h.judged(); min(refused, disorder) < n.Refused {
		doubt("%d effects were refused for their token, and taken out of order by the twin that does not look at it: %d are the least that shows anything",
			min(refused, disorder), n.Refused)
	}
	if sent, unsent := h.sent(); unsent*mostUnsent > sent {
		doubt("%d effects of %d reached no receiver: its log shows too little", unsent, sent)
	}
	for _, c := range Checks() {
		if slices.Contains(n.Checks, c.ID) && j.Looked[c.ID] == 0 {
			doubt("%s (%s) had nothing to look at: it needs %s", c.ID, c.Name, c.Evidence)
		}
	}
	return all
}

// judged is how many effects the enforcing ledger accepted, and refused, and how many its twin took after
// one with a higher token.
func (h *History) judged() (accepted, refused, disorder int) {
	for _, e := range h.Effects {
		switch {
		case e.Ledger == Plain && e.Token < e.Highest:
			disorder++
		case e.Ledger == Plain:
		case e.Accepted:
			accepted++
		default:
			refused++
		}
	}
	return accepted, refused, disorder
}

// mostUnsent: of so many effects one may be lost on its way to the receiver, which no fault touches.
const mostUnsent = 100

// sent is how many effects the commands sent, and how many of them nobody answered.
func (h *History) sent() (sent, unsent int) {
	for _, l := range h.Lines {
		switch l.Event {
		case Unsent:
			unsent++
			sent++
		case Done, Refused:
			sent++
		}
	}
	return sent, unsent
}

func clock(t time.Time) string { return t.Format("15:04:05.000") }
