package store

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// EachJob calls visit for every job of the cluster with its state, tombstones left out, in no useful
// order; what cannot be read, definition or state, is visited as quarantined. Definitions are read at one revision, page by
// page, and the states of a page after it, so that a state is never older than its definition.
func (s *Store) EachJob(ctx context.Context, visit func(JobRecord, *Quarantined)) error {
	_, err := s.paged(ctx, s.keys.allJobs(), 0, func(page *clientv3.GetResponse) error {
		var jobs []JobRecord
		for _, kv := range page.Kvs {
			job, err := s.jobOf(kv)
			switch {
			case err != nil:
				visit(JobRecord{}, &Quarantined{Key: s.keys.short(string(kv.Key)), Err: err})
			case !job.Tombstone():
				jobs = append(jobs, JobRecord{Job: job})
			}
		}
		bad, err := s.addStates(ctx, jobs)
		if err != nil {
			return err
		}
		for _, q := range bad {
			visit(JobRecord{}, &q)
		}
		for _, r := range jobs {
			visit(r, nil)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read all jobs: %w", err)
	}
	return nil
}
