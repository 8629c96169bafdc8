package election_test

import (
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

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

func TestCandidacyThatHangsIsTriedAgain(t *testing.T) {
	t.Parallel()
	for _, call := range []struct {
		what  string
		match func(memetcd.Call) bool
	}{
		{"the put of its key", memetcd.WritesTo(prefix + "election/")},
		{"its look at who is before it", func(c memetcd.Call) bool {
			r, ok := c.Request.(*pb.RangeRequest)
			return ok && r.MaxCreateRevision > 0
		}},
	} {
		t.Run(call.what, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, etcd *memetcd.Store) {
				link := etcd.Link("hung")
				held := link.Hold(call.match)
				p := start(t, etcd, "a", func(c *election.Config) { c.Client = link.Client(t.Context()) })
				await[election.Joined](t, p, time.Second)
				joined := time.Now()
				<-held.Caught()
				if _, at := await[election.TermBegan](t, p, time.Minute); at.Sub(joined) > ttl {
					t.Errorf("dispatcher %s after it had joined, with one call that hung; want it within %s", at.Sub(joined), ttl)
				}
			})
		})
	}
}
