package node

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumcron/quorumcron/internal/memetcd"
)

// TestAFiringCostsFourKeyOperations: state and lock when it begins, lock and record when it ends, however
// far apart the instants are, up to an hour. What has ended rides on the next.
func TestAFiringCostsFourKeyOperations(t *testing.T) {
	for period, firings := range map[time.Duration]int{10 * time.Second: 6, 30 * time.Second: 6, time.Minute: 6, time.Hour: 1} {
		t.Run(period.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSceneOn(t, memetcd.Config{}, "2026-03-10T12:00:00Z", "a", "b")
				defer s.close()
				job := s.apply(ticking("tick", period, "2s"))
				s.until(s.next(period, 0).Add(period / 2))
				before, began := s.firingKeys(), len(s.seen(job))
				time.Sleep(time.Duration(firings) * period)
				if n := len(s.seen(job)) - began; n != firings {
					t.Fatalf("%d firings, want %d", n, firings)
				}
				if n := s.firingKeys() - before; n != 4*firings {
					t.Errorf("%d key operations for %d firings, want %d", n, firings, 4*firings)
				}
			})
		})
	}
}

// firingKeys is how often a key has been put or deleted that belongs to a firing.
func (s *scene) firingKeys() (n int) {
	for _, r := range s.etcd.History(0) {
		for _, e := range r.Events {
			key := strings.TrimPrefix(string(e.Kv.Key), "/quorumcron/")
			if strings.HasPrefix(key, "state/") || strings.HasPrefix(key, "locks/") || strings.HasPrefix(key, "runs/") {
				n++
			}
		}
	}
	return n
}
