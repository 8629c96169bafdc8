package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorumcron/quorumcron/scheduler"
)

// ending is what a failed request tells of its transaction.
type ending int

const (
	// endUnknown: it may have been applied, or may yet be. Everything that is not known to be
	// definite is this: a time-out, a lost connection, a leader change, and "no space", which etcd
	// also answers after it has applied the transaction.
	endUnknown ending = iota
	// endRefused: nothing was applied, and nothing is wrong with the request.
	endRefused
	// endShape: nothing was applied, for it is too large, has too many operations or writes a key
	// twice. Sent again as it is, it is refused again.
	endShape
	// endLease: nothing was applied, for a lease in a taken branch is gone.
	endLease
)

// classify reads the error of a transaction. etcd checks leases, permissions and the shape of a
// transaction before it applies any of it.
func classify(err error) ending {
	var known rpctypes.EtcdError
	if !errors.As(err, &known) {
		return endUnknown
	}
	switch {
	case is(known, rpctypes.ErrTooManyOps, rpctypes.ErrDuplicateKey, rpctypes.ErrRequestTooLarge):
		return endShape
	case is(known, rpctypes.ErrLeaseNotFound):
		return endLease
	case is(known, rpctypes.ErrTooManyRequests, rpctypes.ErrPermissionDenied, rpctypes.ErrUserEmpty,
		rpctypes.ErrInvalidAuthToken, rpctypes.ErrAuthOldRevision, rpctypes.ErrAuthFailed, rpctypes.ErrEmptyKey,
		rpctypes.ErrNotCapable):
		return endRefused
	}
	return endUnknown
}

func is(err error, any ...error) bool {
	for _, e := range any {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// failure is the error that a caller sees for the error of a write.
func failure(err error) error {
	switch classify(err) {
	case endUnknown:
		return fmt.Errorf("%w: etcd: %w", scheduler.ErrUnknown, err)
	case endShape:
		return fmt.Errorf("%w: etcd: %w", scheduler.ErrExhausted, err)
	}
	return away(err)
}

// away is the error of a request that etcd did not answer, or refused as it stands. It names etcd, for it reaches
// users through a node that is well.
func away(err error) error { return fmt.Errorf("%w: etcd: %w", scheduler.ErrUnavailable, err) }

// commit sends one transaction outside the groups. Its error wraps ErrUnknown unless it is certain
// that nothing was applied.
func (s *Store) commit(ctx context.Context, cmps []clientv3.Cmp, then, els []clientv3.Op) (*clientv3.TxnResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	asked := s.history.asked()
	resp, err := s.client.Txn(ctx).If(cmps...).Then(then...).Else(els...).Commit()
	if err != nil {
		return nil, failure(err)
	}
	s.history.answered(asked, resp.Header)
	return resp, nil
}

// read reads several keys or ranges at one revision, linearizably.
func (s *Store) read(ctx context.Context, gets ...clientv3.Op) (*clientv3.TxnResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	asked := s.history.asked()
	resp, err := s.client.Txn(ctx).Then(gets...).Commit()
	if err != nil {
		return nil, away(err)
	}
	s.history.answered(asked, resp.Header)
	return resp, nil
}

// get reads one key or range.
func (s *Store) get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	asked := s.history.asked()
	resp, err := s.client.Get(ctx, key, opts...)
	if err != nil {
		return nil, away(err)
	}
	s.history.answered(asked, resp.Header)
	return resp, nil
}

// kvs are the values that reply i found; none if it is no range.
func kvs(replies []*etcdserverpb.ResponseOp, i int) []*mvccpb.KeyValue {
	if i >= len(replies) {
		return nil
	}
	return replies[i].GetResponseRange().GetKvs()
}

// found is the one value that reply i found, or nil.
func found(replies []*etcdserverpb.ResponseOp, i int) *mvccpb.KeyValue {
	if kvs := kvs(replies, i); len(kvs) > 0 {
		return kvs[0]
	}
	return nil
}

// revisionOf is the mod revision of a value, 0 of none.
func revisionOf(kv *mvccpb.KeyValue) int64 {
	if kv == nil {
		return 0
	}
	return kv.ModRevision
}

// unchanged compares that a key has the mod revision it was read at, 0 meaning that it is not there.
func unchanged(key string, revision int64) clientv3.Cmp {
	return clientv3.Compare(clientv3.ModRevision(key), "=", revision)
}

// absent compares that a key is not there.
func absent(key string) clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(key), "=", 0)
}

// createdAt compares that a key is the one created at the revision: the same lock, the same term.
func createdAt(key string, revision int64) clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(key), "=", revision)
}

// olderThan compares that a key was last written before the revision, or is not there.
func olderThan(key string, revision int64) clientv3.Cmp {
	return clientv3.Compare(clientv3.ModRevision(key), "<", revision)
}

// guarded compares a right that election issued.
func guarded(g scheduler.Guard) clientv3.Cmp { return createdAt(g.Key, g.CreateRevision) }

// backoff waits between tries: 50 ms, doubling up to a second, until ctx ends.
type backoff time.Duration

const mostBackoff = time.Second

func (b *backoff) wait(ctx context.Context) error {
	*b = min(max(2**b, backoff(50*time.Millisecond)), backoff(mostBackoff))
	timer := time.NewTimer(time.Duration(*b))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

func (b *backoff) reset() { *b = 0 }
