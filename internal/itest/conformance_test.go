package itest

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorumcron/quorumcron/election"
	"github.com/quorumcron/quorumcron/internal/devetcd"
	"github.com/quorumcron/quorumcron/internal/memetcd/conformance"
)

func TestMain(m *testing.M) {
	devetcd.RunIfMember(context.Background())
	os.Exit(m.Run())
}

// start runs an embedded server until the test ends.
func start(t *testing.T, cfg devetcd.Config) *devetcd.Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := devetcd.Start(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func dial(t *testing.T, endpoint string) *clientv3.Client {
	t.Helper()
	c, err := election.Dial(election.DialConfig{Endpoints: []string{endpoint}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// link is a client's way through a proxy.
type link struct {
	p      *proxy
	client *clientv3.Client
}

func (l link) Client() *clientv3.Client           { return l.client }
func (l link) HoldRequests()                      { l.p.hold(true, false) }
func (l link) HoldReplies()                       { l.p.hold(false, true) }
func (l link) Caught(_ *testing.T, marker string) { l.p.catch(marker) }
func (l link) Land(t *testing.T)                  { t.Helper(); l.p.land(t) }
func (l link) Reset()                             { l.p.reset() }

// env is the view of a statement on an embedded server.
func env(t *testing.T, cfg devetcd.Config, s *devetcd.Server, prefix string) *conformance.Env {
	client := dial(t, s.Endpoint())
	return &conformance.Env{
		Client: client, Prefix: prefix, MinTTL: 1, Slack: 5 * time.Second,
		Faulty: func(t *testing.T) conformance.Link {
			p := newProxy(t, s.Endpoint())
			return link{p, dial(t, p.endpoint())}
		},
		NewLeader: func(t *testing.T) {
			cfg.Client = s.Endpoint()
			s.Close()
			s = start(t, cfg)
		},
		NoSpace: func(t *testing.T, full bool) {
			t.Helper()
			r := &pb.AlarmRequest{Action: pb.AlarmRequest_DEACTIVATE, Alarm: pb.AlarmType_NOSPACE}
			if full {
				r.Action = pb.AlarmRequest_ACTIVATE
			}
			if _, err := pb.NewMaintenanceClient(client.ActiveConnection()).Alarm(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		},
	}
}

// The same statements hold for the cluster in memory, see internal/memetcd. Those that take no time
// share a server, one after the other: some count revisions.
func TestEtcdConforms(t *testing.T) {
	t.Parallel()
	cfg := devetcd.Config{Dir: t.TempDir()}
	shared := start(t, cfg)
	for i, c := range conformance.Tests() {
		t.Run(c.Name, func(t *testing.T) {
			if !c.Alone {
				c.Run(t, env(t, cfg, shared, fmt.Sprintf("t%03d/", i)))
				return
			}
			t.Parallel()
			cfg := devetcd.Config{Dir: t.TempDir(), QuotaBytes: c.Quota}
			c.Run(t, env(t, cfg, start(t, cfg), "t/"))
		})
	}
}
