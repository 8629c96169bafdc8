// Package storetest is the suite that package store must pass on any etcd: the in-memory one and a
// real server. Each test is one statement about a guard: what it lets pass, and what it refuses.
//
// It leaves faults of the network to store's own tests. It starts one store per test, under a prefix of
// its own, and waits for it to end.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorumcron/quorumcron/scheduler"
	"github.com/quorumcron/quorumcron/store"
)

// Run runs the suite. The client may be the same for all tests.
func Run(t *testing.T, client func(*testing.T) *clientv3.Client) {
	for _, group := range [][]test{firingTests(), endTests(), editTests(), calendarTests(), userTests(), listTests(), spaceTests(), followTests(), dispatchTests()} {
		for _, c := range group {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				c.run(newWorld(t, client(t)))
			})
		}
	}
}

// test is one statement about the store.
type test struct {
	name string
	run  func(*world)
}

// noon is when everything here happens. No test reads a clock.
var noon = time.Date(2026, 12, 24, 12, 0, 0, 0, time.UTC)

func at(wall time.Time) scheduler.Reading {
	return scheduler.Reading{Wall: wall, Elapsed: wall.Sub(noon) + time.Hour}
}

// world is one cluster's keys with a store on them.
type world struct {
	*testing.T
	store  *store.Store
	client *clientv3.Client
	prefix string
	ctx    context.Context
}

var worlds atomic.Int64

func newWorld(t *testing.T, client *clientv3.Client) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	name := strings.Map(func(r rune) rune {
		if r == '/' || r == '#' {
			return '-'
		}
		return r
	}, t.Name())
	w := &world{T: t, client: client, ctx: ctx, prefix: fmt.Sprintf("/storetest/%s-%d/", name, worlds.Add(1))}
	w.store = w.open()
	t.Cleanup(cancel)
	if _, err := w.store.Initialise(ctx); err != nil {
		t.Fatalf("initialise: %v", err)
	}
	return w
}

// open runs another store on the same keys, as another member has.
func (w *world) open() *store.Store {
	w.Helper()
	s := store.New(w.client, store.Config{Prefix: w.prefix})
	ctx, cancel := context.WithCancel(w.ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	w.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			w.Errorf("run: %v", err)
		}
	})
	return s
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// wantErr complains unless err is of the kind; it must never be unknown here.
func (w *world) wantErr(what string, err, kind error) {
	w.Helper()
	if !errors.Is(err, kind) {
		w.Errorf("%s: got error %v, want one that is %v", what, err, kind)
	}
}

// job is a definition that fires every minute.
func job(name string, changes ...func(*scheduler.Job)) scheduler.Job {
	j := scheduler.Job{
		Name:     scheduler.JobName{Namespace: "default", Name: name},
		Schedule: scheduler.Schedule{Cron: []string{"* * * * *"}},
		Run:      scheduler.Executable{Handler: &scheduler.HandlerCall{Name: "work"}},
	}
	for _, change := range changes {
		change(&j)
	}
	return j.WithDefaults()
}

// apply applies a definition at an instant and returns its record.
func (w *world) apply(j scheduler.Job, now time.Time) store.JobRecord {
	w.Helper()
	_, err := w.store.Apply(w.ctx, store.ApplyRequest{Job: j, Now: at(now)})
	w.must(err)
	return w.record(j.Name)
}

// read reads all there is of a job.
func (w *world) read(name scheduler.JobName) store.ShardUpdate {
	w.Helper()
	u, err := w.store.ReadJob(w.ctx, scheduler.ShardOf(name), name)
	w.must(err)
	return u
}

func (w *world) record(name scheduler.JobName) store.JobRecord {
	w.Helper()
	u := w.read(name)
	if len(u.Jobs) != 1 || len(u.Quarantined) != 0 {
		w.Fatalf("job %s: got %+v, want its definition and state", name, u)
	}
	return u.Jobs[0]
}

func (w *world) rules() int64 {
	w.Helper()
	r, err := w.store.ReadRules(w.ctx)
	w.must(err)
	return r.Revision
}

// moveRules puts rules/head, as every change of the rules does.
func (w *world) moveRules() {
	w.Helper()
	_, err := w.client.Put(w.ctx, w.prefix+"rules/head", "")
	w.must(err)
}

// lease grants a lock lease that outlives the test unless it is revoked.
func (w *world) lease() int64 {
	w.Helper()
	resp, err := w.client.Grant(w.ctx, 60)
	w.must(err)
	w.Cleanup(func() { _, _ = w.client.Revoke(context.Background(), resp.ID) })
	return int64(resp.ID)
}

func (w *world) revoke(lease int64) {
	w.Helper()
	_, err := w.client.Revoke(w.ctx, clientv3.LeaseID(lease))
	w.must(err)
}

// begin plans the grant of attempt 1 of the job's firing.
func (w *world) begin(r store.JobRecord, f scheduler.Firing, lease int64, nonce string) store.Claim {
	w.Helper()
	next := scheduler.Fill(r.State, r.StateRevision)
	slot := next.NextSlot
	next.NextSlot = (slot + 1) % next.Slots
	next.Entries = append(next.Entries, scheduler.Entry{
		Firing: f, Attempt: 1, Generation: r.Job.Generation, Slot: slot, Member: "node-a", Nonce: nonce,
		Hold: 15 * time.Second, Granted: noon, Due: noon,
	})
	d := scheduler.Decision{Kind: scheduler.KindBegin, Job: r.Job.Name, Firing: f, Attempt: 1, Slot: slot}
	if !f.Manual() {
		next.Cursor = f.Instant()
	}
	d.Next = next
	return w.claim(r, d, lease, nonce)
}

// claim completes a decision.
func (w *world) claim(r store.JobRecord, d scheduler.Decision, lease int64, nonce string) store.Claim {
	w.Helper()
	return store.Claim{
		Decision: d, Shard: scheduler.ShardOf(r.Job.Name), UID: r.Job.UID,
		JobRevision: r.Job.Revision, StateRevision: r.StateRevision, RulesRevision: w.rules(), Lease: lease, Nonce: nonce,
	}
}

// grant begins a firing that nothing is in the way of, and returns the job with the entry.
func (w *world) grant(r store.JobRecord, f scheduler.Firing, lease int64) (store.JobRecord, scheduler.Entry) {
	w.Helper()
	out, err := w.store.Claim(w.ctx, w.begin(r, f, lease, "nonce-"+f.Key()))
	w.must(err)
	if !out.Committed {
		w.Fatalf("begin of %s was refused: %+v", f, out)
	}
	r.State, r.StateRevision = out.State, out.StateRevision
	for _, e := range r.State.Entries {
		if e.Firing == f {
			return r, e
		}
	}
	w.Fatalf("begin of %s left no entry: %+v", f, out.State)
	return r, scheduler.Entry{}
}

// ended is the end of an attempt.
func ended(r store.JobRecord, e scheduler.Entry, v scheduler.Verdict) store.Finish {
	line := scheduler.Attempt{Number: e.Attempt, Token: e.Token, Member: e.Member, Granted: e.Granted, Verdict: v}
	return store.Finish{
		Lock:  scheduler.Lock{Firing: e.Firing, Token: e.Token, Nonce: e.Nonce},
		Shard: scheduler.ShardOf(r.Job.Name), Job: r.Job.Name, Slot: e.Slot,
		Run: scheduler.Run{
			Job: r.Job.Name, Firing: e.Firing, Generation: e.Generation, Slot: e.Slot,
			Attempts: append(append([]scheduler.Attempt(nil), e.Past...), line),
		},
	}
}

// lost plans to call an entry lost.
func (w *world) lost(r store.JobRecord, e scheduler.Entry) store.Claim {
	w.Helper()
	record := ended(r, e, scheduler.Lost).Run
	record.Attempts[len(record.Attempts)-1].Reason = scheduler.ReasonMemberLost
	d := scheduler.Decision{
		Kind: scheduler.KindLose, Job: r.Job.Name, Firing: e.Firing, Attempt: e.Attempt, Slot: e.Slot, SlotBelow: e.Token,
		Verdict: scheduler.Lost, Reason: scheduler.ReasonMemberLost, Record: &record,
		Next: scheduler.ApplyEnd(r.State, r.Job, record, e.Firing),
	}
	return w.claim(r, d, 0, "")
}

// folded plans to fold a record that was seen.
func (w *world) folded(r store.JobRecord, run scheduler.Run) store.Claim {
	w.Helper()
	d := scheduler.Decision{
		Kind: scheduler.KindFold, Job: r.Job.Name, Folded: []scheduler.Firing{run.Firing},
		Next: scheduler.ApplyEnd(r.State, r.Job, run, run.Firing),
	}
	return w.claim(r, d, 0, "")
}

// get reads a key below the prefix; nil if it is not there.
func (w *world) get(key string) []byte {
	w.Helper()
	resp, err := w.client.Get(w.ctx, w.prefix+key)
	w.must(err)
	if len(resp.Kvs) == 0 {
		return nil
	}
	if resp.Kvs[0].Value == nil {
		return []byte{}
	}
	return resp.Kvs[0].Value
}

// count counts the keys below a folder.
func (w *world) count(folder string) int64 {
	w.Helper()
	resp, err := w.client.Get(w.ctx, w.prefix+folder, clientv3.WithPrefix(), clientv3.WithCountOnly())
	w.must(err)
	return resp.Count
}

// footprint changes with every write below the prefix: the newest mod revision there, and how many
// keys there are. Other tests may share the server.
func (w *world) footprint() [2]int64 {
	w.Helper()
	resp, err := w.client.Get(w.ctx, w.prefix, append(clientv3.WithLastRev(), clientv3.WithPrefix())...)
	w.must(err)
	var newest int64
	if len(resp.Kvs) > 0 {
		newest = resp.Kvs[0].ModRevision
	}
	return [2]int64{newest, resp.Count}
}

// counted is the sum of a verdict in a state.
func counted(s scheduler.State, v scheduler.Verdict, why scheduler.Reason) int64 {
	for _, c := range s.Counters {
		if c.Verdict == v && c.Reason == why {
			return c.Count
		}
	}
	return 0
}

// refused complains unless the write was refused and the newest state came with it.
func (w *world) refused(what string, out store.Outcome, err error) {
	w.Helper()
	w.must(err)
	if out.Committed {
		w.Errorf("%s was committed: %+v", what, out)
	}
}
