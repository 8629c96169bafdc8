package election_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorumcron/quorumcron/election"
	"github.com/quorumcron/quorumcron/internal/memetcd"
	"github.com/quorumcron/quorumcron/scheduler"
)

var seedFlag = flag.Uint64("seed", 0, "run the random tests from this seed only")

// TestRightsAreProvedUnderRandomFaults breaks links and etcd at random for five virtual minutes, and
// asks ten times a second: is every lease that would take a lock really there? Can more than one
// dispatcher write? Then all is mended, and everybody must be well within seconds.
func TestRightsAreProvedUnderRandomFaults(t *testing.T) {
	seeds := []uint64{*seedFlag}
	if *seedFlag == 0 {
		seeds = seeds[:0]
		for i := range uint64(60) {
			seeds = append(seeds, i+1)
		}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			inBubble(t, func(t *testing.T, etcd *memetcd.Store) { breakAtRandom(t, etcd, seed) })
		})
	}
}

func breakAtRandom(t *testing.T, etcd *memetcd.Store, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	free := etcd.Client(t.Context())
	sessionTTL := []time.Duration{3 * time.Second, ttl}[random.IntN(2)]
	var all []*process
	for _, name := range []string{"a", "b", "c"} {
		all = append(all, start(t, etcd, name, func(c *election.Config) { c.TTL = sessionTTL }))
	}
	for range 5 * 60 * 10 {
		time.Sleep(100 * time.Millisecond)
		if random.IntN(15) == 0 {
			disturb(random, etcd, all[random.IntN(len(all))])
		}
		checkRights(t, etcd, free, all)
	}
	etcd.RegainQuorum()
	for _, p := range all {
		mend(p.link)
		p.Recover()
	}
	time.Sleep(3*sessionTTL + 5*time.Second)
	checkRights(t, etcd, free, all)
	leading := 0
	for _, p := range all {
		status := p.Status()
		if len(status.Reasons) != 0 {
			t.Errorf("%s is not well after the mending: %q", p.name, status.Reasons)
		}
		if status.Term != (scheduler.Guard{}) {
			leading++
		}
	}
	if leading != 1 {
		t.Errorf("%d dispatchers after the mending, want 1", leading)
	}
}

// disturb does something to one process's link or to etcd. A disturbance lasts until another mends it.
func disturb(random *rand.Rand, etcd *memetcd.Store, p *process) {
	switch random.IntN(16) {
	case 0:
		p.link.Cut()
	case 1:
		p.link.CutReplies()
	case 2:
		p.link.CutRequests()
	case 3:
		p.link.Refuse()
	case 4:
		p.link.Reset()
	case 5:
		p.link.Pause()
	case 6:
		p.link.FreezeWatches()
	case 7:
		p.link.Delay(time.Duration(random.IntN(2000))*time.Millisecond, time.Duration(random.IntN(5000))*time.Millisecond)
	case 8:
		p.link.DropReplies(1+random.IntN(3), nil)
	case 9:
		p.link.CommitLate(1, time.Duration(random.IntN(8000))*time.Millisecond, nil)
	case 10:
		etcd.ChangeLeader()
	case 11:
		etcd.LoseQuorum()
	case 12:
		p.Orphan("random fault")
	default:
		etcd.RegainQuorum()
		mend(p.link)
		p.Recover()
	}
}

func mend(link *memetcd.Link) {
	link.ClearRules()
	link.Mend()
	link.Resume()
	link.ThawWatches()
	link.Delay(0, 0)
}

func checkRights(t *testing.T, etcd *memetcd.Store, free *clientv3.Client, all []*process) {
	t.Helper()
	synctest.Wait()
	for _, p := range all {
		for _, lock := range p.Status().Locks {
			// Nothing revokes a usable lease here, so that it must be there as long as it is trusted.
			if lock.Usable && !slices.Contains(etcd.Leases(), clientv3.LeaseID(lock.ID)) {
				t.Fatalf("%s: lease %x would take a lock, but etcd has it no more; K is %s old", p.name, lock.ID, p.clock().Elapsed-lock.Life.Sent)
			}
		}
	}
	// Any number may believe to be dispatcher. At most one may have a guard that holds.
	resp, err := free.Get(t.Context(), prefix+"election/", clientv3.WithPrefix(), clientv3.WithSerializable())
	if err != nil {
		t.Fatal(err)
	}
	holding := []string{}
	for _, p := range all {
		term := p.Status().Term
		for _, kv := range resp.Kvs {
			if string(kv.Key) == term.Key && kv.CreateRevision == term.CreateRevision {
				holding = append(holding, p.name)
			}
		}
	}
	if len(holding) > 1 {
		t.Fatalf("%v all have a guard that holds, want at most one", holding)
	}
}
