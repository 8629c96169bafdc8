package memetcd_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorumcron/quorumcron/internal/memetcd"
)

// world is a cluster with one link to break and one that stays whole, in a bubble.
type world struct {
	*testing.T
	store       *memetcd.Store
	link        *memetcd.Link
	here, there *clientv3.Client // over link, and over the other
}

func bubble(t *testing.T, f func(w *world)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memetcd.New(memetcd.Config{})
		t.Cleanup(s.Close)
		w := &world{T: t, store: s, link: s.Link("broken")}
		w.here, w.there = w.link.Client(t.Context()), s.Link("whole").Client(t.Context())
		f(w)
	})
}

// outcome is how a write ended, and when.
type outcome struct {
	err  error
	took time.Duration
}

// put writes a key over the broken link, and gives up after patience.
func (w *world) put(key string, patience time.Duration) <-chan outcome {
	c := make(chan outcome, 1)
	start := time.Now()
	go func() {
		ctx, cancel := context.WithTimeout(w.Context(), patience)
		defer cancel()
		_, err := w.here.Put(ctx, key, "x")
		c <- outcome{err, time.Since(start)}
	}()
	synctest.Wait()
	return c
}

func (w *world) exists(key string) bool {
	w.Helper()
	r, err := w.there.Get(w.Context(), key)
	if err != nil {
		w.Fatal(err)
	}
	return len(r.Kvs) > 0
}

func (w *world) want(what string, got, want any) {
	w.Helper()
	if got != want {
		w.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func (w *world) wantErr(what string, got, want error) {
	w.Helper()
	if !errors.Is(got, want) {
		w.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestCutHangsCallsUntilTheirDeadline(t *testing.T) {
	bubble(t, func(w *world) {
		w.link.Cut()
		o := <-w.put("a", 3*time.Second)
		w.wantErr("put", o.err, context.DeadlineExceeded)
		w.want("it took", o.took, 3*time.Second)
		patient := w.put("b", time.Minute)
		w.link.Mend()
		w.wantErr("put that still waited", (<-patient).err, nil)
		w.want("what was given up", w.exists("a"), false)
		w.want("what was waited for", w.exists("b"), true)
		c := w.link.Counts()
		w.want("hung", c.CallsHung, int64(1))
		w.want("lost", c.RequestsLost, int64(1))
		w.want("held", c.RequestsHeld, int64(2))
	})
}

func TestLongCutIsFoundByItsPings(t *testing.T) {
	bubble(t, func(w *world) {
		w.link.Cut()
		o := <-w.put("a", time.Minute)
		w.want("code", status.Code(o.err), codes.Unavailable)
		w.want("it took", o.took, 8*time.Second)
		o = <-w.put("b", 5*time.Second)
		w.wantErr("put without a connection", o.err, context.DeadlineExceeded)
		patient := w.put("c", time.Minute)
		w.link.Mend()
		w.wantErr("put that waited for a connection", (<-patient).err, nil)
		w.want("first", w.exists("a"), false)
		w.want("second", w.exists("b"), false)
		w.want("third", w.exists("c"), true)
		w.want("found dead", w.link.Counts().FoundDead, int64(1))
		w.want("refused", w.link.Counts().CallsRefused, int64(1))
	})
}

func TestCutInOneDirection(t *testing.T) {
	bubble(t, func(w *world) {
		w.link.CutReplies()
		o := <-w.put("a", time.Second)
		w.wantErr("put without a reply", o.err, context.DeadlineExceeded)
		w.want("carried out", w.exists("a"), true)
		w.want("replies lost", w.link.Counts().RepliesLost, int64(1))
		w.link.Mend()
		w.link.CutRequests()
		o = <-w.put("b", time.Second)
		w.wantErr("put that does not arrive", o.err, context.DeadlineExceeded)
		w.want("carried out", w.exists("b"), false)
	})
}

func TestRefuseEndsWhatIsUnderWay(t *testing.T) {
	bubble(t, func(w *world) {
		w.link.CutReplies()
		carried := w.put("a", time.Minute)
		w.link.Refuse()
		w.want("code", status.Code((<-carried).err), codes.Unavailable)
		w.want("carried out", w.exists("a"), true)
		o := <-w.put("b", 2*time.Second)
		w.wantErr("put without a connection", o.err, context.DeadlineExceeded)
		w.link.Mend()
		w.wantErr("put after it", (<-w.put("c", time.Second)).err, nil)
		w.want("what was refused", w.exists("b"), false)
	})
}

func TestDropRepliesCommits(t *testing.T) {
	bubble(t, func(w *world) {
		w.link.DropReplies(1, memetcd.WritesTo("lock/"))
		w.wantErr("another key", (<-w.put("other", time.Second)).err, nil)
		w.want("code", status.Code((<-w.put("lock/a", time.Second)).err), codes.Unavailable)
		w.want("carried out", w.exists("lock/a"), true)
		w.wantErr("the next", (<-w.put("lock/b", time.Second)).err, nil)
		w.want("dropped", w.link.Counts().RepliesDropped, int64(1))
		w.link.DropRequests(1, nil)
		w.want("code", status.Code((<-w.put("c", time.Second)).err), codes.Unavailable)
		w.want("carried out", w.exists("c"), false)
	})
}

func TestHeldRequestLandsAfterARead(t *testing.T) {
	bubble(t, func(w *world) {
		held := w.link.Hold(memetcd.WritesTo("a"))
		w.wantErr("put", (<-w.put("a", time.Second)).err, context.DeadlineExceeded)
		<-held.Caught()
		w.want("before it lands", w.exists("a"), false)
		time.Sleep(time.Hour)
		if _, err := held.Land(); err != nil {
			w.Fatal(err)
		}
		w.want("after it has landed", w.exists("a"), true)
		w.want("late", w.link.Counts().LateCommits, int64(1))
		_, err := held.Land()
		w.wantErr("a second landing", err, memetcd.ErrNotHeld)
		held = w.link.Hold(nil)
		o := w.put("c", time.Minute)
		w.link.Reset()
		w.want("code after a broken connection", status.Code((<-o).err), codes.Unavailable)
		if _, err := held.Land(); err != nil {
			w.Fatal(err)
		}
		w.want("landed after it", w.exists("c"), true)
		held = w.link.Hold(nil)
		o = w.put("b", time.Minute)
		held.Lose()
		w.want("code", status.Code((<-o).err), codes.Unavailable)
		w.want("lost", w.exists("b"), false)
	})
}

func TestCommitLateLandsByItself(t *testing.T) {
	bubble(t, func(w *world) {
		w.link.CommitLate(2, 5*time.Second, nil)
		o := <-w.put("a", time.Second)
		w.wantErr("put", o.err, context.DeadlineExceeded)
		w.want("at its deadline", w.exists("a"), false)
		time.Sleep(4*time.Second + time.Millisecond)
		w.want("after its delay", w.exists("a"), true)
		o = <-w.put("b", time.Minute)
		w.wantErr("patient put", o.err, nil)
		w.want("it took", o.took, 5*time.Second)
		w.want("late", w.link.Counts().LateCommits, int64(1))
	})
}

func TestPauseLosesNothing(t *testing.T) {
	bubble(t, func(w *world) {
		events := w.there.Watch(w.Context(), "", clientv3.WithPrefix())
		w.link.Pause()
		w.wantErr("put", (<-w.put("a", time.Second)).err, context.DeadlineExceeded)
		patient := w.put("b", time.Hour)
		time.Sleep(time.Minute)
		w.link.Resume()
		w.wantErr("patient put", (<-patient).err, nil)
		w.want("first event", string((<-events).Events[0].Kv.Key), "a")
		w.want("second event", string((<-events).Events[0].Kv.Key), "b")
		w.want("late", w.link.Counts().LateCommits, int64(1))
	})
}

func TestFrozenWatchesCatchUp(t *testing.T) {
	bubble(t, func(w *world) {
		events := w.here.Watch(w.Context(), "", clientv3.WithPrefix())
		w.link.FreezeWatches()
		for i := range 3 {
			w.wantErr("put", (<-w.put(fmt.Sprint(i), time.Second)).err, nil)
		}
		synctest.Wait()
		select {
		case r := <-events:
			w.Fatalf("a frozen watch says %v", r.Events)
		default:
		}
		w.link.ThawWatches()
		w.want("events", len((<-events).Events), 3)
		if w.link.Counts().WatchesHeld == 0 {
			w.Error("no watch was held")
		}
		w.link.FreezeWatches()
		w.wantErr("put", (<-w.put("4", time.Second)).err, nil)
		w.wantErr("put", (<-w.put("5", time.Second)).err, nil)
		if err := w.store.Compact(w.store.Rev()); err != nil {
			w.Fatal(err)
		}
		w.link.ThawWatches()
		r := <-events
		w.wantErr("watch overtaken by a compaction", r.Err(), rpctypes.ErrCompacted)
		w.want("compacted at", r.CompactRevision, w.store.Rev())
	})
}

func TestDropEventsLosesOne(t *testing.T) {
	bubble(t, func(w *world) {
		events := w.here.Watch(w.Context(), "", clientv3.WithPrefix())
		w.link.DropEvents(1, func(ev *clientv3.Event) bool { return string(ev.Kv.Key) == "b" })
		for _, key := range []string{"a", "b", "c", "b"} {
			w.wantErr("put", (<-w.put(key, time.Second)).err, nil)
		}
		for _, key := range []string{"a", "c", "b"} {
			w.want("event", string((<-events).Events[0].Kv.Key), key)
		}
		w.want("dropped", w.link.Counts().EventsDropped, int64(1))
	})
}

func TestDelayTakesItsTime(t *testing.T) {
	bubble(t, func(w *world) {
		w.link.Delay(20*time.Millisecond, 30*time.Millisecond)
		o := <-w.put("a", time.Second)
		w.want("it took", o.took, 50*time.Millisecond)
		start := time.Now()
		events := w.here.Watch(w.Context(), "a", clientv3.WithRev(2))
		<-events
		w.want("a watch took", time.Since(start), 50*time.Millisecond)
		o = <-w.put("b", 10*time.Millisecond)
		w.wantErr("put without patience", o.err, context.DeadlineExceeded)
		w.want("carried out", w.exists("b"), false)
		o = <-w.put("c", 40*time.Millisecond)
		w.wantErr("put that does not wait for its reply", o.err, context.DeadlineExceeded)
		w.want("carried out", w.exists("c"), true)
	})
}

func TestInjectDecidesEachCall(t *testing.T) {
	bubble(t, func(w *world) {
		boom := status.Error(codes.ResourceExhausted, "boom")
		w.link.Inject(func(c memetcd.Call) memetcd.Fate {
			if memetcd.WritesTo("bad")(c) {
				return memetcd.Fate{Err: boom}
			}
			return memetcd.Fate{ReplyDelay: time.Second}
		})
		w.wantErr("bad", (<-w.put("bad", time.Minute)).err, boom)
		w.want("good took", (<-w.put("good", time.Minute)).took, time.Second)
		w.link.ClearRules()
		w.wantErr("after the rules", (<-w.put("bad", time.Minute)).err, nil)
	})
}

func TestCloseEndsEverything(t *testing.T) {
	bubble(t, func(w *world) {
		w.link.Cut()
		o := w.put("a", time.Minute)
		events := w.there.Watch(w.Context(), "a")
		w.store.Close()
		w.want("code", status.Code((<-o).err), codes.Canceled)
		for r := range events {
			w.want("cancelled", r.Canceled, true)
		}
		_, err := w.there.Get(w.Context(), "a")
		w.want("code", status.Code(err), codes.Canceled)
	})
}
