package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	quorumcronv1 "github.com/quorumcron/quorumcron/proto/quorumcron/v1"
)

// Bounds of one server, each in one place.
const (
	// callLimit is the longest a unary call may take, whatever deadline its caller set or left out.
	callLimit = 30 * time.Second
	// maxRequest bounds a request in bytes: a job of maxJob and some room.
	maxRequest = maxJob + 64<<10
	// maxJob bounds a definition in bytes: it has to fit into one etcd transaction with its state.
	maxJob = 1 << 20
	// maxPage bounds a page in bytes, below the 4 MiB that gRPC clients accept.
	maxPage = 3 << 20
	// maxHeaders bounds a call's metadata in bytes.
	maxHeaders = 16 << 10
	// maxStreams bounds the calls in flight of one connection.
	maxStreams = 256
	// stopGrace is how long calls may go on once the server stops.
	stopGrace = 5 * time.Second
	// healthEvery is how often a health stream looks at the member's readiness, in memory.
	healthEvery = time.Second
)

// Config is what a server is made of. Jobs, Calendars, Runs, Cluster, Vitals and Member are required;
// package node's Node is the first five.
type Config struct {
	Jobs      Jobs
	Calendars Calendars
	Runs      Runs
	Cluster   Cluster
	Vitals    Vitals
	// Member is the name of the member that this server belongs to: output of its attempts is here.
	Member string
	// Forwarder fetches output from other members; nil means that only recorded tails of their runs show.
	Forwarder Forwarder
	// Version of the program, for Status.
	Version string
	// Logger; nil means discard.
	Logger *slog.Logger
}

// Server is the admin API of one member. It is safe for concurrent use.
type Server struct {
	cfg Config
	log *slog.Logger
	// healthEvery is the constant, shortened by tests.
	healthEvery time.Duration
	// stopping is closed when Serve begins to stop: it ends the streams, which know no end of their own.
	stopping chan struct{}
	stopOnce sync.Once
}

// New makes a server; it starts nothing. The error names what is missing in cfg.
func New(cfg Config) (*Server, error) {
	switch {
	case cfg.Jobs == nil || cfg.Calendars == nil || cfg.Runs == nil || cfg.Cluster == nil || cfg.Vitals == nil:
		return nil, errors.New("api: Config needs Jobs, Calendars, Runs, Cluster and Vitals")
	case cfg.Member == "":
		return nil, errors.New("api: Config needs the name of the member")
	}
	log := cfg.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Server{cfg: cfg, log: log, healthEvery: healthEvery, stopping: make(chan struct{})}, nil
}

// Register adds the services, health and, if r can show what it serves, reflection to a server that was
// made with Options.
func (s *Server) Register(r grpc.ServiceRegistrar) {
	quorumcronv1.RegisterJobServiceServer(r, &jobService{Server: s})
	quorumcronv1.RegisterCalendarServiceServer(r, &calendarService{Server: s})
	quorumcronv1.RegisterRunServiceServer(r, &runService{Server: s})
	quorumcronv1.RegisterClusterServiceServer(r, &clusterService{Server: s})
	healthv1.RegisterHealthServer(r, &healthService{Server: s})
	if g, ok := r.(reflection.GRPCServer); ok {
		reflection.Register(g)
	}
}

// Options are the interceptors and bounds that the services count on.
func (s *Server) Options() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.UnaryInterceptor(s.unary),
		grpc.StreamInterceptor(s.stream),
		grpc.MaxRecvMsgSize(maxRequest),
		grpc.MaxHeaderListSize(maxHeaders),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.ConnectionTimeout(10 * time.Second),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			MinTime: 5 * time.Second, PermitWithoutStream: true,
		}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
	}
}

// Serve answers calls that arrive at l until ctx ends, which is no error. It stops taking calls at once,
// ends the streams, gives other calls stopGrace to finish, and returns when all have. A server serves
// once.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	g := grpc.NewServer(s.Options()...)
	s.Register(g)
	served := make(chan error, 1)
	go func() { served <- g.Serve(l) }()
	select {
	case err := <-served:
		s.stopStreams()
		g.Stop()
		return fmt.Errorf("serve grpc on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	s.stopStreams()
	limit := time.AfterFunc(stopGrace, g.Stop)
	g.GracefulStop()
	limit.Stop()
	<-served
	return nil
}

func (s *Server) stopStreams() { s.stopOnce.Do(func() { close(s.stopping) }) }
