package election

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// boundedKV gives every call a deadline of its own. concurrency.Election gives its calls none but that
// of the whole candidacy: one that a member of etcd does not answer would keep this process from being
// dispatcher for as long as the connection is believed.
type boundedKV struct {
	clientv3.KV
	limit time.Duration
}

// Get reads within the limit.
func (kv boundedKV) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, kv.limit)
	defer cancel()
	return kv.KV.Get(ctx, key, opts...)
}

// Txn begins a transaction that must be committed within the limit.
func (kv boundedKV) Txn(ctx context.Context) clientv3.Txn {
	ctx, cancel := context.WithTimeout(ctx, kv.limit)
	context.AfterFunc(ctx, cancel) // nobody says when it has been committed: the timer lives until the limit
	return kv.KV.Txn(ctx)
}
