package api

import (
	"context"
	"fmt"

	quorumcronv1 "github.com/quorumcron/quorumcron/proto/quorumcron/v1"
)

// clusterService serves quorumcron.v1.ClusterService.
type clusterService struct {
	quorumcronv1.UnimplementedClusterServiceServer
	*Server
}

func (s *clusterService) Status(
	ctx context.Context, _ *quorumcronv1.ClusterServiceStatusRequest,
) (*quorumcronv1.ClusterServiceStatusResponse, error) {
	status, err := s.cfg.Cluster.Status(ctx)
	if err != nil {
		return nil, fmt.Errorf("cluster status: %w", err)
	}
	return statusToProto(status, s.cfg.Version), nil
}

func (s *clusterService) ListMembers(
	ctx context.Context, _ *quorumcronv1.ClusterServiceListMembersRequest,
) (*quorumcronv1.ClusterServiceListMembersResponse, error) {
	members, err := s.cfg.Cluster.Members(ctx)
	if err != nil {
		return nil, fmt.Errorf("list members: %w", err)
	}
	return &quorumcronv1.ClusterServiceListMembersResponse{Members: membersToProto(members)}, nil
}

func (s *clusterService) Drain(
	ctx context.Context, r *quorumcronv1.ClusterServiceDrainRequest,
) (*quorumcronv1.ClusterServiceDrainResponse, error) {
	if asked := r.GetMember(); asked != "" && asked != s.cfg.Member {
		return nil, fmt.Errorf("drain member %s: %w: this is %s; call %s at its own address",
			asked, errOtherMember, s.cfg.Member, asked)
	}
	already, err := s.cfg.Cluster.Drain(ctx)
	if err != nil {
		return nil, fmt.Errorf("drain member %s: %w", s.cfg.Member, err)
	}
	return &quorumcronv1.ClusterServiceDrainResponse{Member: s.cfg.Member, Already: already}, nil
}
