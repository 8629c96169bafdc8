package node

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

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

// TestADayOfPartitionsLosesAndRepeatsNothing runs three members and twenty jobs for a day, in which
// members are cut off, lose replies, crash and come back. Every instant must end in one verdict, no
// firing may start twice, no job may overlap itself, and nothing may start early.
func TestADayOfPartitionsLosesAndRepeatsNothing(t *testing.T) {
	rng := random(t)
	day := 24 * time.Hour
	if testing.Short() { // under the race detector a day takes minutes
		day = 6 * time.Hour
	}
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		defer b.close()
		names := []string{"a", "b", "c"}
		for _, name := range names {
			b.join(name)
		}
		b.ready()
		var jobs []scheduler.Job
		for i := range 20 {
			every := time.Duration(1+i%5) * time.Minute
			handler, payload := "work", ""
			if i%3 == 0 { // runs that last, so that faults meet attempts in flight
				handler, payload = "slow", fmt.Sprintf("%ds", 10+5*i)
			}
			jobs = append(jobs, b.apply(handlerJob(fmt.Sprintf("job-%d", i), every, handler, payload)))
		}
		end := time.Now().Add(day)
		faults := 0
		for time.Now().Before(end) {
			time.Sleep(time.Duration(5+rng.IntN(20)) * time.Minute)
			faults++
			b.fault(rng, names[rng.IntN(len(names))])
		}
		time.Sleep(time.Minute) // R, and the hold of what was lost
		b.ready()

		through := time.Now().Add(-10 * time.Second)
		var instants int64
		for _, job := range jobs {
			instants += b.accounts(job, through.Add(-job.Schedule.Every))
		}
		b.check()
		t.Logf("%d instants, %d starts, %d faults", instants, len(b.witnessed()), faults)
		if instants < 400*int64(day.Hours()) || faults < 2*int(day.Hours()) {
			t.Errorf("%d instants and %d faults are too few to prove anything", instants, faults)
		}
	})
}

// fault does one thing to one member and heals it again.
func (b *bubble) fault(rng *rand.Rand, name string) {
	m := b.members[name]
	switch rng.IntN(5) {
	case 0, 1: // cut off for up to three TTLs
		m.link.Cut()
		time.Sleep(time.Duration(rng.IntN(9000)) * time.Millisecond)
		m.link.Mend()
	case 2: // replies are lost
		m.link.CutReplies()
		time.Sleep(time.Duration(rng.IntN(4000)) * time.Millisecond)
		m.link.Mend()
	case 3: // crash
		b.crash(m)
		time.Sleep(time.Duration(rng.IntN(20)) * time.Second)
		b.join(name)
	case 4: // planned restart
		b.leave(m)
		b.join(name)
	}
}

// check looks at what the handlers saw: one start for each firing, no overlap within a job, nothing
// early.
func (b *bubble) check() {
	b.t.Helper()
	starts := map[scheduler.Firing]start{}
	last := map[scheduler.JobName]start{}
	for _, s := range b.witnessed() { // in order of ends
		if other, twice := starts[s.id.Firing]; twice {
			b.t.Errorf("firing %s started twice: %s on %s, %s on %s", s.id.Firing, other.at, other.id.Member, s.at, s.id.Member)
		}
		starts[s.id.Firing] = s
		if s.at.Before(s.id.Firing.Instant()) {
			b.t.Errorf("firing %s started early, at %s", s.id.Firing, s.at)
		}
		if prev, ok := last[s.id.Job]; ok && s.at.Before(prev.done) {
			b.t.Errorf("job %s overlaps itself: %s ended %s, %s started %s", s.id.Job, prev.id.Firing, prev.done, s.id.Firing, s.at)
		}
		last[s.id.Job] = s
	}
}
