package memetcd_test

import (
	"testing"
	"testing/synctest"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorumcron/quorumcron/internal/memetcd"
	"github.com/quorumcron/quorumcron/internal/memetcd/conformance"
)

// env makes a cluster for one statement.
func env(t *testing.T, quota int64) *conformance.Env {
	s := memetcd.New(memetcd.Config{QuotaBytes: quota})
	t.Cleanup(s.Close)
	dial := func(l *memetcd.Link) *clientv3.Client { return l.Client(t.Context()) }
	return &conformance.Env{
		Client: dial(s.Link("plain")), Prefix: "p/", MinTTL: 2, Slack: time.Second,
		NewLeader: func(*testing.T) { s.ChangeLeader() },
		NoSpace:   func(_ *testing.T, full bool) { s.SetNoSpace(full) },
		Faulty: func(*testing.T) conformance.Link {
			l := s.Link("faulty")
			return &link{Link: l, client: dial(l)}
		},
	}
}

// link holds requests by a rule, so that the caller can give up and the request still land.
type link struct {
	*memetcd.Link
	client *clientv3.Client
	held   *memetcd.Held
}

func (l *link) Client() *clientv3.Client { return l.client }
func (l *link) HoldReplies()             { l.CutReplies() }
func (l *link) HoldRequests() {
	l.CutRequests()
	l.held = l.Hold(func(c memetcd.Call) bool { return c.Method == "Txn" || c.Method == "Put" })
}

func (l *link) Caught(t *testing.T, marker string) {
	t.Helper()
	<-l.held.Caught()
}

func (l *link) Land(t *testing.T) {
	t.Helper()
	if _, err := l.held.Land(); err != nil {
		t.Fatal(err)
	}
	l.Reset()
}

func (l *link) Reset() {
	l.Link.Reset()
	l.ClearRules()
	l.Mend()
}

// Outside of bubbles only what takes no time is run, and one lease that takes its two seconds.
func TestMemetcdConforms(t *testing.T) {
	t.Parallel()
	for _, c := range conformance.Tests() {
		if c.Alone && c.Name != "AnExpiredLeaseTakesItsKeys" {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			c.Run(t, env(t, c.Quota))
		})
	}
}

func TestMemetcdConformsInBubbles(t *testing.T) {
	t.Parallel()
	for _, c := range conformance.Tests() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { c.Run(t, env(t, c.Quota)) })
		})
	}
}
