package api

import (
	"context"
	"fmt"
	"time"

	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"

	quorumcronv1 "github.com/quorumcron/quorumcron/proto/quorumcron/v1"
	"github.com/quorumcron/quorumcron/scheduler"
)

// healthService serves grpc.health.v1.Health for the server ("") and for each of its services. All follow
// the member's readiness, as /readyz does.
type healthService struct {
	healthv1.UnimplementedHealthServer
	*Server
}

// healthNames are the services whose health can be asked for.
var healthNames = []string{
	"",
	quorumcronv1.ClusterService_ServiceDesc.ServiceName,
	quorumcronv1.JobService_ServiceDesc.ServiceName,
	quorumcronv1.RunService_ServiceDesc.ServiceName,
}

func (s *healthService) Check(
	_ context.Context, r *healthv1.HealthCheckRequest,
) (*healthv1.HealthCheckResponse, error) {
	answer := s.health(r.GetService())
	if answer.Status == healthv1.HealthCheckResponse_SERVICE_UNKNOWN {
		return nil, fmt.Errorf("health of service %q: %w", r.GetService(), scheduler.ErrNotFound)
	}
	return answer, nil
}

func (s *healthService) List(
	context.Context, *healthv1.HealthListRequest,
) (*healthv1.HealthListResponse, error) {
	statuses := make(map[string]*healthv1.HealthCheckResponse)
	for _, name := range healthNames {
		statuses[name] = s.health(name)
	}
	return &healthv1.HealthListResponse{Statuses: statuses}, nil
}

// Watch sends the health now, and again whenever it has changed. An unknown service is answered as such
// and kept, since the protocol allows for services that come later.
func (s *healthService) Watch(r *healthv1.HealthCheckRequest, stream healthv1.Health_WatchServer) error {
	look := time.NewTicker(s.healthEvery)
	defer look.Stop()
	var told *healthv1.HealthCheckResponse
	for {
		if now := s.health(r.GetService()); !proto.Equal(now, told) {
			if err := stream.Send(now); err != nil {
				return err
			}
			told = now
		}
		select {
		case <-stream.Context().Done():
			return context.Cause(stream.Context())
		case <-look.C:
		}
	}
}

func (s *healthService) health(service string) *healthv1.HealthCheckResponse {
	answer := &healthv1.HealthCheckResponse{Status: healthv1.HealthCheckResponse_SERVICE_UNKNOWN}
	for _, name := range healthNames {
		switch {
		case name != service:
		case s.cfg.Vitals.Ready().Ready:
			answer.Status = healthv1.HealthCheckResponse_SERVING
		default:
			answer.Status = healthv1.HealthCheckResponse_NOT_SERVING
		}
	}
	return answer
}
