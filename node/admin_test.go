package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"github.com/quorumcron/quorumcron/executor"
	"github.com/quorumcron/quorumcron/proto/quorumcron/stored/v1"
	"github.com/quorumcron/quorumcron/scheduler"
)

func TestTriggerFiresOncePerRequestID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := three(t)
		defer b.close()
		job := b.apply(handlerJob("manual", time.Hour, "work", ""))
		var first scheduler.Firing
		for i, name := range []string{"a", "b", "c"} { // any member serves it
			receipt, err := b.members[name].Trigger(t.Context(), scheduler.TriggerRequest{Job: job.Name, RequestID: "once"})
			if err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				first = receipt.Firing
			}
			if receipt.Firing != first || receipt.Repeated != (i > 0) {
				t.Errorf("call %d: firing %s, repeated %v; want %s", i, receipt.Firing, receipt.Repeated, first)
			}
		}
		time.Sleep(5 * time.Second)
		if seen := b.witnessed(); len(seen) != 1 || seen[0].id.Firing != first {
			t.Errorf("starts %v, want one of %s", seen, first)
		}
	})
}

func TestCancelEndsARunningAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := three(t)
		defer b.close()
		job := b.apply(handlerJob("long", time.Hour, "slow", "1h"))
		receipt, err := b.any().Trigger(t.Context(), scheduler.TriggerRequest{Job: job.Name, RequestID: "r"})
		if err != nil {
			t.Fatal(err)
		}
		r := b.run(job, 5*time.Second, "running", running)
		for _, m := range b.members {
			if m.cfg.Name == r.Last().Member {
				continue // ask one that does not run it
			}
			member, err := m.Cancel(t.Context(), receipt.Firing)
			if err != nil || member != r.Last().Member {
				t.Fatalf("cancel told %q, %v; want member %q", member, err, r.Last().Member)
			}
			break
		}
		b.run(job, 2*time.Second, "CANCELED", func(r scheduler.Run) bool { return r.Last().Verdict == scheduler.Canceled })
		if seen := b.witnessed(); len(seen) != 1 || !errors.Is(seen[0].cause, executor.ErrCanceled) {
			t.Errorf("handler saw %+v, want ErrCanceled", seen)
		}
		if _, err := b.any().Cancel(t.Context(), receipt.Firing); !errors.Is(err, scheduler.ErrEnded) {
			t.Errorf("cancel of an ended firing: %v, want ErrEnded", err)
		}
	})
}

func TestNothingIsGrantedAfterTheReplyToAPauseOrDelete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := three(t)
		defer b.close()
		paused := b.apply(handlerJob("paused", time.Second, "work", ""))
		deleted := b.apply(handlerJob("deleted", time.Second, "work", ""))
		time.Sleep(3300 * time.Millisecond)
		if _, err := b.any().Pause(t.Context(), paused.Name, 0); err != nil {
			t.Fatal(err)
		}
		// Its last attempt has ended, and is not folded yet: nothing of it runs.
		if edit, err := b.any().Delete(t.Context(), deleted.Name, 0); err != nil || edit.Running != 0 {
			t.Fatalf("delete: %d running, %v; want none", edit.Running, err)
		}
		replied := time.Now().UTC()
		time.Sleep(10 * time.Second)
		for _, s := range b.witnessed() {
			if s.at.After(replied) {
				t.Errorf("firing %s of job %s started %s after the reply", s.id.Firing, s.id.Job, s.at.Sub(replied))
			}
		}
		before := len(b.witnessed())
		if _, err := b.any().Resume(t.Context(), paused.Name, 0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		if more := len(b.witnessed()) - before; more < 2 || more > 3 {
			t.Errorf("%d starts in the 3 s after the resume, want 2 or 3: none of the pause's instants is made up", more)
		}
		b.accounts(paused, time.Now().Add(-2*time.Second))
		if _, err := b.any().Job(t.Context(), deleted.Name); !errors.Is(err, scheduler.ErrNotFound) {
			t.Errorf("deleted job: %v, want ErrNotFound", err)
		}
	})
}

func TestEditActsOnlyOnInstantsAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := three(t)
		defer b.close()
		job := b.apply(handlerJob("edited", time.Hour, "work", ""))
		time.Sleep(30 * time.Minute)
		job.Schedule.Every = time.Minute
		b.apply(job) // 29 instants of the new schedule lie behind it
		time.Sleep(150 * time.Second)
		if n := len(b.witnessed()); n < 2 || n > 3 {
			t.Errorf("%d starts in the 150 s after the edit, want 2 or 3", n)
		}
		if edit, err := b.any().Apply(t.Context(), job, 0); err != nil || edit.Change != scheduler.Unchanged {
			t.Errorf("the same definition again: %v, %v; want unchanged", edit.Change, err)
		}
	})
}

func TestSweptTombstoneLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := three(t)
		defer b.close()
		job := b.apply(handlerJob("gone", time.Second, "work", ""))
		time.Sleep(5 * time.Second)
		if _, err := b.any().Delete(t.Context(), job.Name, 0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(scheduler.SweepAfter + time.Minute)
		for _, prefix := range []string{"jobs/", "state/", "runs/", "locks/", "triggers/"} {
			if n := b.count(prefix); n != 0 {
				t.Errorf("%d keys left below %s", n, prefix)
			}
		}
	})
}

func TestUnreadableRecordStopsOnlyItsJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := three(t)
		defer b.close()
		bad := b.apply(handlerJob("bad", time.Second, "work", ""))
		good := b.apply(handlerJob("good", time.Second, "work", ""))
		time.Sleep(2 * time.Second)
		key := "/quorumcron/jobs/" + fmt.Sprintf("%02x", uint8(scheduler.ShardOf(bad.Name))) + "/" + bad.Name.String()
		if _, err := b.etcd.Client(t.Context()).Put(t.Context(), key, "\xff\xff not a job"); err != nil {
			t.Fatal(err)
		}
		put := time.Now()
		time.Sleep(5 * time.Second)
		goods := 0
		for _, s := range b.witnessed() {
			switch {
			case s.at.Before(put.Add(time.Second)):
			case s.id.Job == bad.Name:
				t.Errorf("unreadable job fired %s", s.id.Firing)
			case s.id.Job == good.Name:
				goods++
			}
		}
		if goods < 3 {
			t.Errorf("the other job fired %d times in 4 s", goods)
		}
		status, err := b.any().Status(t.Context())
		if err != nil || len(status.Quarantined) != 1 {
			t.Errorf("status reports %v, %v; want the unreadable record", status.Quarantined, err)
		}
	})
}

// TestScheduleThatCannotBeReadStopsOnlyItsJob: a newer member may have stored what this version does not know.
func TestScheduleThatCannotBeReadStopsOnlyItsJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		defer b.close()
		b.join("only")
		b.ready()
		bad := b.apply(handlerJob("bad", time.Second, "work", ""))
		good := b.apply(handlerJob("good", time.Second, "work", ""))
		time.Sleep(2500 * time.Millisecond)
		key := "/quorumcron/jobs/" + scheduler.ShardOf(bad.Name).String() + "/" + bad.Name.String()
		client := b.etcd.Client(t.Context())
		resp, err := client.Get(t.Context(), key)
		if err != nil || len(resp.Kvs) != 1 {
			t.Fatal(resp, err)
		}
		var stored storedv1.Job
		if err := proto.Unmarshal(resp.Kvs[0].Value, &stored); err != nil {
			t.Fatal(err)
		}
		stored.Schedule.Cron = []string{"an expression of a newer version"}
		value, err := proto.Marshal(&stored)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Put(t.Context(), key, string(value)); err != nil {
			t.Fatal(err)
		}
		put := time.Now()
		time.Sleep(10 * time.Second)
		if n := b.startsAfter(bad, put.Add(time.Second)); n != 0 {
			t.Errorf("it was started %d times, by a schedule that nobody can read", n)
		}
		if n := b.startsAfter(good, put); n < 9 {
			t.Errorf("the other job was started %d times in 10 s", n)
		}
		if view, err := b.any().Job(t.Context(), bad.Name); err != nil || view.Problem == "" {
			t.Errorf("it is shown as %+v, %v; want why it is put aside", view, err)
		}
	})
}

func TestUnreadableTriggerStopsNotEvenItsJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		defer b.close()
		metrics := prometheus.NewRegistry()
		b.join("only", func(c *Config) { c.Metrics = metrics })
		b.ready()
		job := b.apply(handlerJob("asked", time.Second, "work", ""))
		time.Sleep(2500 * time.Millisecond)
		key := "/quorumcron/triggers/" + fmt.Sprintf("%02x", uint8(scheduler.ShardOf(job.Name))) + "/" + job.Name.String() + "/strange"
		if _, err := b.etcd.Client(t.Context()).Put(t.Context(), key, "\xff\xff not a trigger"); err != nil {
			t.Fatal(err)
		}
		put := time.Now()
		time.Sleep(3 * marksEvery)
		if n := b.startsAfter(job, put); n < 179 {
			t.Errorf("%d starts in three minutes, want 180", n)
		}
		families, err := metrics.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if v := f.GetMetric()[0].GetCounter().GetValue(); f.GetName() == "quorumcron_records_quarantined_total" && v != 1 {
				t.Errorf("%g unreadable records are counted, want 1", v)
			}
		}
	})
}

func TestStatusOfAHealthyCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := three(t)
		defer b.close()
		b.apply(handlerJob("tick", time.Second, "work", ""))
		time.Sleep(10500 * time.Millisecond)
		for name, m := range b.members {
			s, err := m.Status(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if s.ShardsOwned != 256 || s.Unaccounted != 0 || len(s.Members) != 3 || s.Dispatcher == "" || !s.Readiness.Ready {
				t.Errorf("member %s: %d shards owned, %d unaccounted, %d members, dispatcher %q, ready %v: %v",
					name, s.ShardsOwned, s.Unaccounted, len(s.Members), s.Dispatcher, s.Readiness.Ready, s.Readiness.Reasons())
			}
		}
	})
}

// TestStatusWaitsOnceForASilentEtcd: a container is judged by this answer, and gives it 3 s.
func TestStatusWaitsOnceForASilentEtcd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := three(t)
		defer b.close()
		b.apply(handlerJob("tick", time.Second, "work", ""))
		m := b.any()
		m.link.Cut()
		m.unreachable = true
		asked := time.Now()
		s, err := m.Status(t.Context())
		if took := time.Since(asked); err != nil || took > 2500*time.Millisecond {
			t.Errorf("it took %v, %v; want an answer within 2.5 s", took, err)
		}
		if s.Etcd != nil || len(s.Members) != 3 || len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0], "etcd does not answer") {
			t.Errorf("%d members, etcd %v, warnings %q; want 3, none, and that etcd does not answer", len(s.Members), s.Etcd, s.Warnings)
		}
	})
}

// TestStatusWarnsOfAPoolOnlyWhileAJobNeedsIt: the rules keep a pool whose jobs are deleted.
func TestStatusWarnsOfAPoolOnlyWhileAJobNeedsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := three(t)
		defer b.close()
		job := handlerJob("nowhere", time.Second, "work", "")
		job.Target.Selector = map[string]string{"zone": "mars"}
		b.apply(job)
		time.Sleep(5 * time.Second)
		warned := func() bool {
			s, err := b.any().Status(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return slices.ContainsFunc(s.Warnings, func(w string) bool {
				return strings.Contains(w, "has no member") && strings.Contains(w, job.Name.String())
			})
		}
		if !warned() {
			t.Error("no warning names the job that nobody can run")
		}
		if _, err := b.any().Delete(t.Context(), job.Name, 0); err != nil {
			t.Fatal(err)
		}
		if warned() {
			t.Error("the pool is still warned of when its job is deleted")
		}
	})
}

func TestJobWithoutAMemberIsSaidSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := three(t)
		defer b.close()
		job := handlerJob("nowhere", time.Second, "work", "")
		job.Target.Selector = map[string]string{"zone": "mars"}
		edit, err := b.any().Apply(t.Context(), job, 0)
		const want = `no live member has label zone=mars and handler "work": the job cannot fire until one joins`
		if err != nil || len(edit.Warnings) != 1 || edit.Warnings[0] != want {
			t.Fatalf("apply: warnings %q, %v; want %q", edit.Warnings, err, want)
		}
		b.join("rover", func(c *Config) { c.Labels = map[string]string{"zone": "mars"} })
		time.Sleep(10 * time.Second)
		seen := b.witnessed()
		if len(seen) == 0 {
			t.Fatal("it did not fire when a member had joined")
		}
		for _, s := range seen {
			if s.id.Member != "rover" {
				t.Errorf("fired on %s, which its selector does not match", s.id.Member)
			}
		}
	})
}

func TestAttemptsThatNeverComeAreSaidSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := three(t)
		defer b.close()
		job := handlerJob("hopeful", time.Hour, "work", "")
		job.Policy.Retry.MaxAttempts = 3
		if edit, err := b.any().Apply(t.Context(), job, 0); err != nil || len(edit.Warnings) != 1 {
			t.Errorf("apply: warnings %v, %v; want one", edit.Warnings, err)
		}
		job.Policy.OnLost = scheduler.OnLostRetry
		if edit, err := b.any().Apply(t.Context(), job, 0); err != nil || len(edit.Warnings) != 0 {
			t.Errorf("apply: warnings %v, %v; want none", edit.Warnings, err)
		}
	})
}

func TestEditsAreRefusedWithAnOldToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := three(t)
		defer b.close()
		job := b.apply(handlerJob("token", time.Hour, "work", ""))
		if _, err := b.any().Pause(t.Context(), job.Name, job.Revision); err != nil {
			t.Fatal(err)
		}
		if _, err := b.any().Resume(t.Context(), job.Name, job.Revision); !errors.Is(err, scheduler.ErrConflict) {
			t.Errorf("resume with an old token: %v, want ErrConflict", err)
		}
	})
}

func TestWatchersSeeStartsAndEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		defer b.close()
		m := b.join("only")
		b.ready()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		events := make(chan scheduler.RunEvent, 100) // more than a test sees
		go func() {
			_ = m.WatchRuns(ctx, func(e scheduler.RunEvent) error { events <- e; return nil })
		}()
		b.apply(handlerJob("tick", time.Second, "work", ""))
		time.Sleep(1500 * time.Millisecond)
		started, finished := <-events, <-events
		if started.Finished || !finished.Finished || finished.Run.Last().Verdict != scheduler.Succeeded {
			t.Errorf("events %+v and %+v, want a start and a success", started, finished)
		}
	})
}

// TestApplyWarnsOfAScheduleThatHasPassed: it is stored, for an old file may be applied again, but not in silence.
func TestApplyWarnsOfAScheduleThatHasPassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := three(t)
		defer b.close()
		now := time.Now().UTC().Truncate(time.Second)
		for _, test := range []struct {
			name     string
			change   func(*scheduler.Job)
			warnings int
		}{
			{"past", func(j *scheduler.Job) { j.Schedule = scheduler.Schedule{At: []time.Time{now.Add(-time.Hour)}} }, 1},
			{"over", func(j *scheduler.Job) { j.Schedule.End = now.Add(-time.Hour) }, 1},
			{"paused", func(j *scheduler.Job) { j.Schedule.End, j.Paused = now.Add(-time.Hour), true }, 0},
			{"soon", func(j *scheduler.Job) { j.Schedule = scheduler.Schedule{At: []time.Time{now.Add(time.Hour)}} }, 0},
		} {
			job := handlerJob(test.name, time.Minute, "work", "")
			test.change(&job)
			edit, err := b.any().Apply(t.Context(), job, 0)
			if err != nil || len(edit.Warnings) != test.warnings || test.warnings > 0 && !strings.Contains(edit.Warnings[0], "have passed") {
				t.Errorf("%s: warnings %q, %v; want %d", test.name, edit.Warnings, err, test.warnings)
			}
		}
	})
}

// TestAnIntervalThatEndsBeforeItsFirstInstantCanBeTriggered: it gets its origin when it is stored, and with that
// its schedule has ended. That is no record that nobody can read.
func TestAnIntervalThatEndsBeforeItsFirstInstantCanBeTriggered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := three(t)
		defer b.close()
		def := handlerJob("short", time.Hour, "work", "")
		def.Schedule.End = time.Now().UTC().Truncate(time.Second).Add(30 * time.Minute)
		job := b.apply(def)
		if _, err := b.any().Trigger(t.Context(), scheduler.TriggerRequest{Job: job.Name, RequestID: "r"}); err != nil {
			t.Fatal(err)
		}
		b.run(job, 5*time.Second, "ended", func(r scheduler.Run) bool { return r.Last().Verdict == scheduler.Succeeded })
	})
}
