package election_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorumcron/quorumcron/election"
	"github.com/quorumcron/quorumcron/internal/memetcd"
	"github.com/quorumcron/quorumcron/scheduler"
)

// follower records what FollowMembers delivers.
type follower struct {
	mu        sync.Mutex // guards the fields below
	members   []scheduler.Member
	revision  int64
	snapshots int
	stepsBack int
}

func follow(t *testing.T, p *process) *follower {
	t.Helper()
	f := &follower{}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = p.FollowMembers(ctx, f.deliver)
	}()
	t.Cleanup(func() { stop(); <-ended })
	return f
}

func (f *follower) deliver(members []scheduler.Member, revision int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if revision < f.revision {
		f.stepsBack++
	}
	f.members, f.revision = members, revision
	f.snapshots++
}

// names returns the names of the last snapshot, and how many there were.
func (f *follower) names() (string, int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	names := make([]string, len(f.members))
	for i, m := range f.members {
		names[i] = m.Name
	}
	return strings.Join(names, " "), f.snapshots
}

func (f *follower) want(t *testing.T, names string) {
	t.Helper()
	if got, _ := f.names(); got != names {
		t.Errorf("members %q, want %q", got, names)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stepsBack > 0 {
		t.Errorf("%d snapshots were older than the one before", f.stepsBack)
	}
}

func TestMembersAreFollowed(t *testing.T) {
	inBubble(t, func(t *testing.T, etcd *memetcd.Store) {
		b := start(t, etcd, "b", func(c *election.Config) {
			c.Member.Labels = map[string]string{"zone": "eu"}
			c.Member.Handlers = []string{"x", "y"}
			c.Member.Version, c.Member.TZData, c.Member.BootID = "1.0", "2026a", "boot"
			c.Member.HTTPAddress = "b:7461"
		})
		joined, _ := await[election.Joined](t, b, time.Second)
		f := follow(t, b)
		time.Sleep(time.Second)
		f.want(t, "b")
		f.mu.Lock()
		got := f.members[0]
		f.mu.Unlock()
		if got.ID() != joined.Member.ID() || got.Labels["zone"] != "eu" || len(got.Handlers) != 2 || got.Capacity != 4 ||
			got.GRPCAddress != "b:7460" || got.HTTPAddress != "b:7461" || got.Version != "1.0" || got.TZData != "2026a" ||
			got.BootID != "boot" || got.FormatMin != 1 || got.FormatMax != 1 || got.Draining {
			t.Errorf("followed %+v, want what was configured, as %s", got, joined.Member.ID())
		}
		a := start(t, etcd, "a")
		time.Sleep(time.Second)
		f.want(t, "a b")
		a.halt(time.Second)
		time.Sleep(time.Second)
		f.want(t, "b")
	})
}

func TestLostEventOfAMemberIsMadeUpForByTheNext(t *testing.T) {
	inBubble(t, func(t *testing.T, etcd *memetcd.Store) {
		b := start(t, etcd, "b")
		a := start(t, etcd, "a")
		f := follow(t, b)
		time.Sleep(time.Second)
		f.want(t, "a b")
		b.link.DropEvents(1, func(e *clientv3.Event) bool { return strings.HasSuffix(string(e.Kv.Key), "members/a") })
		a.halt(time.Second)
		time.Sleep(time.Second)
		f.want(t, "a b") // its end was not heard of
		start(t, etcd, "c")
		time.Sleep(time.Second)
		f.want(t, "b c")
	})
}

func TestQuietMembersWatchIsNotListedAnew(t *testing.T) {
	inBubble(t, func(t *testing.T, etcd *memetcd.Store) {
		p := start(t, etcd, "a")
		await[election.TermBegan](t, p, time.Second)
		f := follow(t, p)
		// Another watch of the process that waits for what is to come: etcd gives its stream no sign of life.
		p.client.Watch(clientv3.WithRequireLeader(t.Context()), "other", clientv3.WithRev(etcd.Rev()+1))
		time.Sleep(time.Hour)
		if _, snapshots := f.names(); snapshots != 1 {
			t.Errorf("%d snapshots in a quiet hour, want 1: a sign of life is enough", snapshots)
		}
	})
}

func TestMembersAreListedAnewWhenTheWatchIsInDoubt(t *testing.T) {
	cases := []struct {
		name  string
		doubt func(t *testing.T, etcd *memetcd.Store, link *memetcd.Link)
		heal  func(etcd *memetcd.Store, link *memetcd.Link)
	}{
		{name: "silent",
			doubt: func(_ *testing.T, _ *memetcd.Store, link *memetcd.Link) { link.FreezeWatches() },
			heal:  func(*memetcd.Store, *memetcd.Link) {}},
		{name: "cut",
			doubt: func(_ *testing.T, _ *memetcd.Store, link *memetcd.Link) { link.Cut() },
			heal:  func(_ *memetcd.Store, link *memetcd.Link) { link.Mend() }},
		{name: "compacted while away",
			doubt: func(t *testing.T, etcd *memetcd.Store, link *memetcd.Link) { link.Refuse() },
			heal: func(etcd *memetcd.Store, link *memetcd.Link) {
				_ = etcd.Compact(etcd.Rev())
				link.Mend()
			}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, etcd *memetcd.Store) {
				a := start(t, etcd, "a")
				await[election.Joined](t, a, time.Second)
				watcher := start(t, etcd, "w")
				await[election.Joined](t, watcher, time.Second)
				f := follow(t, watcher)
				time.Sleep(time.Second)
				f.want(t, "a w")
				c.doubt(t, etcd, watcher.link)
				b := start(t, etcd, "b")
				await[election.Joined](t, b, time.Second)
				a.halt(time.Second)
				time.Sleep(4 * time.Second)
				c.heal(etcd, watcher.link)
				time.Sleep(3 * 5 * time.Second)
				f.want(t, "b w")
			})
		})
	}
}

func TestUnreadableMemberIsLeftOut(t *testing.T) {
	inBubble(t, func(t *testing.T, etcd *memetcd.Store) {
		p := start(t, etcd, "a")
		await[election.Joined](t, p, time.Second)
		free := etcd.Client(t.Context())
		if _, err := free.Put(t.Context(), prefix+"members/x", "\xff\xff"); err != nil {
			t.Fatal(err)
		}
		f := follow(t, p)
		time.Sleep(time.Second)
		f.want(t, "a")
		if _, err := free.Put(t.Context(), prefix+"members/y", "\xff"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		f.want(t, "a")
	})
}

func draining(m *scheduler.Member) { m.Draining = true }

func TestMemberIsUpdatedUnderItsKey(t *testing.T) {
	inBubble(t, func(t *testing.T, etcd *memetcd.Store) {
		p := start(t, etcd, "a")
		joined, _ := await[election.Joined](t, p, time.Second)
		f := follow(t, p)
		err := p.UpdateMember(t.Context(), func(m *scheduler.Member) {
			m.Draining = true
			m.Name, m.Incarnation = "z", 99
		})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		f.mu.Lock()
		got := f.members
		f.mu.Unlock()
		if len(got) != 1 || !got[0].Draining || got[0].ID() != joined.Member.ID() {
			t.Errorf("members %+v, want %s draining", got, joined.Member.ID())
		}
		if m := p.Status().Member; !m.Draining || m.ID() != joined.Member.ID() {
			t.Errorf("status shows %+v, want %s draining", m, joined.Member.ID())
		}
	})
}

func TestUpdateOutlivesTheMembership(t *testing.T) {
	inBubble(t, func(t *testing.T, etcd *memetcd.Store) {
		etcd.LoseQuorum()
		p := start(t, etcd, "a")
		if err := p.UpdateMember(t.Context(), draining); err != nil {
			t.Errorf("update before the join: %v", err)
		}
		etcd.RegainQuorum()
		joined, _ := await[election.Joined](t, p, 2*time.Second)
		if !joined.Member.Draining {
			t.Error("joined without the update made before")
		}
		if _, err := etcd.Client(t.Context()).Revoke(t.Context(), clientv3.LeaseID(p.Status().MemberLease)); err != nil {
			t.Fatal(err)
		}
		if joined, _ := await[election.Joined](t, p, 2*time.Second); !joined.Member.Draining {
			t.Error("joined again without the update made before")
		}
	})
}

func TestUpdateThatGotNoAnswerIsWrittenAllTheSame(t *testing.T) {
	inBubble(t, func(t *testing.T, etcd *memetcd.Store) {
		p := start(t, etcd, "a")
		await[election.TermBegan](t, p, time.Second)
		time.Sleep(5 * time.Second)
		f := follow(t, p)
		time.Sleep(time.Second)
		p.link.DropRequests(1, memetcd.WritesTo(prefix+"members/"))
		if err := p.UpdateMember(t.Context(), draining); err == nil {
			t.Error("update without an answer returned nil")
		}
		time.Sleep(5 * time.Second)
		f.mu.Lock()
		defer f.mu.Unlock()
		if !f.members[0].Draining {
			t.Error("the update was never written")
		}
	})
}

func TestFormerMembershipWritesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, etcd *memetcd.Store) {
		p := start(t, etcd, "a")
		await[election.Joined](t, p, time.Second)
		held := p.link.Hold(memetcd.WritesTo(prefix + "members/"))
		if err := p.UpdateMember(t.Context(), draining); err == nil {
			t.Error("update whose request hangs returned nil")
		}
		if _, err := etcd.Client(t.Context()).Revoke(t.Context(), clientv3.LeaseID(p.Status().MemberLease)); err != nil {
			t.Fatal(err)
		}
		await[election.MemberLost](t, p, 2*time.Second)
		await[election.Joined](t, p, 2*time.Second)
		before, _ := get(t, etcd, prefix+"members/a")
		if resp, err := held.Land(); err == nil && resp.(interface{ GetSucceeded() bool }).GetSucceeded() {
			t.Error("the former membership's write was taken")
		}
		if after, _ := get(t, etcd, prefix+"members/a"); after != before {
			t.Errorf("member key changed from %q to %q", before, after)
		}
	})
}

// Its lease lives and it has not heard that its key was deleted and the name taken.
func TestUpdateNeverWritesOverAnotherProcess(t *testing.T) {
	inBubble(t, func(t *testing.T, etcd *memetcd.Store) {
		p := start(t, etcd, "a")
		await[election.Joined](t, p, time.Second)
		time.Sleep(time.Second)
		p.link.FreezeWatches()
		if _, err := etcd.Client(t.Context()).Delete(t.Context(), prefix+"members/a"); err != nil {
			t.Fatal(err)
		}
		heir := start(t, etcd, "a")
		await[election.Joined](t, heir, time.Second)
		before, _ := get(t, etcd, prefix+"members/a")
		if err := p.UpdateMember(t.Context(), draining); err != nil {
			t.Errorf("update: %v; a lost membership is no error, the next join shows it", err)
		}
		if after, _ := get(t, etcd, prefix+"members/a"); after != before {
			t.Errorf("the heir's key changed from %q to %q", before, after)
		}
	})
}
