package store_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quorumcron/quorumcron/internal/memetcd"
	"github.com/quorumcron/quorumcron/scheduler"
	"github.com/quorumcron/quorumcron/store"
)

// TestEachJobReportsWhatCannotBeRead: an operator who asks for the state of the cluster must see every
// job that starts nothing because of its records, whichever of the two it is.
func TestEachJobReportsWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	etcd := memetcd.New(memetcd.Config{})
	t.Cleanup(etcd.Close)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	client := etcd.Client(ctx)
	s := store.New(client, store.Config{Prefix: "/q/"})
	if _, err := s.Initialise(ctx); err != nil {
		t.Fatal(err)
	}
	now := scheduler.Reading{Wall: time.Date(2026, 12, 24, 12, 0, 0, 0, time.UTC), Elapsed: time.Hour}
	key := map[string]string{}
	for _, name := range []string{"definition", "state", "stateless", "well"} {
		job := scheduler.Job{
			Name:     scheduler.JobName{Namespace: "default", Name: name},
			Schedule: scheduler.Schedule{Cron: []string{"* * * * *"}},
			Run:      scheduler.Executable{Handler: &scheduler.HandlerCall{Name: "work"}},
		}.WithDefaults()
		if _, err := s.Apply(ctx, store.ApplyRequest{Job: job, Now: now}); err != nil {
			t.Fatal(err)
		}
		key[name] = fmt.Sprintf("%s/default/%s", scheduler.ShardOf(job.Name), name)
	}
	for _, spoilt := range []string{"/q/jobs/" + key["definition"], "/q/state/" + key["state"]} {
		if _, err := client.Put(ctx, spoilt, "\xff\xff"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := client.Delete(ctx, "/q/state/"+key["stateless"]); err != nil {
		t.Fatal(err)
	}

	bad, well := map[string]bool{}, 0
	err := s.EachJob(ctx, func(r store.JobRecord, q *store.Quarantined) {
		switch {
		case q != nil:
			bad[strings.TrimPrefix(q.Key, "/q/")] = q.Err != nil
		case r.StateRevision != 0:
			well++
		}
	})
	want := map[string]bool{"jobs/" + key["definition"]: true, "state/" + key["state"]: true, "state/" + key["stateless"]: true}
	if diff := cmp.Diff(want, bad); diff != "" || err != nil || well != 1 {
		t.Errorf("%v, %d well, quarantined (-want +got):\n%s", err, well, diff)
	}
}
