package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorumcron/quorumcron/proto/quorumcron/stored/v1"
	"github.com/quorumcron/quorumcron/scheduler"
)

// InFlight are the records so far of what a state has in flight, oldest grant first: each entry and
// each owed retry as a run whose last attempt has no verdict. An owed attempt has no member yet.
func InFlight(name scheduler.JobName, s scheduler.State) []scheduler.Run {
	var runs []scheduler.Run
	add := func(f scheduler.Firing, generation int64, slot int, past []scheduler.Attempt, live scheduler.Attempt) {
		runs = append(runs, scheduler.Run{
			Job: name, Firing: f, Generation: generation, Slot: slot, Attempts: append(slices.Clone(past), live),
		})
	}
	for _, e := range s.Entries {
		add(e.Firing, e.Generation, e.Slot, e.Past,
			scheduler.Attempt{Number: e.Attempt, Token: e.Token, Member: e.Member, Granted: e.Granted})
	}
	for _, r := range s.Retries {
		add(r.Firing, r.Generation, r.Slot, r.Past, scheduler.Attempt{Number: r.Attempt})
	}
	return runs
}

// runsOf joins what is in flight with the records of the ring. A firing that is in both is shown
// once, with the attempt that is further: the record of an ended attempt that is not folded yet, or
// the attempt in flight after a recorded one.
func (s *Store) runsOf(name scheduler.JobName, state scheduler.State, ring []*mvccpb.KeyValue) []scheduler.Run {
	runs := InFlight(name, state)
	live := len(runs)
	for _, kv := range ring {
		r, err := s.runOf(kv)
		if err != nil {
			s.log.Debug("run not readable", "key", s.keys.short(string(kv.Key)), "err", err)
			continue
		}
		r.Job = name // a record in short form may not have it
		i := slices.IndexFunc(runs[:live], func(o scheduler.Run) bool { return o.Firing == r.Firing })
		switch {
		case i < 0:
			runs = append(runs, r)
		case r.Last().Number >= runs[i].Last().Number:
			runs[i] = r
		}
	}
	return runs
}

// mostScanned is how many jobs the runs of a namespace are collected from; beyond it, a job must be
// named.
const mostScanned = 20_000

// Runs reads the next at most q.Limit runs, those in flight included, in the order of
// scheduler.NewestFirst. Fewer than q.Limit means that there are no more.
func (s *Store) Runs(ctx context.Context, q scheduler.RunQuery) ([]scheduler.Run, error) {
	q.Limit = min(max(q.Limit, 1), mostInPage)
	if q.Job != "" {
		name := scheduler.JobName{Namespace: q.Namespace, Name: q.Job}
		runs, err := s.jobRuns(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("runs of job %s: %w", name, err)
		}
		return newest(runs, q), nil
	}
	var page []scheduler.Run
	scanned := 0
	err := s.eachState(ctx, q.Namespace, func(states []*mvccpb.KeyValue) error {
		if scanned += len(states); scanned > mostScanned {
			return fmt.Errorf("%w: there are more than %d jobs to look at; name a job", scheduler.ErrExhausted, mostScanned)
		}
		for batch := range slices.Chunk(states, rangesAtOnce/2) {
			runs, err := s.ringsOf(ctx, batch)
			if err != nil {
				return err
			}
			page = newest(append(page, runs...), q)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	return page, nil
}

// newest keeps what a query asks for, in its order.
func newest(runs []scheduler.Run, q scheduler.RunQuery) []scheduler.Run {
	slices.SortFunc(runs, func(a, b scheduler.Run) int { return scheduler.NewestFirst(a.Place(), b.Place()) })
	if q.After != nil {
		runs = slices.DeleteFunc(runs, func(r scheduler.Run) bool { return scheduler.NewestFirst(*q.After, r.Place()) >= 0 })
	}
	return runs[:min(len(runs), q.Limit)]
}

// jobRuns reads the runs of one job: the state, then the ring of its uid.
func (s *Store) jobRuns(ctx context.Context, name scheduler.JobName) ([]scheduler.Run, error) {
	resp, err := s.get(ctx, s.keys.state(scheduler.ShardOf(name), name))
	if err != nil {
		return nil, err
	}
	if len(resp.Kvs) == 0 {
		return nil, fmt.Errorf("%w: `job list` shows what there is", scheduler.ErrNotFound)
	}
	return s.ringsOf(ctx, resp.Kvs)
}

// ringsOf reads the rings of jobs and joins them with their states.
func (s *Store) ringsOf(ctx context.Context, states []*mvccpb.KeyValue) ([]scheduler.Run, error) {
	var names []scheduler.JobName
	var values []scheduler.State
	var gets []clientv3.Op
	for _, kv := range states {
		_, name, ok := s.keys.parseState(string(kv.Key))
		state, err := s.stateOf(kv)
		if !ok || err != nil {
			s.log.Debug("state not readable", "key", s.keys.short(string(kv.Key)), "err", err)
			continue
		}
		names, values = append(names, name), append(values, state)
		gets = append(gets, clientv3.OpGet(s.keys.runs(state.UID), clientv3.WithPrefix()))
	}
	if len(gets) == 0 {
		return nil, nil
	}
	resp, err := s.read(ctx, gets...)
	if err != nil {
		return nil, err
	}
	var runs []scheduler.Run
	for i, name := range names {
		runs = append(runs, s.runsOf(name, values[i], kvs(resp.Responses, i))...)
	}
	return runs, nil
}

// eachState reads the states of a namespace, or of all, in batches.
func (s *Store) eachState(ctx context.Context, namespace string, take func([]*mvccpb.KeyValue) error) error {
	ranges := make([]shardRange, scheduler.ShardCount)
	for i := range ranges {
		prefix := s.keys.states(scheduler.Shard(i))
		if namespace != "" {
			prefix += namespace + "/"
		}
		ranges[i] = shardRange{from: prefix, end: clientv3.GetPrefixRangeEnd(prefix), more: true}
	}
	for {
		if err := s.refill(ctx, ranges, rangesAtOnce); err != nil {
			return err
		}
		read := 0
		for i := range ranges {
			if n := len(ranges[i].values); n > 0 {
				read += n
				if err := take(ranges[i].values); err != nil {
					return err
				}
				ranges[i].values = nil
			}
		}
		if read == 0 {
			return nil
		}
	}
}

// RunByFiring finds a firing, whatever has become of it: a record, an attempt in flight, an owed
// retry, a trigger that waits, an instant in the backlog, or one that was SKIPPED or MISSED and still
// lies in a range. What was never granted is a run whose one attempt has the number 0. A firing that
// is none of these is ErrNotFound.
func (s *Store) RunByFiring(ctx context.Context, f scheduler.Firing) (scheduler.Run, error) {
	name, err := s.jobOfUID(ctx, f.UID)
	if err != nil {
		return scheduler.Run{}, fmt.Errorf("firing %s: %w", f, err)
	}
	p, err := s.present(ctx, name)
	switch {
	case err != nil:
		return scheduler.Run{}, fmt.Errorf("firing %s: %w", f, err)
	case p.state == nil || p.state.UID != f.UID:
		return scheduler.Run{}, fmt.Errorf("firing %s of job %s: %w", f, name, scheduler.ErrNotFound)
	}
	run, err := s.runIn(ctx, name, p, f)
	if err != nil {
		return scheduler.Run{}, fmt.Errorf("firing %s of job %s: %w", f, name, err)
	}
	return run, nil
}

// runIn looks for a firing in what was read of its job, and in its ring.
func (s *Store) runIn(ctx context.Context, name scheduler.JobName, p present, f scheduler.Firing) (scheduler.Run, error) {
	ring, err := s.get(ctx, s.keys.runs(f.UID), clientv3.WithPrefix())
	if err != nil {
		return scheduler.Run{}, err
	}
	for _, r := range s.runsOf(name, *p.state, ring.Kvs) {
		if r.Firing == f {
			return r, nil
		}
	}
	never := func(v scheduler.Verdict, why scheduler.Reason, message string) (scheduler.Run, error) {
		return scheduler.Run{Job: name, Firing: f, Attempts: []scheduler.Attempt{{Verdict: v, Reason: why, Message: message}}}, nil
	}
	for _, t := range p.triggers {
		if f.Manual() && t.ID == f.Trigger {
			return never("", "", "it waits for the owner of its job")
		}
	}
	if b := p.state.Backlog; b != nil && !f.Manual() && within(f, b.First, b.Last) {
		return never("", "", "it waits for the catch-up policy")
	}
	for _, r := range slices.Backward(p.state.Ranges) {
		if r.Trigger == f.Trigger && (f.Manual() || within(f, r.First, r.Last)) {
			return never(r.Verdict, r.Reason, "")
		}
	}
	return scheduler.Run{}, fmt.Errorf("%w: its record may have aged out; `run list --job %s` shows what is kept", scheduler.ErrNotFound, argument(name))
}

// jobOfUID finds the job of a uid: by a record, by a lock, or by looking through the states, which
// only a job without either needs, or one whose name does not fit into its short records.
func (s *Store) jobOfUID(ctx context.Context, uid string) (scheduler.JobName, error) {
	resp, err := s.read(ctx,
		clientv3.OpGet(s.keys.runs(uid), clientv3.WithPrefix(), clientv3.WithLimit(1)),
		clientv3.OpGet(s.keys.locks(uid), clientv3.WithPrefix(), clientv3.WithLimit(1)))
	if err != nil {
		return scheduler.JobName{}, err
	}
	var run storedv1.Run
	if kv := found(resp.Responses, 0); kv != nil && unmarshal(kv.Value, &run) == nil && run.GetName() != "" {
		return scheduler.JobName{Namespace: run.GetNamespace(), Name: run.GetName()}, nil
	}
	var lock storedv1.Lock
	if kv := found(resp.Responses, 1); kv != nil && unmarshal(kv.Value, &lock) == nil {
		return scheduler.JobName{Namespace: lock.GetNamespace(), Name: lock.GetName()}, nil
	}
	var name scheduler.JobName
	scanned := 0
	err = s.eachState(ctx, "", func(states []*mvccpb.KeyValue) error {
		if scanned += len(states); scanned > mostScanned {
			return fmt.Errorf("%w: it has no record yet, and there are more than %d jobs to look through", scheduler.ErrExhausted, mostScanned)
		}
		for _, kv := range states {
			var m storedv1.State
			if unmarshal(kv.Value, &m) == nil && m.GetUid() == uid {
				_, name, _ = s.keys.parseState(string(kv.Key))
				return errFound
			}
		}
		return nil
	})
	switch {
	case name.Name != "":
		return name, nil
	case err != nil:
		return name, err
	}
	return name, fmt.Errorf("%w: no job has the uid %s", scheduler.ErrNotFound, uid)
}

// errFound ends a search.
var errFound = errors.New("found")

func within(f scheduler.Firing, first, last time.Time) bool {
	at := f.Instant()
	return !at.Before(first) && !at.After(last)
}
