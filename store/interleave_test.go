package store_test

import (
	"errors"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorumcron/quorumcron/internal/memetcd"
	"github.com/quorumcron/quorumcron/scheduler"
	"github.com/quorumcron/quorumcron/store"
)

// between runs a call whose transaction, which writes below the prefix, arrives only after meddle has
// happened: what the call had read is out of date by then.
func (b *bench) between(prefix string, call, meddle func(*store.Store)) {
	b.Helper()
	held := b.link.Hold(memetcd.WritesTo("/q/" + prefix))
	done := make(chan struct{})
	go func() { defer close(done); call(b.store) }()
	<-held.Caught()
	meddle(b.other())
	_, err := held.Land()
	b.must(err)
	<-done
}

// other is another member's store, on a way of its own.
func (b *bench) other() *store.Store {
	b.Helper()
	s := store.New(b.watch, store.Config{Prefix: "/q/"})
	ended := make(chan error, 1)
	go func() { ended <- s.Run(b.ctx) }()
	b.Cleanup(func() { b.cancel(); <-ended })
	return s
}

func (b *bench) record(name string) store.JobRecord {
	b.Helper()
	r, err := b.other().Job(b.ctx, scheduler.JobName{Namespace: "default", Name: name})
	b.must(err)
	return r
}

func edit(r store.JobRecord, now time.Time, change func(*scheduler.Job)) store.ApplyRequest {
	j := r.Job
	change(&j)
	return store.ApplyRequest{Job: j, Now: at(now)}
}

func reschedule(j *scheduler.Job) { j.Schedule.Cron = []string{"30 * * * *"} }

func TestTwoAppliesAreTwoGenerations(t *testing.T) {
	inBubble(t, func(b *bench) {
		r := b.apply("a")
		b.between("jobs/", func(s *store.Store) {
			_, err := s.Apply(b.ctx, edit(r, noon, func(j *scheduler.Job) { j.HistoryLimit = 3 }))
			b.must(err)
		}, func(s *store.Store) {
			_, err := s.Apply(b.ctx, edit(r, noon, func(j *scheduler.Job) { j.HistoryLimit = 4 }))
			b.must(err)
		})
		if got := b.record("a").Job; got.Generation != 3 || got.HistoryLimit != 3 {
			b.Errorf("got generation %d with limit %d, want the third, and the later one's limit", got.Generation, got.HistoryLimit)
		}
	})
}

func TestAnEditNeverLosesAGrant(t *testing.T) {
	inBubble(t, func(b *bench) {
		r := b.apply("a")
		claim := b.begin(r, b.lease(), "n")
		b.between("jobs/", func(s *store.Store) {
			_, err := s.Apply(b.ctx, edit(r, noon.Add(90*time.Second), reschedule))
			b.must(err)
		}, func(s *store.Store) {
			out, err := s.Claim(b.ctx, claim)
			b.must(err)
			if !out.Committed {
				b.Fatalf("begin: got %+v", out)
			}
		})
		got := b.record("a")
		if len(got.State.Entries) != 1 || len(got.State.Counters) != 0 || !got.State.Cursor.Equal(noon.Add(90*time.Second)) {
			b.Errorf("got %+v, want the attempt in flight and its minute not skipped as well", got.State)
		}
	})
}

func TestADeleteCountsATriggerThatCameMeanwhile(t *testing.T) {
	inBubble(t, func(b *bench) {
		r := b.apply("a")
		b.between("jobs/", func(s *store.Store) {
			_, err := s.Delete(b.ctx, store.EditRequest{Name: r.Job.Name, Now: at(noon)})
			b.must(err)
		}, func(s *store.Store) {
			_, err := s.Trigger(b.ctx, scheduler.TriggerRequest{Job: r.Job.Name, RequestID: "x"}, at(noon))
			b.must(err)
		})
		u, err := b.store.ReadJob(b.ctx, scheduler.ShardOf(r.Job.Name), r.Job.Name)
		b.must(err)
		want := []scheduler.Counter{{Verdict: scheduler.Skipped, Reason: scheduler.ReasonDeleted, Count: 1}}
		if got := u.Jobs[0].State.Counters; len(u.Triggers) != 0 || len(got) != 1 || got[0] != want[0] {
			b.Errorf("got triggers %+v and counters %+v, want none and %+v", u.Triggers, got, want)
		}
	})
}

func TestARequestIsServedOnceByTwoMembers(t *testing.T) {
	inBubble(t, func(b *bench) {
		r := b.apply("a")
		request := scheduler.TriggerRequest{Job: r.Job.Name, RequestID: "x"}
		var slow, fast scheduler.TriggerReceipt
		var err error
		b.between("requests/", func(s *store.Store) {
			slow, err = s.Trigger(b.ctx, request, at(noon))
			b.must(err)
		}, func(s *store.Store) {
			fast, err = s.Trigger(b.ctx, request, at(noon))
			b.must(err)
		})
		if !slow.Repeated || slow.Firing != fast.Firing || b.count("triggers/") != 1 {
			b.Errorf("got %+v and %+v with %d triggers, want one firing", slow, fast, b.count("triggers/"))
		}
	})
}

func TestATriggerNeverOutlivesADelete(t *testing.T) {
	inBubble(t, func(b *bench) {
		r := b.apply("a")
		b.between("requests/", func(s *store.Store) {
			_, err := s.Trigger(b.ctx, scheduler.TriggerRequest{Job: r.Job.Name, RequestID: "x"}, at(noon))
			if !errors.Is(err, scheduler.ErrNotFound) {
				b.Errorf("got error %v, want not found", err)
			}
		}, func(s *store.Store) {
			_, err := s.Delete(b.ctx, store.EditRequest{Name: r.Job.Name, Now: at(noon)})
			b.must(err)
		})
		if n := b.count("triggers/"); n != 0 {
			b.Errorf("%d triggers wait below a tombstone", n)
		}
	})
}

func TestACancelIsNeverLeftForNobody(t *testing.T) {
	inBubble(t, func(b *bench) {
		r, f := b.grant("a")
		b.between("queue/", func(s *store.Store) {
			_, err := s.Cancel(b.ctx, r.Job.Name, f.Lock.Firing, "", at(noon))
			if !errors.Is(err, scheduler.ErrEnded) {
				b.Errorf("got error %v, want already ended", err)
			}
		}, func(s *store.Store) {
			recorded, err := s.Finish(b.ctx, f)
			b.must(err)
			if !recorded {
				b.Error("the finish was refused")
			}
		})
		if n := b.count("queue/"); n != 0 {
			b.Errorf("%d keys are left in the queue", n)
		}
	})
}

func TestATriggerThatBeganMeanwhileIsCancelledByItsMember(t *testing.T) {
	inBubble(t, func(b *bench) {
		r := b.apply("a")
		receipt, err := b.store.Trigger(b.ctx, scheduler.TriggerRequest{Job: r.Job.Name, RequestID: "x"}, at(noon))
		b.must(err)
		u, err := b.store.ReadJob(b.ctx, scheduler.ShardOf(r.Job.Name), r.Job.Name)
		b.must(err)
		claim := b.begin(r, b.lease(), "n")
		d := &claim.Decision
		d.Firing, d.Trigger, d.TriggerRevision = receipt.Firing, receipt.Firing.Trigger, u.Triggers[0].Trigger.Revision
		d.Next.Entries[0].Firing, d.Next.Cursor = receipt.Firing, r.State.Cursor
		b.between("triggers/", func(s *store.Store) {
			got, err := s.Cancel(b.ctx, r.Job.Name, receipt.Firing, "", at(noon))
			b.must(err)
			if got.Member != "node-a" || got.Dropped {
				b.Errorf("got %+v, want its member told", got)
			}
		}, func(s *store.Store) {
			out, err := s.Claim(b.ctx, claim)
			b.must(err)
			if !out.Committed {
				b.Fatalf("begin: got %+v", out)
			}
		})
		if got := b.record("a").State; len(got.Entries) != 1 || len(got.Counters) != 0 {
			b.Errorf("got %+v, want it in flight and not skipped", got)
		}
	})
}

func TestALateResultThatMeetsALoseIsDropped(t *testing.T) {
	inBubble(t, func(b *bench) {
		r, f := b.grant("a")
		_, err := b.watch.Delete(b.ctx, "/q/locks/", clientv3.WithPrefix())
		b.must(err)
		record := f.Run
		record.Attempts = []scheduler.Attempt{f.Run.Attempts[0]}
		record.Attempts[0].Verdict, record.Attempts[0].Reason = scheduler.Lost, scheduler.ReasonMemberLost
		lose := store.Claim{
			Decision: scheduler.Decision{
				Kind: scheduler.KindLose, Job: r.Job.Name, Firing: f.Lock.Firing, Attempt: 1, Slot: f.Slot, SlotBelow: f.Lock.Token,
				Record: &record, Next: scheduler.ApplyEnd(r.State, r.Job, record, f.Lock.Firing),
			},
			Shard: f.Shard, UID: r.Job.UID, JobRevision: r.Job.Revision, StateRevision: r.StateRevision,
		}
		b.between("runs/", func(s *store.Store) {
			late, err := s.FinishLate(b.ctx, f)
			b.must(err)
			if late.Recorded || late.Dropped == "" {
				b.Errorf("got %+v, want it dropped", late)
			}
		}, func(s *store.Store) {
			out, err := s.Settle(b.ctx, lose)
			b.must(err)
			if !out.Committed {
				b.Fatalf("lose: got %+v", out)
			}
		})
		want := scheduler.Counter{Verdict: scheduler.Lost, Reason: scheduler.ReasonMemberLost, Count: 1}
		if got := b.record("a").State.Counters; len(got) != 1 || got[0] != want {
			b.Errorf("got counters %+v, want %+v alone", got, want)
		}
	})
}

func TestAPoolThatIsUsedMeanwhileIsNotSwept(t *testing.T) {
	inBubble(t, func(b *bench) {
		r := b.apply("a")
		idle := func(j *scheduler.Job) { j.Target.Selector = map[string]string{"zone": "us"} }
		first, err := b.store.Apply(b.ctx, edit(r, noon, idle))
		b.must(err)
		back, err := b.store.Apply(b.ctx, edit(r, noon, func(j *scheduler.Job) { j.Target.Selector = nil }))
		b.must(err)
		rules, err := b.store.ReadRules(b.ctx)
		b.must(err)
		resp, err := b.watch.Put(b.ctx, "/q/election/dispatcher/1", "node-a")
		b.must(err)
		g := scheduler.Guard{Key: "/q/election/dispatcher/1", CreateRevision: resp.Header.Revision}
		b.between("pools/", func(s *store.Store) {
			removed, err := s.SweepPools(b.ctx, g, rules.Revision)
			if !errors.Is(err, store.ErrMoved) || len(removed) != 0 {
				b.Errorf("got %v, %v, want it refused", removed, err)
			}
		}, func(s *store.Store) {
			_, err := s.Apply(b.ctx, edit(r, noon, idle))
			b.must(err)
		})
		if b.versions("pools/"+scheduler.PoolOf(first.Job).ID) == 0 {
			b.Errorf("the pool of a job was removed (generation %d before)", back.Job.Generation)
		}
	})
}
