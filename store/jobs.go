package store

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorumcron/quorumcron/scheduler"
)

// Job reads one job with its state. A job that does not exist, or is a tombstone, is ErrNotFound.
func (s *Store) Job(ctx context.Context, name scheduler.JobName) (JobRecord, error) {
	p, err := s.present(ctx, name)
	switch {
	case err != nil:
		return JobRecord{}, err
	case p.jobErr != nil:
		return JobRecord{}, fmt.Errorf("job %s: its stored definition: %w; apply the job again", name, p.jobErr)
	case p.job == nil || p.job.Tombstone():
		return JobRecord{}, fmt.Errorf("%w: job %s; `job list` shows what there is", scheduler.ErrNotFound, name)
	}
	r := JobRecord{Job: *p.job}
	if p.state != nil && p.state.UID == r.Job.UID {
		r.State, r.StateRevision = *p.state, p.stateKV.ModRevision
	}
	return r, nil
}

// mostInPage bounds one page of jobs or runs. It is more than any caller asks for (the API asks for one
// more than its largest page of 1000, to see whether there are more): a page cut here would pass for
// the last one.
const mostInPage = 2000

// Jobs reads the next at most q.Limit jobs with their states, ordered by namespace and name;
// tombstones and what cannot be read are left out. Fewer than q.Limit means that there are no more.
//
// Definitions lie in 256 shards, so that a page is merged from 256 ranges: each is read in small
// steps, and only as far as the page needs.
func (s *Store) Jobs(ctx context.Context, q scheduler.JobQuery) ([]JobRecord, error) {
	limit := min(max(q.Limit, 1), mostInPage)
	namespaces := []string{q.Namespace}
	if q.Namespace == "" {
		var err error
		if namespaces, err = s.namespaces(ctx); err != nil {
			return nil, fmt.Errorf("list jobs: %w", err)
		}
	}
	var page []JobRecord
	for _, ns := range namespaces {
		after := ""
		switch {
		case len(page) == limit:
			continue
		case ns < q.After.Namespace:
			continue
		case ns == q.After.Namespace:
			after = q.After.Name
		}
		jobs, err := s.jobsOf(ctx, ns, after, limit-len(page))
		if err != nil {
			return nil, fmt.Errorf("list jobs of namespace %s: %w", ns, err)
		}
		page = append(page, jobs...)
	}
	if _, err := s.addStates(ctx, page); err != nil {
		return nil, fmt.Errorf("list jobs: %w", err)
	}
	return page, nil
}

// shardRange is what has been read of one shard and not been taken yet.
type shardRange struct {
	from, end string
	values    []*mvccpb.KeyValue
	more      bool
}

// jobsOf merges the shards' definitions of a namespace in order of name.
func (s *Store) jobsOf(ctx context.Context, namespace, after string, limit int) ([]JobRecord, error) {
	ranges := make([]shardRange, scheduler.ShardCount)
	for i := range ranges {
		prefix := s.keys.jobs(scheduler.Shard(i)) + namespace + "/"
		ranges[i] = shardRange{from: prefix, end: clientv3.GetPrefixRangeEnd(prefix), more: true}
		if after != "" {
			ranges[i].from = prefix + after + "\x00"
		}
	}
	step := int64(limit/(scheduler.ShardCount/2) + 4)
	var page []JobRecord
	for len(page) < limit {
		if err := s.refill(ctx, ranges, step); err != nil {
			return nil, err
		}
		least, leastName := -1, ""
		for i := range ranges {
			if len(ranges[i].values) == 0 {
				continue
			}
			key := string(ranges[i].values[0].Key)
			if name := key[strings.LastIndexByte(key, '/')+1:]; least < 0 || name < leastName {
				least, leastName = i, name
			}
		}
		if least < 0 {
			break
		}
		kv := ranges[least].values[0]
		ranges[least].values = ranges[least].values[1:]
		if job, err := s.jobOf(kv); err == nil && !job.Tombstone() {
			page = append(page, JobRecord{Job: job})
		}
	}
	return page, nil
}

// rangesAtOnce is how many ranges one reading transaction asks for: half of what etcd allows.
const rangesAtOnce = 64

// refill reads on in every shard of which nothing is left to take.
func (s *Store) refill(ctx context.Context, ranges []shardRange, step int64) error {
	var dry []*shardRange
	for i := range ranges {
		if r := &ranges[i]; len(r.values) == 0 && r.more {
			dry = append(dry, r)
		}
	}
	for batch := range slices.Chunk(dry, rangesAtOnce) {
		gets := make([]clientv3.Op, len(batch))
		for i, r := range batch {
			gets[i] = clientv3.OpGet(r.from, clientv3.WithRange(r.end), clientv3.WithLimit(step))
		}
		resp, err := s.read(ctx, gets...)
		if err != nil {
			return err
		}
		for i, r := range batch {
			reply := resp.Responses[i].GetResponseRange()
			r.values, r.more = reply.GetKvs(), reply.GetMore()
			if n := len(r.values); n > 0 {
				r.from = string(r.values[n-1].Key) + "\x00"
			}
		}
	}
	return nil
}

// namespaces are the namespaces that have jobs or tombstones, sorted. Each shard is asked for its
// first key behind the namespaces already seen, so that the cost is the number of namespaces, not of
// jobs.
func (s *Store) namespaces(ctx context.Context) ([]string, error) {
	ranges := make([]shardRange, scheduler.ShardCount)
	for i := range ranges {
		prefix := s.keys.jobs(scheduler.Shard(i))
		ranges[i] = shardRange{from: prefix, end: clientv3.GetPrefixRangeEnd(prefix), more: true}
	}
	seen := map[string]bool{}
	for {
		if err := s.refill(ctx, ranges, 1); err != nil {
			return nil, err
		}
		done := true
		for i := range ranges {
			r := &ranges[i]
			if len(r.values) == 0 {
				r.more = false
				continue
			}
			key := string(r.values[0].Key)
			ns, _, _ := strings.Cut(strings.TrimPrefix(key, s.keys.jobs(scheduler.Shard(i))), "/")
			seen[ns] = true
			r.from = clientv3.GetPrefixRangeEnd(s.keys.jobs(scheduler.Shard(i)) + ns + "/")
			r.values, r.more, done = nil, true, false
		}
		if done {
			break
		}
	}
	names := make([]string, 0, len(seen))
	for ns := range seen {
		names = append(names, ns)
	}
	slices.Sort(names)
	return names, nil
}

// addStates reads the states of the jobs, and returns those that are not there or cannot be read.
func (s *Store) addStates(ctx context.Context, jobs []JobRecord) ([]Quarantined, error) {
	var bad []Quarantined
	for batch := range slices.Chunk(jobs, rangesAtOnce) {
		gets := make([]clientv3.Op, len(batch))
		for i, r := range batch {
			gets[i] = clientv3.OpGet(s.keys.state(scheduler.ShardOf(r.Job.Name), r.Job.Name))
		}
		resp, err := s.read(ctx, gets...)
		if err != nil {
			return nil, err
		}
		for i := range batch {
			name := batch[i].Job.Name
			kv := found(resp.Responses, i)
			if kv == nil {
				bad = append(bad, s.stateless(scheduler.ShardOf(name), name))
				continue
			}
			state, err := s.stateOf(kv)
			switch {
			case err != nil:
				bad = append(bad, Quarantined{Key: s.keys.short(string(kv.Key)), Job: name, Err: err})
			case state.UID == batch[i].Job.UID: // else the name was applied anew since the jobs were read
				batch[i].State, batch[i].StateRevision = state, kv.ModRevision
			}
		}
	}
	return bad, nil
}
