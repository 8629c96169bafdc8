package memetcd

import (
	"bytes"
	"cmp"
	"slices"

	"google.golang.org/protobuf/proto"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// tooLarge tells whether a request, packed for the log of etcd, is over the limit.
func (s *Store) tooLarge(r *pb.InternalRaftRequest) bool {
	r.Header = &pb.RequestHeader{ID: 1 << 62} // request ids are large numbers, and are packed too
	return proto.Size(r) > s.cfg.MaxRequestBytes
}

func (s *Store) applyRange(r *pb.RangeRequest) (*pb.RangeResponse, error) {
	if err := checkRangeRequest(r); err != nil {
		return nil, err
	}
	if err := s.checkRevision(r.Revision); err != nil {
		return nil, err
	}
	resp := s.doRange(r)
	resp.Header = s.header()
	return resp, nil
}

func (s *Store) applyPut(r *pb.PutRequest) (*pb.PutResponse, error) {
	if err := checkPutRequest(r); err != nil {
		return nil, err
	}
	if s.tooLarge(&pb.InternalRaftRequest{Put: r}) {
		return nil, rpctypes.ErrGRPCRequestTooLarge
	}
	if err := s.fits(costOfPut(r)); err != nil {
		return nil, err
	}
	s.stats.Proposals++
	if err := s.checkPut(r); err != nil {
		return nil, err
	}
	resp := s.doPut(r)
	s.commit()
	resp.Header = s.header()
	return resp, nil
}

func (s *Store) applyDelete(r *pb.DeleteRangeRequest) (*pb.DeleteRangeResponse, error) {
	if len(r.Key) == 0 {
		return nil, rpctypes.ErrGRPCEmptyKey
	}
	if s.tooLarge(&pb.InternalRaftRequest{DeleteRange: r}) {
		return nil, rpctypes.ErrGRPCRequestTooLarge
	}
	s.stats.Proposals++
	resp := s.doDelete(r)
	s.commit()
	resp.Header = s.header()
	return resp, nil
}

func (s *Store) applyTxn(r *pb.TxnRequest) (*pb.TxnResponse, error) {
	if err := checkTxnRequest(r, s.cfg.MaxTxnOps); err != nil {
		return nil, err
	}
	for _, branch := range [][]*pb.RequestOp{r.Success, r.Failure} {
		if _, _, err := checkIntervals(branch); err != nil {
			return nil, err
		}
	}
	if !readOnly(r) {
		if s.tooLarge(&pb.InternalRaftRequest{Txn: r}) {
			return nil, rpctypes.ErrGRPCRequestTooLarge
		}
		if cost := costOf(r); cost > 0 { // a put in any branch
			if err := s.fits(cost); err != nil {
				return nil, err
			}
		}
		s.stats.Proposals++
	}
	s.stats.Txns++
	path := s.comparePath(r, nil)
	if _, err := s.checkTaken(r, path); err != nil {
		return nil, err
	}
	resp, _ := s.run(r, path)
	s.commit()
	resp.Header = s.header()
	if !resp.Succeeded {
		s.stats.TxnsRefused++
	}
	return resp, nil
}

// readOnly is etcd's own notion: a transaction with a nested one goes through the log even if all of
// it only reads.
func readOnly(r *pb.TxnRequest) bool {
	reads := func(op *pb.RequestOp) bool { return op.GetRequestRange() != nil }
	return !slices.ContainsFunc(r.Success, func(op *pb.RequestOp) bool { return !reads(op) }) &&
		!slices.ContainsFunc(r.Failure, func(op *pb.RequestOp) bool { return !reads(op) })
}

// comparePath appends the outcome of the guards of r and, depth first, of the nested transactions in
// the branch that is taken. All of them see the state before the transaction.
func (s *Store) comparePath(r *pb.TxnRequest, path []bool) []bool {
	taken := !slices.ContainsFunc(r.Compare, func(c *pb.Compare) bool { return !s.compare(c) })
	path = append(path, taken)
	for _, op := range branch(r, taken) {
		if t := op.GetRequestTxn(); t != nil {
			path = s.comparePath(t, path)
		}
	}
	return path
}

func branch(r *pb.TxnRequest, taken bool) []*pb.RequestOp {
	if taken {
		return r.Success
	}
	return r.Failure
}

func (s *Store) compare(c *pb.Compare) bool {
	holds, any := true, false
	s.live.visit(spanOf(c.Key, c.RangeEnd), func(it *item) {
		any = true
		holds = holds && compareOne(c, it.current())
	})
	if !any {
		// A missing key has no value at all, so no comparison with one holds, not even "not equal".
		return c.Target != pb.Compare_VALUE && compareOne(c, &version{})
	}
	return holds
}

func compareOne(c *pb.Compare, v *version) bool {
	var order int
	switch c.Target {
	case pb.Compare_VALUE:
		order = bytes.Compare(v.value, c.GetValue())
	case pb.Compare_CREATE:
		order = cmp.Compare(v.create, c.GetCreateRevision())
	case pb.Compare_MOD:
		order = cmp.Compare(v.mod, c.GetModRevision())
	case pb.Compare_VERSION:
		order = cmp.Compare(v.count, c.GetVersion())
	case pb.Compare_LEASE:
		order = cmp.Compare(v.lease, c.GetLease())
	}
	switch c.Result {
	case pb.Compare_EQUAL:
		return order == 0
	case pb.Compare_NOT_EQUAL:
		return order != 0
	case pb.Compare_GREATER:
		return order > 0
	}
	return order < 0
}

// checkTaken looks at the operations that will be carried out before the first of them is: any one
// that cannot succeed refuses the whole transaction. It answers how many nested ones it passed.
func (s *Store) checkTaken(r *pb.TxnRequest, path []bool) (int, error) {
	nested := 0
	for _, op := range branch(r, path[0]) {
		var err error
		switch {
		case op.GetRequestRange() != nil:
			err = s.checkRevision(op.GetRequestRange().Revision)
		case op.GetRequestPut() != nil:
			err = s.checkPut(op.GetRequestPut())
		case op.GetRequestTxn() != nil:
			var n int
			n, err = s.checkTaken(op.GetRequestTxn(), path[1:])
			path, nested = path[n+1:], nested+n+1
		}
		if err != nil {
			return 0, err
		}
	}
	return nested, nil
}

func (s *Store) checkPut(r *pb.PutRequest) error {
	if r.Lease != 0 && !s.lessor.alive(r.Lease) {
		return rpctypes.ErrGRPCLeaseNotFound
	}
	if (r.IgnoreValue || r.IgnoreLease) && s.live.find(string(r.Key)) == nil {
		return rpctypes.ErrGRPCKeyNotFound
	}
	return nil
}

// run carries out the taken branch. Reads see the writes before them; each write has the same revision.
func (s *Store) run(r *pb.TxnRequest, path []bool) (*pb.TxnResponse, int) {
	ops := branch(r, path[0])
	// The header of a nested transaction stays empty, as in etcd.
	resp := &pb.TxnResponse{Header: &pb.ResponseHeader{}, Succeeded: path[0], Responses: make([]*pb.ResponseOp, len(ops))}
	nested := 0
	for i, op := range ops {
		out := &pb.ResponseOp{}
		switch {
		case op.GetRequestRange() != nil:
			out.Response = &pb.ResponseOp_ResponseRange{ResponseRange: s.doRange(op.GetRequestRange())}
		case op.GetRequestPut() != nil:
			out.Response = &pb.ResponseOp_ResponsePut{ResponsePut: s.doPut(op.GetRequestPut())}
		case op.GetRequestDeleteRange() != nil:
			out.Response = &pb.ResponseOp_ResponseDeleteRange{ResponseDeleteRange: s.doDelete(op.GetRequestDeleteRange())}
		case op.GetRequestTxn() != nil:
			s.stats.NestedTxns++
			inner, n := s.run(op.GetRequestTxn(), path[1:])
			path, nested = path[n+1:], nested+n+1
			out.Response = &pb.ResponseOp_ResponseTxn{ResponseTxn: inner}
		}
		resp.Responses[i] = out
	}
	return resp, nested
}

func (s *Store) doPut(r *pb.PutRequest) *pb.PutResponse {
	key := string(r.Key)
	resp := &pb.PutResponse{Header: &pb.ResponseHeader{Revision: s.rev + 1}}
	value, lease := bytes.Clone(r.Value), r.Lease
	if it := s.live.find(key); it != nil {
		old := *it.current()
		if r.IgnoreValue {
			value = old.value
		}
		if r.IgnoreLease {
			lease = old.lease
		}
		if r.PrevKv {
			resp.PrevKv = keyValue(key, old)
		}
	} else if r.IgnoreValue || r.IgnoreLease {
		// The key was there when the transaction was checked. Only a delete in front of this put, in one
		// of the gaps of the check for duplicates, can have taken it away.
		panic("memetcd: put of " + key + " ignores a value or lease that the same transaction has deleted: etcd 3.7.3 panics on this, and on every start after it")
	}
	if len(value) == 0 {
		value = nil
	}
	s.put(key, value, lease)
	return resp
}

func (s *Store) doDelete(r *pb.DeleteRangeRequest) *pb.DeleteRangeResponse {
	resp := &pb.DeleteRangeResponse{}
	where := spanOf(r.Key, r.RangeEnd)
	if r.PrevKv {
		resp.PrevKvs = []*mvccpb.KeyValue{}
		s.live.visit(where, func(it *item) { resp.PrevKvs = append(resp.PrevKvs, keyValue(it.key, *it.current())) })
	}
	resp.Deleted = s.del(where)
	resp.Header = &pb.ResponseHeader{Revision: s.revision()}
	return resp
}
