package node

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumcron/quorumcron/internal/memetcd"
)

// TestEtcdThatComesBackFindsNoStuckEngine takes etcd away for longer than the TTL while claims are under
// way. When it is back, the watchdog's read may be answered before the first of them is.
func TestEtcdThatComesBackFindsNoStuckEngine(t *testing.T) {
	for _, away := range []time.Duration{3200, 3700, 4300, 6100, 8900} {
		synctest.Test(t, func(t *testing.T) {
			b := newBubble(t)
			defer b.close()
			m := b.join("only")
			b.ready()
			b.apply(handlerJob("tick", time.Second, "work", ""))
			time.Sleep(3950 * time.Millisecond)
			m.link.Refuse()
			time.Sleep(away * time.Millisecond)
			m.link.Mend()
			for range 100 {
				time.Sleep(50 * time.Millisecond)
				if why := m.sessions.Status().Orphaned; why != "" {
					t.Fatalf("etcd was away for %d ms, and came back, and the sessions are let die: %s", away, why)
				}
			}
		})
	}
}

// TestUnansweredTransactionsLetTheSessionsDie loses every transaction of a member, and answers its reads.
func TestUnansweredTransactionsLetTheSessionsDie(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		defer b.close()
		m := b.join("only")
		b.ready()
		b.apply(handlerJob("tick", time.Second, "work", ""))
		time.Sleep(3950 * time.Millisecond)
		m.link.Inject(func(c memetcd.Call) memetcd.Fate { return memetcd.Fate{LoseRequest: c.Write && c.Txn() != nil} })
		time.Sleep(2*ttl + ttl) // of silence, of reads, and of ticks and turns between
		if m.sessions.Status().Orphaned == "" {
			t.Error("no transaction has been answered for three TTL, and the sessions are kept")
		}
		m.link.ClearRules()
		time.Sleep(recovery + hold)
		if why := m.sessions.Status().Orphaned; why != "" || !m.Ready().Ready {
			t.Errorf("all is answered again, and the member did not recover: %q, %v", why, m.Ready().Reasons())
		}
	})
}
