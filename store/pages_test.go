package store_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/quorumcron/quorumcron/internal/memetcd"
	"github.com/quorumcron/quorumcron/scheduler"
	"github.com/quorumcron/quorumcron/store"
)

// TestTheLargestPageIsNotCut: the API asks for one entry more than its largest page, and takes fewer
// for the end of the list.
func TestTheLargestPageIsNotCut(t *testing.T) {
	t.Parallel()
	const largest = 1001
	etcd := memetcd.New(memetcd.Config{})
	t.Cleanup(etcd.Close)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s := store.New(etcd.Client(ctx), store.Config{Prefix: "/pages/"})
	if _, err := s.Initialise(ctx); err != nil {
		t.Fatal(err)
	}
	now := scheduler.Reading{Wall: time.Date(2026, 12, 24, 12, 0, 0, 0, time.UTC), Elapsed: time.Hour}
	for i := range largest {
		job := scheduler.Job{
			Name:     scheduler.JobName{Namespace: "default", Name: fmt.Sprintf("job-%04d", i)},
			Schedule: scheduler.Schedule{Cron: []string{"* * * * *"}},
			Run:      scheduler.Executable{Handler: &scheduler.HandlerCall{Name: "work"}},
		}.WithDefaults()
		if _, err := s.Apply(ctx, store.ApplyRequest{Job: job, Now: now}); err != nil {
			t.Fatal(err)
		}
	}
	jobs, err := s.Jobs(ctx, scheduler.JobQuery{Namespace: "default", Limit: largest})
	if err != nil || len(jobs) != largest {
		t.Errorf("listed %d jobs of %d, %v", len(jobs), largest, err)
	}
}
