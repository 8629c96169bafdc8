package chaos

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/quorumcron/quorumcron/chaos-tests/history"
)

// breakage is one thing that is broken, seen to be broken, and mended. FAULTS.md lists all there are.
type breakage struct {
	history.Fault // what the fault log says of it, but for times and proof
	inject        func() error
	// proof says what is seen of it; "" while nothing is. It is asked from the injection until it answers,
	// and is what counts: that a call to break something returned proves nothing.
	proof func() string
	heal  func() error
	// lasts is for how long it stays after its proof; patient, for how long a proof is waited for.
	lasts, patient time.Duration
	// away is how long after it is healed its node cannot be asked to be ready.
	away time.Duration
	// began, if not nil, is when it really began: inject may have waited for what it is to meet.
	began func() time.Time
	// idle: it has found nothing to break.
	idle bool
}

// errIdle is what inject returns when there is nothing to break, and nothing has been broken: there is no fault
// then, and nothing to prove.
var errIdle = errors.New("there is nothing to break")

// proofWithin is how long a proof is waited for, unless a breakage has its own patience.
const proofWithin = 10 * time.Second

// suffer lets some breakages happen at a time, and puts them in the fault log. One that cannot be healed fails
// the test; one that nothing proves makes what is judged inconclusive, and is for that judgement to tell.
func (c *cluster) suffer(all ...breakage) {
	c.t.Helper()
	for i := range all {
		c.begin(&all[i])
	}
	lasts := time.Duration(0)
	for i := range all {
		if !all[i].idle {
			c.prove(&all[i])
			lasts = max(lasts, all[i].lasts)
		}
	}
	time.Sleep(lasts)
	for i := range all {
		if !all[i].idle {
			c.end(&all[i])
		}
	}
}

// strike lets one breakage happen, and puts it in the fault log as one that is never mended. The function
// that it returns mends it.
func (c *cluster) strike(f breakage) (mend func()) {
	c.t.Helper()
	c.begin(&f)
	c.prove(&f)
	i := len(c.faults)
	c.faults = append(c.faults, f.Fault)
	if f.Proof == "" {
		c.t.Errorf("%s: nothing shows that it took hold", f.Fault)
	}
	c.t.Logf("%s  %s: %s", f.From.Format("15:04:05.0"), f.Fault, f.Proof)
	return func() {
		c.t.Helper()
		if err := f.heal(); err != nil {
			c.t.Errorf("%s: heal: %v", f.Fault, err)
		}
		c.faults[i].To = time.Now()
	}
}

func (c *cluster) begin(f *breakage) {
	c.t.Helper()
	f.From = time.Now()
	err := f.inject()
	if f.idle = errors.Is(err, errIdle); err != nil {
		c.t.Logf("%s: inject: %v", f.Fault, err) // then nothing proves it
	} else if f.began != nil {
		f.From = f.began()
	}
}

func (c *cluster) prove(f *breakage) {
	for deadline := time.Now().Add(cmp.Or(f.patient, proofWithin)); f.Proof == "" && time.Now().Before(deadline); {
		if f.Proof = f.proof(); f.Proof == "" {
			time.Sleep(50 * time.Millisecond)
		}
	}
}

func (c *cluster) end(f *breakage) {
	c.t.Helper()
	if err := f.heal(); err != nil {
		c.t.Errorf("%s: heal: %v", f.Fault, err)
	}
	f.To = time.Now()
	c.faults = append(c.faults, f.Fault)
	c.t.Logf("%s %6.1fs  %s: %s", f.From.Format("15:04:05.0"), f.To.Sub(f.From).Seconds(), f.Fault, cmp.Or(f.Proof, "nothing shows that it took hold"))
}

// recovers waits until all nodes but those left out do their work again, and notes it at the faults that
// are waiting for it.
func (b *bed) recovers(leftOut map[string]bool) {
	b.t.Helper()
	eventually(b.t, busyRecovery+patience, "recovered", func() error { return b.settled(leftOut) })
	for i := range b.faults {
		if f := &b.faults[i]; f.Settled.IsZero() && !f.To.IsZero() && !leftOut[f.Node] {
			f.Settled = time.Now()
		}
	}
}

func fault(id, kind string) history.Fault { return history.Fault{ID: id, Kind: kind} }

// onNode is a fault of one node.
func onNode(id, kind string, n *node, detail string, a ...any) history.Fault {
	return history.Fault{ID: id, Kind: kind, Node: n.name, Detail: fmt.Sprintf(detail, a...)}
}

// onMember is a fault of one etcd member.
func onMember(id, kind string, e *etcd, detail string, a ...any) history.Fault {
	return history.Fault{ID: id, Kind: kind, Etcd: e.name, Detail: fmt.Sprintf(detail, a...)}
}
