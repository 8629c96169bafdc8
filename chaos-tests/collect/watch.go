// Package collect gathers what a cluster of chaos-tests leaves behind: every write below its prefix in
// etcd, by a watch of the test's own, and figures from the metrics of etcd's members. It talks to etcd
// past everything that the tests break, and judges nothing: package history does.
//
// A Watch has two goroutines for each member of etcd, from Start until Stop.
package collect

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/quorumcron/quorumcron/chaos-tests/history"
)

// Watch follows all keys below a prefix from etcd's first revision on. It watches at every member at once,
// and notes what comes first: one that is cut off from the others, or frozen, holds up nothing.
type Watch struct {
	prefix string
	conns  []*grpc.ClientConn
	stop   context.CancelFunc
	done   sync.WaitGroup // the goroutines that run

	mu   sync.Mutex // guards what follows
	log  history.EtcdLog
	last error
}

// Start begins to watch etcd at its members' addresses. It does not wait until they answer, and it
// goes on whenever they do, until Stop or the end of ctx.
func Start(ctx context.Context, addresses []string, prefix string) (*Watch, error) {
	w := &Watch{prefix: prefix, log: history.EtcdLog{Prefix: prefix}}
	for _, a := range addresses {
		conn, err := grpc.NewClient(a, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(largest)))
		if err != nil {
			return nil, fmt.Errorf("watch etcd at %s: %w", a, err)
		}
		w.conns = append(w.conns, conn)
	}
	ctx, stop := context.WithCancel(ctx)
	w.stop = stop
	for _, c := range w.conns {
		w.done.Go(func() { w.run(ctx, c) })
	}
	return w, nil
}

const (
	// largest bounds one message: a watch that has fallen behind gets many events at once.
	largest = 256 << 20
	// again is how long it waits before it asks the next member.
	again = 100 * time.Millisecond
	// silent is how long a stream may say nothing before it counts as dead; progress is asked for
	// several times meanwhile.
	silent = 3 * time.Second
)

// run watches at one member until it is stopped.
func (w *Watch) run(ctx context.Context, conn *grpc.ClientConn) {
	for ctx.Err() == nil {
		err := w.follow(ctx, conn)
		w.mu.Lock()
		w.last = err
		w.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(again):
		}
	}
}

// follow is one stream to one member, from where the log ends, until it breaks or falls silent.
func (w *Watch) follow(ctx context.Context, conn *grpc.ClientConn) error {
	conn.Connect()
	if conn.GetState() == connectivity.TransientFailure {
		conn.ResetConnectBackoff()
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	stream, err := etcdserverpb.NewWatchClient(conn).Watch(ctx)
	if err != nil {
		return err
	}
	w.mu.Lock()
	from := w.log.Seen + 1
	w.mu.Unlock()
	create := &etcdserverpb.WatchCreateRequest{
		Key: []byte(w.prefix), RangeEnd: after(w.prefix), StartRevision: from, ProgressNotify: true,
	}
	if err := stream.Send(&etcdserverpb.WatchRequest{RequestUnion: &etcdserverpb.WatchRequest_CreateRequest{CreateRequest: create}}); err != nil {
		return err
	}
	answers := make(chan *etcdserverpb.WatchResponse)
	broken := make(chan error, 1) // the end of the stream, once
	w.done.Go(func() {
		for {
			answer, err := stream.Recv()
			if err != nil {
				broken <- err
				return
			}
			select {
			case answers <- answer:
			case <-ctx.Done():
				return
			}
		}
	})
	ask := time.NewTicker(silent / 6)
	defer ask.Stop()
	heard, head := time.Now(), int64(0) // head: what etcd had when the stream began; older events are late
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-broken:
			return err
		case answer := <-answers:
			heard = time.Now()
			if answer.Created {
				head = answer.Header.GetRevision()
			}
			if err := w.take(answer, from > 1 && head > 0, head); err != nil {
				return err
			}
		case <-ask.C:
			if time.Since(heard) > silent {
				return errors.New("the watch fell silent")
			}
			progress := &etcdserverpb.WatchRequest_ProgressRequest{ProgressRequest: &etcdserverpb.WatchProgressRequest{}}
			if err := stream.Send(&etcdserverpb.WatchRequest{RequestUnion: progress}); err != nil {
				return err
			}
		}
	}
}

// take notes one answer. Events up to head waited in etcd while there was no stream.
func (w *Watch) take(answer *etcdserverpb.WatchResponse, resumed bool, head int64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if answer.CompactRevision > 0 {
		// What lies before is gone for ever. The log goes on after it, and says so, unless another
		// stream has had it in time.
		if w.log.Seen+1 < answer.CompactRevision {
			w.log.Gaps = append(w.log.Gaps, history.Gap{From: w.log.Seen + 1, To: answer.CompactRevision - 1})
			w.log.Seen = answer.CompactRevision - 1
		}
		return fmt.Errorf("etcd was compacted to revision %d", answer.CompactRevision)
	}
	if answer.Canceled {
		return fmt.Errorf("etcd cancelled the watch: %s", answer.CancelReason)
	}
	now, noted := time.Now(), w.log.Seen // all events of a revision come in one answer
	for _, e := range answer.Events {
		kv := e.Kv
		if kv.ModRevision <= noted {
			continue // another member was faster
		}
		w.log.Events = append(w.log.Events, history.EtcdEvent{
			Revision: kv.ModRevision, Key: string(kv.Key[len(w.prefix):]), Value: kv.Value, Deleted: e.Type == mvccpb.DELETE,
			Created: kv.CreateRevision, Version: kv.Version, Lease: kv.Lease, At: now, Late: resumed && kv.ModRevision <= head,
		})
		w.log.Seen = max(w.log.Seen, kv.ModRevision)
	}
	if len(answer.Events) == 0 && !answer.Created {
		w.log.Seen = max(w.log.Seen, answer.Header.GetRevision()) // progress: all up to here has come
	}
	return nil
}

// Stop waits until the watch has got what etcd has now, or ctx ends, and returns the log. What is
// missing then is in the log itself: Seen is lower than Head.
func (w *Watch) Stop(ctx context.Context) *history.EtcdLog {
	head, err := w.head(ctx)
	for err == nil && w.Seen() < head && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(again):
		}
	}
	w.stop()
	w.done.Wait()
	for _, c := range w.conns {
		_ = c.Close() // nothing is lost with it
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.log.Head = head; err != nil {
		w.log.Head = w.log.Seen + 1 // nobody knows how much is missing
	}
	return &w.log
}

// Fault is why a stream ended last, for messages; nil while all live.
func (w *Watch) Fault() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}

// Seen is the revision up to which the watch has got everything: whoever compacts etcd, and wants the
// log whole, stays below it.
func (w *Watch) Seen() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Seen
}

// head asks for etcd's revision, at whichever member answers.
func (w *Watch) head(ctx context.Context) (revision int64, err error) {
	for {
		for _, c := range w.conns {
			call, stop := context.WithTimeout(ctx, silent)
			answer, failed := etcdserverpb.NewKVClient(c).Range(call, &etcdserverpb.RangeRequest{Key: []byte(w.prefix), CountOnly: true})
			stop()
			if failed == nil {
				return answer.Header.GetRevision(), nil
			}
			err = failed
		}
		select {
		case <-ctx.Done():
			return 0, err
		case <-time.After(again):
		}
	}
}

// after is the end of the range of all keys below a prefix.
func after(prefix string) []byte {
	end := []byte(prefix)
	end[len(end)-1]++
	return end
}
