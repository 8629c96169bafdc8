package api_test

import (
	"testing"

	"google.golang.org/grpc/codes"

	quorumcronv1 "github.com/quorumcron/quorumcron/proto/quorumcron/v1"
	"github.com/quorumcron/quorumcron/scheduler"
)

func TestStatusAnswersWithReasonsWhileNotReady(t *testing.T) {
	t.Parallel()
	c := startServer(t, "node-a")
	c.node.set(func(n *fakeNode) {
		n.readiness = scheduler.Readiness{Checks: []scheduler.Check{
			{Name: "etcd", Detail: "no answer for 12s"}, {Name: "clock", OK: true, Detail: "trusted"},
		}}
		n.status = scheduler.ClusterStatus{Member: "node-a", ShardsOwned: 12}
	})
	got, err := c.cluster.Status(t.Context(), &quorumcronv1.ClusterServiceStatusRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if got.GetReady() || len(got.GetReasons()) != 1 || got.GetReasons()[0] != "etcd: no answer for 12s" ||
		got.GetEtcd() != nil || got.GetVersion() != "1.2.3" || got.GetShardsOwned() != 12 {
		t.Errorf("got %v, want not ready, for etcd alone", got)
	}
}

func TestMembersAreListed(t *testing.T) {
	t.Parallel()
	c := startServer(t, "node-a")
	c.node.set(func(n *fakeNode) {
		n.members = []scheduler.MemberView{
			{Member: scheduler.Member{Name: "node-a"}, ShardsOwned: 256, Dispatcher: true},
			{Member: scheduler.Member{Name: "node-b", Draining: true}},
		}
	})
	got, err := c.cluster.ListMembers(t.Context(), &quorumcronv1.ClusterServiceListMembersRequest{})
	if err != nil || len(got.GetMembers()) != 2 {
		t.Fatalf("got %v, %v, want two members", got, err)
	}
	if m := got.GetMembers()[0]; m.GetName() != "node-a" || m.GetShardsOwned() != 256 || !m.GetDispatcher() || m.GetDraining() {
		t.Errorf("got %v", m)
	}
	if m := got.GetMembers()[1]; m.GetName() != "node-b" || m.GetShardsOwned() != 0 || m.GetDispatcher() || !m.GetDraining() {
		t.Errorf("got %v", m)
	}
}

func TestDrainIsForTheMemberThatServesIt(t *testing.T) {
	t.Parallel()
	c := startServer(t, "node-a")
	_, err := c.cluster.Drain(t.Context(), &quorumcronv1.ClusterServiceDrainRequest{Member: "node-b"})
	wantCode(t, err, codes.FailedPrecondition)
	c.node.set(func(n *fakeNode) {
		if n.draining {
			t.Error("node-a drains, though node-b was meant")
		}
	})
	for i, asked := range []string{"node-a", ""} {
		got, err := c.cluster.Drain(t.Context(), &quorumcronv1.ClusterServiceDrainRequest{Member: asked})
		if err != nil || got.GetMember() != "node-a" || got.GetAlready() != (i > 0) {
			t.Errorf("drain %q: got %v, %v", asked, got, err)
		}
	}
}
