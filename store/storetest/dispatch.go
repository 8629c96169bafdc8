package storetest

import (
	"fmt"
	"time"

	"github.com/quorumcron/quorumcron/scheduler"
	"github.com/quorumcron/quorumcron/store"
)

func dispatchTests() []test {
	return []test{
		{"TheFirstMemberInitialises", theFirstMemberInitialises},
		{"ADeposedDispatcherWritesNothing", aDeposedDispatcherWritesNothing},
		{"AssignmentsAreRefusedOnOlderRules", assignmentsAreRefusedOnOlderRules},
		{"ManyAssignmentsArePublished", manyAssignmentsArePublished},
		{"AnAssignmentKeepsFieldsOfANewerMember", anAssignmentKeepsFields},
		{"TheFormatIsOnlyRaised", theFormatIsOnlyRaised},
		{"OldRequestsAreSwept", oldRequestsAreSwept},
		{"UnusedPoolsAreSwept", unusedPoolsAreSwept},
		{"NoPoolIsSweptWhileADefinitionCannotBeRead", noPoolIsSweptUnread},
	}
}

// term puts an election key and returns its guard.
func (w *world) term() scheduler.Guard {
	w.Helper()
	key := w.prefix + "election/dispatcher/1"
	resp, err := w.client.Put(w.ctx, key, "node-a")
	w.must(err)
	return scheduler.Guard{Key: key, CreateRevision: resp.Header.Revision}
}

func theFirstMemberInitialises(w *world) {
	first, err := w.store.Initialise(w.ctx)
	w.must(err)
	before := w.footprint()
	second, err := w.open().Initialise(w.ctx)
	w.must(err)
	if first != second || first.ClusterID == "" || first.Format != store.FormatMin || !first.Supported() || w.footprint() != before {
		w.Errorf("got %+v and %+v, want one cluster", first, second)
	}
	if w.get("rules/head") == nil || w.get("pools/all") == nil {
		w.Error("rules/head or pools/all is missing")
	}
	if (store.Meta{Format: store.FormatMax + 1}).Supported() || (store.Meta{}).Supported() {
		w.Error("a format of another version is called supported")
	}
}

func aDeposedDispatcherWritesNothing(w *world) {
	g := w.term()
	_, err := w.client.Delete(w.ctx, g.Key)
	w.must(err)
	successor := w.term()
	meta, err := w.store.Initialise(w.ctx)
	w.must(err)
	w.apply(job("a"), noon)
	_, err = w.trigger(job("a").Name, "x", "")
	w.must(err)
	before := w.footprint()
	_, err = w.store.Publish(w.ctx, g, w.rules(), []scheduler.Assignment{assignment("all", "node-a#1")})
	w.wantErr("publish", err, store.ErrDeposed)
	_, err = w.store.RaiseFormat(w.ctx, g, meta, meta.Format+1)
	w.wantErr("raise format", err, store.ErrDeposed)
	_, err = w.store.SweepRequests(w.ctx, g, at(noon.Add(48*time.Hour)))
	w.wantErr("sweep requests", err, store.ErrDeposed)
	_, err = w.store.Publish(w.ctx, scheduler.Guard{}, w.rules(), nil)
	w.wantErr("publish without a guard", err, scheduler.ErrInvalid)
	if after := w.footprint(); after != before {
		w.Errorf("something was written: %v, was %v", after, before)
	}
	_, err = w.store.Publish(w.ctx, successor, w.rules(), []scheduler.Assignment{assignment("all", "node-b#1")})
	w.must(err)
}

func assignmentsAreRefusedOnOlderRules(w *world) {
	g := w.term()
	planned := w.rules()
	now, err := w.store.Publish(w.ctx, g, planned, []scheduler.Assignment{assignment("all", "node-a#1")})
	w.must(err)
	if now != w.rules() || now <= planned {
		w.Errorf("got rules revision %d, want %d, above %d", now, w.rules(), planned)
	}
	_, err = w.store.Publish(w.ctx, g, planned, []scheduler.Assignment{assignment("all", "node-b#1")})
	w.wantErr("publish on older rules", err, store.ErrMoved)
	r, err := w.store.ReadRules(w.ctx)
	w.must(err)
	if got := r.Assignments["all"]; got.Owner(0) != "node-a#1" || got.Owner(255) != "node-a#1" {
		w.Errorf("got owner %q, want node-a#1", got.Owner(0))
	}
}

// manyAssignmentsArePublished: more than one transaction may hold, in number and in size.
func manyAssignmentsArePublished(w *world) {
	g := w.term()
	var many []scheduler.Assignment
	for i := range 140 {
		a := assignment(fmt.Sprintf("pool-%03d", i), "node-a#1")
		for m := range 200 {
			a.Members = append(a.Members, fmt.Sprintf("node-with-a-rather-long-name-%03d.example.org#%d", m, m))
		}
		many = append(many, a)
	}
	at, err := w.store.Publish(w.ctx, g, w.rules(), many)
	w.must(err)
	r, err := w.store.ReadRules(w.ctx)
	w.must(err)
	if at != r.Revision || len(r.Assignments) != len(many) || r.Assignments["pool-139"].Owner(7) != "node-a#1" {
		w.Errorf("got %d assignments at %d, want %d at %d", len(r.Assignments), r.Revision, len(many), at)
	}
}

func anAssignmentKeepsFields(w *world) {
	g := w.term()
	_, err := w.store.Publish(w.ctx, g, w.rules(), []scheduler.Assignment{assignment("all", "node-a#1")})
	w.must(err)
	w.grow("rules/assignment/all")
	w.moveRules()
	r, err := w.store.ReadRules(w.ctx)
	w.must(err)
	for _, owner := range []string{"node-b#1", "node-c#1"} {
		r.Revision, err = w.store.Publish(w.ctx, g, r.Revision, []scheduler.Assignment{assignment("all", owner)})
		w.must(err)
		w.still("publishing "+owner, "rules/assignment/all")
	}
}

func theFormatIsOnlyRaised(w *world) {
	g := w.term()
	meta, err := w.store.Initialise(w.ctx)
	w.must(err)
	raised, err := w.store.RaiseFormat(w.ctx, g, meta, meta.Format+1)
	w.must(err)
	again, err := w.store.Initialise(w.ctx)
	w.must(err)
	if raised != again || raised.ClusterID != meta.ClusterID || raised.Format != meta.Format+1 {
		w.Errorf("got %+v, and %+v is in force", raised, again)
	}
	_, err = w.store.RaiseFormat(w.ctx, g, meta, meta.Format+2)
	w.wantErr("raising what is no longer in force", err, store.ErrMoved)
	_, err = w.store.RaiseFormat(w.ctx, g, raised, meta.Format)
	w.wantErr("lowering it", err, store.ErrMoved)
}

func oldRequestsAreSwept(w *world) {
	g := w.term()
	r := w.apply(job("a"), noon)
	for i := range 150 {
		_, err := w.store.Trigger(w.ctx, scheduler.TriggerRequest{Job: r.Job.Name, RequestID: fmt.Sprint("old-", i)}, at(noon))
		w.must(err)
	}
	_, err := w.store.Trigger(w.ctx, scheduler.TriggerRequest{Job: r.Job.Name, RequestID: "young"}, at(noon.Add(time.Hour)))
	w.must(err)
	_, err = w.client.Put(w.ctx, w.prefix+"requests/default/damaged", "\xff")
	w.must(err)
	n, err := w.store.SweepRequests(w.ctx, g, at(noon.Add(store.RequestLife)))
	w.must(err)
	if n != 1 || w.count("requests/") != 151 {
		w.Errorf("exactly 24 h later %d were removed and %d are left, want the damaged one only", n, w.count("requests/"))
	}
	n, err = w.store.SweepRequests(w.ctx, g, at(noon.Add(store.RequestLife+time.Second)))
	w.must(err)
	if n != 150 || w.count("requests/") != 1 || w.get("requests/default/young") == nil {
		w.Errorf("%d were removed and %d are left, want the young one", n, w.count("requests/"))
	}
}

func unusedPoolsAreSwept(w *world) {
	g := w.term()
	selecting := func(zone string) func(*scheduler.Job) {
		return func(j *scheduler.Job) { j.Target.Selector = map[string]string{"zone": zone} }
	}
	used := scheduler.PoolOf(w.apply(job("a", selecting("eu")), noon).Job).ID
	idle := scheduler.PoolOf(w.apply(job("b", selecting("us")), noon).Job).ID
	w.apply(job("b", selecting("eu")), noon)
	rules, err := w.store.Publish(w.ctx, g, w.rules(), []scheduler.Assignment{assignment(used, "node-a#1"), assignment(idle, "node-a#1")})
	w.must(err)
	_, err = w.store.SweepPools(w.ctx, g, rules-1)
	w.wantErr("on older rules", err, store.ErrMoved)
	removed, err := w.store.SweepPools(w.ctx, g, rules)
	w.must(err)
	if len(removed) != 1 || removed[0] != idle || w.get("pools/"+idle) != nil || w.get("rules/assignment/"+idle) != nil || w.rules() <= rules {
		w.Errorf("got %v removed, want %s, and the rules moved", removed, idle)
	}
	if w.get("pools/"+used) == nil || w.get("pools/all") == nil || w.get("rules/assignment/"+used) == nil {
		w.Error("a pool that is used, or the pool of all, was removed")
	}
	w.apply(job("b", selecting("us")), noon)
	if w.get("pools/"+idle) == nil {
		w.Error("a pool that is used again was not put")
	}
	if removed, err := w.store.SweepPools(w.ctx, g, w.rules()); err != nil || len(removed) != 0 {
		w.Errorf("got %v, %v, want nothing to remove", removed, err)
	}
}

// noPoolIsSweptUnread: what this version cannot read, a newer one may, and its job needs its pool.
func noPoolIsSweptUnread(w *world) {
	g := w.term()
	r := w.apply(job("a", func(j *scheduler.Job) { j.Target.Selector = map[string]string{"zone": "eu"} }), noon)
	w.damage(w.jobKey(r))
	removed, err := w.store.SweepPools(w.ctx, g, w.rules())
	w.must(err)
	if pool := scheduler.PoolOf(r.Job).ID; len(removed) != 0 || w.get("pools/"+pool) == nil {
		w.Errorf("got %v removed, want the pool of a definition that cannot be read kept", removed)
	}
}
