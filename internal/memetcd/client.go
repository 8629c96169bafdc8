package memetcd

import (
	"context"
	"time"
	_ "unsafe" // for go:linkname

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// maxSendBytes is the limit of etcd's client for one message.
const maxSendBytes = 2 << 20

var errUnimplemented = status.Error(codes.Unimplemented, "memetcd: not emulated")

// valCtxCh is the channel that etcd's watcher hands out as the Done of its streams; it is never closed.
// It is a global made outside of any bubble, and a goroutine that waits on such a channel keeps the
// clock of a synctest bubble from moving. A nil channel is never closed either and costs no goroutine.
//
//go:linkname valCtxCh go.etcd.io/etcd/client/v3.valCtxCh
var valCtxCh chan struct{}

// Done before anything runs, since every watcher of the process reads the variable; after the
// initialisation of etcd's package, since this one imports it.
var _ = unset(&valCtxCh)

func unset(c *chan struct{}) bool {
	*c = nil
	return true
}

// Client makes a client of its own on this link, such as one process has. Its lessor, watcher and
// key-value code are those of etcd's client. It is closed when ctx ends, and by Store.Close.
func (l *Link) Client(ctx context.Context) *clientv3.Client {
	c := clientv3.NewCtxClient(ctx)
	at := &conn{l: l, closed: c.Ctx().Done()}
	c.KV = clientv3.NewKVFromKVClient(kvClient{at}, c)
	c.Lease = clientv3.NewLeaseFromLeaseClient(leaseClient{at}, c, time.Second)
	c.Watcher = clientv3.NewWatchFromWatchClient(watchClient{at}, c)
	c.Cluster = clientv3.NewClusterFromClusterClient(clusterClient{at: at}, c)
	c.Maintenance = clientv3.NewMaintenanceFromMaintenanceClient(maintenanceClient{at: at}, c)
	c.Auth = clientv3.NewAuthFromAuthClient(authClient{at: at}, c)
	closing := &closing{client: c, done: make(chan struct{})}
	l.s.mu.Lock()
	l.s.clients = append(l.s.clients, closing)
	l.s.mu.Unlock()
	context.AfterFunc(ctx, func() { closing.close(l.s) })
	return c
}

// closing closes a client once. A second caller waits for the first, which Client.Close does not do,
// and not on a mutex, on which the clock of a bubble would stand still.
type closing struct {
	client  *clientv3.Client
	started bool // guarded by the lock of the store
	done    chan struct{}
}

func (c *closing) close(s *Store) {
	s.mu.Lock()
	first := !c.started
	c.started = true
	s.mu.Unlock()
	if first {
		_ = c.client.Close()
		close(c.done)
	}
	<-c.done
}

func tooLong(m proto.Message) error {
	if n := proto.Size(m); n > maxSendBytes {
		return status.Errorf(codes.ResourceExhausted, "trying to send message larger than max (%d vs. %d)", n, maxSendBytes)
	}
	return nil
}

// kvClient implements pb.KVClient.
type kvClient struct{ at *conn }

func (k kvClient) Range(ctx context.Context, r *pb.RangeRequest, _ ...grpc.CallOption) (*pb.RangeResponse, error) {
	return retry(ctx, k.at, func() (*pb.RangeResponse, error) {
		return do(ctx, k.at, Call{Method: "Range", Request: r}, func() (*pb.RangeResponse, error) { return k.at.l.s.applyRange(r) })
	})
}

func (k kvClient) RangeStream(context.Context, *pb.RangeRequest, ...grpc.CallOption) (grpc.ServerStreamingClient[pb.RangeStreamResponse], error) {
	return nil, errUnimplemented
}

func (k kvClient) Put(ctx context.Context, r *pb.PutRequest, _ ...grpc.CallOption) (*pb.PutResponse, error) {
	if err := tooLong(r); err != nil {
		return nil, err
	}
	return do(ctx, k.at, Call{Method: "Put", Write: true, Request: r}, func() (*pb.PutResponse, error) { return k.at.l.s.applyPut(r) })
}

func (k kvClient) DeleteRange(ctx context.Context, r *pb.DeleteRangeRequest, _ ...grpc.CallOption) (*pb.DeleteRangeResponse, error) {
	return do(ctx, k.at, Call{Method: "Delete", Write: true, Request: r}, func() (*pb.DeleteRangeResponse, error) { return k.at.l.s.applyDelete(r) })
}

func (k kvClient) Txn(ctx context.Context, r *pb.TxnRequest, _ ...grpc.CallOption) (*pb.TxnResponse, error) {
	if err := tooLong(r); err != nil {
		return nil, err
	}
	return do(ctx, k.at, Call{Method: "Txn", Write: !readOnly(r), Request: r}, func() (*pb.TxnResponse, error) { return k.at.l.s.applyTxn(r) })
}

func (k kvClient) Compact(ctx context.Context, r *pb.CompactionRequest, _ ...grpc.CallOption) (*pb.CompactionResponse, error) {
	return do(ctx, k.at, Call{Method: "Compact", Write: true, Request: r}, func() (*pb.CompactionResponse, error) {
		if err := k.at.l.s.compact(r.Revision); err != nil {
			return nil, err
		}
		return &pb.CompactionResponse{Header: k.at.l.s.header()}, nil
	})
}

// leaseClient implements pb.LeaseClient. Granting and revoking are repeated by etcd's client: a grant
// whose answer was lost leaves a lease behind, a revoke may find its lease gone.
type leaseClient struct{ at *conn }

func (c leaseClient) LeaseGrant(ctx context.Context, r *pb.LeaseGrantRequest, _ ...grpc.CallOption) (*pb.LeaseGrantResponse, error) {
	return retry(ctx, c.at, func() (*pb.LeaseGrantResponse, error) {
		return do(ctx, c.at, Call{Method: "Grant", Write: true, Request: r}, func() (*pb.LeaseGrantResponse, error) { return c.at.l.s.lessor.grant(r) })
	})
}

func (c leaseClient) LeaseRevoke(ctx context.Context, r *pb.LeaseRevokeRequest, _ ...grpc.CallOption) (*pb.LeaseRevokeResponse, error) {
	return retry(ctx, c.at, func() (*pb.LeaseRevokeResponse, error) {
		return do(ctx, c.at, Call{Method: "Revoke", Write: true, Request: r}, func() (*pb.LeaseRevokeResponse, error) { return c.at.l.s.lessor.revoke(r) })
	})
}

func (c leaseClient) LeaseTimeToLive(ctx context.Context, r *pb.LeaseTimeToLiveRequest, _ ...grpc.CallOption) (*pb.LeaseTimeToLiveResponse, error) {
	return retry(ctx, c.at, func() (*pb.LeaseTimeToLiveResponse, error) {
		return do(ctx, c.at, Call{Method: "TimeToLive", Request: r}, func() (*pb.LeaseTimeToLiveResponse, error) { return c.at.l.s.lessor.timeToLive(r), nil })
	})
}

func (c leaseClient) LeaseLeases(ctx context.Context, r *pb.LeaseLeasesRequest, _ ...grpc.CallOption) (*pb.LeaseLeasesResponse, error) {
	return retry(ctx, c.at, func() (*pb.LeaseLeasesResponse, error) {
		return do(ctx, c.at, Call{Method: "Leases", Request: r}, func() (*pb.LeaseLeasesResponse, error) { return c.at.l.s.lessor.list(), nil })
	})
}

func (c leaseClient) LeaseKeepAlive(ctx context.Context, _ ...grpc.CallOption) (grpc.BidiStreamingClient[pb.LeaseKeepAliveRequest, pb.LeaseKeepAliveResponse], error) {
	st, err := c.at.open(ctx, Call{Method: "KeepAlive", Write: true})
	if err != nil {
		return nil, err
	}
	return keepAliveStream{st}, nil
}

// watchClient implements pb.WatchClient.
type watchClient struct{ at *conn }

func (c watchClient) Watch(ctx context.Context, _ ...grpc.CallOption) (grpc.BidiStreamingClient[pb.WatchRequest, pb.WatchResponse], error) {
	st, err := c.at.open(ctx, Call{Method: "Watch"})
	if err != nil {
		return nil, err
	}
	o := &watchStream{stream: st, watchers: map[int64]*watcher{}}
	st.l.s.mu.Lock()
	st.watch = o
	st.l.s.mu.Unlock()
	return o, nil
}

// clusterClient implements the one call of pb.ClusterClient that a client of ours may make.
type clusterClient struct {
	pb.ClusterClient
	at *conn
}

func (c clusterClient) MemberList(ctx context.Context, r *pb.MemberListRequest, _ ...grpc.CallOption) (*pb.MemberListResponse, error) {
	return retry(ctx, c.at, func() (*pb.MemberListResponse, error) {
		return do(ctx, c.at, Call{Method: "MemberList", Request: r}, func() (*pb.MemberListResponse, error) {
			return &pb.MemberListResponse{Header: c.at.l.s.header(), Members: []*pb.Member{{ID: memberID, Name: "memetcd"}}}, nil
		})
	})
}

// maintenanceClient implements Status, alarms and defragmentation.
type maintenanceClient struct {
	pb.MaintenanceClient
	at *conn
}

func (c maintenanceClient) Status(ctx context.Context, r *pb.StatusRequest, _ ...grpc.CallOption) (*pb.StatusResponse, error) {
	return retry(ctx, c.at, func() (*pb.StatusResponse, error) {
		return do(ctx, c.at, Call{Method: "Status", Request: r}, func() (*pb.StatusResponse, error) { return c.at.l.s.status(), nil })
	})
}

func (c maintenanceClient) Defragment(ctx context.Context, r *pb.DefragmentRequest, _ ...grpc.CallOption) (*pb.DefragmentResponse, error) {
	return do(ctx, c.at, Call{Method: "Defragment", Request: r}, func() (*pb.DefragmentResponse, error) {
		c.at.l.s.size.file = c.at.l.s.size.inUse()
		return &pb.DefragmentResponse{Header: c.at.l.s.header()}, nil
	})
}

func (c maintenanceClient) Alarm(ctx context.Context, r *pb.AlarmRequest, _ ...grpc.CallOption) (*pb.AlarmResponse, error) {
	return retry(ctx, c.at, func() (*pb.AlarmResponse, error) {
		return do(ctx, c.at, Call{Method: "Alarm", Write: true, Request: r}, func() (*pb.AlarmResponse, error) { return c.at.l.s.alarm(r) })
	})
}

// authClient answers that authentication is off.
type authClient struct {
	pb.AuthClient
	at *conn
}

func (c authClient) AuthStatus(ctx context.Context, r *pb.AuthStatusRequest, _ ...grpc.CallOption) (*pb.AuthStatusResponse, error) {
	return do(ctx, c.at, Call{Method: "AuthStatus", Request: r}, func() (*pb.AuthStatusResponse, error) {
		return &pb.AuthStatusResponse{Header: c.at.l.s.header()}, nil
	})
}
