package itest

import (
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorumcron/quorumcron/internal/devetcd"
	"github.com/quorumcron/quorumcron/store/storetest"
)

// TestStoreOnEtcd holds the guards of package store against a real server. The same suite runs on the
// cluster in memory, see package store.
func TestStoreOnEtcd(t *testing.T) {
	t.Parallel()
	server := start(t, devetcd.Config{Dir: t.TempDir()})
	client := dial(t, server.Endpoint())
	storetest.Run(t, func(*testing.T) *clientv3.Client { return client })
}
