package history

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/quorumcron/quorumcron/proto/quorumcron/stored/v1"
)

// Who owned which shard, by the assignments in etcd's log: a fault of one node keeps the jobs from
// starting that it owned, or runs, and no others.

// owners are the assignments of each pool, oldest first.
type owners struct {
	pools       map[string]*storedv1.Pool
	assignments map[string][]assignment
}

// assignment is one publication of who owns what.
type assignment struct {
	at    time.Time // when it was seen
	names []string  // of members, without their incarnation
	bytes []byte    // for each shard 1 + the place of its owner in names; 0 for nobody
}

func (a assignment) owner(shard int) string {
	if shard >= len(a.bytes) || a.bytes[shard] == 0 || int(a.bytes[shard]) > len(a.names) {
		return ""
	}
	return a.names[a.bytes[shard]-1]
}

// owners reads them from the log; nil when there are none.
func (l *EtcdLog) owners() *owners {
	o := &owners{pools: map[string]*storedv1.Pool{}, assignments: map[string][]assignment{}}
	for _, e := range l.Events {
		if id, ok := strings.CutPrefix(e.Key, "pools/"); ok && !e.Deleted {
			if p := new(storedv1.Pool); proto.Unmarshal(e.Value, p) == nil {
				o.pools[id] = p
			}
		}
		id, ok := strings.CutPrefix(e.Key, "rules/assignment/")
		v := new(storedv1.Assignment)
		if !ok || e.Deleted || proto.Unmarshal(e.Value, v) != nil {
			continue
		}
		a := assignment{at: e.At, bytes: v.GetOwners()}
		for _, m := range v.GetMembers() {
			name, _, _ := strings.Cut(m, "#")
			a.names = append(a.names, name)
		}
		o.assignments[id] = append(o.assignments[id], a)
	}
	if len(o.assignments) == 0 {
		return nil
	}
	return o
}

// pool is the pool of a definition: the one with its selector and handler.
func (o *owners) pool(d definition) (id string, ok bool) {
	for _, id := range slices.Sorted(maps.Keys(o.pools)) {
		p := o.pools[id]
		if maps.Equal(p.GetSelector(), d.GetTarget().GetSelector()) && p.GetHandler() == d.GetRun().GetHandler().GetName() {
			return id, true
		}
	}
	return "", false
}

// shardOf reads the shard out of a key: jobs/<two hex digits>/…
func shardOf(key string) (int, bool) {
	parts := strings.Split(key, "/")
	if len(parts) < 2 {
		return 0, false
	}
	n, err := strconv.ParseUint(parts[1], 16, 8)
	return int(n), err == nil
}

// owned says whether a node owned the job's shard at any time between two moments; true when nobody
// knows.
func (t *trial) owned(node string, from, to time.Time) bool {
	if t.owners == nil || t.etcd == nil || len(t.etcd.definitions) == 0 || t.etcd.shard < 0 {
		return true
	}
	for _, d := range t.etcd.definitions {
		id, ok := t.owners.pool(d)
		all := t.owners.assignments[id]
		if !ok || len(all) == 0 {
			return true
		}
		for i, a := range all {
			until := to
			if i+1 < len(all) {
				until = all[i+1].at
			}
			if a.at.After(to) || until.Before(from) {
				continue
			}
			if a.owner(t.etcd.shard) == node {
				return true
			}
		}
	}
	return false
}

// concerns says whether a fault can have kept the job from starting: it befell all, or a node that owned
// the job while it lasted or was overcome, or that ran it.
func (t *trial) concerns(f Fault) bool {
	const moment = time.Second // what was published may have been seen so much later
	return f.Node == "" || t.inFlight(f.Node, f.From) ||
		t.owned(f.Node, f.From.Add(-moment), f.end().Add(f.trait().trial+t.h.bounds().Recovery()))
}

// reach is until when an instant may start; see History.reach. Faults that do not concern the job give
// it no time.
func (t *trial) reach(due time.Time, recovery func(Fault) time.Duration) (until time.Time, by []Fault) {
	if t.concerned == nil {
		t.concerned = map[int]bool{}
	}
	return t.h.reach(due, recovery, func(i int, f Fault) bool {
		known, ok := t.concerned[i]
		if !ok {
			known = t.concerns(f)
			t.concerned[i] = known
		}
		return known
	})
}

// inFault says whether an instant lies in a fault that concerns the job, or in the time that it takes to
// overcome it.
func (t *trial) inFault(due time.Time) bool {
	_, by := t.reach(due, func(Fault) time.Duration { return t.h.bounds().BusyRecovery() })
	return len(by) > 0
}
