package chaos

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/quorumcron/quorumcron/chaos-tests/history"
)

// TestAnUnreadableRecordHurtsOneJob writes bytes that nobody can read over a definition and a state:
// both are reported, every other job goes on, and so do these once the bytes are as before.
func TestAnUnreadableRecordHurtsOneJob(t *testing.T) {
	t.Parallel() // it mostly waits
	c := start(t, 1)
	begin := time.Now().Truncate(time.Second)
	jobs := []asked{{name: "bad-definition", period: time.Second}, {name: "bad-state", period: time.Second}}
	for i := range 10 {
		jobs = append(jobs, asked{name: fmt.Sprintf("well%d", i), period: time.Second})
	}
	c.apply(begin.Add(13*time.Second), jobs...)
	kv := dialKV(t, c.etcd.address)
	definition, state := c.key("jobs", "bad-definition"), c.key("state", "bad-state")

	sleepUntil(begin.Add(4*time.Second + 500*time.Millisecond))
	before := kv.get(definition)
	kv.put(definition, []byte("\xff\xff this is no definition"))
	spoilt := time.Now()
	eventually(t, onTime, "the definition reported", func() error { return c.reported("jobs/", "bad-definition") })
	sleepUntil(begin.Add(7*time.Second + 500*time.Millisecond))
	kv.put(definition, before)
	restored := time.Now()
	eventually(t, onTime, "the definition no longer reported", func() error {
		if c.reported("jobs/", "bad-definition") == nil {
			return fmt.Errorf("still in %v", c.status().Quarantined)
		}
		return nil
	})

	kv.put(state, []byte("\xff\xff this is no state"))
	eventually(t, onTime, "the state reported", func() error { return c.reported("state/", "bad-state") })

	h := c.settle(time.Second)
	h.Plans = h.Plans[2:] // of the two, not all can be known
	h.Lines = only(h.Lines, func(l history.Line) bool { return strings.HasPrefix(l.Job, "well") })
	c.judged(h, history.Needs{Required: 60})
	during, after := 0, 0
	for _, l := range c.lines() {
		if l.Job != "bad-definition" || l.Event != history.Start {
			continue
		}
		switch {
		case l.Due().After(spoilt.Add(time.Second)) && l.Due().Before(restored): // when it was due: a command may start late
			during++
		case l.Wall().After(restored):
			after++
		}
	}
	if during > 0 || after == 0 {
		t.Errorf("the job started %d times while its definition was unreadable, and %d times after; want none, and some", during, after)
	}
	if ready, text := c.nodes[0].readiness(); !ready {
		t.Errorf("one bad record makes the node not ready: %s", text)
	}
}

// key is where etcd holds the definition or state of a job: the format is fixed for ever.
func (c *cluster) key(what, job string) string {
	c.t.Helper()
	var shown struct{ Shard string }
	c.decode(c.mustRun("", "job", "show", job, "-o", "json"), &shown)
	return fmt.Sprintf("/quorumcron/%s/%s/default/%s", what, shown.Shard, job)
}

// reported is an error while `cluster status` does not show a key.
func (c *cluster) reported(kind, job string) error {
	c.t.Helper()
	quarantined := c.status().Quarantined
	for _, q := range quarantined {
		if strings.HasPrefix(q.Key, kind) && strings.HasSuffix(q.Key, "/"+job) && q.Problem != "" {
			return nil
		}
	}
	return fmt.Errorf("quarantined are %v", quarantined)
}

func only[T any](lines []T, wanted func(T) bool) []T {
	var left []T
	for _, l := range lines {
		if wanted(l) {
			left = append(left, l)
		}
	}
	return left
}

// keyValues talks to etcd past all our code.
type keyValues struct {
	t      *testing.T
	client pb.KVClient
}

func dialKV(t *testing.T, address string) keyValues {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return keyValues{t, pb.NewKVClient(conn)}
}

func (kv keyValues) get(key string) []byte {
	kv.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	answer, err := kv.client.Range(ctx, &pb.RangeRequest{Key: []byte(key)})
	if err != nil || len(answer.Kvs) != 1 {
		kv.t.Fatalf("read %s: %v, %v", key, answer.GetKvs(), err)
	}
	return answer.Kvs[0].Value
}

func (kv keyValues) put(key string, value []byte) {
	kv.t.Helper()
	if err := kv.tryPut(key, value); err != nil {
		kv.t.Fatalf("write %s: %v", key, err)
	}
}

func (kv keyValues) tryPut(key string, value []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_, err := kv.client.Put(ctx, &pb.PutRequest{Key: []byte(key), Value: value})
	return err
}
