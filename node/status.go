package node

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorumcron/quorumcron/scheduler"
	"github.com/quorumcron/quorumcron/scheduler/cron"
	"github.com/quorumcron/quorumcron/store"
)

// statusTimeout bounds what Status asks etcd: while etcd is silent it answers after so long, with what is
// known. A container's health check waits 3 s for that.
const statusTimeout = 2 * time.Second

// Status is the cluster as this member sees it. It answers while etcd is away too, with what it
// remembers and why it is not ready.
func (n *Node) Status(ctx context.Context) (scheduler.ClusterStatus, error) {
	if n.rules.Load() == nil {
		s, _, _, _ := n.overview(ctx)
		return s, nil
	}
	// Asked at the same time as the rules, so that a silent etcd is waited for once. Received below.
	health := make(chan *scheduler.EtcdHealth, 1)
	go func() { health <- n.etcdHealth(ctx) }()
	s, rules, members, err := n.overview(ctx)
	s.Etcd = <-health
	if err != nil {
		s.Warnings = append(s.Warnings, fmt.Sprintf("etcd does not answer; this is what %s remembers, and what is unaccounted it cannot tell: %v", n.cfg.Name, err))
		s.Warnings = append(s.Warnings, n.warnings(s, *rules, members, nil)...)
		return s, nil
	}
	jobs := n.account(ctx, *rules, &s)
	s.Warnings = append(s.Warnings, n.warnings(s, *rules, members, jobs)...)
	return s, nil
}

// overview is what Status and Members have in common: who is there and owns what. The rules are nil
// before this member has seen any. An error says why etcd did not answer: then the rules are those that are
// remembered.
func (n *Node) overview(ctx context.Context) (scheduler.ClusterStatus, *store.Rules, []scheduler.Member, error) {
	ready := n.Ready()
	s := scheduler.ClusterStatus{Readiness: ready, Member: n.cfg.Name, Now: n.cfg.Clock().Wall}
	if meta := n.meta.Load(); meta != nil {
		s.ClusterID, s.Format = meta.ClusterID, meta.Format
	}
	rules := n.rules.Load()
	if rules == nil {
		return s, nil, nil, nil
	}
	ask, done := context.WithTimeout(ctx, statusTimeout)
	defer done()
	fresh, silent := n.store.ReadRules(ask)
	if silent == nil {
		rules = &fresh
	}
	members, _ := n.dispatching.liveMembers()
	live := map[string]bool{}
	for _, m := range members {
		live[m.ID()] = true
	}
	all := rules.Assignments[scheduler.PoolAll]
	owned := map[string]int{}
	for shard := range scheduler.ShardCount {
		if id := all.Owner(scheduler.Shard(shard)); live[id] {
			s.ShardsOwned++
			owned[id]++
		}
	}
	if name, err := n.sessions.Dispatcher(ask); err == nil {
		s.Dispatcher = name
	}
	for _, m := range members {
		s.Members = append(s.Members, scheduler.MemberView{
			Member: m, ShardsOwned: owned[m.ID()], Dispatcher: m.Name == s.Dispatcher,
		})
	}
	for _, q := range rules.Quarantined {
		s.Quarantined = append(s.Quarantined, scheduler.Quarantined{Key: q.Key, Problem: q.Err.Error()})
	}
	return s, rules, members, silent
}

// Members are the live members, by name.
func (n *Node) Members(ctx context.Context) ([]scheduler.MemberView, error) {
	s, rules, _, _ := n.overview(ctx)
	if rules == nil {
		return nil, fmt.Errorf("%w: %s", scheduler.ErrUnavailable, strings.Join(s.Readiness.Reasons(), "; "))
	}
	return s.Members, nil
}

// account reads every job with its state, and counts the instants that no decision covers. It costs a
// read of all jobs, which is why nothing but a question does it. It returns the first job of each pool by
// name, and nil if not all jobs could be read.
func (n *Node) account(ctx context.Context, rules store.Rules, s *scheduler.ClusterStatus) map[string]scheduler.JobName {
	now, firstOf := n.cfg.Clock(), map[string]scheduler.JobName{}
	calendars := scheduler.NewCalendars()
	calendars.Replace(rules.Calendars, rules.UnreadCalendars)
	err := n.store.EachJob(ctx, func(r store.JobRecord, unreadable *store.Quarantined) {
		if unreadable != nil {
			s.Quarantined = append(s.Quarantined, scheduler.Quarantined{Key: unreadable.Key, Problem: unreadable.Err.Error()})
			return
		}
		pool := scheduler.PoolOf(r.Job).ID
		if first, ok := firstOf[pool]; !ok || r.Job.Name.String() < first.String() {
			firstOf[pool] = r.Job.Name
		}
		table, err := cron.Compile(r.Job.Schedule.Spec())
		if err != nil || r.StateRevision == 0 {
			return
		}
		excluded, err := calendars.Of(r.Job)
		if err != nil { // it is put aside; that nothing is excluded is the count that alarms
			s.Warnings = append(s.Warnings, fmt.Sprintf("job %s is put aside: %v", r.Job.Name, err))
		}
		s.Unaccounted += scheduler.Unaccounted(scheduler.View{
			Job: r.Job, Timetable: table, Excluded: excluded, State: r.State, StateRevision: r.StateRevision,
		}, now)
	})
	if err != nil {
		s.Warnings = append(s.Warnings, "not all jobs could be looked at: "+err.Error())
		return nil
	}
	return firstOf
}

// warnings are what an operator should look at though nothing has failed. FirstOf names a job of each pool
// that has one, so that a pool whose jobs are all deleted is no news; nil if that is not known.
func (n *Node) warnings(s scheduler.ClusterStatus, rules store.Rules, members []scheduler.Member, firstOf map[string]scheduler.JobName) []string {
	var w []string
	for _, pool := range slices.Sorted(keysOf(rules.Assignments)) {
		if len(rules.Assignments[pool].Members) > 0 {
			continue
		}
		if job, ok := firstOf[pool]; ok {
			w = append(w, fmt.Sprintf("pool %s has no member: its jobs cannot fire, %s for one", pool, job))
		} else if firstOf == nil {
			w = append(w, fmt.Sprintf("pool %s has no member: its jobs cannot fire", pool))
		}
	}
	if n.full() {
		w = append(w, "as many attempts run on "+n.cfg.Name+" as may: due instants wait")
	}
	for _, m := range members {
		if m.TZData != cron.Version() {
			w = append(w, fmt.Sprintf("member %s has time zones %s, %s has %s: upgrade one of them", m.Name, m.TZData, n.cfg.Name, cron.Version()))
		}
	}
	if s.Etcd != nil {
		w = append(w, s.Etcd.Warnings()...)
	}
	return w
}

func keysOf[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// etcdHealth asks etcd how it is; nil while it does not answer.
func (n *Node) etcdHealth(ctx context.Context) *scheduler.EtcdHealth {
	h := n.readSpace(ctx)
	if h == nil {
		return nil
	}
	ctx, done := context.WithTimeout(ctx, statusTimeout)
	defer done()
	if list, err := n.cfg.Client.MemberList(ctx); err == nil {
		h.Members = len(list.Members)
	}
	return h
}

// ownerOf names the member that owns a job's shard in its pool, as the rules last delivered say.
func (n *Node) ownerOf(pool string, job scheduler.JobName) string {
	rules := n.rules.Load()
	if rules == nil {
		return ""
	}
	id := rules.Assignments[pool].Owner(scheduler.ShardOf(job))
	name, _, _ := strings.Cut(id, "#")
	return name
}

// poolWarnings says if nobody could run a job.
func (n *Node) poolWarnings(job scheduler.Job) []string {
	members, known := n.dispatching.liveMembers()
	if !known {
		return nil
	}
	pool := scheduler.PoolOf(job)
	for _, m := range members {
		if pool.Matches(m) {
			return nil
		}
	}
	var wants []string
	for _, key := range slices.Sorted(keysOf(pool.Selector)) {
		wants = append(wants, "label "+key+"="+pool.Selector[key])
	}
	if pool.Handler != "" {
		wants = append(wants, fmt.Sprintf("handler %q", pool.Handler))
	}
	if wants == nil {
		return []string{"there is no live member: the job cannot fire until one joins"}
	}
	return []string{fmt.Sprintf("no live member has %s: the job cannot fire until one joins", strings.Join(wants, " and "))}
}
