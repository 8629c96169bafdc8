package election_test

import (
	"context"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorumcron/quorumcron/election"
	"github.com/quorumcron/quorumcron/internal/memetcd"
	"github.com/quorumcron/quorumcron/scheduler"
)

// publish writes as package store does for a dispatcher: only if the guard holds.
func publish(t *testing.T, client *clientv3.Client, guard scheduler.Guard, value string) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	resp, err := client.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(guard.Key), "=", guard.CreateRevision)).
		Then(clientv3.OpPut(prefix+"rules/head", value)).
		Commit()
	if err != nil {
		t.Fatalf("publish: %v", err)
	}
	return resp.Succeeded
}

func TestDispatcherPassesFromMemberToMemberAndBack(t *testing.T) {
	inBubble(t, func(t *testing.T, etcd *memetcd.Store) {
		free := etcd.Client(t.Context())
		a := start(t, etcd, "a")
		first, _ := await[election.TermBegan](t, a, time.Second)
		b := start(t, etcd, "b")
		await[election.Joined](t, b, time.Second)
		time.Sleep(time.Second)
		none[election.TermBegan](t, b)
		if !publish(t, free, first.Guard, "a1") {
			t.Error("a's write was refused in its term")
		}

		a.halt(time.Second)
		second, _ := await[election.TermBegan](t, b, time.Second)
		if publish(t, free, first.Guard, "a1 late") {
			t.Error("a's write was taken after its term")
		}
		if !publish(t, free, second.Guard, "b") {
			t.Error("b's write was refused in its term")
		}

		again := start(t, etcd, "a")
		await[election.Joined](t, again, time.Second)
		b.halt(time.Second)
		third, _ := await[election.TermBegan](t, again, time.Second)
		if third.Guard == first.Guard || third.Guard.CreateRevision <= second.Guard.CreateRevision {
			t.Errorf("guards %+v, %+v, %+v: want each newer than the one before", first.Guard, second.Guard, third.Guard)
		}
		for i, old := range []scheduler.Guard{first.Guard, second.Guard} {
			if publish(t, free, old, "late") {
				t.Errorf("write of term %d was taken in term 3", i+1)
			}
		}
		if value, _ := get(t, etcd, prefix+"rules/head"); value != "b" {
			t.Errorf("rules/head is %q, want b: nothing of a deposed term", value)
		}
	})
}

// At every moment at most one term can write, and every write of a deposed one fails, also of a
// dispatcher that has not heard yet.
func TestDeposedDispatcherWritesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, etcd *memetcd.Store) {
		a := start(t, etcd, "a")
		first, _ := await[election.TermBegan](t, a, time.Second)
		b := start(t, etcd, "b")
		await[election.Joined](t, b, time.Second)
		time.Sleep(5 * time.Second)
		a.link.Pause()
		if _, err := etcd.Client(t.Context()).Delete(t.Context(), first.Guard.Key); err != nil {
			t.Fatal(err)
		}
		second, _ := await[election.TermBegan](t, b, time.Second)
		none[election.TermEnded](t, a)
		if a.Status().Term != first.Guard {
			t.Fatal("a knows already that its term is over: this tests nothing")
		}
		a.link.Resume()
		if publish(t, a.client, first.Guard, "a") {
			t.Error("the deposed dispatcher's write was taken")
		}
		if !publish(t, b.client, second.Guard, "b") {
			t.Error("the dispatcher's write was refused")
		}
		await[election.TermEnded](t, a, 2*time.Second)
	})
}

func TestDeletedElectionKeyEndsTheTerm(t *testing.T) {
	inBubble(t, func(t *testing.T, etcd *memetcd.Store) {
		a := start(t, etcd, "a")
		term, _ := await[election.TermBegan](t, a, time.Second)
		b := start(t, etcd, "b")
		await[election.Joined](t, b, time.Second)
		time.Sleep(time.Second)
		if _, err := etcd.Client(t.Context()).Delete(t.Context(), term.Guard.Key); err != nil {
			t.Fatal(err)
		}
		await[election.TermEnded](t, a, time.Second)
		await[election.TermBegan](t, b, time.Second)
		b.halt(time.Second)
		again, _ := await[election.TermBegan](t, a, time.Second)
		if again.Guard == term.Guard {
			t.Error("the second term has the guard of the first")
		}
		none[election.MemberLost](t, a)
	})
}

func TestCandidateWhoseWatchMissedItsTurnIsElectedAllTheSame(t *testing.T) {
	inBubble(t, func(t *testing.T, etcd *memetcd.Store) {
		a := start(t, etcd, "a")
		await[election.TermBegan](t, a, time.Second)
		b := start(t, etcd, "b")
		await[election.Joined](t, b, time.Second)
		time.Sleep(time.Second)
		b.link.DropEvents(-1, nil)
		a.halt(time.Second)
		await[election.TermBegan](t, b, 3*ttl+5*time.Second)
		if b.link.Counts().EventsDropped == 0 {
			t.Error("no event was dropped: the fault never took hold")
		}
	})
}

func TestDispatcherIsNobodyWithoutCandidates(t *testing.T) {
	inBubble(t, func(t *testing.T, etcd *memetcd.Store) {
		p := start(t, etcd, "a")
		await[election.TermBegan](t, p, time.Second)
		p.halt(time.Second)
		if name, err := p.Dispatcher(t.Context()); name != "" || err != nil {
			t.Errorf("dispatcher %q, %v; want none", name, err)
		}
		p.link.Refuse()
		if name, err := p.Dispatcher(t.Context()); err == nil {
			t.Errorf("dispatcher %q without a connection, want an error", name)
		}
	})
}
