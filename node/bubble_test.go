package node

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumcron/quorumcron/scheduler"
)

func TestJobFiresOnTimeOnOneMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		defer b.close()
		for _, name := range []string{"a", "b", "c"} {
			b.join(name)
		}
		b.ready()
		job := b.apply(handlerJob("report", 10*time.Second, "work", ""))
		time.Sleep(time.Minute)
		b.leaveAllButOne()
		seen := b.witnessed()
		if len(seen) < 5 || len(seen) > 6 {
			t.Errorf("%d starts in a minute, want 5 or 6: %v", len(seen), seen)
		}
		for _, s := range seen {
			if late := s.at.Sub(s.id.Firing.Instant()); late < 0 || late > time.Second {
				t.Errorf("firing %s started %s after its instant", s.id.Firing, late)
			}
		}
		b.accounts(job, time.Now().Add(-11*time.Second))
	})
}

var _ = scheduler.JobName{}
