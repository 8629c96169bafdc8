package store_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorumcron/quorumcron/internal/memetcd"
	"github.com/quorumcron/quorumcron/scheduler"
	"github.com/quorumcron/quorumcron/store"
)

var noon = time.Date(2026, 12, 24, 12, 0, 0, 0, time.UTC)

func at(wall time.Time) scheduler.Reading { return scheduler.Reading{Wall: wall, Elapsed: time.Hour} }

// bench is a store behind a link that can be broken, and a second way to look at etcd.
type bench struct {
	*testing.T
	etcd   *memetcd.Store
	link   *memetcd.Link
	store  *store.Store
	watch  *clientv3.Client
	ctx    context.Context
	cancel context.CancelFunc
}

// inBubble runs a test in virtual time.
func inBubble(t *testing.T, run func(*bench)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t, etcd: memetcd.New(memetcd.Config{})}
		b.ctx, b.cancel = context.WithCancel(context.Background())
		b.link = b.etcd.Link("node-a")
		client := b.link.Client(b.ctx)
		b.watch = b.etcd.Link("witness").Client(b.ctx)
		b.store = store.New(client, store.Config{Prefix: "/q/"})
		storeCtx, stop := context.WithCancel(b.ctx)
		ended := make(chan error, 1)
		go func() { ended <- b.store.Run(storeCtx) }()
		_, err := b.store.Initialise(b.ctx)
		b.must(err)
		run(b)
		stop()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
		b.cancel()
		_ = client.Close()
		_ = b.watch.Close()
		b.etcd.Close()
	})
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bench) wantUnknown(what string, err error) {
	b.Helper()
	if !errors.Is(err, scheduler.ErrUnknown) {
		b.Fatalf("%s: got error %v, want an unknown outcome", what, err)
	}
}

// definition is a job that fires every minute.
func definition(name string) scheduler.Job {
	return scheduler.Job{
		Name:     scheduler.JobName{Namespace: "default", Name: name},
		Schedule: scheduler.Schedule{Cron: []string{"* * * * *"}},
		Run:      scheduler.Executable{Handler: &scheduler.HandlerCall{Name: "work"}},
	}
}

func (b *bench) apply(name string) store.JobRecord {
	b.Helper()
	j := definition(name)
	_, err := b.store.Apply(b.ctx, store.ApplyRequest{Job: j, Now: at(noon)})
	b.must(err)
	r, err := b.store.Job(b.ctx, j.Name)
	b.must(err)
	return r
}

func (b *bench) lease() int64 {
	b.Helper()
	resp, err := b.watch.Grant(b.ctx, 3600)
	b.must(err)
	return int64(resp.ID)
}

// begin plans the grant of the job's next minute.
func (b *bench) begin(r store.JobRecord, lease int64, nonce string) store.Claim {
	b.Helper()
	rules, err := b.store.ReadRules(b.ctx)
	b.must(err)
	return begin(r, rules.Revision, lease, nonce)
}

func begin(r store.JobRecord, rules, lease int64, nonce string) store.Claim {
	next := scheduler.Fill(r.State, r.StateRevision)
	slot := next.NextSlot
	next.NextSlot = (slot + 1) % next.Slots
	next.Cursor = next.Cursor.Add(time.Minute)
	f := scheduler.At(r.Job.UID, next.Cursor)
	next.Entries = append(next.Entries, scheduler.Entry{
		Firing: f, Attempt: 1, Generation: 1, Slot: slot, Member: "node-a", Nonce: nonce, Hold: 15 * time.Second, Granted: noon,
	})
	return store.Claim{
		Decision: scheduler.Decision{Kind: scheduler.KindBegin, Job: r.Job.Name, Firing: f, Attempt: 1, Slot: slot, Next: next},
		Shard:    scheduler.ShardOf(r.Job.Name), UID: r.Job.UID, JobRevision: r.Job.Revision, StateRevision: r.StateRevision,
		RulesRevision: rules, Lease: lease, Nonce: nonce,
	}
}

// grant begins and returns the end that the attempt will have.
func (b *bench) grant(name string) (store.JobRecord, store.Finish) {
	b.Helper()
	r := b.apply(name)
	c := b.begin(r, b.lease(), "n")
	out, err := b.store.Claim(b.ctx, c)
	b.must(err)
	if !out.Committed {
		b.Fatalf("begin: got %+v", out)
	}
	r.State, r.StateRevision = out.State, out.StateRevision
	return r, succeeded(r, c, out.Revision)
}

func succeeded(r store.JobRecord, c store.Claim, token int64) store.Finish {
	f := c.Decision.Firing
	return store.Finish{
		Lock: scheduler.Lock{Firing: f, Token: token, Nonce: c.Nonce}, Shard: c.Shard, Job: r.Job.Name, Slot: c.Decision.Slot,
		Run: scheduler.Run{Job: r.Job.Name, Firing: f, Generation: 1, Attempts: []scheduler.Attempt{
			{Number: 1, Token: token, Member: "node-a", Granted: noon, Verdict: scheduler.Succeeded},
		}},
	}
}

// versions is how often a key below the prefix was written since it was created.
func (b *bench) versions(key string) int64 {
	b.Helper()
	resp, err := b.watch.Get(b.ctx, "/q/"+key)
	b.must(err)
	if len(resp.Kvs) == 0 {
		return 0
	}
	return resp.Kvs[0].Version
}

func (b *bench) count(folder string) int64 {
	b.Helper()
	resp, err := b.watch.Get(b.ctx, "/q/"+folder, clientv3.WithPrefix(), clientv3.WithCountOnly())
	b.must(err)
	return resp.Count
}

// TestALateBeginNeverCommitsAfterItWasResolved: the request is applied after its caller gave up and
// after Resolve had read that there is no lock.
func TestALateBeginNeverCommitsAfterItWasResolved(t *testing.T) {
	inBubble(t, func(b *bench) {
		r := b.apply("a")
		held := b.link.Hold(memetcd.WritesTo("/q/locks/"))
		c := b.begin(r, b.lease(), "n")
		_, err := b.store.Claim(b.ctx, c)
		b.wantUnknown("claim", err)
		out, err := b.store.Resolve(b.ctx, c)
		b.must(err)
		if out.Committed || out.StateRevision <= r.StateRevision {
			b.Fatalf("resolve: got %+v, want it fenced", out)
		}
		landed, err := held.Land()
		b.must(err)
		resp := landed.(*etcdserverpb.TxnResponse)
		if !resp.Succeeded || resp.Responses[0].GetResponseTxn().GetSucceeded() || b.count("locks/") != 0 {
			b.Errorf("the late copy: got %v and %d locks, want it refused by its own guard", resp, b.count("locks/"))
		}
	})
}

// TestALateBeginFencesItsResolver: the same race the other way round.
func TestALateBeginIsFoundByItsResolver(t *testing.T) {
	inBubble(t, func(b *bench) {
		r := b.apply("a")
		held := b.link.Hold(memetcd.WritesTo("/q/locks/"))
		c := b.begin(r, b.lease(), "n")
		_, err := b.store.Claim(b.ctx, c)
		b.wantUnknown("claim", err)
		fence := b.link.Hold(memetcd.WritesTo("/q/state/"))
		resolved := make(chan store.Outcome, 1)
		go func() {
			out, err := b.store.Resolve(b.ctx, c)
			if err != nil {
				b.Errorf("resolve: %v", err)
			}
			resolved <- out
		}()
		<-fence.Caught() // It has read that there is no lock.
		_, err = held.Land()
		b.must(err)
		_, err = fence.Land()
		b.must(err)
		out := <-resolved
		if !out.Committed || len(out.State.Entries) != 1 || out.State.Entries[0].Token != out.Revision {
			b.Errorf("got %+v, want the grant that came after the read", out)
		}
	})
}

func TestABeginWhoseReplyIsLostIsFound(t *testing.T) {
	inBubble(t, func(b *bench) {
		r := b.apply("a")
		b.link.DropReplies(1, memetcd.WritesTo("/q/locks/"))
		c := b.begin(r, b.lease(), "n")
		_, err := b.store.Claim(b.ctx, c)
		b.wantUnknown("claim", err)
		out, err := b.store.Resolve(b.ctx, c)
		b.must(err)
		if b.link.Counts().RepliesDropped != 1 || !out.Committed || out.Revision != out.StateRevision || out.State.Entries[0].Token != out.Revision {
			b.Errorf("got %+v, want the grant with its token", out)
		}
	})
}

// TestResolvingGoesOnUntilItIsAnswered: through a cut, and no further than its context.
func TestResolvingGoesOnUntilItIsAnswered(t *testing.T) {
	inBubble(t, func(b *bench) {
		r := b.apply("a")
		c := b.begin(r, b.lease(), "n")
		b.link.Refuse()
		_, err := b.store.Claim(b.ctx, c)
		b.wantUnknown("claim", err)
		short, cancel := context.WithTimeout(b.ctx, 20*time.Second)
		defer cancel()
		_, err = b.store.Resolve(short, c)
		b.wantUnknown("resolve while etcd is away", err)
		go func() {
			time.Sleep(time.Minute)
			b.link.Mend()
		}()
		out, err := b.store.Resolve(b.ctx, c)
		b.must(err)
		if out.Committed || out.StateRevision == r.StateRevision {
			b.Errorf("got %+v, want it fenced when etcd came back", out)
		}
	})
}

func TestAFinishWhoseReplyIsLostIsRecordedOnce(t *testing.T) {
	inBubble(t, func(b *bench) {
		r, f := b.grant("a")
		b.link.DropReplies(2, memetcd.WritesTo("/q/runs/"))
		recorded, err := b.store.Finish(b.ctx, f)
		b.must(err)
		if !recorded || b.link.Counts().RepliesDropped != 2 || b.versions("runs/"+r.Job.UID+"/000") != 1 || b.count("locks/") != 0 {
			b.Errorf("recorded %v, written %d times, %d locks; want it recorded once", recorded, b.versions("runs/"+r.Job.UID+"/000"), b.count("locks/"))
		}
	})
}

// TestALateCopyOfAFinishWritesNothing: the first copy arrives after the second was answered, and after
// the slot was used again.
func TestALateCopyOfAFinishWritesNothing(t *testing.T) {
	inBubble(t, func(b *bench) {
		r, f := b.grant("a")
		held := b.link.Hold(memetcd.WritesTo("/q/runs/"))
		recorded, err := b.store.Finish(b.ctx, f)
		b.must(err)
		if !recorded {
			b.Fatal("the second copy was refused")
		}
		_, err = b.watch.Put(b.ctx, "/q/runs/"+r.Job.UID+"/000", "another firing's")
		b.must(err)
		_, err = held.Land()
		b.must(err)
		if n := b.versions("runs/" + r.Job.UID + "/000"); n != 2 {
			b.Errorf("the slot was written %d times, want 2: the late copy overwrote it", n)
		}
	})
}

func TestAFinishIsUnknownOnlyWhenItsTimeIsUp(t *testing.T) {
	inBubble(t, func(b *bench) {
		_, f := b.grant("a")
		b.link.Refuse()
		ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
		defer cancel()
		began := time.Now()
		_, err := b.store.Finish(ctx, f)
		b.wantUnknown("finish", err)
		if took := time.Since(began); took < time.Minute || took > 65*time.Second {
			b.Errorf("it gave up after %s, want a minute", took)
		}
		b.link.Mend()
		if recorded, err := b.store.Finish(b.ctx, f); err != nil || !recorded {
			b.Errorf("when etcd is back: got %v, %v", recorded, err)
		}
	})
}

func TestALateResultWhoseReplyIsLostIsCountedOnce(t *testing.T) {
	inBubble(t, func(b *bench) {
		r, f := b.grant("a")
		_, err := b.watch.Delete(b.ctx, "/q/locks/", clientv3.WithPrefix())
		b.must(err)
		b.link.DropReplies(2, memetcd.WritesTo("/q/runs/"))
		late, err := b.store.FinishLate(b.ctx, f)
		b.must(err)
		after, err := b.store.Job(b.ctx, r.Job.Name)
		b.must(err)
		if !late.Recorded || b.link.Counts().RepliesDropped == 0 || len(after.State.Counters) != 1 || after.State.Counters[0].Count != 1 {
			b.Errorf("got %+v and counters %+v, want it counted once", late, after.State.Counters)
		}
	})
}

func TestAnUnknownFoldIsSafeToPlanAgain(t *testing.T) {
	inBubble(t, func(b *bench) {
		r, f := b.grant("a")
		_, err := b.store.Finish(b.ctx, f)
		b.must(err)
		fold := store.Claim{
			Decision: scheduler.Decision{Kind: scheduler.KindFold, Job: r.Job.Name, Next: scheduler.ApplyEnd(r.State, r.Job, f.Run, f.Lock.Firing)},
			Shard:    f.Shard, UID: r.Job.UID, JobRevision: r.Job.Revision, StateRevision: r.StateRevision,
		}
		b.link.DropReplies(1, memetcd.WritesTo("/q/state/"))
		_, err = b.store.Settle(b.ctx, fold)
		b.wantUnknown("fold", err)
		out, err := b.store.Settle(b.ctx, fold)
		b.must(err)
		if out.Committed || len(out.State.Counters) != 1 || out.State.Counters[0].Count != 1 {
			b.Errorf("got %+v, want the second refused and one counted", out)
		}
	})
}

// TestUsersAreToldWhatIsUnknown: a lost reply is reported as unknown, and a repeat is safe.
func TestUsersAreToldWhatIsUnknown(t *testing.T) {
	inBubble(t, func(b *bench) {
		r := b.apply("a")
		request := scheduler.TriggerRequest{Job: r.Job.Name, RequestID: "x"}
		b.link.DropReplies(1, memetcd.WritesTo("/q/requests/"))
		lost, err := b.store.Trigger(b.ctx, request, at(noon))
		b.wantUnknown("trigger", err)
		again, err := b.store.Trigger(b.ctx, request, at(noon))
		b.must(err)
		if !again.Repeated || again.Firing != lost.Firing || b.count("triggers/") != 1 {
			b.Errorf("got %+v, then %+v and %d triggers, want one firing", lost, again, b.count("triggers/"))
		}
		changed := r.Job
		changed.Labels = map[string]string{"a": "b"}
		b.link.DropReplies(1, memetcd.WritesTo("/q/jobs/"))
		_, err = b.store.Apply(b.ctx, store.ApplyRequest{Job: changed, Now: at(noon)})
		b.wantUnknown("apply", err)
		edit, err := b.store.Apply(b.ctx, store.ApplyRequest{Job: changed, Now: at(noon)})
		b.must(err)
		if edit.Change != scheduler.Unchanged || edit.Job.Generation != 2 {
			b.Errorf("got %+v, want the first one found", edit)
		}
	})
}

// TestSilenceOfEtcdIsSaidToBeEtcds: who reads it looks at etcd, not at the node that answered.
func TestSilenceOfEtcdIsSaidToBeEtcds(t *testing.T) {
	inBubble(t, func(b *bench) {
		r := b.apply("a")
		b.link.Cut()
		defer b.link.Mend()
		_, list := b.store.Jobs(b.ctx, scheduler.JobQuery{Limit: 1})
		_, show := b.store.Job(b.ctx, r.Job.Name)
		_, write := b.store.Pause(b.ctx, store.EditRequest{Name: r.Job.Name, Now: at(noon)})
		for what, err := range map[string]error{"list": list, "show": show, "pause": write} {
			if !errors.Is(err, scheduler.ErrUnavailable) || !strings.Contains(err.Error(), "etcd") {
				t.Errorf("%s: got %v, want it unavailable, and etcd named", what, err)
			}
		}
	})
}

// TestAdviceNamesTheNamespace: a command that is advised can be copied, also for a job of another namespace.
func TestAdviceNamesTheNamespace(t *testing.T) {
	inBubble(t, func(b *bench) {
		job := definition("a")
		job.Name.Namespace = "prod"
		edit, err := b.store.Apply(b.ctx, store.ApplyRequest{Job: job, Now: at(noon)})
		b.must(err)
		_, err = b.store.Pause(b.ctx, store.EditRequest{Name: job.Name, Now: at(noon)})
		b.must(err)
		_, trigger := b.store.Trigger(b.ctx, scheduler.TriggerRequest{Job: job.Name, RequestID: "x"}, at(noon))
		_, show := b.store.RunByFiring(b.ctx, scheduler.At(edit.Job.UID, noon))
		_, cancel := b.store.Cancel(b.ctx, job.Name, scheduler.At("former", noon), "", at(noon))
		for what, err := range map[string]error{"trigger": trigger, "run show": show, "run cancel": cancel} {
			if err == nil || !strings.Contains(err.Error(), "--namespace prod`") {
				t.Errorf("%s: got %v, want a command with --namespace prod", what, err)
			}
		}
	})
}

// TestNoSpaceLeavesWritesUnknown: etcd answers "no space" also after it has applied a transaction.
func TestNoSpaceLeavesWritesUnknown(t *testing.T) {
	inBubble(t, func(b *bench) {
		r := b.apply("a")
		c := b.begin(r, b.lease(), "n")
		b.etcd.SetNoSpace(true)
		_, err := b.store.Claim(b.ctx, c)
		b.wantUnknown("claim", err)
		go func() {
			time.Sleep(30 * time.Second)
			b.etcd.SetNoSpace(false)
		}()
		out, err := b.store.Resolve(b.ctx, c)
		b.must(err)
		if out.Committed || out.StateRevision == r.StateRevision {
			b.Errorf("got %+v, want it fenced when there was space again", out)
		}
	})
}
