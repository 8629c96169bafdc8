package store

import (
	"context"
	"fmt"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorumcron/quorumcron/scheduler"
)

// ShowSettled folds, in these copies alone, the attempts whose records are already there: an ended
// attempt stays in the state until the next write of it, which no reader should have to know. It
// writes nothing.
func (s *Store) ShowSettled(ctx context.Context, jobs []JobRecord) error {
	return s.readEntries(ctx, jobs, func(r *JobRecord, f EntryFact) {
		if f.Record != nil {
			r.State = scheduler.ApplyEnd(r.State, r.Job, *f.Record, f.Firing)
		}
	})
}

// readEntries reads lock and slot of each attempt in flight, many in one transaction: a new owner may find
// as many as it has jobs.
func (s *Store) readEntries(ctx context.Context, jobs []JobRecord, take func(*JobRecord, EntryFact)) error {
	type open struct {
		job   int
		entry scheduler.Entry
	}
	var all []open
	for i, r := range jobs {
		for _, e := range r.State.Entries {
			all = append(all, open{job: i, entry: e})
		}
	}
	for batch := range slices.Chunk(all, rangesAtOnce/2) {
		gets := make([]clientv3.Op, 0, 2*len(batch))
		for _, o := range batch {
			gets = append(gets, clientv3.OpGet(s.keys.lock(o.entry.Firing, 0)), clientv3.OpGet(s.keys.run(o.entry.Firing.UID, o.entry.Slot)))
		}
		resp, err := s.read(ctx, gets...)
		if err != nil {
			return fmt.Errorf("read records of attempts in flight: %w", err)
		}
		for i, o := range batch {
			take(&jobs[o.job], factOf(o.entry, found(resp.Responses, 2*i), found(resp.Responses, 2*i+1), resp.Header.GetRevision()))
		}
	}
	return nil
}
