package itest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorumcron/quorumcron/election"
	"github.com/quorumcron/quorumcron/internal/devetcd"
	"github.com/quorumcron/quorumcron/scheduler"
)

const electionPrefix = "/quorumcron/"

// sessions is one process's sessions on a real etcd.
type sessions struct {
	*election.Sessions
	events chan election.Event // size 1000: more than any of these tests sees
	stop   func()
}

func runSessions(t *testing.T, client *clientv3.Client, name string) *sessions {
	t.Helper()
	s := &sessions{events: make(chan election.Event, 1000)}
	var err error
	s.Sessions, err = election.New(election.Config{
		Client: client,
		Member: scheduler.Member{Name: name},
		TTL:    3 * time.Second,
		Clock:  election.BootClock(),
		Notify: func(event election.Event) { s.events <- event },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	stopped := false
	s.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("%s: Run returned %v", name, err)
		}
	}
	t.Cleanup(s.stop)
	return s
}

// expect waits for an event of a type; refuse is a type that must not come before it.
func expect[E, R election.Event](t *testing.T, s *sessions, within time.Duration) E {
	t.Helper()
	limit := time.After(within)
	for {
		select {
		case event := <-s.events:
			switch e := event.(type) {
			case E:
				return e
			case R:
				t.Fatalf("got %T%+v, which must not be", event, event)
			}
		case <-limit:
			t.Fatalf("no %T within %s; status %+v", *new(E), within, s.Status())
		}
	}
}

func startEtcd(t *testing.T, config devetcd.Config) *devetcd.Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	server, err := devetcd.Start(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return server
}

func dialAs(t *testing.T, endpoint, user, password string) *clientv3.Client {
	t.Helper()
	client, err := election.Dial(election.DialConfig{Endpoints: []string{endpoint}, Username: user, Password: password})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// enableAuth makes root and a node user that may use our prefix only.
func enableAuth(t *testing.T, client *clientv3.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	steps := []func() error{
		func() error { _, err := client.UserAdd(ctx, "root", "root-secret"); return err },
		func() error { _, err := client.RoleAdd(ctx, "root"); return err },
		func() error { _, err := client.UserGrantRole(ctx, "root", "root"); return err },
		func() error { _, err := client.UserAdd(ctx, "node", "node-secret"); return err },
		func() error { _, err := client.RoleAdd(ctx, "cron"); return err },
		func() error {
			_, err := client.RoleGrantPermission(ctx, "cron", electionPrefix, clientv3.GetPrefixRangeEnd(electionPrefix), clientv3.PermissionType(clientv3.PermReadWrite))
			return err
		},
		func() error { _, err := client.UserGrantRole(ctx, "node", "cron"); return err },
		func() error { _, err := client.AuthEnable(ctx); return err },
	}
	for i, step := range steps {
		if err := step(); err != nil {
			t.Fatalf("enable authentication, step %d: %v", i+1, err)
		}
	}
}

func TestSessionsLiveUnderAuthentication(t *testing.T) {
	t.Parallel()
	server := startEtcd(t, devetcd.Config{Dir: t.TempDir()})
	enableAuth(t, dialAs(t, server.Endpoint(), "", ""))
	root := dialAs(t, server.Endpoint(), "root", "root-secret")

	wrong := dialAs(t, server.Endpoint(), "node", "guess")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := election.Ready(ctx, wrong, electionPrefix); !errors.Is(err, rpctypes.ErrAuthFailed) {
		t.Errorf("ready with a wrong password: %v, want ErrAuthFailed", err)
	}
	client := dialAs(t, server.Endpoint(), "node", "node-secret")
	if err := election.Ready(ctx, client, electionPrefix); err != nil {
		t.Errorf("ready: %v", err)
	}
	s := runSessions(t, client, "a")
	expect[election.LockLeaseOpened, election.MemberLost](t, s, 10*time.Second)
	id := lockKey(t, client, s)

	// Every change of users makes the tokens invalid: nobody notices.
	for i := range 12 {
		if _, err := root.UserAdd(ctx, fmt.Sprintf("other%d", i), "x"); err != nil {
			t.Fatal(err)
		}
		if err := s.UpdateMember(ctx, func(m *scheduler.Member) { m.Capacity = i + 1 }); err != nil {
			t.Errorf("update %d: %v", i, err)
		}
	}
	changed := election.BootClock()().Elapsed
	eventually(t, "a keep-alive after the last change is answered", func() bool { return s.LockLife(id).Sent > changed })
	if found, err := s.ListLocks(ctx); err != nil || len(found[id]) != 1 {
		t.Errorf("locks %v, %v; want the one", found, err)
	}
	if reasons := s.Status().Reasons; len(reasons) != 0 {
		t.Errorf("not well: %q", reasons)
	}
	s.stop()
	if resp, err := root.Leases(ctx); err != nil || len(resp.Leases) != 0 {
		t.Errorf("leases %v, %v after the stop; want none", resp, err)
	}
}

// eventually waits up to ten seconds for a condition.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	limit, tick := time.After(10*time.Second), time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("it never was so: %s", what)
		}
	}
}

// lockKey puts a key as a lock is put, under a lock lease of the sessions, which it returns.
func lockKey(t *testing.T, client *clientv3.Client, s *sessions) int64 {
	t.Helper()
	lease, err := s.LockLease(election.BootClock()())
	if err != nil {
		t.Fatal(err)
	}
	key := electionPrefix + "locks/u/@x/000"
	if _, err := client.Put(t.Context(), key, "", clientv3.WithLease(clientv3.LeaseID(lease.ID))); err != nil {
		t.Fatal(err)
	}
	if found, err := s.ListLocks(t.Context()); err != nil || len(found[lease.ID]) != 1 || found[lease.ID][0] != key {
		t.Errorf("locks %v, %v; want %s", found, err, key)
	}
	return lease.ID
}

func TestRestartOfEtcdLongerThanTTLLosesNothing(t *testing.T) {
	t.Parallel()
	config := devetcd.Config{Dir: t.TempDir()}
	server := startEtcd(t, config)
	config.Client = strings.TrimPrefix(server.Endpoint(), "http://")
	client := dialAs(t, server.Endpoint(), "", "")
	s := runSessions(t, client, "a")
	eventually(t, "holds a term and a lock lease", func() bool {
		status := s.Status()
		return status.Term.Key != "" && len(status.Locks) == 1
	})
	id := lockKey(t, client, s)

	server.Close()
	// Both sessions have been without an answer for longer than the TTL: doubted comes first.
	expect[election.TermEnded, election.MemberLost](t, s, 10*time.Second)
	startEtcd(t, config)
	if renewed := expect[election.LockLeaseRenewed, election.MemberLost](t, s, 10*time.Second); renewed.ID != id {
		t.Errorf("lease %x renewed, want %x", renewed.ID, id)
	}
	eventually(t, "all is well after the restart", func() bool { return len(s.Status().Reasons) == 0 })
	if found, err := s.ListLocks(t.Context()); err != nil || len(found[id]) != 1 {
		t.Errorf("locks %v, %v after the restart; want the one", found, err)
	}
}

func TestDispatcherPassesOnARealEtcd(t *testing.T) {
	t.Parallel()
	server := startEtcd(t, devetcd.Config{Dir: t.TempDir()})
	client := dialAs(t, server.Endpoint(), "", "")
	write := func(guard scheduler.Guard) bool {
		t.Helper()
		resp, err := client.Txn(t.Context()).
			If(clientv3.Compare(clientv3.CreateRevision(guard.Key), "=", guard.CreateRevision)).
			Then(clientv3.OpPut(electionPrefix+"rules/head", fmt.Sprint(guard.CreateRevision))).
			Commit()
		if err != nil {
			t.Fatal(err)
		}
		return resp.Succeeded
	}
	a := runSessions(t, dialAs(t, server.Endpoint(), "", ""), "a")
	first := expect[election.TermBegan, election.MemberLost](t, a, 10*time.Second)
	b := runSessions(t, dialAs(t, server.Endpoint(), "", ""), "b")
	expect[election.LockLeaseOpened, election.TermBegan](t, b, 10*time.Second)
	a.stop()
	second := expect[election.TermBegan, election.MemberLost](t, b, 2*time.Second)
	if write(first.Guard) {
		t.Error("the first term wrote after its end")
	}
	if !write(second.Guard) {
		t.Error("the second term could not write")
	}
	if _, err := client.Revoke(t.Context(), clientv3.LeaseID(b.Status().MemberLease)); err != nil {
		t.Fatal(err)
	}
	expect[election.MemberLost, election.LockLeaseLost](t, b, 2*time.Second)
	expect[election.Joined, election.LockLeaseLost](t, b, 2*time.Second)
	third := expect[election.TermBegan, election.LockLeaseLost](t, b, 2*time.Second)
	if write(second.Guard) || !write(third.Guard) {
		t.Error("the revoked term wrote, or the new one could not")
	}
}
