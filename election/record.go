package election

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"

	storedv1 "github.com/quorumcron/quorumcron/proto/quorumcron/stored/v1"
	"github.com/quorumcron/quorumcron/scheduler"
)

// encodeMember returns the value of a member key. Name and incarnation are not in it: they are the
// key's own name and create revision, so that neither can be wrong.
func encodeMember(m scheduler.Member) (string, error) {
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(&storedv1.Member{
		Labels:      m.Labels,
		Handlers:    m.Handlers,
		GrpcAddress: m.GRPCAddress,
		HttpAddress: m.HTTPAddress,
		Capacity:    int32(m.Capacity),
		Draining:    m.Draining,
		Version:     m.Version,
		FormatMin:   m.FormatMin,
		FormatMax:   m.FormatMax,
		Tzdata:      m.TZData,
		BootId:      m.BootID,
	})
	if err != nil {
		return "", fmt.Errorf("encode member %s: %w", m.Name, err)
	}
	return string(raw), nil
}

// decodeMember reads a member key.
func decodeMember(prefix string, kv *mvccpb.KeyValue) (scheduler.Member, error) {
	var stored storedv1.Member
	if err := proto.Unmarshal(kv.Value, &stored); err != nil {
		return scheduler.Member{}, fmt.Errorf("read %s: %w", kv.Key, err)
	}
	return scheduler.Member{
		Name:           strings.TrimPrefix(string(kv.Key), prefix),
		Incarnation:    kv.CreateRevision,
		Labels:         maps.Clone(stored.GetLabels()),
		Handlers:       slices.Clone(stored.GetHandlers()),
		GRPCAddress:    stored.GetGrpcAddress(),
		HTTPAddress:    stored.GetHttpAddress(),
		Capacity:       int(stored.GetCapacity()),
		Draining:       stored.GetDraining(),
		Version:        stored.GetVersion(),
		FormatMin:      stored.GetFormatMin(),
		FormatMax:      stored.GetFormatMax(),
		TZData:         stored.GetTzdata(),
		BootID:         stored.GetBootId(),
		CreateRevision: kv.CreateRevision,
	}, nil
}

// copyMember copies a member deeply enough that a caller may change it.
func copyMember(m scheduler.Member) scheduler.Member {
	m.Labels = maps.Clone(m.Labels)
	m.Handlers = slices.Clone(m.Handlers)
	return m
}
