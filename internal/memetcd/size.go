package memetcd

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// DefaultQuotaBytes is the quota of an etcd server that was not given one.
const DefaultQuotaBytes = 2 << 30

const (
	pageBytes    = 4 << 10
	emptyFile    = 5 * pageBytes // about what an empty database has
	versionBytes = 128           // what a version takes beside its key and value, and its share of unfilled pages
	// What etcd reckons for a put beside its key and value, and for a lease, before it lets them in.
	putCost, leaseCost = 256, 64
)

// sizes are the database file. It grows when it has to and shrinks by defragmentation alone: what
// compaction frees is used again.
type sizes struct {
	quota int64
	used  int64 // by versions
	file  int64
}

func (z *sizes) inUse() int64 { return emptyFile + (z.used+pageBytes-1)/pageBytes*pageBytes }

func (z *sizes) add(key string, v version) {
	z.used += versionBytes + int64(len(key)+len(v.value))
	z.file = max(z.file, z.inUse())
}

func (z *sizes) drop(key string, v version) { z.used -= versionBytes + int64(len(key)+len(v.value)) }

// SetQuota gives the store another quota, as a restart of etcd with other flags would.
func (s *Store) SetQuota(bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.size.quota = bytes
}

// Size is how large the database file is.
func (s *Store) Size() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size.file
}

// Defragment gives free pages back, as an operator would.
func (s *Store) Defragment() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.size.file = s.size.inUse()
}

// fits refuses what would pass the quota, and raises the alarm. Nothing of it is applied.
func (s *Store) fits(cost int64) error {
	if s.cluster.noSpace {
		return rpctypes.ErrGRPCNoSpace
	}
	if cost > 0 && s.size.file+cost >= s.size.quota {
		s.cluster.noSpace = true
		return rpctypes.ErrGRPCNoSpace
	}
	return nil
}

func costOfPut(r *pb.PutRequest) int64 { return putCost + int64(len(r.Key)+len(r.Value)) }

// costOf is the dearer branch of a transaction.
func costOf(r *pb.TxnRequest) int64 {
	sum := func(ops []*pb.RequestOp) (n int64) {
		for _, op := range ops {
			if p := op.GetRequestPut(); p != nil {
				n += costOfPut(p)
			} else if t := op.GetRequestTxn(); t != nil {
				n += costOf(t)
			}
		}
		return n
	}
	return max(sum(r.Success), sum(r.Failure))
}
