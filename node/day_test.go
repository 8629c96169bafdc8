package node

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorumcron/quorumcron/internal/memetcd"
	"github.com/quorumcron/quorumcron/scheduler"
)

var seed = flag.Uint64("seed", 0, "seed of the random tests; 0 draws one")

func random(t *testing.T) *rand.Rand {
	t.Helper()
	s := *seed
	if s == 0 {
		s = rand.Uint64()
	}
	t.Logf("-seed=%d", s)
	return rand.New(rand.NewPCG(s, 1))
}

// TestADayOfFaultsLosesAndRepeatsNothing runs four members and two dozen jobs for a day, in which members
// are cut off, crash and come back, etcd changes its leader, loses its quorum, its history, leases and
// events, answers get lost and requests land late, while users edit, pause, delete, trigger and cancel.
// Every transaction is held against what is promised, and every start against what was granted.
func TestADayOfFaultsLosesAndRepeatsNothing(t *testing.T) {
	rng := random(t)
	length := 24 * time.Hour
	if testing.Short() { // under the race detector a day takes minutes
		length = 3 * time.Hour
	} else { // In a bubble goroutines mostly take turns: a second processor makes a day longer by half. The short day keeps it.
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	}
	synctest.Test(t, func(t *testing.T) {
		d := newDay(t, rng)
		defer d.close()
		end := time.Now().Add(length)
		usersDone := make(chan struct{})
		users := rand.New(rand.NewPCG(rng.Uint64(), 2)) // of their own: they act beside the faults
		go func() {
			defer close(usersDone)
			d.users(users, end)
		}()
		faults := 0
		for time.Now().Before(end) {
			time.Sleep(time.Duration(3+rng.IntN(14)) * time.Minute)
			faults++
			d.fault(rng)
		}
		<-usersDone
		for _, m := range d.members {
			m.link.ClearRules()
		}
		time.Sleep(4 * time.Minute) // the longest run, R and its hold; events that were lost
		d.ready()

		instants, problems := d.ledger.judge(time.Now())
		for _, p := range problems {
			t.Error(p)
		}
		d.checkStarts()
		t.Logf("%d instants, %d starts, %d faults, %d edits: %v", instants, len(d.witnessed()), faults, d.edits, d.did)
		if hours := int64(length.Hours()); instants < 150*hours || int64(faults) < 3*hours || int64(d.edits) < 2*hours {
			t.Error("that is too little to prove anything")
		}
	})
}

// day is a bubble with its judge and its users.
type day struct {
	*bubble
	ledger *ledger
	names  []string       // of the members that crash and come back
	desk   *bubbleMember  // the member that the users talk to; its network is as bad as the others'
	did    map[string]int // how often each fault was done
	edits  int            // that were acknowledged
}

func newDay(t *testing.T, rng *rand.Rand) *day {
	d := &day{bubble: newBubble(t), names: []string{"a", "b", "c"}, did: map[string]int{}}
	d.ledger = newLedger(d.etcd)
	for _, name := range d.names {
		d.join(name)
	}
	d.desk = d.join("desk")
	d.ready()
	for i := range 24 {
		d.apply(jobOfTheDay(rng, i))
	}
	return d
}

// jobOfTheDay is a job of one of many kinds.
func jobOfTheDay(rng *rand.Rand, i int) scheduler.Job {
	handler, payload := "work", ""
	if i%3 == 0 { // runs that last, so that faults meet attempts in flight
		handler, payload = "slow", fmt.Sprintf("%ds", 10+4*i)
	}
	job := handlerJob(fmt.Sprintf("job-%d", i), time.Duration(2+rng.IntN(5))*time.Minute, handler, payload)
	switch i % 8 {
	case 1:
		job.Schedule = scheduler.Schedule{Cron: []string{"*/3 * * * *", "1-59/7 8-18 * * *"}, TimeZone: "Europe/Berlin"}
	case 2:
		job.Schedule.Jitter = time.Duration(rng.IntN(40)) * time.Second
	case 3, 6:
		job.Policy.OnLost = scheduler.OnLostRetry
	case 4:
		job.Policy.CatchUp.Mode = scheduler.CatchUpNone
	case 5:
		job.Policy.StartDeadline = time.Duration(2+rng.IntN(60)) * time.Second
	}
	if i%4 == 3 {
		job.Policy.Timeout = time.Duration(20+rng.IntN(30)) * time.Second
	}
	return job
}

// fault does one thing, sometimes two at once, and heals it again.
func (d *day) fault(rng *rand.Rand) {
	name := d.names[rng.IntN(len(d.names))]
	if rng.IntN(3) > 0 {
		d.networkFault(rng, d.members[name])
		return
	}
	second := d.desk
	for _, other := range d.names {
		if other != name && rng.IntN(2) == 0 {
			second = d.members[other]
		}
	}
	both := rand.New(rand.NewPCG(rng.Uint64(), 3))
	healed := make(chan struct{})
	go func() {
		defer close(healed)
		if second != nil {
			d.linkFault(both, second)
		}
	}()
	d.memberFault(rng, name)
	<-healed
}

// memberFault ends a member, and starts it again.
func (d *day) memberFault(rng *rand.Rand, name string) {
	m := d.members[name]
	if rng.IntN(3) == 0 {
		d.note("restart")
		d.leave(m)
	} else {
		d.note("crash")
		d.crash(m)
		time.Sleep(time.Duration(rng.IntN(20)) * time.Second)
	}
	d.join(name)
}

// networkFault is one of the network or of etcd itself.
func (d *day) networkFault(rng *rand.Rand, m *bubbleMember) {
	if rng.IntN(2) == 0 {
		d.linkFault(rng, m)
		return
	}
	some := func(most int) time.Duration { return time.Duration(rng.IntN(most*1000)) * time.Millisecond }
	switch rng.IntN(6) {
	case 0:
		d.note("leader changed")
		d.etcd.ChangeLeader()
	case 1:
		d.note("quorum lost for a moment")
		d.etcd.LoseQuorum()
		time.Sleep(some(3))
		d.etcd.RegainQuorum()
	case 2:
		d.note("quorum lost for long")
		d.etcd.LoseQuorum()
		time.Sleep(5*time.Second + some(40))
		d.etcd.RegainQuorum()
	case 3:
		d.note("history compacted")
		m.link.FreezeWatches()
		time.Sleep(some(60))
		if err := d.etcd.Compact(d.etcd.Rev()); err != nil {
			d.t.Error(err)
		}
		m.link.ThawWatches()
	case 4:
		d.note("lease revoked from outside")
		leases := d.etcd.Leases()
		_, _ = d.etcd.Client(d.t.Context()).Revoke(d.t.Context(), leases[rng.IntN(len(leases))])
	case 5:
		d.note("no space")
		d.etcd.SetNoSpace(true)
		time.Sleep(some(20))
		d.etcd.SetNoSpace(false)
	}
}

// linkFault is one of the network between a member and etcd.
func (d *day) linkFault(rng *rand.Rand, m *bubbleMember) {
	some := func(most int) time.Duration { return time.Duration(rng.IntN(most*1000)) * time.Millisecond }
	matches := []func(memetcd.Call) bool{memetcd.Writes, begins, ends, memetcd.WritesTo("/quorumcron/state/")}
	match := matches[rng.IntN(len(matches))]
	switch rng.IntN(8) {
	case 0:
		d.note("cut off")
		m.link.Cut()
		time.Sleep(some(12))
		m.link.Mend()
	case 1:
		d.note("replies lost")
		m.link.CutReplies()
		time.Sleep(some(5))
		m.link.Mend()
	case 2:
		d.note("stalled")
		m.link.Pause()
		time.Sleep(some(12))
		m.link.Resume()
	case 3:
		d.note("events lost")
		m.link.DropEvents(1+rng.IntN(3), func(*clientv3.Event) bool { return true })
	case 4:
		d.note("watches deaf")
		m.link.FreezeWatches()
		time.Sleep(some(90))
		m.link.ThawWatches()
	case 5:
		d.note("answers dropped")
		m.link.DropReplies(1+rng.IntN(4), match)
	case 6:
		d.note("requests late")
		m.link.CommitLate(1+rng.IntN(3), some(15), match)
	case 7:
		d.note("slow")
		m.link.Delay(some(2), some(2))
		time.Sleep(some(60))
		m.link.Delay(0, 0)
	}
}

func (d *day) note(fault string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.did[fault]++
}

// checkStarts looks at what the handlers saw: each start is that of a grant, each grant is started once,
// not early, with a token above those before it, and no job runs beside itself.
func (d *day) checkStarts() {
	d.t.Helper()
	all := d.witnessed()
	slices.SortStableFunc(all, func(a, b start) int { return a.at.Compare(b.at) })
	seen := map[string]start{}
	last := map[string]start{}
	for _, s := range all {
		attempt := fmt.Sprintf("%s/%d", s.id.Firing, s.id.Attempt)
		if !d.ledger.allowed(s.id) {
			d.t.Errorf("attempt %s was started with token %d, which was not granted", attempt, s.id.Token)
		}
		if other, twice := seen[attempt]; twice {
			d.t.Errorf("attempt %s was started twice: %s on %s, %s on %s", attempt, other.at, other.id.Member, s.at, s.id.Member)
		}
		seen[attempt] = s
		if s.at.Before(s.id.Firing.Instant()) {
			d.t.Errorf("attempt %s was started early, at %s", attempt, s.at)
		}
		if prev, ok := last[s.id.Firing.UID]; ok && (s.at.Before(prev.done) || s.id.Token <= prev.id.Token) {
			d.t.Errorf("job %s: %s with token %d was started at %s, before it %s with token %d, which ended at %s",
				s.id.Job, s.id.Firing, s.id.Token, s.at, prev.id.Firing, prev.id.Token, prev.done)
		}
		last[s.id.Firing.UID] = s
	}
}
