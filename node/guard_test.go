package node

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumcron/quorumcron/scheduler"
)

// These tests each hold one guard of the loop: taken out, they fail.

// bent joins a member whose wall clock is ahead by what is stored.
func (b *bubble) bent(name string, ahead *atomic.Int64) *bubbleMember {
	return b.join(name, func(c *Config) {
		c.Clock = func() scheduler.Reading {
			r := b.clock()
			r.Wall = r.Wall.Add(time.Duration(ahead.Load()))
			return r
		}
	})
}

// TestEditUnderAClockThatIsAheadSwallowsNothing: the books are closed no further than the clock was last
// believed, whoever serves the edit.
func TestEditUnderAClockThatIsAheadSwallowsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		defer b.close()
		var ahead atomic.Int64
		m := b.bent("only", &ahead)
		b.ready()
		job := b.apply(handlerJob("edited", 10*time.Second, "work", ""))
		time.Sleep(25 * time.Second)
		ahead.Store(int64(time.Hour))
		time.Sleep(2 * time.Second)
		job.Schedule.Every = 5 * time.Second
		if _, err := m.Apply(t.Context(), job, 0); err != nil {
			t.Fatal(err)
		}
		ahead.Store(0) // somebody sets it right again
		edited := time.Now()
		time.Sleep(scheduler.StepTrial + 30*time.Second)
		if n := b.startsAfter(job, edited); n < 4 {
			t.Errorf("%d starts in the half minute after the clock is believed again, want 5 or 6", n)
		}
	})
}
