package election_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorumcron/quorumcron/election"
	"github.com/quorumcron/quorumcron/internal/memetcd"
)

func TestSecondProcessOfANameGivesUpAfterTwoTTLs(t *testing.T) {
	for _, withFolder := range []bool{false, true} {
		t.Run(fmt.Sprintf("folder=%t", withFolder), func(t *testing.T) {
			inBubble(t, func(t *testing.T, etcd *memetcd.Store) {
				a := start(t, etcd, "a")
				first, _ := await[election.Joined](t, a, time.Second)
				begun := time.Now()
				second := start(t, etcd, "a", func(c *election.Config) {
					if withFolder {
						c.Folder = openFolder(t, t.TempDir())
					}
				})
				err := second.failed(election.ErrNameTaken)
				if waited := time.Since(begun); waited < 2*ttl || waited > 2*ttl+time.Second {
					t.Errorf("gave up after %s, want two TTLs", waited)
				}
				for _, part := range []string{first.Member.ID(), "a:7460", fmt.Sprintf("%x", a.Status().MemberLease)} {
					if !strings.Contains(err.Error(), part) {
						t.Errorf("error %q does not name %s", err, part)
					}
				}
				none[election.Joined](t, second)
				none[election.LockLeaseOpened](t, second)
				none[election.MemberLost](t, a)
				if n := len(etcd.Leases()); n != 2 {
					t.Errorf("%d leases, want the two of the first process", n)
				}
			})
		})
	}
}

func TestNameOfADeadProcessIsFreeWhenItsLeaseEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, etcd *memetcd.Store) {
		dead := start(t, etcd, "a")
		first, _ := await[election.Joined](t, dead, time.Second)
		dead.link.Cut()
		p := start(t, etcd, "a")
		time.Sleep(time.Second)
		if reasons := strings.Join(p.Status().Reasons, "; "); !strings.Contains(reasons, "name a is taken") {
			t.Errorf("reasons %q: want to read what it waits for", reasons)
		}
		again, _ := await[election.Joined](t, p, ttl+time.Second)
		if again.Member.Incarnation <= first.Member.Incarnation {
			t.Errorf("incarnation %d after %d, want a higher one", again.Member.Incarnation, first.Member.Incarnation)
		}
		if reasons := p.Status().Reasons; len(reasons) > 1 || len(reasons) == 1 && reasons[0] != "no lock lease may take locks" {
			t.Errorf("reasons %q after the join", reasons)
		}
	})
}

// Its lease may have a longer TTL than ours.
func TestDeadHolderIsGivenItsOwnTTLToGo(t *testing.T) {
	inBubble(t, func(t *testing.T, etcd *memetcd.Store) {
		dead := start(t, etcd, "a", func(c *election.Config) { c.TTL = time.Minute })
		await[election.Joined](t, dead, time.Second)
		dead.link.Refuse()
		p := start(t, etcd, "a", func(c *election.Config) { c.TTL = 3 * time.Second })
		await[election.Joined](t, p, time.Minute+2*time.Second)
	})
}

// The dead process's lease starts anew with each etcd leader, and stands still without one.
func TestTimeWithoutQuorumDoesNotCountAgainstTheWait(t *testing.T) {
	inBubble(t, func(t *testing.T, etcd *memetcd.Store) {
		dead := start(t, etcd, "a")
		await[election.Joined](t, dead, time.Second)
		dead.link.Cut()
		p := start(t, etcd, "a")
		time.Sleep(5 * time.Second)
		etcd.LoseQuorum()
		time.Sleep(time.Minute)
		etcd.RegainQuorum()
		await[election.Joined](t, p, 2*ttl)
	})
}

func TestKeyPutByHandIsNamedAsSuch(t *testing.T) {
	inBubble(t, func(t *testing.T, etcd *memetcd.Store) {
		if _, err := etcd.Client(t.Context()).Put(t.Context(), prefix+"members/a", "x"); err != nil {
			t.Fatal(err)
		}
		p := start(t, etcd, "a")
		if err := p.failed(election.ErrNameTaken); !strings.Contains(err.Error(), "put by hand") {
			t.Errorf("error %q, want one that says so", err)
		}
	})
}

func TestUnknownPutOfTheMemberKeyIsFoundToBeOurs(t *testing.T) {
	inBubble(t, func(t *testing.T, etcd *memetcd.Store) {
		var link *memetcd.Link
		p := start(t, etcd, "a", func(*election.Config) {})
		await[election.Joined](t, p, time.Second)
		link = p.link
		link.DropReplies(3, memetcd.WritesTo(prefix+"members/"))
		if _, err := etcd.Client(t.Context()).Revoke(t.Context(), clientv3.LeaseID(p.Status().MemberLease)); err != nil {
			t.Fatal(err)
		}
		joined, _ := await[election.Joined](t, p, 2*time.Second)
		if _, created := get(t, etcd, prefix+"members/a"); created != joined.Member.CreateRevision {
			t.Errorf("joined with create revision %d, the key has %d", joined.Member.CreateRevision, created)
		}
		if link.Counts().RepliesDropped != 3 {
			t.Errorf("%d replies dropped, want 3", link.Counts().RepliesDropped)
		}
	})
}

// A put that was given up may land after another process took the name and left: its lease is gone by
// then, so that it cannot.
func TestPutThatLandsLateJoinsNobody(t *testing.T) {
	inBubble(t, func(t *testing.T, etcd *memetcd.Store) {
		p := start(t, etcd, "a")
		await[election.Joined](t, p, time.Second)
		held := p.link.Hold(memetcd.WritesTo(prefix + "members/"))
		if _, err := etcd.Client(t.Context()).Revoke(t.Context(), clientv3.LeaseID(p.Status().MemberLease)); err != nil {
			t.Fatal(err)
		}
		<-held.Caught()
		p.halt(4 * time.Second)
		if _, err := held.Land(); err == nil {
			t.Error("the late put was carried out under a revoked lease")
		}
		if _, created := get(t, etcd, prefix+"members/a"); created != 0 {
			t.Error("a member key is there without a member")
		}
	})
}

func TestProcessThatFindsItsNameTakenOnRejoiningEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, etcd *memetcd.Store) {
		p := start(t, etcd, "a")
		await[election.Joined](t, p, time.Second)
		p.link.Cut()
		time.Sleep(ttl + 2*time.Second)
		heir := start(t, etcd, "a")
		await[election.Joined](t, heir, time.Second)
		p.link.Mend()
		p.failed(election.ErrNameTaken)
		none[election.MemberLost](t, heir)
	})
}
