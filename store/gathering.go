package store

import (
	clientv3 "go.etcd.io/etcd/client/v3"
)

// gathering is a group while it is put together.
type gathering struct {
	ops    []*op
	limit  int
	closed bool
	// jobs have an operation in the group, or one that was passed over and must stay first.
	jobs           map[string]bool
	guards, writes map[string]bool
	lease          int64
	weight, bytes  int
}

func newGathering(limit int) *gathering {
	return &gathering{limit: limit, jobs: map[string]bool{}, guards: map[string]bool{}, writes: map[string]bool{}}
}

// admit takes the operation into the group if all rules of groups still hold with it. The first one
// always fits: alone it is as small as it can be.
func (g *gathering) admit(o *op) bool {
	if len(g.ops) == 0 {
		if !g.jobs[o.uid] {
			g.add(o)
			return true
		}
		return false
	}
	first := g.ops[0]
	switch {
	case g.jobs[o.uid] && !cutGroupJobs: // Two operations of one job would guard what the other writes.
		return false
	case o.rules != first.rules: // One outer guard.
		return false
	case o.lease != 0 && g.lease != 0 && o.lease != g.lease: // A dead lease refuses the whole group.
		return false
	case g.clash(o):
		return false
	case len(g.ops)+1+max(g.weight, o.weight) > g.limit, g.bytes+o.bytes > mostBytes:
		g.closed = true
		return false
	}
	g.add(o)
	return true
}

// clash says whether the operation and the group touch a key in a way that etcd refuses (written
// twice), or that would let a guard pass on what the group itself changes (all nested guards see the
// state before the group).
func (g *gathering) clash(o *op) bool {
	for _, key := range o.writes {
		if g.writes[key] || g.guards[key] {
			return true
		}
	}
	for _, key := range o.guards {
		if g.writes[key] {
			return true
		}
	}
	return false
}

func (g *gathering) add(o *op) {
	g.ops = append(g.ops, o)
	g.jobs[o.uid] = true
	for _, key := range o.guards {
		g.guards[key] = true
	}
	for _, key := range o.writes {
		g.writes[key] = true
	}
	if o.lease != 0 {
		g.lease = o.lease
	}
	g.weight = max(g.weight, o.weight)
	g.bytes += o.bytes
}

// count is what etcd counts of a group: the outer operations and those of the largest nested one.
func count(group []*op) int {
	weight := 0
	for _, o := range group {
		weight = max(weight, o.weight)
	}
	return len(group) + weight
}

// opOverhead is what an operation or comparison weighs beside its key and value, in bytes.
const opOverhead = 48

// seal finds out what the packer must know of an operation: keys, count and size.
func (o *op) seal() {
	o.done = make(chan struct{})
	o.weight, o.bytes = o.measure(o.cmps, o.then, o.els)
}

func (o *op) measure(cmps []clientv3.Cmp, branches ...[]clientv3.Op) (weight, bytes int) {
	weight = len(cmps)
	for _, c := range cmps {
		o.guards = append(o.guards, string(c.KeyBytes()))
		bytes += len(c.KeyBytes()) + opOverhead
	}
	deeper := 0
	for _, ops := range branches {
		weight = max(weight, len(ops))
		for _, x := range ops {
			bytes += len(x.KeyBytes()) + len(x.ValueBytes()) + opOverhead
			switch {
			case x.IsTxn():
				c, then, els := x.Txn()
				w, b := o.measure(c, then, els)
				deeper, bytes = max(deeper, w), bytes+b
			case x.IsPut(), x.IsDelete():
				o.writes = append(o.writes, string(x.KeyBytes()))
			}
		}
	}
	return weight + deeper, bytes
}
