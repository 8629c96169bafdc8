package store_test

import (
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorumcron/quorumcron/internal/memetcd"
	"github.com/quorumcron/quorumcron/store/storetest"
)

// TestStore runs the suite on the in-memory etcd; internal/itest runs it on a real one.
func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) *clientv3.Client {
		etcd := memetcd.New(memetcd.Config{})
		t.Cleanup(etcd.Close)
		return etcd.Client(t.Context())
	})
}
