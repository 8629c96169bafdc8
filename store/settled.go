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
	type ended struct {
		job   int
		entry scheduler.Entry
	}
	var open []ended
	for i, r := range jobs {
		for _, e := range r.State.Entries {
			open = append(open, ended{job: i, entry: e})
		}
	}
	for batch := range slices.Chunk(open, rangesAtOnce/2) {
		gets := make([]clientv3.Op, 0, 2*len(batch))
		for _, o := range batch {
			gets = append(gets, clientv3.OpGet(s.keys.lock(o.entry.Firing, 0)), clientv3.OpGet(s.keys.run(o.entry.Firing.UID, o.entry.Slot)))
		}
		resp, err := s.read(ctx, gets...)
		if err != nil {
			return fmt.Errorf("read records of attempts in flight: %w", err)
		}
		for i, o := range batch {
			fact := factOf(o.entry, found(resp.Responses, 2*i), found(resp.Responses, 2*i+1), resp.Header.GetRevision())
			if fact.Record != nil {
				r := &jobs[o.job]
				r.State = scheduler.ApplyEnd(r.State, r.Job, *fact.Record, o.entry.Firing)
			}
		}
	}
	return nil
}
