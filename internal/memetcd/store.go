package memetcd

import (
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// Limits of an etcd server with its default configuration.
const (
	DefaultMaxTxnOps       = 128
	DefaultMaxRequestBytes = 3 << 19 // 1.5 MiB
	DefaultElectionTimeout = time.Second
)

// Config sets what differs from a default etcd server. The zero value is good.
type Config struct {
	// MaxTxnOps is etcd's --max-txn-ops; zero is 128.
	MaxTxnOps int
	// MaxRequestBytes is etcd's --max-request-bytes; zero is 1.5 MiB.
	MaxRequestBytes int
	// ElectionTimeout rules the smallest lease (1.5 times it, rounded up to a second) and how long a
	// write waits for a quorum (5 s + twice it); zero is one second.
	ElectionTimeout time.Duration
	// AutoCompact, if positive, compacts as etcd's periodic mode does: history older than this goes.
	// It happens along with writes, so an idle store keeps its history.
	AutoCompact time.Duration
	// QuotaBytes is etcd's --quota-backend-bytes; zero is 2 GiB.
	QuotaBytes int64
	// Latency is the way of every request and of every reply, until a Link says otherwise.
	Latency time.Duration
	// ProgressInterval is the time between the notifications that a watch made WithProgressNotify
	// gets unasked; zero is ten minutes, as in etcd.
	ProgressInterval time.Duration
	// DeadAfter is the time after which a cut connection is found dead by its keep-alive pings;
	// zero is 8 s, which fits the pings of election.Dial (5 s, 3 s).
	DeadAfter time.Duration
}

// Store is one simulated etcd cluster. It is safe for concurrent use.
type Store struct {
	cfg   Config
	epoch time.Time

	mu        sync.Mutex // guards all below, and the state of every Link and stream
	rev       int64
	compacted int64 // the oldest revision that can still be read; -1 before the first compaction
	term      uint64
	keys      index // every key with history
	live      index // the keys that exist now
	changes   []change
	by        string // the link whose request is being carried out
	log       []logged
	lastAuto  time.Time
	stats     Stats
	size      sizes
	lessor    lessor
	watches   watchIndex
	links     []*Link
	clients   []*closing
	cluster   clusterState
	onCommit  []func(Revision)
	serial    int // of the streams
	closed    bool
}

// change is one put or delete of the transaction under way, or of a logged one.
type change struct {
	it *item
	v  version
}

// logged is a committed transaction.
type logged struct {
	rev     int64
	at      time.Time
	by      string
	changes []change
}

// New makes an empty cluster. Inside a synctest bubble it must be called in the bubble.
func New(cfg Config) *Store {
	if cfg.MaxTxnOps == 0 {
		cfg.MaxTxnOps = DefaultMaxTxnOps
	}
	if cfg.MaxRequestBytes == 0 {
		cfg.MaxRequestBytes = DefaultMaxRequestBytes
	}
	if cfg.ElectionTimeout == 0 {
		cfg.ElectionTimeout = DefaultElectionTimeout
	}
	if cfg.ProgressInterval == 0 {
		cfg.ProgressInterval = 10 * time.Minute
	}
	if cfg.DeadAfter == 0 {
		cfg.DeadAfter = 8 * time.Second
	}
	if cfg.QuotaBytes == 0 {
		cfg.QuotaBytes = DefaultQuotaBytes
	}
	now := time.Now()
	s := &Store{cfg: cfg, epoch: now, lastAuto: now, rev: 1, compacted: -1, term: 2}
	s.lessor.init(s)
	s.watches.init()
	s.cluster.up = true
	s.size = sizes{quota: cfg.QuotaBytes, file: emptyFile}
	return s
}

// Close closes all clients, as if their processes ended, and then stops the timers. When it returns
// nothing of the store or of its clients is at work any more; it may be called again.
func (s *Store) Close() {
	s.mu.Lock()
	clients := s.clients
	s.mu.Unlock()
	for _, c := range clients {
		c.close(s)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.lessor.stop()
	for _, l := range s.links {
		l.breakLocked(errGone)
		l.dead.stop()
	}
}

func (s *Store) header() *pb.ResponseHeader {
	return &pb.ResponseHeader{ClusterId: clusterID, MemberId: memberID, Revision: s.rev, RaftTerm: s.term}
}

// put sets a key within the transaction under way. The lease, if any, must be alive.
func (s *Store) put(key string, value []byte, lease int64) {
	it := s.keys.find(key)
	if it == nil {
		it = &item{key: key}
		s.keys.insert(it)
	}
	v := version{mod: s.rev + 1, create: s.rev + 1, count: 1, lease: lease, value: value}
	if old := it.current(); old != nil {
		v.create, v.count = old.create, old.count+1
		s.lessor.detach(old.lease, key)
	} else {
		s.live.insert(it)
	}
	s.lessor.attach(lease, key)
	it.versions = append(it.versions, v)
	s.changes = append(s.changes, change{it, v})
	s.size.add(key, v)
	s.stats.Puts++
}

// del deletes the keys of a span within the transaction under way, and answers how many there were.
func (s *Store) del(r span) int64 {
	var doomed []*item
	s.live.visit(r, func(it *item) { doomed = append(doomed, it) })
	for _, it := range doomed {
		s.lessor.detach(it.current().lease, it.key)
		v := version{mod: s.rev + 1, dead: true}
		it.versions = append(it.versions, v)
		s.changes = append(s.changes, change{it, v})
		s.size.add(it.key, v)
		s.live.remove(it.key)
	}
	s.stats.Deletes += int64(len(doomed))
	return int64(len(doomed))
}

// revision is the revision that a reader inside the transaction under way sees.
func (s *Store) revision() int64 {
	if len(s.changes) > 0 {
		return s.rev + 1
	}
	return s.rev
}

// commit ends the transaction under way: its changes, if any, become one revision and go to the watchers.
func (s *Store) commit() {
	if len(s.changes) == 0 {
		return
	}
	s.rev++
	done := logged{rev: s.rev, at: time.Now(), by: s.by, changes: s.changes}
	s.changes = nil
	s.log = append(s.log, done)
	s.watches.notify(s, done)
	for _, f := range s.onCommit {
		f(s.revisionOf(done))
	}
	if s.cfg.AutoCompact > 0 && done.at.Sub(s.lastAuto) >= s.cfg.AutoCompact {
		s.autoCompact(done.at)
	}
}

// since are the logged transactions from revision rev on.
func (s *Store) since(rev int64) []logged {
	if len(s.log) == 0 || rev <= s.log[0].rev {
		return s.log
	}
	if i := rev - s.log[0].rev; i < int64(len(s.log)) {
		return s.log[i:]
	}
	return nil
}

func (s *Store) autoCompact(now time.Time) {
	s.lastAuto = now
	target := s.compacted
	for _, e := range s.log {
		if now.Sub(e.at) < s.cfg.AutoCompact {
			break
		}
		target = e.rev
	}
	if target > s.compacted {
		_ = s.compact(target)
	}
}

// compact drops what only revisions before rev can see. Revision rev itself stays readable.
func (s *Store) compact(rev int64) error {
	if rev <= s.compacted {
		return rpctypes.ErrGRPCCompacted
	}
	if rev > s.rev {
		return rpctypes.ErrGRPCFutureRev
	}
	s.compacted = rev
	n := 0
	for n < len(s.log) && s.log[n].rev <= rev {
		for _, c := range s.log[n].changes {
			s.trim(c.it, rev)
		}
		n++
	}
	if n > 0 && s.log[n-1].rev == rev {
		n-- // a watch may begin at the compaction revision itself
	}
	clear(s.log[:n])
	s.log = s.log[n:]
	s.stats.Compactions++
	return nil
}

func (s *Store) trim(it *item, rev int64) {
	if len(it.versions) == 0 {
		return // an earlier entry of the log has taken it out of the index
	}
	keep := 0
	for i, v := range it.versions {
		if v.mod <= rev {
			keep = i
		}
	}
	for _, v := range it.versions[:keep] {
		s.size.drop(it.key, v)
	}
	if keep > 0 {
		it.versions = append([]version(nil), it.versions[keep:]...)
	}
	if v := it.versions[0]; v.dead && v.mod < rev {
		s.size.drop(it.key, v)
		it.versions = it.versions[1:]
	}
	if len(it.versions) == 0 {
		s.keys.remove(it.key)
	}
}

// keyValue is a copy of a version for a client. Key and value bytes are shared: nobody may write to them.
func keyValue(key string, v version) *mvccpb.KeyValue {
	return &mvccpb.KeyValue{
		Key: []byte(key), Value: v.value[:len(v.value):len(v.value)], Lease: v.lease,
		CreateRevision: v.create, ModRevision: v.mod, Version: v.count,
	}
}
