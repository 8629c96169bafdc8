package memetcd

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// found is one key of a range with the version that was asked for.
type found struct {
	key string
	v   version
}

// checkRevision refuses a revision that is not there yet, or no longer.
func (s *Store) checkRevision(rev int64) error {
	switch {
	case rev > s.rev:
		return rpctypes.ErrGRPCFutureRev
	case rev > 0 && rev < s.compacted:
		return rpctypes.ErrGRPCCompacted
	}
	return nil
}

// doRange reads as etcd's executeRange does. The revision must have been checked.
func (s *Store) doRange(r *pb.RangeRequest) *pb.RangeResponse {
	s.stats.Ranges++
	resp := &pb.RangeResponse{Header: &pb.ResponseHeader{Revision: s.revision()}}
	if r.CountOnly {
		s.scan(r, func(string, *version) { resp.Count++ })
		return resp
	}
	var all []found
	keep := r.Limit + 1
	if r.Limit <= 0 || !defaultOrder(r) || filtered(r) {
		keep = 0
	}
	s.scan(r, func(key string, v *version) {
		resp.Count++ // etcd counts before it filters
		if keep > 0 && int64(len(all)) >= keep || prunedBy(r, v) {
			return
		}
		all = append(all, found{key, *v})
	})
	order(all, r)
	if r.Limit > 0 && int64(len(all)) > r.Limit {
		all, resp.More = all[:r.Limit], true
	}
	resp.Kvs = make([]*mvccpb.KeyValue, len(all))
	for i, f := range all {
		kv := keyValue(f.key, f.v)
		if r.KeysOnly {
			kv.Value = nil
			if r.SortTarget != pb.RangeRequest_VALUE {
				kv.Lease = 0 // etcd 3.7 answers from its index, which does not know the lease
			}
		}
		resp.Kvs[i] = kv
	}
	return resp
}

// scan visits what exists in the range at the revision of the request, in the order of the keys.
func (s *Store) scan(r *pb.RangeRequest, f func(string, *version)) {
	where := spanOf(r.Key, r.RangeEnd)
	if r.Revision <= 0 || r.Revision == s.revision() {
		s.live.visit(where, func(it *item) { f(it.key, it.current()) })
		return
	}
	s.keys.visit(where, func(it *item) {
		if v := it.at(r.Revision); v != nil {
			f(it.key, v)
		}
	})
}

func defaultOrder(r *pb.RangeRequest) bool {
	return r.SortOrder == pb.RangeRequest_NONE ||
		r.SortTarget == pb.RangeRequest_KEY && r.SortOrder == pb.RangeRequest_ASCEND
}

func filtered(r *pb.RangeRequest) bool {
	return r.MinModRevision != 0 || r.MaxModRevision != 0 || r.MinCreateRevision != 0 || r.MaxCreateRevision != 0
}

func prunedBy(r *pb.RangeRequest, v *version) bool {
	return r.MaxModRevision != 0 && v.mod > r.MaxModRevision ||
		r.MinModRevision != 0 && v.mod < r.MinModRevision ||
		r.MaxCreateRevision != 0 && v.create > r.MaxCreateRevision ||
		r.MinCreateRevision != 0 && v.create < r.MinCreateRevision
}

func order(all []found, r *pb.RangeRequest) {
	by := func(a, b found) int { return strings.Compare(a.key, b.key) }
	switch r.SortTarget {
	case pb.RangeRequest_VERSION:
		by = func(a, b found) int { return cmp.Compare(a.v.count, b.v.count) }
	case pb.RangeRequest_CREATE:
		by = func(a, b found) int { return cmp.Compare(a.v.create, b.v.create) }
	case pb.RangeRequest_MOD:
		by = func(a, b found) int { return cmp.Compare(a.v.mod, b.v.mod) }
	case pb.RangeRequest_VALUE:
		by = func(a, b found) int { return bytes.Compare(a.v.value, b.v.value) }
	}
	if r.SortTarget == pb.RangeRequest_KEY && r.SortOrder != pb.RangeRequest_DESCEND {
		return // visited in this order
	}
	if r.SortOrder == pb.RangeRequest_DESCEND {
		up := by
		by = func(a, b found) int { return up(b, a) }
	}
	slices.SortStableFunc(all, by)
}
