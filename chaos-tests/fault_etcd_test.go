package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/quorumcron/quorumcron/chaos-tests/history"
)

// Faults of etcd, and of what lies in it.

const prefix = "/quorumcron/"

// kv is one member of etcd, past the proxies.
func (b *bed) kv(e *etcd) pb.KVClient { return pb.NewKVClient(b.straight[e.name]) }

func soon(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), d)
}

// admin is a member that answers: through it tests do what operators do. When none does, it is the first.
func (b *bed) admin() *etcd {
	for _, e := range b.etcds() {
		ctx, cancel := soon(time.Second)
		_, err := b.kv(e).Range(ctx, &pb.RangeRequest{Key: []byte("any"), CountOnly: true})
		cancel()
		if err == nil {
			return e
		}
	}
	return b.etcd
}

// leads says whether a member says of itself that it leads.
func (c *cluster) leads(e *etcd) bool {
	_, body := httpGet("http://" + e.address + "/metrics")
	return strings.Contains(body, "\netcd_server_is_leader 1\n")
}

// othersLead says whether another member leads.
func (c *cluster) othersLead(e *etcd) bool {
	for _, other := range c.etcds() {
		if other != e && !other.ended() && stopped(other.cmd.Process.Pid) == "" && c.leads(other) {
			return true
		}
	}
	return false
}

// memberKill kills a member of etcd, or tells it to end, and starts it again.
func (c *cluster) memberKill(e *etcd, s syscall.Signal, down time.Duration) breakage {
	kind, role := history.EtcdKill, c.role(e)
	if s == syscall.SIGTERM {
		kind = history.EtcdTerm
	}
	return breakage{
		Fault: onMember("F07", kind, e, "%s of the %s, back after %s", s, role, down), lasts: down,
		patient: patience, // told to end, etcd waits for its connections first: seconds for each kind
		inject:  func() error { e.signal(s); return nil },
		proof: func() string {
			switch {
			case gone(e.process) == "":
				return ""
			case role == "follower":
				return gone(e.process)
			case !c.othersLead(e):
				return ""
			}
			return gone(e.process) + "; another leads"
		},
		heal: func() error { e.start(); return nil },
	}
}

// etcdDown kills the only member of etcd; it is mended when etcd answers again.
func (c *cluster) etcdDown() breakage {
	return breakage{
		Fault:  onMember("F07", history.EtcdKill, c.etcd, "KILL of the only member"),
		inject: func() error { c.etcd.kill(); return nil },
		proof:  func() string { return gone(c.etcd.process) },
		heal:   func() error { c.etcd.start(); c.etcd.healthy(); return nil },
	}
}

// role is what a member is when a fault is drawn; it may be something else when it comes.
func (c *cluster) role(e *etcd) string {
	if c.leads(e) {
		return "leader"
	}
	return "follower"
}

// memberFreeze stops a member of etcd for a while.
func (c *cluster) memberFreeze(e *etcd, still time.Duration) breakage {
	return breakage{
		Fault: onMember("F08", history.EtcdFreeze, e, "STOP of the %s for %s", c.role(e), still), lasts: still,
		inject: func() error { e.freeze(); return nil },
		proof:  func() string { return stopped(e.cmd.Process.Pid) },
		heal:   func() error { e.thaw(); return nil },
	}
}

// memberPulses lets a member of etcd stand still again and again, as one does whose disk is slow.
func (b *bed) memberPulses(e *etcd, times int, still time.Duration) breakage {
	seen := 0
	return breakage{
		Fault: onMember("F30", history.EtcdFreeze, e, "the %s stands still %d times for %s", b.role(e), times, still),
		inject: func() error {
			for range times {
				e.freeze()
				time.Sleep(still)
				if stopped(e.cmd.Process.Pid) != "" {
					seen++
				}
				e.thaw()
				time.Sleep(still)
			}
			return nil
		},
		proof: func() string {
			if seen < times {
				return ""
			}
			return fmt.Sprintf("it was in state T %d times", seen)
		},
		heal: func() error { return nil },
	}
}

// quorumLost stops two of three members.
func (b *bed) quorumLost(two [2]*etcd, still time.Duration) breakage {
	left := b.etcds()[0]
	for _, e := range b.etcds() {
		if e != two[0] && e != two[1] {
			left = e
		}
	}
	return breakage{
		Fault: history.Fault{ID: "F09", Kind: history.EtcdQuorumLost, Detail: fmt.Sprintf("STOP of %s and %s for %s", two[0].name, two[1].name, still)},
		lasts: still,
		inject: func() error {
			two[0].freeze()
			two[1].freeze()
			return nil
		},
		proof: func() string {
			ctx, cancel := soon(time.Second)
			defer cancel()
			if _, err := b.kv(left).Range(ctx, &pb.RangeRequest{Key: []byte("any")}); err != nil {
				return "a linearizable read fails: " + grpcstatus.Convert(err).Message()
			}
			return ""
		},
		heal: func() error {
			two[0].thaw()
			two[1].thaw()
			return nil
		},
	}
}

// compaction takes etcd's history away several times, up to what the test's own watch has seen, while a
// node's lines are cut if there is one.
func (b *bed) compaction(seen func() int64, times int) breakage {
	proved := ""
	return breakage{
		Fault: history.Fault{ID: "F19", Kind: history.Compaction, Detail: fmt.Sprintf("%d times", times)},
		inject: func() error {
			for range times {
				revision := seen()
				ctx, cancel := soon(5 * time.Second)
				_, err := b.kv(b.admin()).Compact(ctx, &pb.CompactionRequest{Revision: revision, Physical: true})
				if err == nil {
					_, gone := b.kv(b.admin()).Range(ctx, &pb.RangeRequest{Key: []byte("any"), Revision: revision - 1})
					if gone != nil && strings.Contains(gone.Error(), "compacted") {
						proved = fmt.Sprintf("a read at revision %d: %s", revision-1, grpcstatus.Convert(gone).Message())
					}
				}
				cancel()
				time.Sleep(300 * time.Millisecond)
			}
			return nil
		},
		proof: func() string { return proved },
		heal:  func() error { return nil },
	}
}

// revoke ends a lease of a node as an operator's slip does: that of its membership, or one of its locks.
func (b *bed) revoke(n *node, locks bool) breakage {
	f, under := onNode("F20", history.RevokeMemberLease, n, "member lease revoked"), prefix+"members/"
	if locks {
		f, under = onNode("F20", history.RevokeLockLease, n, "lock lease revoked"), prefix+"locks/"
	}
	var key string
	return breakage{
		Fault: f,
		inject: func() error {
			for deadline := time.Now().Add(proofWithin); time.Now().Before(deadline); {
				found, lease, err := b.leased(under, n)
				if err != nil {
					return err
				}
				if lease == 0 { // nothing is in flight there just now
					time.Sleep(20 * time.Millisecond)
					continue
				}
				ctx, cancel := soon(5 * time.Second)
				_, err = pb.NewLeaseClient(b.straight[b.admin().name]).LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: lease})
				cancel()
				key = found
				return err
			}
			return errors.New("no lease was found")
		},
		proof: func() string {
			ctx, cancel := soon(5 * time.Second)
			defer cancel()
			answer, err := b.kv(b.admin()).Range(ctx, &pb.RangeRequest{Key: []byte(key), CountOnly: true})
			if err != nil || key == "" || n.ended() || locks && answer.Count > 0 {
				return ""
			}
			if locks || answer.Count == 0 {
				return key + " is gone, and the process lives"
			}
			return key + " has been put anew, and the process lives"
		},
		heal: func() error { return nil },
	}
}

// leased finds a key of a node under a prefix, and the lease it hangs on.
func (b *bed) leased(under string, n *node) (key string, lease int64, err error) {
	ctx, cancel := soon(5 * time.Second)
	defer cancel()
	end := []byte(under)
	end[len(end)-1]++
	answer, err := b.kv(b.admin()).Range(ctx, &pb.RangeRequest{Key: []byte(under), RangeEnd: end})
	if err != nil {
		return "", 0, err
	}
	for _, kv := range answer.Kvs {
		if kv.Lease != 0 && (bytes.Contains(kv.Value, []byte(n.name)) || strings.HasSuffix(string(kv.Key), "/"+n.name)) {
			return string(kv.Key), kv.Lease, nil
		}
	}
	return "", 0, nil
}

// quota is small enough to be filled, and large enough for a run of ten minutes.
const quota = 48 << 20

// noSpace fills etcd until it raises its alarm, and makes room again as an operator does: delete,
// compact, defragment, disarm.
func (b *bed) noSpace(seen func() int64, lasts time.Duration) breakage {
	junk, end := []byte("/junk/"), []byte("/junk0")
	return breakage{
		Fault: history.Fault{ID: "F22", Kind: history.NoSpace, Detail: fmt.Sprintf("filled for %s", lasts)}, lasts: lasts,
		inject: func() error {
			value := bytes.Repeat([]byte("x"), 1<<20)
			for i := range 2 * quota >> 20 {
				ctx, cancel := soon(10 * time.Second)
				_, err := b.kv(b.admin()).Put(ctx, &pb.PutRequest{Key: fmt.Appendf(nil, "/junk/%d", i), Value: value})
				cancel()
				if err != nil && strings.Contains(err.Error(), "space") {
					return nil
				}
			}
			return errors.New("etcd cannot be filled")
		},
		proof: func() string {
			ctx, cancel := soon(5 * time.Second)
			defer cancel()
			answer, err := pb.NewMaintenanceClient(b.straight[b.admin().name]).Alarm(ctx, &pb.AlarmRequest{Action: pb.AlarmRequest_GET})
			if err != nil || len(answer.Alarms) == 0 {
				return ""
			}
			return fmt.Sprintf("alarms: %v", answer.Alarms)
		},
		heal: func() error {
			ctx, cancel := soon(30 * time.Second)
			defer cancel()
			gone, err := b.kv(b.admin()).DeleteRange(ctx, &pb.DeleteRangeRequest{Key: junk, RangeEnd: end})
			if err != nil {
				return err
			}
			for seen() < gone.Header.Revision && ctx.Err() == nil { // before that nothing of it may be compacted
				time.Sleep(50 * time.Millisecond)
			}
			if _, err := b.kv(b.admin()).Compact(ctx, &pb.CompactionRequest{Revision: seen(), Physical: true}); err != nil && !strings.Contains(err.Error(), "compacted") {
				return err
			}
			if err := b.defragment(ctx); err != nil {
				return err
			}
			return b.disarm(ctx)
		},
	}
}

// disarm takes back the alarm of each member.
func (b *bed) disarm(ctx context.Context) error {
	client := pb.NewMaintenanceClient(b.straight[b.admin().name])
	answer, err := client.Alarm(ctx, &pb.AlarmRequest{Action: pb.AlarmRequest_GET})
	if err != nil {
		return err
	}
	for _, alarm := range answer.Alarms {
		_, err := client.Alarm(ctx, &pb.AlarmRequest{Action: pb.AlarmRequest_DEACTIVATE, MemberID: alarm.MemberID, Alarm: alarm.Alarm})
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *bed) defragment(ctx context.Context) error {
	for _, e := range b.etcds() {
		if _, err := pb.NewMaintenanceClient(b.straight[e.name]).Defragment(ctx, &pb.DefragmentRequest{}); err != nil {
			return err
		}
	}
	return nil
}

// maintenance is what operators do to etcd: another leader, and defragmentation, which stops a member
// for a moment.
func (b *bed) maintenance() breakage {
	proved := ""
	return breakage{
		Fault: history.Fault{ID: "F44", Kind: history.EtcdTerm, Detail: "move leader, defragment each member"},
		inject: func() error {
			ctx, cancel := soon(20 * time.Second)
			defer cancel()
			var from, to *etcd
			for _, e := range b.etcds() {
				if b.leads(e) {
					from = e
				} else {
					to = e
				}
			}
			if from == nil {
				return errors.New("no leader")
			}
			target, err := pb.NewMaintenanceClient(b.straight[to.name]).Status(ctx, &pb.StatusRequest{})
			if err != nil {
				return err
			}
			if _, err := pb.NewMaintenanceClient(b.straight[from.name]).MoveLeader(ctx, &pb.MoveLeaderRequest{TargetID: target.Header.MemberId}); err != nil {
				return err
			}
			proved = fmt.Sprintf("the leader was %s, and is now %s", from.name, to.name)
			return b.defragment(ctx)
		},
		proof: func() string { return proved },
		heal:  func() error { return nil },
	}
}
