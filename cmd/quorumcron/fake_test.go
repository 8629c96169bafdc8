package main

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	quorumcronv1 "github.com/quorumcron/quorumcron/proto/quorumcron/v1"
)

// noon is when every test happens.
var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func at(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(noon.Add(d)) }

// fakeServer answers as a node would. What a job is named decides what happens to it: see failure.
type fakeServer struct {
	quorumcronv1.UnimplementedJobServiceServer
	quorumcronv1.UnimplementedRunServiceServer
	quorumcronv1.UnimplementedClusterServiceServer

	mu      sync.Mutex // guards seen
	seen    []proto.Message
	address string
}

func startFake(t *testing.T) *fakeServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeServer{address: l.Addr().String()}
	server := grpc.NewServer()
	quorumcronv1.RegisterJobServiceServer(server, f)
	quorumcronv1.RegisterRunServiceServer(server, runs{f})
	quorumcronv1.RegisterClusterServiceServer(server, f)
	quorumcronv1.RegisterCalendarServiceServer(server, &calendars{fakeServer: f})
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		<-ended
	})
	return f
}

// failure is the error that goes with a name.
func (f *fakeServer) failure(ctx context.Context, name string, request proto.Message) error {
	f.mu.Lock()
	f.seen = append(f.seen, request)
	f.mu.Unlock()
	name, _, _ = strings.Cut(name, "@")
	switch name {
	case "gone":
		return status.Error(codes.NotFound, "job default/gone: not found; `job list` shows what there is")
	case "busy":
		return status.Error(codes.Aborted, "job default/busy: conflict: an attempt still runs on node-b")
	case "ended":
		return status.Error(codes.FailedPrecondition, "it has ended")
	case "away":
		return status.Error(codes.Unavailable, "etcd does not answer")
	case "full":
		return status.Error(codes.ResourceExhausted, "etcd is full")
	case "slow":
		<-ctx.Done()
		return status.FromContextError(ctx.Err()).Err()
	case "unknown":
		s, err := status.New(codes.Unknown, "outcome unknown").WithDetails(&errdetails.RequestInfo{RequestId: "req-7"})
		if err != nil {
			return err
		}
		return s.Err()
	case "bad":
		s, err := status.New(codes.InvalidArgument, "invalid").WithDetails(&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
			{Field: "schedule.every", Description: "is too often for this cluster (write 1m or more)"}, {Field: "labels", Description: "are not wanted"},
		}})
		if err != nil {
			return err
		}
		return s.Err()
	}
	return nil
}

func sampleJob(name string) *quorumcronv1.Job {
	return &quorumcronv1.Job{
		Name: name, Namespace: "default", Labels: map[string]string{"team": "billing"},
		Schedule: &quorumcronv1.Schedule{Cron: []string{"0 2 * * *", "0 14 * * *"}, Every: "15m", TimeZone: "Europe/Berlin", Jitter: "30s", Origin: at(-time.Hour)},
		Run: &quorumcronv1.Executable{Kind: &quorumcronv1.Executable_Command{Command: &quorumcronv1.Command{
			Args: []string{"sh", "-c", "pg_dump app"}, Env: map[string]string{"A": "b"}, Dir: "/srv", User: "report",
		}}},
		Target: &quorumcronv1.Target{Selector: map[string]string{"zone": "eu"}, Mode: "one"},
		Policy: &quorumcronv1.Policy{Overlap: "skip", CatchUp: &quorumcronv1.CatchUp{Mode: "latest", Window: "24h", Max: 100}, OnLost: "retry",
			OnSessionLost: "kill", Retry: &quorumcronv1.Retry{MaxAttempts: 3}, Timeout: "10m", StartDeadline: "5m"},
		History: &quorumcronv1.History{Limit: 10}, Uid: "01abc", Generation: 2, Revision: 77, Created: at(-48 * time.Hour), Edited: at(-2 * time.Hour),
		NextInstants: []*timestamppb.Timestamp{at(4 * time.Minute), at(14 * time.Hour)}, Cursor: at(-11 * time.Minute),
		Backlog: &quorumcronv1.Backlog{First: at(-3 * time.Hour), Last: at(-time.Hour), Count: 8},
		Counters: []*quorumcronv1.Counter{{Verdict: "SUCCEEDED", Count: 118}, {Verdict: "FAILED", Reason: "exit code", Count: 2},
			{Verdict: "LOST", Reason: "member lost", Count: 1}, {Verdict: "SKIPPED", Reason: "overlap", Count: 3}, {Verdict: "MISSED", Reason: "window", Count: 1440}},
		Ranges: []*quorumcronv1.SkippedRange{{Verdict: "MISSED", Reason: "window", First: at(-26 * time.Hour), Last: at(-25 * time.Hour), Count: 1440},
			{Verdict: "SKIPPED", Reason: "canceled", Count: 1, Trigger: "01trig"}},
		Running: []*quorumcronv1.Run{sampleRun("01abc@2026-11-30T11:59:00Z", "")}, Owner: "node-a", Pool: "all", Shard: "3f",
	}
}

func sampleRun(firing, verdict string) *quorumcronv1.Run {
	r := &quorumcronv1.Run{
		Job: "report", Namespace: "default", Firing: firing, Instant: at(-time.Minute), Attempt: 2, Verdict: verdict, Member: "node-a", Token: 4711,
		StartTime: at(-59 * time.Second), Generation: 2,
		Attempts: []*quorumcronv1.Attempt{
			{Number: 1, Token: 4700, Member: "node-b", Granted: at(-60 * time.Second), Verdict: "LOST", Reason: "member lost"},
			{Number: 2, Token: 4711, Member: "node-a", Granted: at(-59 * time.Second), StartTime: at(-59 * time.Second), Verdict: verdict},
		},
	}
	if strings.Contains(firing, "+") {
		r.Instant = nil
	}
	if verdict != "" {
		r.EndTime, r.OutputBytes, r.OutputDropped, r.Output = at(-9*time.Second), 2048, 1024, "last line\n"
		r.Attempts[1].EndTime = r.EndTime
	}
	if verdict == "FAILED" {
		r.ExitCode, r.Reason, r.Message = proto.Int32(3), "exit code", "exit code 3"
		r.Attempts[1].ExitCode, r.Attempts[1].Reason = r.ExitCode, r.Reason
	}
	return r
}

// Apply implements JobService.
func (f *fakeServer) Apply(ctx context.Context, r *quorumcronv1.JobServiceApplyRequest) (*quorumcronv1.JobServiceApplyResponse, error) {
	if err := f.failure(ctx, r.GetJob().GetName(), r); err != nil {
		return nil, err
	}
	stored := proto.CloneOf(r.GetJob())
	stored.Revision = 78
	answer := &quorumcronv1.JobServiceApplyResponse{Job: stored, Change: "created"}
	if strings.HasPrefix(stored.GetName(), "same") {
		answer.Change = "unchanged"
	}
	if len(stored.GetTarget().GetSelector()) > 0 {
		answer.Warnings = []string{"no live member has zone=mars"}
	}
	return answer, nil
}

// Get implements JobService.
func (f *fakeServer) Get(ctx context.Context, r *quorumcronv1.JobServiceGetRequest) (*quorumcronv1.JobServiceGetResponse, error) {
	if err := f.failure(ctx, r.GetName(), r); err != nil {
		return nil, err
	}
	return &quorumcronv1.JobServiceGetResponse{Job: sampleJob(r.GetName())}, nil
}

// List implements JobService, in pages of two.
func (f *fakeServer) List(ctx context.Context, r *quorumcronv1.JobServiceListRequest) (*quorumcronv1.JobServiceListResponse, error) {
	if err := f.failure(ctx, r.GetNamespace(), r); err != nil || r.GetNamespace() == "empty" {
		return &quorumcronv1.JobServiceListResponse{}, err
	}
	if r.GetPageToken() == "" {
		idle := sampleJob("idle")
		idle.Owner, idle.Counters, idle.Schedule = "", nil, &quorumcronv1.Schedule{At: []*timestamppb.Timestamp{at(time.Hour)}}
		return &quorumcronv1.JobServiceListResponse{Jobs: []*quorumcronv1.Job{sampleJob("db-backup"), idle}, NextPageToken: "more"}, nil
	}
	paused, over := sampleJob("paused"), sampleJob("zz-over")
	aside := sampleJob("shut")
	aside.NextInstants, aside.Problem = nil, "calendar night cannot be read"
	paused.Paused, paused.NextInstants, over.NextInstants, over.Namespace = true, nil, nil, "other"
	return &quorumcronv1.JobServiceListResponse{Jobs: []*quorumcronv1.Job{paused, aside, over}}, nil
}

// Delete implements JobService.
func (f *fakeServer) Delete(ctx context.Context, r *quorumcronv1.JobServiceDeleteRequest) (*quorumcronv1.JobServiceDeleteResponse, error) {
	return &quorumcronv1.JobServiceDeleteResponse{Running: 1}, f.failure(ctx, r.GetName(), r)
}

// Pause implements JobService.
func (f *fakeServer) Pause(ctx context.Context, r *quorumcronv1.JobServicePauseRequest) (*quorumcronv1.JobServicePauseResponse, error) {
	change := "changed"
	if r.GetName() == "same" {
		change = "unchanged"
	}
	return &quorumcronv1.JobServicePauseResponse{Job: sampleJob(r.GetName()), Change: change}, f.failure(ctx, r.GetName(), r)
}

// Resume implements JobService.
func (f *fakeServer) Resume(ctx context.Context, r *quorumcronv1.JobServiceResumeRequest) (*quorumcronv1.JobServiceResumeResponse, error) {
	change := "changed"
	if r.GetName() == "same" {
		change = "unchanged"
	}
	return &quorumcronv1.JobServiceResumeResponse{Job: sampleJob(r.GetName()), Change: change, Warnings: []string{"no member"}}, f.failure(ctx, r.GetName(), r)
}

// Trigger implements JobService.
func (f *fakeServer) Trigger(ctx context.Context, r *quorumcronv1.JobServiceTriggerRequest) (*quorumcronv1.JobServiceTriggerResponse, error) {
	if err := f.failure(ctx, r.GetName(), r); err != nil {
		return nil, err
	}
	answer := &quorumcronv1.JobServiceTriggerResponse{Firing: "01abc+01trig", RequestId: r.GetRequestId()}
	if r.GetRequestId() != "made-up" { // by the console
		answer.RepeatedRequest = true
	}
	return answer, nil
}

// Next implements JobService.
func (f *fakeServer) Next(ctx context.Context, r *quorumcronv1.JobServiceNextRequest) (*quorumcronv1.JobServiceNextResponse, error) {
	if err := f.failure(ctx, r.GetName(), r); err != nil || r.GetName() == "over" {
		return &quorumcronv1.JobServiceNextResponse{}, err
	}
	answer := &quorumcronv1.JobServiceNextResponse{}
	after := noon
	if r.GetAfter() != nil {
		after = r.GetAfter().AsTime()
	}
	for i := range r.GetCount() {
		answer.Instants = append(answer.Instants, timestamppb.New(after.Add(time.Duration(i+1)*time.Hour)))
	}
	return answer, nil
}

// runs is the fake's RunService, apart because Get and List exist in both.
type runs struct{ *fakeServer }

// Get implements RunService.
func (f runs) Get(ctx context.Context, r *quorumcronv1.RunServiceGetRequest) (*quorumcronv1.RunServiceGetResponse, error) {
	if err := f.failure(ctx, r.GetFiring(), r); err != nil {
		return nil, err
	}
	verdict := "FAILED"
	if strings.Contains(r.GetFiring(), "+") {
		verdict = ""
	}
	return &quorumcronv1.RunServiceGetResponse{Run: sampleRun(r.GetFiring(), verdict)}, nil
}

// List implements RunService: there are always more.
func (f runs) List(ctx context.Context, r *quorumcronv1.RunServiceListRequest) (*quorumcronv1.RunServiceListResponse, error) {
	if err := f.failure(ctx, r.GetJob(), r); err != nil || r.GetJob() == "never-ran" {
		return &quorumcronv1.RunServiceListResponse{}, err
	}
	answer := &quorumcronv1.RunServiceListResponse{NextPageToken: "more"}
	for i := range min(r.GetPageSize(), 3) {
		verdict := []string{"", "SUCCEEDED", "FAILED"}[i]
		answer.Runs = append(answer.Runs, sampleRun(fmt.Sprintf("01abc@%s", noon.Add(-time.Duration(i)*time.Hour).Format(time.RFC3339)), verdict))
	}
	return answer, nil
}

// Logs implements RunService.
func (f runs) Logs(r *quorumcronv1.RunServiceLogsRequest, s grpc.ServerStreamingServer[quorumcronv1.RunServiceLogsResponse]) error {
	if err := f.failure(s.Context(), r.GetFiring(), r); err != nil {
		return err
	}
	for _, piece := range []*quorumcronv1.RunServiceLogsResponse{
		{Note: "node-b is gone; this is the recorded tail"}, {Chunk: []byte("first \xff")}, {Chunk: []byte("\nsecond\n")},
	} {
		if err := s.Send(piece); err != nil {
			return err
		}
	}
	return nil
}

// Cancel implements RunService.
func (f runs) Cancel(ctx context.Context, r *quorumcronv1.RunServiceCancelRequest) (*quorumcronv1.RunServiceCancelResponse, error) {
	answer := &quorumcronv1.RunServiceCancelResponse{Member: "node-a"}
	if strings.HasPrefix(r.GetFiring(), "waiting") {
		answer.Member = ""
	}
	return answer, f.failure(ctx, r.GetFiring(), r)
}

func sampleMembers() []*quorumcronv1.Member {
	return []*quorumcronv1.Member{
		{Name: "node-a", Incarnation: 3, GrpcAddress: "10.0.0.1:7460", HttpAddress: "10.0.0.1:7461", Capacity: 256, Version: "0.1.0", ShardsOwned: 128, Dispatcher: true},
		{Name: "node-b", Incarnation: 1, GrpcAddress: "10.0.0.2:7460", Capacity: 16, Version: "0.1.0", ShardsOwned: 127, Draining: true,
			Labels: map[string]string{"zone": "eu", "disk": "ssd"}},
	}
}

// ListMembers implements ClusterService.
func (f *fakeServer) ListMembers(ctx context.Context, r *quorumcronv1.ClusterServiceListMembersRequest) (*quorumcronv1.ClusterServiceListMembersResponse, error) {
	return &quorumcronv1.ClusterServiceListMembersResponse{Members: sampleMembers()}, f.failure(ctx, "", r)
}

// Status implements ClusterService.
func (f *fakeServer) Status(ctx context.Context, r *quorumcronv1.ClusterServiceStatusRequest) (*quorumcronv1.ClusterServiceStatusResponse, error) {
	return &quorumcronv1.ClusterServiceStatusResponse{
		Dispatcher: "node-a", Members: sampleMembers(), ShardsOwned: 255, Unaccounted: 2, Member: "node-a", Version: "0.1.0", ClusterId: "01cluster", Format: 1,
		Reasons: []string{"shards: some are not read yet", "clock: it stepped"}, Warnings: []string{"pool gpu has no member"}, Now: at(0),
		Quarantined: []*quorumcronv1.QuarantinedRecord{{Key: "jobs/3f/default/old", Problem: "unknown schedule kind"}},
		Etcd: &quorumcronv1.Etcd{Endpoints: []string{"10.0.0.1:2379"}, Version: "3.7.3", Revision: 1234, DbSizeBytes: 64 << 20, DbInUseBytes: 32 << 20,
			DbQuotaBytes: 2 << 30, Alarms: []string{"NOSPACE"}, Members: 3, CompactRevision: 1200, DbQuotaSharePercent: 3, Space: "full"},
	}, f.failure(ctx, "", r)
}
