package api

import (
	quorumcronv1 "github.com/quorumcron/quorumcron/proto/quorumcron/v1"
	"github.com/quorumcron/quorumcron/scheduler"
)

// statusToProto writes the cluster's status as the member of this version sees it.
func statusToProto(s scheduler.ClusterStatus, version string) *quorumcronv1.ClusterServiceStatusResponse {
	p := &quorumcronv1.ClusterServiceStatusResponse{
		Dispatcher:  s.Dispatcher,
		Members:     membersToProto(s.Members),
		ShardsOwned: int32(s.ShardsOwned),
		Unaccounted: s.Unaccounted,
		Ready:       s.Readiness.Ready,
		Reasons:     s.Readiness.Reasons(),
		Member:      s.Member,
		Version:     version,
		ClusterId:   s.ClusterID,
		Format:      s.Format,
		Etcd:        etcdToProto(s.Etcd),
		Warnings:    s.Warnings,
		Now:         timestamp(s.Now),
	}
	for _, q := range s.Quarantined {
		p.Quarantined = append(p.Quarantined, &quorumcronv1.QuarantinedRecord{
			Key: text(q.Key), Problem: text(q.Problem),
		})
	}
	return p
}

func membersToProto(members []scheduler.MemberView) []*quorumcronv1.Member {
	var list []*quorumcronv1.Member
	for _, v := range members {
		m := v.Member
		list = append(list, &quorumcronv1.Member{
			Name:        m.Name,
			Incarnation: m.Incarnation,
			Labels:      m.Labels,
			Handlers:    m.Handlers,
			GrpcAddress: m.GRPCAddress,
			HttpAddress: m.HTTPAddress,
			Capacity:    int32(m.Capacity),
			Draining:    m.Draining,
			Version:     m.Version,
			FormatMin:   m.FormatMin,
			FormatMax:   m.FormatMax,
			TzData:      m.TZData,
			BootId:      m.BootID,
			ShardsOwned: int32(v.ShardsOwned),
			Dispatcher:  v.Dispatcher,
		})
	}
	return list
}

func etcdToProto(e *scheduler.EtcdHealth) *quorumcronv1.Etcd {
	if e == nil {
		return nil
	}
	return &quorumcronv1.Etcd{
		Endpoints:       e.Endpoints,
		Version:         e.Version,
		Revision:        e.Revision,
		CompactRevision: e.CompactRevision,
		DbSizeBytes:     e.DBSize,
		DbInUseBytes:    e.DBInUse,
		DbQuotaBytes:    e.DBQuota,
		Alarms:          e.Alarms,
		Members:         int32(e.Members),

		DbQuotaSharePercent: int32(e.Share()),
		Space:               string(e.Space),
	}
}
