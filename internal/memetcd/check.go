package memetcd

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// The checks of etcd's v3rpc/key.go, in its order and with its gaps: they look at the request alone,
// before it is proposed, so whatever they refuse has not been applied.

func checkRangeRequest(r *pb.RangeRequest) error {
	if len(r.Key) == 0 {
		return rpctypes.ErrGRPCEmptyKey
	}
	if _, ok := pb.RangeRequest_SortOrder_name[int32(r.SortOrder)]; !ok {
		return rpctypes.ErrGRPCInvalidSortOption
	}
	if _, ok := pb.RangeRequest_SortTarget_name[int32(r.SortTarget)]; !ok {
		return rpctypes.ErrGRPCInvalidSortOption
	}
	return nil
}

func checkPutRequest(r *pb.PutRequest) error {
	switch {
	case len(r.Key) == 0:
		return rpctypes.ErrGRPCEmptyKey
	case r.IgnoreValue && len(r.Value) != 0:
		return rpctypes.ErrGRPCValueProvided
	case r.IgnoreLease && r.Lease != 0:
		return rpctypes.ErrGRPCLeaseProvided
	}
	return nil
}

// checkTxnRequest counts at each level the longest of compares, then and else, and gives the nested
// transactions what is left of the limit: along the deepest path the sum may not exceed it.
func checkTxnRequest(r *pb.TxnRequest, limit int) error {
	count := max(len(r.Compare), len(r.Success), len(r.Failure))
	if count > limit {
		return rpctypes.ErrGRPCTooManyOps
	}
	for _, c := range r.Compare {
		if len(c.Key) == 0 {
			return rpctypes.ErrGRPCEmptyKey
		}
	}
	for _, branch := range [][]*pb.RequestOp{r.Success, r.Failure} {
		for _, op := range branch {
			if err := checkRequestOp(op, limit-count); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkRequestOp(op *pb.RequestOp, limit int) error {
	switch {
	case op.GetRequestRange() != nil:
		return checkRangeRequest(op.GetRequestRange())
	case op.GetRequestPut() != nil:
		return checkPutRequest(op.GetRequestPut())
	case op.GetRequestDeleteRange() != nil:
		if len(op.GetRequestDeleteRange().Key) == 0 {
			return rpctypes.ErrGRPCEmptyKey
		}
		return nil
	case op.GetRequestTxn() != nil:
		return checkTxnRequest(op.GetRequestTxn(), limit)
	}
	return rpctypes.ErrGRPCKeyNotFound
}

// deletes is the set of intervals that the delete operations of some level cover.
type deletes struct {
	keys   map[string]bool
	ranges []span
}

func (d *deletes) add(r *pb.DeleteRangeRequest) {
	if len(r.RangeEnd) == 0 {
		if d.keys == nil {
			d.keys = map[string]bool{}
		}
		d.keys[string(r.Key)] = true
		return
	}
	// A range end of one zero byte means "from the key on" when it is carried out, but here etcd
	// takes it literally, as an interval that ends before it begins and overlaps nothing.
	d.ranges = append(d.ranges, span{from: string(r.Key), to: string(r.RangeEnd)})
}

func (d *deletes) union(o *deletes) {
	for k := range o.keys {
		if d.keys == nil {
			d.keys = map[string]bool{}
		}
		d.keys[k] = true
	}
	d.ranges = append(d.ranges, o.ranges...)
}

func (d *deletes) holds(key string) bool {
	if d.keys[key] {
		return true
	}
	for _, r := range d.ranges {
		if r.holds(key) {
			return true
		}
	}
	return false
}

// checkIntervals refuses a key that is put twice, or put and deleted, in branches that could both be
// taken as far as etcd looks: then and else of one transaction may put the same key; and a delete in a
// nested transaction is only seen by the nested transactions after it (and by the puts around them).
func checkIntervals(ops []*pb.RequestOp) (map[string]bool, *deletes, error) {
	dels := &deletes{}
	for _, op := range ops {
		if d := op.GetRequestDeleteRange(); d != nil {
			dels.add(d)
		}
	}
	puts := map[string]bool{}
	for _, op := range ops {
		if t := op.GetRequestTxn(); t != nil {
			if err := checkNested(t, puts, dels); err != nil {
				return nil, nil, err
			}
		}
	}
	for _, op := range ops {
		p := op.GetRequestPut()
		if p == nil {
			continue
		}
		k := string(p.Key)
		if puts[k] || dels.holds(k) {
			return nil, nil, rpctypes.ErrGRPCDuplicateKey
		}
		puts[k] = true
	}
	return puts, dels, nil
}

func checkNested(t *pb.TxnRequest, puts map[string]bool, dels *deletes) error {
	putsThen, delsThen, err := checkIntervals(t.Success)
	if err != nil {
		return err
	}
	putsElse, delsElse, err := checkIntervals(t.Failure)
	if err != nil {
		return err
	}
	for k := range putsThen {
		if puts[k] || dels.holds(k) {
			return rpctypes.ErrGRPCDuplicateKey
		}
		puts[k] = true
	}
	for k := range putsElse {
		if puts[k] && !putsThen[k] || dels.holds(k) {
			return rpctypes.ErrGRPCDuplicateKey
		}
		puts[k] = true
	}
	dels.union(delsThen)
	dels.union(delsElse)
	return nil
}
