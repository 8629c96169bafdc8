package api_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/quorumcron/quorumcron/api"
	quorumcronv1 "github.com/quorumcron/quorumcron/proto/quorumcron/v1"
	"github.com/quorumcron/quorumcron/scheduler"
)

// cluster is one member's server, reached through memory.
type cluster struct {
	node      *fakeNode
	log       *lockedBuffer
	conn      *grpc.ClientConn
	jobs      quorumcronv1.JobServiceClient
	calendars quorumcronv1.CalendarServiceClient
	runs      quorumcronv1.RunServiceClient
	cluster   quorumcronv1.ClusterServiceClient
	// stop ends the server and waits for it.
	stop func()
	dial grpc.DialOption
}

func startServer(t *testing.T, name string, adjust ...func(*api.Config)) *cluster {
	t.Helper()
	node, log := newFakeNode(name), &lockedBuffer{}
	cfg := api.Config{
		Jobs: node, Calendars: node, Runs: node, Cluster: node, Vitals: node, Member: name, Version: "1.2.3",
		Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, a := range adjust {
		a(&cfg)
	}
	server, err := api.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	api.ShortenHealth(server)
	listener := bufconn.Listen(1 << 20)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, listener) }()
	var once sync.Once
	stop := func() {
		once.Do(func() {
			cancel()
			if err := <-served; err != nil {
				t.Errorf("Serve: %v", err)
			}
		})
	}
	dial := grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		return listener.DialContext(ctx)
	})
	conn, err := grpc.NewClient("passthrough:///"+name, dial, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		stop()
	})
	return &cluster{
		node: node, log: log, conn: conn, stop: stop, dial: dial,
		jobs:      quorumcronv1.NewJobServiceClient(conn),
		calendars: quorumcronv1.NewCalendarServiceClient(conn),
		runs:      quorumcronv1.NewRunServiceClient(conn),
		cluster:   quorumcronv1.NewClusterServiceClient(conn),
	}
}

// lockedBuffer is a log that several calls write.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func wantCode(t *testing.T, err error, want codes.Code) {
	t.Helper()
	if got := status.Code(err); got != want {
		t.Fatalf("got code %v, want %v: %v", got, want, err)
	}
}

// detail finds the detail of one type in an error.
func detail[D any](t *testing.T, err error) D {
	t.Helper()
	for _, d := range status.Convert(err).Details() {
		if found, ok := d.(D); ok {
			return found
		}
	}
	var none D
	t.Fatalf("no %T in %v", none, err)
	return none
}

func TestEachErrorHasItsCode(t *testing.T) {
	t.Parallel()
	c := startServer(t, "node-a")
	for _, row := range []struct {
		err    error
		code   codes.Code
		reason string // "" means that no ErrorInfo is expected
	}{
		{scheduler.ErrNotFound, codes.NotFound, "NOT_FOUND"},
		{scheduler.ErrConflict, codes.Aborted, "CONFLICT"},
		{scheduler.ErrUnknown, codes.Unknown, "OUTCOME_UNKNOWN"},
		{scheduler.ErrInvalid, codes.InvalidArgument, "INVALID"},
		{scheduler.ErrUnavailable, codes.Unavailable, "UNAVAILABLE"},
		{scheduler.ErrPaused, codes.FailedPrecondition, "PAUSED"},
		{scheduler.ErrEnded, codes.FailedPrecondition, "ENDED"},
		{scheduler.ErrNoRoom, codes.ResourceExhausted, "ETCD_SPACE"},
		{scheduler.ErrExhausted, codes.ResourceExhausted, "LIMIT_REACHED"},
		{context.DeadlineExceeded, codes.DeadlineExceeded, "DEADLINE"},
		{context.Canceled, codes.Canceled, "CANCELED"},
		// A deadline that passed while a commit was on its way leaves its outcome open.
		{fmt.Errorf("%w: %w", context.DeadlineExceeded, scheduler.ErrUnknown), codes.Unknown, "OUTCOME_UNKNOWN"},
		// What another connection said is not what this call says.
		{fmt.Errorf("etcd: %w", status.Error(codes.PermissionDenied, "no")), codes.Internal, ""},
		{errors.New("something else"), codes.Internal, ""},
	} {
		c.node.set(func(n *fakeNode) { n.trouble = fmt.Errorf("commit: %w", row.err) })
		_, err := c.jobs.Get(t.Context(), &quorumcronv1.JobServiceGetRequest{Name: "report"})
		if got := status.Code(err); got != row.code {
			t.Errorf("%v: got code %v, want %v", row.err, got, row.code)
		}
		if row.reason != "" {
			if info := detail[*errdetails.ErrorInfo](t, err); info.GetReason() != row.reason ||
				info.GetDomain() != api.ErrorDomain {
				t.Errorf("%v: got %v, want reason %s", row.err, info, row.reason)
			}
		}
		if !strings.Contains(status.Convert(err).Message(), "default/report") {
			t.Errorf("%v: the message names no job: %v", row.err, err)
		}
	}
}

func TestEveryCallReportsItsError(t *testing.T) {
	t.Parallel()
	c := startServer(t, "node-a")
	c.node.set(func(n *fakeNode) { n.trouble = scheduler.ErrUnavailable })
	firing := scheduler.Triggered(testUID(1), "x").String()
	for name, call := range map[string]func(context.Context) error{
		"apply": func(ctx context.Context) error { _, err := c.jobs.Apply(ctx, applying(jobFile("a"))); return err },
		"list": func(ctx context.Context) error {
			_, err := c.jobs.List(ctx, &quorumcronv1.JobServiceListRequest{})
			return err
		},
		"delete": func(ctx context.Context) error {
			_, err := c.jobs.Delete(ctx, &quorumcronv1.JobServiceDeleteRequest{Name: "a"})
			return err
		},
		"pause": func(ctx context.Context) error {
			_, err := c.jobs.Pause(ctx, &quorumcronv1.JobServicePauseRequest{Name: "a"})
			return err
		},
		"resume": func(ctx context.Context) error {
			_, err := c.jobs.Resume(ctx, &quorumcronv1.JobServiceResumeRequest{Name: "a"})
			return err
		},
		"trigger": func(ctx context.Context) error {
			_, err := c.jobs.Trigger(ctx, &quorumcronv1.JobServiceTriggerRequest{Name: "a"})
			return err
		},
		"next": func(ctx context.Context) error {
			_, err := c.jobs.Next(ctx, &quorumcronv1.JobServiceNextRequest{Name: "a"})
			return err
		},
		"run": func(ctx context.Context) error {
			_, err := c.runs.Get(ctx, &quorumcronv1.RunServiceGetRequest{Firing: firing})
			return err
		},
		"runs": func(ctx context.Context) error {
			_, err := c.runs.List(ctx, &quorumcronv1.RunServiceListRequest{})
			return err
		},
		"cancel": func(ctx context.Context) error {
			_, err := c.runs.Cancel(ctx, &quorumcronv1.RunServiceCancelRequest{Firing: firing})
			return err
		},
		"watch": func(ctx context.Context) error {
			stream, err := c.runs.Watch(ctx, &quorumcronv1.RunServiceWatchRequest{})
			if err != nil {
				return err
			}
			_, err = stream.Recv()
			return err
		},
		"logs": func(ctx context.Context) error {
			_, err := readLogs(ctx, c.runs, &quorumcronv1.RunServiceLogsRequest{Firing: firing})
			return err
		},
		"status": func(ctx context.Context) error {
			_, err := c.cluster.Status(ctx, &quorumcronv1.ClusterServiceStatusRequest{})
			return err
		},
		"members": func(ctx context.Context) error {
			_, err := c.cluster.ListMembers(ctx, &quorumcronv1.ClusterServiceListMembersRequest{})
			return err
		},
		"drain": func(ctx context.Context) error {
			_, err := c.cluster.Drain(ctx, &quorumcronv1.ClusterServiceDrainRequest{})
			return err
		},
	} {
		if err := call(t.Context()); status.Code(err) != codes.Unavailable {
			t.Errorf("%s: got %v, want code Unavailable", name, err)
		}
	}
}

func TestPanicEndsOneCallAndIsLogged(t *testing.T) {
	t.Parallel()
	c := startServer(t, "node-a")
	c.node.set(func(n *fakeNode) { n.alarm = "the sky falls" })
	_, err := c.cluster.Status(t.Context(), &quorumcronv1.ClusterServiceStatusRequest{})
	wantCode(t, err, codes.Internal)
	if strings.Contains(err.Error(), "sky") {
		t.Errorf("the panic's value went to the client: %v", err)
	}
	_, err = readLogs(t.Context(), c.runs, &quorumcronv1.RunServiceLogsRequest{
		Firing: scheduler.Triggered(testUID(1), "x").String(),
	})
	wantCode(t, err, codes.Internal)
	if got := strings.Count(c.log.String(), "the sky falls"); got != 2 {
		t.Errorf("got %d log lines with the panic, want 2: %s", got, c.log)
	}
	c.node.set(func(n *fakeNode) { n.alarm = nil })
	if _, err := c.cluster.Status(t.Context(), &quorumcronv1.ClusterServiceStatusRequest{}); err != nil {
		t.Errorf("the call after a panic: %v", err)
	}
}

func TestEveryUnaryCallHasADeadline(t *testing.T) {
	t.Parallel()
	c := startServer(t, "node-a")
	if _, err := c.jobs.List(context.WithoutCancel(t.Context()), &quorumcronv1.JobServiceListRequest{}); err != nil {
		t.Fatal(err)
	}
	c.node.set(func(n *fakeNode) {
		if left := time.Until(n.deadline); left <= 0 || left > 30*time.Second {
			t.Errorf("the member's context ends in %v, want at most 30 s", left)
		}
	})
}

func TestTooLargeRequestIsRefused(t *testing.T) {
	t.Parallel()
	c := startServer(t, "node-a")
	job := jobFile("large")
	job.Labels = map[string]string{"text": strings.Repeat("x", 1<<20)}
	_, err := c.jobs.Apply(t.Context(), applying(job))
	wantCode(t, err, codes.InvalidArgument)
	job.Labels["text"] = strings.Repeat("x", 4<<20)
	_, err = c.jobs.Apply(t.Context(), applying(job))
	wantCode(t, err, codes.ResourceExhausted)
}

func TestCallsAreLoggedAtDebugLevel(t *testing.T) {
	t.Parallel()
	c := startServer(t, "node-a")
	_, err := c.jobs.Get(t.Context(), &quorumcronv1.JobServiceGetRequest{Name: "nope"})
	wantCode(t, err, codes.NotFound)
	c.stop()
	log := c.log.String()
	if !strings.Contains(log, "level=DEBUG") || !strings.Contains(log, "JobService/Get") || !strings.Contains(log, "code=NotFound") {
		t.Errorf("no debug line for the call in: %s", log)
	}
}

func TestHealthFollowsReadinessByService(t *testing.T) {
	t.Parallel()
	c := startServer(t, "node-a")
	client := healthv1.NewHealthClient(c.conn)
	watch, err := client.Watch(t.Context(), &healthv1.HealthCheckRequest{Service: "quorumcron.v1.JobService"})
	if err != nil {
		t.Fatal(err)
	}
	for _, ready := range []bool{true, false, true} {
		c.node.set(func(n *fakeNode) { n.readiness.Ready = ready })
		want := healthv1.HealthCheckResponse_NOT_SERVING
		if ready {
			want = healthv1.HealthCheckResponse_SERVING
		}
		if got, err := watch.Recv(); err != nil || got.GetStatus() != want {
			t.Fatalf("ready %v: watch got %v, %v, want %v", ready, got, err, want)
		}
		list, err := client.List(t.Context(), &healthv1.HealthListRequest{})
		if err != nil || len(list.GetStatuses()) != 4 {
			t.Fatalf("ready %v: list got %v, %v, want 4 services", ready, list, err)
		}
		for name, listed := range list.GetStatuses() {
			got, err := client.Check(t.Context(), &healthv1.HealthCheckRequest{Service: name})
			if err != nil || got.GetStatus() != want || listed.GetStatus() != want {
				t.Errorf("ready %v: service %q: got %v, %v, listed %v, want %v", ready, name, got, err, listed, want)
			}
		}
	}
	_, err = client.Check(t.Context(), &healthv1.HealthCheckRequest{Service: "quorumcron.v1.Nothing"})
	wantCode(t, err, codes.NotFound)
	unknown, err := client.Watch(t.Context(), &healthv1.HealthCheckRequest{Service: "quorumcron.v1.Nothing"})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := unknown.Recv(); err != nil || got.GetStatus() != healthv1.HealthCheckResponse_SERVICE_UNKNOWN {
		t.Errorf("watch of an unknown service: got %v, %v", got, err)
	}
}

func TestReflectionListsTheServices(t *testing.T) {
	t.Parallel()
	c := startServer(t, "node-a")
	stream, err := reflectionv1.NewServerReflectionClient(c.conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&reflectionv1.ServerReflectionRequest{
		MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{},
	}); err != nil {
		t.Fatal(err)
	}
	answer, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range answer.GetListServicesResponse().GetService() {
		names = append(names, s.GetName())
	}
	for _, want := range []string{
		"grpc.health.v1.Health", "quorumcron.v1.ClusterService", "quorumcron.v1.JobService", "quorumcron.v1.RunService",
	} {
		if !slices.Contains(names, want) {
			t.Errorf("no %s in %v", want, names)
		}
	}
}

func TestStoppingEndsStreams(t *testing.T) {
	t.Parallel()
	c := startServer(t, "node-a")
	watch, err := c.runs.Watch(t.Context(), &quorumcronv1.RunServiceWatchRequest{})
	if err != nil {
		t.Fatal(err)
	}
	health, err := healthv1.NewHealthClient(c.conn).Watch(t.Context(), &healthv1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := health.Recv(); err != nil {
		t.Fatal(err)
	}
	<-c.node.watching
	began := time.Now()
	c.stop()
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("stopping took %v: the streams held it up", took)
	}
	_, err = watch.Recv()
	wantCode(t, err, codes.Unavailable)
	_, err = health.Recv()
	wantCode(t, err, codes.Unavailable)
}

func TestServerNeedsItsMember(t *testing.T) {
	t.Parallel()
	node := newFakeNode("node-a")
	for name, cfg := range map[string]api.Config{
		"no interfaces": {Member: "node-a"},
		"no name":       {Jobs: node, Calendars: node, Runs: node, Cluster: node, Vitals: node},
	} {
		if _, err := api.New(cfg); err == nil {
			t.Errorf("%s: New made a server that cannot serve", name)
		}
	}
}
