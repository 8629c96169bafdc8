package election_test

import (
	"testing"
	"time"

	"github.com/quorumcron/quorumcron/election"
	"github.com/quorumcron/quorumcron/internal/memetcd"
)

// A member of etcd that hangs holds up a call until the call gives up; the next goes to another member.

func TestLeaseThatIsKnownToBeGoneIsNotRevoked(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, etcd *memetcd.Store) {
		p := start(t, etcd, "a")
		await[election.Joined](t, p, time.Second)
		p.link.FreezeWatches() // or the watch of the key would be the first to tell
		p.link.Cut()
		time.Sleep(2 * ttl) // the lease is gone
		p.link.Hold(func(c memetcd.Call) bool { return c.Method == "Revoke" })
		p.link.Mend()
		mended := time.Now()
		if _, at := await[election.Joined](t, p, time.Minute); at.Sub(mended) > 2*time.Second {
			t.Errorf("joined again %s after the way was whole, while a call to revoke a lease that is gone was held up", at.Sub(mended))
		}
		p.link.ThawWatches()
	})
}

func TestCallThatHangsIsGivenUpWithinAThirdOfTheTTL(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, etcd *memetcd.Store) {
		const short = 3 * time.Second
		p := start(t, etcd, "a", func(c *election.Config) { c.TTL = short })
		joined, _ := await[election.Joined](t, p, time.Second)
		for _, method := range []string{"Revoke", "Grant", "Txn"} { // what a new membership needs
			p.link.Hold(func(c memetcd.Call) bool { return c.Method == method })
		}
		if _, err := etcd.Client(t.Context()).Delete(t.Context(), prefix+"members/a"); err != nil {
			t.Fatal(err)
		}
		deleted := time.Now()
		again, at := await[election.Joined](t, p, time.Minute)
		if took := at.Sub(deleted); took > short+500*time.Millisecond || took < time.Second || again.Member.Incarnation == joined.Member.Incarnation {
			t.Errorf("joined again as %d after %s, with three calls that hung; want at most one second for each", again.Member.Incarnation, took)
		}
	})
}
