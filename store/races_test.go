package store_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/quorumcron/quorumcron/internal/memetcd"
	"github.com/quorumcron/quorumcron/proto/quorumcron/stored/v1"
	"github.com/quorumcron/quorumcron/scheduler"
	"github.com/quorumcron/quorumcron/store"
)

// TestAThousandBeginsAreAFewProposals: the claims of a burst share transactions, and each has its own
// outcome.
func TestAThousandBeginsAreAFewProposals(t *testing.T) {
	inBubble(t, func(b *bench) {
		const jobs = 1000
		b.link.Delay(time.Millisecond, time.Millisecond)
		lease := b.lease()
		rules, err := b.store.ReadRules(b.ctx)
		b.must(err)
		records := make([]store.JobRecord, jobs)
		for i := range records {
			records[i] = b.apply(fmt.Sprint("job-", i))
		}
		before := b.etcd.Stats()
		finishes := make([]store.Finish, jobs)
		var callers sync.WaitGroup
		for i, r := range records {
			callers.Go(func() {
				c := begin(r, rules.Revision, lease, fmt.Sprint("n-", i))
				if i%10 == 0 {
					c.StateRevision-- // One in ten is out of date.
				}
				out, err := b.store.Claim(b.ctx, c)
				if err != nil || out.Committed != (i%10 != 0) {
					b.Errorf("claim %d: got %+v, %v", i, out, err)
					return
				}
				finishes[i] = succeeded(r, c, out.Revision)
			})
		}
		callers.Wait()
		for i := range finishes {
			if i%10 == 0 {
				continue
			}
			callers.Go(func() {
				if recorded, err := b.store.Finish(b.ctx, finishes[i]); err != nil || !recorded {
					b.Errorf("finish %d: got %v, %v", i, recorded, err)
				}
			})
		}
		callers.Wait()
		after := b.etcd.Stats()
		proposals, granted := after.Proposals-before.Proposals, int64(jobs*9/10)
		keys := after.Puts - before.Puts + after.Deletes - before.Deletes
		b.Logf("%d firings: %d proposals, %d key operations", granted, proposals, keys)
		if proposals*5 > granted || keys != 4*granted {
			b.Errorf("%d firings cost %d proposals and %d key operations, want at most a fifth, and four each", granted, proposals, keys)
		}
	})
}

// TestNoClaimIsToldWrong lets several members claim the same jobs behind links that lose requests and
// replies and let them land late, and holds what each was told against the history of etcd: a nonce
// that was told "granted" was granted, once, with that token; one that was told "not granted" never
// is, however late its request arrives; and no firing is granted twice.
func TestNoClaimIsToldWrong(t *testing.T) {
	seed := store.Seed(t)
	for round := range uint64(6) {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			inBubble(t, func(b *bench) { raceClaims(b, seed+round) })
		})
	}
}

func raceClaims(b *bench, seed uint64) {
	draw := &dice{r: rand.New(rand.NewPCG(seed, 1))}
	const jobs, members, rounds = 5, 3, 40
	for i := range jobs {
		b.apply(fmt.Sprint("job-", i))
	}
	rules, err := b.store.ReadRules(b.ctx)
	b.must(err)
	book := newGrantBook(b)
	var callers sync.WaitGroup
	var stores sync.WaitGroup
	running, stop := context.WithCancel(b.ctx)
	for m := range members {
		link := b.etcd.Link(fmt.Sprint("member-", m))
		link.Delay(time.Millisecond, time.Millisecond)
		s := store.New(link.Client(b.ctx), store.Config{Prefix: "/q/", RequestTimeout: time.Second})
		stores.Go(func() {
			if err := s.Run(running); err != nil {
				b.Errorf("run: %v", err)
			}
		})
		link.Inject(func(c memetcd.Call) memetcd.Fate {
			if !memetcd.WritesTo("/q/state/")(c) && !memetcd.WritesTo("/q/runs/")(c) {
				return memetcd.Fate{}
			}
			switch draw.n(10) {
			case 0:
				return memetcd.Fate{LoseReply: true}
			case 1:
				return memetcd.Fate{LoseRequest: true}
			case 2:
				return memetcd.Fate{Late: time.Duration(draw.n(8000)) * time.Millisecond}
			}
			return memetcd.Fate{}
		})
		for i := range jobs {
			callers.Go(func() {
				for round := range rounds {
					raceOnce(b, s, book, draw, fmt.Sprint("job-", i), rules.Revision, fmt.Sprintf("m%d-j%d-r%d", m, i, round))
				}
			})
		}
	}
	callers.Wait()
	time.Sleep(time.Minute) // What is late has landed.
	stop()
	stores.Wait()
	book.check()
}

// raceOnce claims the job's next minute, or ends what is in flight.
func raceOnce(b *bench, s *store.Store, book *grantBook, draw *dice, name string, rules int64, nonce string) {
	job := scheduler.JobName{Namespace: "default", Name: name}
	r, err := s.Job(b.ctx, job)
	if err != nil {
		return
	}
	time.Sleep(time.Duration(draw.n(20)) * time.Millisecond)
	if len(r.State.Entries) > 0 {
		fact, err := s.ReadEntry(b.ctx, r.State.Entries[0])
		if err != nil || fact.Record == nil {
			return
		}
		_, _ = s.Settle(b.ctx, store.Claim{
			Decision: scheduler.Decision{Kind: scheduler.KindFold, Job: job, Next: scheduler.ApplyEnd(r.State, r.Job, *fact.Record, fact.Firing)},
			Shard:    scheduler.ShardOf(job), UID: r.Job.UID, JobRevision: r.Job.Revision, StateRevision: r.StateRevision,
		})
		return
	}
	c := begin(r, rules, book.lease, nonce)
	out, err := s.Claim(b.ctx, c)
	if errors.Is(err, scheduler.ErrUnknown) {
		out, err = s.Resolve(b.ctx, c)
	}
	if err != nil {
		b.Errorf("claim %s: %v", nonce, err)
		return
	}
	book.told(nonce, out.Committed, out.Revision)
	if !out.Committed {
		return
	}
	finish := succeeded(r, c, out.Revision)
	recorded, err := s.Finish(b.ctx, finish)
	if err != nil {
		b.Errorf("finish %s: %v", nonce, err)
	}
	if !recorded {
		// A copy of it had committed, was folded by another member, and its slot used again.
		if late, err := s.FinishLate(b.ctx, finish); err != nil || late.Dropped == "" {
			b.Errorf("late finish %s: got %+v, %v", nonce, late, err)
		}
	}
}

// grantBook holds what claimers were told, and what etcd's history says.
type grantBook struct {
	b     *bench
	lease int64

	mu      sync.Mutex
	tokens  map[string]int64 // told granted, by nonce
	refused map[string]bool
}

func newGrantBook(b *bench) *grantBook {
	return &grantBook{b: b, lease: b.lease(), tokens: map[string]int64{}, refused: map[string]bool{}}
}

func (g *grantBook) told(nonce string, granted bool, token int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if granted {
		g.tokens[nonce] = token
	} else {
		g.refused[nonce] = true
	}
}

func (g *grantBook) check() {
	g.b.Helper()
	granted, firings, records := map[string]int64{}, map[string]string{}, map[string]int{}
	for _, rev := range g.b.etcd.History(1) {
		for _, e := range rev.Events {
			key := string(e.Kv.Key)
			switch {
			case strings.HasPrefix(key, "/q/locks/") && e.IsCreate():
				var lock storedv1.Lock
				g.b.must(proto.Unmarshal(e.Kv.Value, &lock))
				granted[lock.GetNonce()] = e.Kv.ModRevision
				if other, twice := firings[key]; twice {
					g.b.Errorf("%s was granted to %s and to %s", key, other, lock.GetNonce())
				}
				firings[key] = lock.GetNonce()
			case strings.HasPrefix(key, "/q/runs/"):
				var run storedv1.Run
				g.b.must(proto.Unmarshal(e.Kv.Value, &run))
				records[fmt.Sprint(run.GetName(), run.GetFiring())]++
			}
		}
	}
	for nonce, token := range g.tokens {
		if granted[nonce] != token {
			g.b.Errorf("%s was told that it is granted with token %d; in etcd it is %d", nonce, token, granted[nonce])
		}
	}
	for nonce := range g.refused {
		if token, ok := granted[nonce]; ok {
			g.b.Errorf("%s was told that it is not granted, and was, with token %d", nonce, token)
		}
	}
	if len(g.tokens) != len(granted) || len(records) != len(granted) {
		g.b.Errorf("%d grants, %d of which were told, %d records", len(granted), len(g.tokens), len(records))
	}
	for firing, n := range records {
		if n != 1 {
			g.b.Errorf("%s was recorded %d times", firing, n)
		}
	}
	g.b.Logf("%d grants, %d refusals", len(granted), len(g.refused))
	if len(granted) < 20 || len(g.refused) < 20 {
		g.b.Error("too few grants or refusals to prove anything")
	}
}

// dice is a source of chance that many goroutines share.
type dice struct {
	mu sync.Mutex
	r  *rand.Rand
}

func (d *dice) n(limit int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.r.IntN(limit)
}
