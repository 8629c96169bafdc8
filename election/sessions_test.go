package election_test

import (
	"context"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorumcron/quorumcron/election"
	"github.com/quorumcron/quorumcron/internal/memetcd"
)

func TestFirstMemberJoinsAndLeadsWithinASecond(t *testing.T) {
	inBubble(t, func(t *testing.T, etcd *memetcd.Store) {
		p := start(t, etcd, "a")
		joined, _ := await[election.Joined](t, p, time.Second)
		term, _ := await[election.TermBegan](t, p, time.Second)
		await[election.LockLeaseOpened](t, p, time.Second)

		_, created := get(t, etcd, prefix+"members/a")
		if joined.Member.Incarnation != created || joined.Member.CreateRevision != created || created == 0 {
			t.Errorf("joined as %s (created %d), want incarnation and create revision %d", joined.Member.ID(), joined.Member.CreateRevision, created)
		}
		if name, created := get(t, etcd, term.Guard.Key); name != "a" || created != term.Guard.CreateRevision {
			t.Errorf("guard %+v: key holds %q created at %d", term.Guard, name, created)
		}
		if name, err := p.Dispatcher(t.Context()); name != "a" || err != nil {
			t.Errorf("dispatcher %q, %v; want a", name, err)
		}
		status := p.Status()
		if len(status.Reasons) != 0 || status.Term != term.Guard || len(status.Locks) != 1 || !status.Locks[0].Usable {
			t.Errorf("status %+v: want a ready dispatcher with one usable lock lease", status)
		}
	})
}

func TestStopRevokesEverythingAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, etcd *memetcd.Store) {
		p := start(t, etcd, "a")
		await[election.LockLeaseOpened](t, p, time.Second)
		await[election.TermBegan](t, p, time.Second)
		p.halt(100 * time.Millisecond)
		if left := etcd.Leases(); len(left) != 0 {
			t.Errorf("leases %x left after the stop, want none", left)
		}
		await[election.TermEnded](t, p, 0)
		await[election.MemberLost](t, p, 0)
	})
}

func TestStopWhileCutOffIsBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, etcd *memetcd.Store) {
		leader := start(t, etcd, "a")
		await[election.TermBegan](t, leader, time.Second)
		candidate := start(t, etcd, "b")
		await[election.LockLeaseOpened](t, candidate, time.Second)
		time.Sleep(time.Second)
		candidate.link.Cut()
		candidate.halt(3500 * time.Millisecond)
		leader.link.Cut()
		leader.halt(3500 * time.Millisecond)
	})
}

func TestRunWaitsForAnEtcdThatIsAway(t *testing.T) {
	inBubble(t, func(t *testing.T, etcd *memetcd.Store) {
		etcd.LoseQuorum()
		p := start(t, etcd, "a")
		time.Sleep(5 * time.Minute)
		none[election.Joined](t, p)
		if reasons := strings.Join(p.Status().Reasons, "; "); !strings.Contains(reasons, "not a member yet") || !strings.Contains(reasons, "open a lease") {
			t.Errorf("reasons %q: want to read that etcd gives no lease", reasons)
		}
		etcd.RegainQuorum()
		await[election.Joined](t, p, 2*time.Second)
		await[election.LockLeaseOpened](t, p, 2*time.Second)
		if reasons := p.Status().Reasons; len(reasons) != 0 {
			t.Errorf("reasons %q after etcd came back, want none", reasons)
		}
	})
}

func TestQuorumLossLongerThanTTLKeepsTheMembership(t *testing.T) {
	inBubble(t, func(t *testing.T, etcd *memetcd.Store) {
		p := start(t, etcd, "a")
		joined, _ := await[election.Joined](t, p, time.Second)
		term, _ := await[election.TermBegan](t, p, time.Second)
		opened, _ := await[election.LockLeaseOpened](t, p, time.Second)
		p.forget()

		etcd.LoseQuorum()
		time.Sleep(time.Minute)
		if reasons := p.Status().Reasons; len(reasons) == 0 {
			t.Error("ready while etcd has no quorum")
		}
		await[election.LockLeaseDoubted](t, p, 0)
		etcd.RegainQuorum()
		renewed, _ := await[election.LockLeaseRenewed](t, p, 3*time.Second)
		if renewed.ID != opened.ID {
			t.Errorf("lease %x renewed, want %x", renewed.ID, opened.ID)
		}
		time.Sleep(time.Minute)
		none[election.MemberLost](t, p)
		none[election.Joined](t, p)
		none[election.LockLeaseLost](t, p)
		none[election.LockLeaseOpened](t, p)
		if _, created := get(t, etcd, prefix+"members/a"); created != joined.Member.CreateRevision {
			t.Errorf("member key created at %d, want still %d", created, joined.Member.CreateRevision)
		}
		if status := p.Status(); status.Term != term.Guard || len(status.Reasons) != 0 {
			t.Errorf("status %+v: want the former term %+v and no reasons", status, term.Guard)
		}
	})
}

func TestChangeOfLeaderIsNotNoticed(t *testing.T) {
	inBubble(t, func(t *testing.T, etcd *memetcd.Store) {
		p := start(t, etcd, "a")
		await[election.LockLeaseOpened](t, p, time.Second)
		await[election.TermBegan](t, p, time.Second)
		p.forget()
		for range 20 {
			time.Sleep(3 * time.Second)
			etcd.ChangeLeader()
		}
		if events := p.events(); len(events) != 0 {
			t.Errorf("told%s\nwant nothing", p.story())
		}
	})
}

func TestPartitionShorterThanTTLKeepsTheMembership(t *testing.T) {
	inBubble(t, func(t *testing.T, etcd *memetcd.Store) {
		p := start(t, etcd, "a")
		await[election.LockLeaseOpened](t, p, time.Second)
		p.forget()
		p.link.Cut()
		time.Sleep(6 * time.Second)
		p.link.Mend()
		time.Sleep(time.Minute)
		none[election.MemberLost](t, p)
		none[election.LockLeaseLost](t, p)
	})
}

func TestPartitionLongerThanTTLEndsInANewMembership(t *testing.T) {
	inBubble(t, func(t *testing.T, etcd *memetcd.Store) {
		p := start(t, etcd, "a")
		first, _ := await[election.Joined](t, p, time.Second)
		opened, _ := await[election.LockLeaseOpened](t, p, time.Second)
		term, _ := await[election.TermBegan](t, p, time.Second)
		watcher := start(t, etcd, "b")
		await[election.Joined](t, watcher, time.Second)
		cut := time.Now()
		p.link.Cut()
		if _, at := await[election.TermBegan](t, watcher, ttl+time.Second); at.Sub(cut) < ttl*2/3 {
			t.Errorf("b became dispatcher %s after the cut, before a's lease can have ended", at.Sub(cut))
		}
		time.Sleep(time.Minute)
		none[election.MemberLost](t, p) // not believed without an answer
		p.link.Mend()
		mended := time.Now()
		_, lostAt := await[election.MemberLost](t, p, 3*time.Second)
		again, at := await[election.Joined](t, p, 3*time.Second)
		if at.Sub(mended) > 2*time.Second || at.Before(lostAt) {
			t.Errorf("joined %s after the mending (lost %s after), want within 2 s and after the loss", at.Sub(mended), lostAt.Sub(mended))
		}
		if again.Member.Incarnation <= first.Member.Incarnation || again.Member.ID() == first.Member.ID() {
			t.Errorf("joined again as %s after %s, want a higher incarnation", again.Member.ID(), first.Member.ID())
		}
		lost, _ := await[election.LockLeaseLost](t, p, 3*time.Second)
		if lost.ID != opened.ID {
			t.Errorf("lease %x lost, want %x", lost.ID, opened.ID)
		}
		await[election.LockLeaseOpened](t, p, 3*time.Second)
		if ended, _ := await[election.TermEnded](t, p, 3*time.Second); ended.Guard != term.Guard {
			t.Errorf("term %+v ended, want %+v", ended.Guard, term.Guard)
		}
	})
}

func TestRevokedMemberLeaseIsReplacedWithinTwoSeconds(t *testing.T) {
	for _, sessionTTL := range []time.Duration{3 * time.Second, ttl, time.Minute} {
		t.Run(sessionTTL.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, etcd *memetcd.Store) {
				p := start(t, etcd, "a", func(c *election.Config) { c.TTL = sessionTTL })
				first, _ := await[election.Joined](t, p, time.Second)
				time.Sleep(sessionTTL / 2)
				if _, err := etcd.Client(t.Context()).Revoke(t.Context(), clientv3.LeaseID(p.Status().MemberLease)); err != nil {
					t.Fatal(err)
				}
				await[election.MemberLost](t, p, 2*time.Second)
				again, _ := await[election.Joined](t, p, 2*time.Second)
				if again.Member.Incarnation <= first.Member.Incarnation {
					t.Errorf("incarnation %d after %d, want a higher one", again.Member.Incarnation, first.Member.Incarnation)
				}
			})
		})
	}
}

func TestDeletedMemberKeyIsANewMembership(t *testing.T) {
	inBubble(t, func(t *testing.T, etcd *memetcd.Store) {
		p := start(t, etcd, "a")
		await[election.Joined](t, p, time.Second)
		if _, err := etcd.Client(t.Context()).Delete(t.Context(), prefix+"members/a"); err != nil {
			t.Fatal(err)
		}
		await[election.MemberLost](t, p, 2*time.Second)
		await[election.Joined](t, p, 2*time.Second)
		time.Sleep(time.Minute)
		if leases := etcd.Leases(); len(leases) != 2 {
			t.Errorf("%d leases, want that of the member and that of the locks: the former one is revoked", len(leases))
		}
	})
}

func TestLostEventDoesNotHideALostMemberKey(t *testing.T) {
	inBubble(t, func(t *testing.T, etcd *memetcd.Store) {
		p := start(t, etcd, "a")
		await[election.Joined](t, p, time.Second)
		time.Sleep(time.Second)
		p.link.DropEvents(-1, nil)
		if _, err := etcd.Client(t.Context()).Delete(t.Context(), prefix+"members/a"); err != nil {
			t.Fatal(err)
		}
		await[election.Joined](t, p, 3*ttl+2*time.Second)
		if p.link.Counts().EventsDropped == 0 {
			t.Error("no event was dropped: the fault never took hold")
		}
	})
}

func TestFrozenProcessFindsItsRightsGone(t *testing.T) {
	inBubble(t, func(t *testing.T, etcd *memetcd.Store) {
		p := start(t, etcd, "a")
		opened, _ := await[election.LockLeaseOpened](t, p, time.Second)
		p.link.Pause() // its own clock goes on, as that of a stopped process does
		time.Sleep(ttl)
		if _, err := p.LockLease(p.clock()); err == nil {
			t.Error("a lock lease was given out though nothing was answered for a TTL")
		}
		p.link.Resume()
		lost, _ := await[election.LockLeaseLost](t, p, 2*time.Second)
		if lost.ID != opened.ID {
			t.Errorf("lease %x lost, want %x", lost.ID, opened.ID)
		}
		await[election.LockLeaseOpened](t, p, 2*time.Second)
		await[election.MemberLost](t, p, 2*time.Second)
		await[election.Joined](t, p, 2*time.Second)
	})
}

func TestOrphanedSessionsDieAndRecoverAsNewOnes(t *testing.T) {
	inBubble(t, func(t *testing.T, etcd *memetcd.Store) {
		p := start(t, etcd, "a")
		first, _ := await[election.Joined](t, p, time.Second)
		await[election.LockLeaseOpened](t, p, time.Second)
		await[election.TermBegan](t, p, time.Second)
		other := start(t, etcd, "b")
		await[election.LockLeaseOpened](t, other, time.Second)

		p.Orphan("no turn for 5s")
		p.Orphan("said twice")
		await[election.LockLeaseDoubted](t, p, 0)
		await[election.TermEnded](t, p, time.Second)
		await[election.MemberLost](t, p, time.Second)
		if _, err := p.LockLease(p.clock()); err == nil || !strings.Contains(err.Error(), "no turn for 5s") {
			t.Errorf("lock lease while orphaned: error %v, want one with the reason", err)
		}
		if status := p.Status(); status.Orphaned != "no turn for 5s" || len(status.Reasons) != 1 {
			t.Errorf("status %+v: want the reason", status)
		}
		await[election.TermBegan](t, other, ttl+2*time.Second)
		time.Sleep(ttl)
		if leases := etcd.Leases(); len(leases) != 2 {
			t.Errorf("%d leases, want only b's two: those of a are dead", len(leases))
		}
		p.Recover()
		p.Recover()
		again, _ := await[election.Joined](t, p, 2*time.Second)
		if again.Member.Incarnation <= first.Member.Incarnation {
			t.Errorf("incarnation %d after %d, want a higher one", again.Member.Incarnation, first.Member.Incarnation)
		}
		await[election.LockLeaseLost](t, p, 2*time.Second)
		await[election.LockLeaseOpened](t, p, 2*time.Second)
		p.lock()
	})
}

func TestQuickRecoveryKeepsTheLocksAndJoinsAnew(t *testing.T) {
	inBubble(t, func(t *testing.T, etcd *memetcd.Store) {
		p := start(t, etcd, "a")
		first, _ := await[election.Joined](t, p, time.Second)
		opened, _ := await[election.LockLeaseOpened](t, p, time.Second)
		p.Orphan("stuck")
		time.Sleep(2 * time.Second)
		p.Recover()
		again, _ := await[election.Joined](t, p, 2*time.Second)
		if again.Member.ID() == first.Member.ID() {
			t.Errorf("joined as %s twice: an engine that was stuck is a new member", again.Member.ID())
		}
		if renewed, _ := await[election.LockLeaseRenewed](t, p, 2*time.Second); renewed.ID != opened.ID {
			t.Errorf("lease %x renewed, want %x", renewed.ID, opened.ID)
		}
		none[election.LockLeaseLost](t, p)
	})
}

func TestOrphanBeforeTheFirstJoin(t *testing.T) {
	inBubble(t, func(t *testing.T, etcd *memetcd.Store) {
		etcd.LoseQuorum()
		p := start(t, etcd, "a")
		time.Sleep(time.Second)
		p.Orphan("stuck")
		etcd.RegainQuorum()
		time.Sleep(time.Minute)
		none[election.Joined](t, p)
		p.Recover()
		await[election.Joined](t, p, 2*time.Second)
		await[election.LockLeaseOpened](t, p, 2*time.Second)
	})
}

func TestRunIsCalledOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, etcd *memetcd.Store) {
		p := start(t, etcd, "a")
		await[election.Joined](t, p, time.Second)
		if err := p.Run(t.Context()); err == nil {
			t.Error("a second Run returned nil")
		}
	})
}

func TestConfigIsRefusedWithEveryFault(t *testing.T) {
	_, err := election.New(election.Config{Prefix: "x", TTL: 3500 * time.Millisecond, Grace: time.Second})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, part := range []string{"client", "clock", "member name", "prefix", "TTL", "grace"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not mention %s", err, part)
		}
	}
	for _, bad := range []time.Duration{time.Second, 61 * time.Second, -time.Second, 10*time.Second + 1} {
		config := election.Config{Client: clientv3.NewCtxClient(context.Background()), Clock: bootClock(), TTL: bad}
		config.Member.Name = "a"
		if _, err := election.New(config); err == nil || !strings.Contains(err.Error(), "TTL") {
			t.Errorf("TTL %s: error %v, want a refusal", bad, err)
		}
	}
}

// A caller may answer an event at once; the next event waits until it is done.
func TestEventsComeOneAtATimeAlsoWhenAnswered(t *testing.T) {
	inBubble(t, func(t *testing.T, etcd *memetcd.Store) {
		ready := make(chan *election.Sessions, 1)
		depth, deepest := 0, 0
		var order []string
		p := start(t, etcd, "a", func(c *election.Config) {
			c.Notify = func(event election.Event) {
				depth++
				deepest = max(deepest, depth)
				switch event.(type) {
				case election.LockLeaseOpened:
					order = append(order, "opened")
					(<-ready).Orphan("at once")
					order = append(order, "orphaned")
				case election.LockLeaseDoubted:
					order = append(order, "doubted")
				}
				depth--
			}
		})
		ready <- p.Sessions
		time.Sleep(time.Second)
		p.halt(time.Second)
		if deepest != 1 || strings.Join(order, " ") != "opened orphaned doubted" {
			t.Errorf("%d events at once, order %v; want one, and the answer's event after the answer", deepest, order)
		}
	})
}
