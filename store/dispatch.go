package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorumcron/quorumcron/proto/quorumcron/stored/v1"
	"github.com/quorumcron/quorumcron/scheduler"
)

// Meta is what all members agree on.
type Meta struct {
	ClusterID string
	// Format is the stored format in force: see FormatMin and FormatMax.
	Format   int64
	Revision int64 // its mod revision
}

// Supported says whether this version can live with the format in force. A member that cannot must
// not start.
func (m Meta) Supported() bool { return m.Format >= FormatMin && m.Format <= FormatMax }

// Initialise makes the cluster's first keys unless they are there, in one transaction, and returns
// what is in force. Every member begins with it; repeating it is safe.
func (s *Store) Initialise(ctx context.Context) (Meta, error) {
	// etcd without space refuses the transaction even if it would write nothing. A member of a cluster that
	// is there starts all the same, and answers what can be read.
	there, err := s.get(ctx, s.keys.meta())
	switch {
	case err != nil:
		return Meta{}, fmt.Errorf("initialise: %w", err)
	case len(there.Kvs) > 0:
		return metaOf(there.Kvs[0])
	}
	meta := &storedv1.Meta{ClusterId: strings.ToLower(rand.Text()), Format: FormatMin}
	value, err := marshal(meta)
	if err != nil {
		return Meta{}, fmt.Errorf("initialise: %w", err)
	}
	all, err := marshal(encodePool(scheduler.Pool{ID: scheduler.PoolAll}))
	if err != nil {
		return Meta{}, fmt.Errorf("initialise: %w", err)
	}
	resp, err := s.commit(ctx,
		// Guard: nobody was first. Two members that start together agree on one cluster id.
		[]clientv3.Cmp{absent(s.keys.meta())},
		[]clientv3.Op{
			clientv3.OpPut(s.keys.meta(), value), clientv3.OpPut(s.keys.head(), ""),
			clientv3.OpPut(s.keys.pool(scheduler.PoolAll), all),
		},
		[]clientv3.Op{clientv3.OpGet(s.keys.meta())})
	if err != nil {
		return Meta{}, fmt.Errorf("initialise: %w", err)
	}
	if !resp.Succeeded {
		return metaOf(found(resp.Responses, 0))
	}
	return Meta{ClusterID: meta.GetClusterId(), Format: meta.GetFormat(), Revision: resp.Header.GetRevision()}, nil
}

func metaOf(kv *mvccpb.KeyValue) (Meta, error) {
	var meta storedv1.Meta
	if err := unmarshal(kv.GetValue(), &meta); err != nil {
		return Meta{}, fmt.Errorf("initialise: meta: %w", err)
	}
	return Meta{ClusterID: meta.GetClusterId(), Format: meta.GetFormat(), Revision: revisionOf(kv)}, nil
}

// ErrDeposed says that a write of the dispatcher was refused because its term is over.
var ErrDeposed = fmt.Errorf("%w: the term of this dispatcher is over", scheduler.ErrConflict)

// ErrMoved says that a write of the dispatcher was refused because what it was planned on has moved:
// read again and plan again.
var ErrMoved = fmt.Errorf("%w: what was planned on has moved", scheduler.ErrConflict)

// dispatch commits a write of the dispatcher. Its guard is the election key as election issued it, so
// that a deposed dispatcher writes nothing however late its request arrives.
func (s *Store) dispatch(ctx context.Context, g scheduler.Guard, cmps []clientv3.Cmp, then []clientv3.Op) (int64, error) {
	if g.Key == "" || g.CreateRevision <= 0 {
		return 0, fmt.Errorf("%w: a dispatcher's write without a guard", scheduler.ErrInvalid)
	}
	if !cutDispatcherGuard {
		cmps = append([]clientv3.Cmp{guarded(g)}, cmps...)
	}
	resp, err := s.commit(ctx, cmps, then,
		[]clientv3.Op{clientv3.OpGet(g.Key, clientv3.WithKeysOnly())})
	switch {
	case err != nil:
		return 0, err
	case resp.Succeeded:
		return resp.Header.GetRevision(), nil
	}
	if kv := found(resp.Responses, 0); kv == nil || kv.CreateRevision != g.CreateRevision {
		return 0, ErrDeposed
	}
	return 0, ErrMoved
}

// Publish puts assignments and rules/head and returns the new rules revision. It compares the guard
// and the rules revision that the assignments were planned on. From its commit on, no claim planned
// under older rules can commit. ErrUnknown, ErrMoved: wait for the watch, then plan again.
//
// More assignments than fit into one transaction take several, each on the rules of the one before.
func (s *Store) Publish(ctx context.Context, g scheduler.Guard, rulesRevision int64, assignments []scheduler.Assignment) (int64, error) {
	var puts []published
	size := 0
	flush := func() (err error) {
		rulesRevision, err = s.publish(ctx, g, rulesRevision, puts)
		puts, size = nil, 0
		return err
	}
	for _, a := range assignments {
		p := published{key: s.keys.assignment(a.Pool), message: encodeAssignment(a)}
		p.carried = s.kept.carryNewest(p.key, p.message)
		var err error
		if p.value, err = marshal(p.message); err != nil {
			return 0, fmt.Errorf("publish assignment of pool %s: %w", a.Pool, err)
		}
		if len(puts) == sweepBatch || size+len(p.value) > mostBytes {
			if err := flush(); err != nil {
				return 0, fmt.Errorf("publish %d assignments: %w", len(assignments), err)
			}
		}
		puts, size = append(puts, p), size+len(p.value)
	}
	if err := flush(); err != nil {
		return 0, fmt.Errorf("publish %d assignments: %w", len(assignments), err)
	}
	return rulesRevision, nil
}

// published is an assignment on its way.
type published struct {
	key, value string
	message    *storedv1.Assignment
	carried    bool
}

func (s *Store) publish(ctx context.Context, g scheduler.Guard, rulesRevision int64, puts []published) (int64, error) {
	then := []clientv3.Op{clientv3.OpPut(s.keys.head(), "")}
	for _, p := range puts {
		then = append(then, clientv3.OpPut(p.key, p.value))
	}
	// The rules are those it was planned on: no other change of them is overwritten unseen.
	revision, err := s.dispatch(ctx, g, []clientv3.Cmp{unchanged(s.keys.head(), rulesRevision)}, then)
	if err != nil {
		return 0, err
	}
	for _, p := range puts {
		s.kept.wrote(p.key, revision, p.message, p.carried)
	}
	return revision, nil
}

// Compact has etcd forget its history before the revision, of the whole of etcd: others that share it lose
// theirs too. etcd takes no guard for it, and none is needed: the caller asks for a revision that has been
// history for so long that nobody here reads it any more, so that a request that arrives late, or from a
// dispatcher that has been deposed, asks for even less than what may go. If etcd has compacted further
// meanwhile it refuses, and that is no error. It does not wait for the pages to be freed.
func (s *Store) Compact(ctx context.Context, revision int64) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	if _, err := s.client.Compact(ctx, revision); err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
		return fmt.Errorf("compact to revision %d: %w: %w", revision, scheduler.ErrUnavailable, err)
	}
	return nil
}

// RaiseFormat puts a higher format in force, if that in force is still the one of the meta given.
func (s *Store) RaiseFormat(ctx context.Context, g scheduler.Guard, from Meta, format int64) (Meta, error) {
	resp, err := s.get(ctx, s.keys.meta())
	if err != nil {
		return Meta{}, fmt.Errorf("raise format to %d: %w", format, err)
	}
	var m storedv1.Meta
	if len(resp.Kvs) == 0 || resp.Kvs[0].ModRevision != from.Revision || format <= from.Format {
		return Meta{}, fmt.Errorf("raise format from %d to %d: %w", from.Format, format, ErrMoved)
	}
	if err := unmarshal(resp.Kvs[0].Value, &m); err != nil {
		return Meta{}, fmt.Errorf("raise format to %d: meta: %w", format, err)
	}
	m.Format = format
	value, err := marshal(&m)
	if err != nil {
		return Meta{}, fmt.Errorf("raise format to %d: %w", format, err)
	}
	revision, err := s.dispatch(ctx, g, []clientv3.Cmp{unchanged(s.keys.meta(), from.Revision)}, []clientv3.Op{clientv3.OpPut(s.keys.meta(), value)})
	if err != nil {
		return Meta{}, fmt.Errorf("raise format to %d: %w", format, err)
	}
	return Meta{ClusterID: m.GetClusterId(), Format: format, Revision: revision}, nil
}

// RequestLife is how long a served request id is remembered.
const RequestLife = 24 * time.Hour

// sweepBatch is how many keys one sweeping transaction removes: half of what etcd allows, for each
// key is compared too.
const sweepBatch = 60

// SweepRequests removes request ids that were served more than RequestLife before now, and what
// cannot be read there, and returns how many.
func (s *Store) SweepRequests(ctx context.Context, g scheduler.Guard, now scheduler.Reading) (int, error) {
	removed := 0
	var keys []string
	var revisions []int64
	flush := func() error {
		for len(keys) > 0 {
			n := min(len(keys), sweepBatch)
			var cmps []clientv3.Cmp
			var then []clientv3.Op
			for i := range n {
				cmps = append(cmps, unchanged(keys[i], revisions[i])) // As it was read.
				then = append(then, clientv3.OpDelete(keys[i]))
			}
			if _, err := s.dispatch(ctx, g, cmps, then); err != nil {
				return err
			}
			keys, revisions, removed = keys[n:], revisions[n:], removed+n
		}
		return nil
	}
	_, err := s.paged(ctx, s.keys.requests(), 0, func(page *clientv3.GetResponse) error {
		for _, kv := range page.Kvs {
			var m storedv1.Request
			if err := unmarshal(kv.Value, &m); err == nil && now.Wall.Sub(m.GetRequested().AsTime()) <= RequestLife {
				continue
			}
			keys, revisions = append(keys, string(kv.Key)), append(revisions, kv.ModRevision)
		}
		return flush()
	})
	if err != nil {
		return removed, fmt.Errorf("sweep requests: %w", err)
	}
	return removed, nil
}

// SweepPools removes the pools that no job uses, with their assignments, and returns their ids. It
// reads every definition, so it is for once a day. Only pools that stand in the rules at
// rulesRevision, or in none, are removed; "all" always stays.
func (s *Store) SweepPools(ctx context.Context, g scheduler.Guard, rulesRevision int64) ([]string, error) {
	used := map[string]bool{scheduler.PoolAll: true}
	unread := false
	revision, err := s.paged(ctx, s.keys.allJobs(), 0, func(page *clientv3.GetResponse) error {
		for _, kv := range page.Kvs {
			job, err := s.jobOf(kv)
			if err != nil {
				unread = !cutPoolsUnread // It may use any of them.
				continue
			}
			used[scheduler.PoolOf(job).ID] = true
		}
		return nil
	})
	if err != nil || unread {
		return nil, err
	}
	pools, err := s.ReadPools(ctx)
	if err != nil {
		return nil, err
	}
	var idle []string
	for _, p := range pools.Pools {
		if !used[p.ID] {
			idle = append(idle, p.ID)
		}
	}
	idle = idle[:min(len(idle), sweepBatch)]
	if len(idle) == 0 {
		return nil, nil
	}
	slices.Sort(idle)
	then := []clientv3.Op{clientv3.OpPut(s.keys.head(), "")}
	for _, id := range idle {
		then = append(then, clientv3.OpDelete(s.keys.pool(id)), clientv3.OpDelete(s.keys.assignment(id)))
	}
	_, err = s.dispatch(ctx, g, []clientv3.Cmp{
		unchanged(s.keys.head(), rulesRevision),
		// No definition was written since they were read: none of them uses a pool that goes.
		clientv3.Compare(clientv3.ModRevision(s.keys.marks()).WithPrefix(), "<", revision+1),
	}, then)
	if err != nil {
		return nil, fmt.Errorf("sweep pools: %w", err)
	}
	return idle, nil
}
