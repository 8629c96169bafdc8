package peer_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/quorumcron/quorumcron/peer"
	quorumcronv1 "github.com/quorumcron/quorumcron/proto/quorumcron/v1"
	"github.com/quorumcron/quorumcron/scheduler"
)

// member is another member, which answers Logs as the test wants.
type member struct {
	quorumcronv1.UnimplementedRunServiceServer
	logs func(*quorumcronv1.RunServiceLogsRequest, quorumcronv1.RunService_LogsServer) error
}

func (m *member) Logs(r *quorumcronv1.RunServiceLogsRequest, s quorumcronv1.RunService_LogsServer) error {
	return m.logs(r, s)
}

// startMember serves m in memory, and returns how to reach it.
func startMember(
	t *testing.T, logs func(*quorumcronv1.RunServiceLogsRequest, quorumcronv1.RunService_LogsServer) error,
) *peer.Client {
	t.Helper()
	listener := bufconn.Listen(1 << 16)
	server := grpc.NewServer()
	quorumcronv1.RegisterRunServiceServer(server, &member{logs: logs})
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		<-served
	})
	return &peer.Client{Options: []grpc.DialOption{
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
	}}
}

const address = "passthrough:///node-b"

func send(s quorumcronv1.RunService_LogsServer, text string) error {
	return s.Send(&quorumcronv1.RunServiceLogsResponse{Chunk: []byte(text)})
}

func TestForwardedCallIsMarked(t *testing.T) {
	t.Parallel()
	client := startMember(t, func(r *quorumcronv1.RunServiceLogsRequest, s quorumcronv1.RunService_LogsServer) error {
		mark := metadata.ValueFromIncomingContext(s.Context(), "quorumcron-forwarded")
		return errors.Join(send(s, fmt.Sprint(mark, " ")), send(s, fmt.Sprint(r.GetFiring(), " ", r.GetAttempt())))
	})
	var got string
	err := client.Logs(t.Context(), address, &quorumcronv1.RunServiceLogsRequest{Firing: "f", Attempt: 2},
		func(r *quorumcronv1.RunServiceLogsResponse) error {
			got += string(r.GetChunk())
			return nil
		})
	if err != nil || got != "[1] f 2" {
		t.Errorf("got %q, %v, want a marked call for f and 2", got, err)
	}
}

func TestWhatAMemberAnswersBecomesASentinel(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		answer error
		want   error
	}{
		{status.Error(codes.NotFound, "no file"), scheduler.ErrNotFound},
		{status.Error(codes.Unavailable, "stopping"), scheduler.ErrUnavailable},
		{status.Error(codes.Unimplemented, "older version"), scheduler.ErrUnavailable},
		{status.Error(codes.Internal, "panic"), scheduler.ErrUnavailable},
	} {
		client := startMember(t, func(*quorumcronv1.RunServiceLogsRequest, quorumcronv1.RunService_LogsServer) error {
			return row.answer
		})
		err := client.Logs(t.Context(), address, &quorumcronv1.RunServiceLogsRequest{}, nil)
		if !errors.Is(err, row.want) || !strings.Contains(err.Error(), address) {
			t.Errorf("%v: got %v, want %v with the address", row.answer, err, row.want)
		}
	}
}

func TestSilentMemberCostsABoundedWait(t *testing.T) {
	t.Parallel()
	client := startMember(t, func(_ *quorumcronv1.RunServiceLogsRequest, s quorumcronv1.RunService_LogsServer) error {
		<-s.Context().Done()
		return nil
	})
	client.Wait = time.Millisecond
	err := client.Logs(t.Context(), address, &quorumcronv1.RunServiceLogsRequest{}, nil)
	if !errors.Is(err, scheduler.ErrUnavailable) || !strings.Contains(err.Error(), "no answer in time") {
		t.Errorf("got %v, want unavailable for silence", err)
	}
}

func TestUnreachableMemberIsUnavailable(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close() // from now on the port refuses
	for _, address := range []string{listener.Addr().String(), "%zz"} {
		err := new(peer.Client).Logs(t.Context(), address, &quorumcronv1.RunServiceLogsRequest{}, nil)
		if !errors.Is(err, scheduler.ErrUnavailable) {
			t.Errorf("%s: got %v, want unavailable", address, err)
		}
	}
}

func TestCallersErrorsComeBackAsTheyAre(t *testing.T) {
	t.Parallel()
	client := startMember(t, func(_ *quorumcronv1.RunServiceLogsRequest, s quorumcronv1.RunService_LogsServer) error {
		return send(s, "a")
	})
	gone := errors.New("the reader is gone")
	err := client.Logs(t.Context(), address, &quorumcronv1.RunServiceLogsRequest{},
		func(*quorumcronv1.RunServiceLogsResponse) error { return gone })
	if err != gone {
		t.Errorf("got %v, want deliver's own error", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	err = client.Logs(ctx, address, &quorumcronv1.RunServiceLogsRequest{}, nil)
	if err != gone {
		t.Errorf("got %v, want the cause of the caller's context", err)
	}
}
