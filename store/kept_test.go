package store

import (
	"bytes"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/quorumcron/quorumcron/proto/quorumcron/stored/v1"
)

// strange marks a message with a field that this version does not know.
func strange[M proto.Message](m M, text string) M {
	raw := protowire.AppendTag(m.ProtoReflect().GetUnknown(), 9000, protowire.BytesType)
	m.ProtoReflect().SetUnknown(protowire.AppendString(raw, text))
	return m
}

func isStrange(m proto.Message, text string) bool {
	return bytes.Contains(m.ProtoReflect().GetUnknown(), []byte(text))
}

func TestUnknownFieldsFollowWhatTheyBelongTo(t *testing.T) {
	t.Parallel()
	at := func(s int64) *storedv1.Firing { return &storedv1.Firing{Scheduled: s} }
	old := strange(&storedv1.State{
		Uid: "uid", Backlog: strange(&storedv1.Backlog{Count: 1}, "backlog"),
		Entries: []*storedv1.Entry{
			strange(&storedv1.Entry{Firing: at(1), Attempt: 1}, "entry 1"),
			strange(&storedv1.Entry{Firing: at(2), Attempt: 1, Past: []*storedv1.Attempt{strange(&storedv1.Attempt{Number: 1}, "past")}}, "entry 2"),
		},
		Counters: []*storedv1.Counter{strange(&storedv1.Counter{Verdict: storedv1.Verdict_VERDICT_LOST, Count: 1}, "lost")},
		Ranges: []*storedv1.Range{
			strange(&storedv1.Range{First: encodeTime(time.Unix(7, 0)), Last: encodeTime(time.Unix(8, 0))}, "range"),
		},
	}, "state")
	fresh := &storedv1.State{
		Uid: "uid",
		Entries: []*storedv1.Entry{
			{Firing: at(2), Attempt: 1, Past: []*storedv1.Attempt{{Number: 1}}},
			{Firing: at(1), Attempt: 2},
		},
		Counters: []*storedv1.Counter{{Verdict: storedv1.Verdict_VERDICT_FAILED, Count: 1}, {Verdict: storedv1.Verdict_VERDICT_LOST, Count: 2}},
		Ranges:   []*storedv1.Range{{First: encodeTime(time.Unix(7, 0)), Last: encodeTime(time.Unix(9, 0))}},
	}
	carryUnknown(old, fresh)
	for what, ok := range map[string]bool{
		"the state keeps its field":                     isStrange(fresh, "state"),
		"an entry keeps it in another place":            isStrange(fresh.Entries[0], "entry 2"),
		"a line in an entry keeps it":                   isStrange(fresh.Entries[0].Past[0], "past"),
		"a further attempt is not the former one":       !isStrange(fresh.Entries[1], "entry 1"),
		"a counter keeps it":                            isStrange(fresh.Counters[1], "lost"),
		"another counter does not get it":               !hasUnknown(fresh.Counters[0].ProtoReflect()),
		"a range that was extended keeps it":            isStrange(fresh.Ranges[0], "range"),
		"what is gone takes it along":                   fresh.Backlog == nil,
		"the value that was read is as it was":          isStrange(old.Entries[0], "entry 1"),
		"fields are found in messages of messages":      hasUnknown((&storedv1.State{Entries: old.Entries}).ProtoReflect()),
		"a value of this version has no unknown fields": !hasUnknown((&storedv1.State{Entries: []*storedv1.Entry{{Firing: at(1)}}}).ProtoReflect()),
	} {
		if !ok {
			t.Errorf("not so: %s\n%v", what, fresh)
		}
	}
}

func TestUnknownFieldsAreKeptForOneRevisionOnly(t *testing.T) {
	t.Parallel()
	var k kept
	carried := func(revision int64) bool {
		fresh := &storedv1.State{Uid: "uid"}
		k.carry("key", revision, fresh)
		return isStrange(fresh, "x")
	}
	k.read("key", 5, strange(&storedv1.State{}, "x"), true)
	if !carried(5) || carried(4) || carried(6) {
		t.Errorf("carried at 5, 4, 6: got %v, %v, %v, want only the first", carried(5), carried(4), carried(6))
	}
	k.read("key", 4, &storedv1.State{}, false) // A read that was overtaken.
	if !carried(5) {
		t.Error("an older value without unknown fields made them forgotten")
	}
	k.wrote("key", 7, &storedv1.State{}, false)
	if carried(5) || carried(7) || len(k.values) != 0 {
		t.Errorf("a newer value without unknown fields left %v", k.values)
	}
	k.wrote("key", 8, strange(&storedv1.State{}, "x"), true)
	k.forget("key")
	if len(k.values) != 0 {
		t.Errorf("forgetting left %v", k.values)
	}
}

// TestUnknownFieldsOfAStateAreFoundWhereverTheyAre marks every message of a state in turn.
func TestUnknownFieldsOfAStateAreFoundWhereverTheyAre(t *testing.T) {
	t.Parallel()
	whole := func() (*storedv1.State, []proto.Message) {
		m := &storedv1.State{
			Backlog:  &storedv1.Backlog{},
			Entries:  []*storedv1.Entry{{Firing: &storedv1.Firing{}, Past: []*storedv1.Attempt{{}}}},
			Retries:  []*storedv1.PendingRetry{{Firing: &storedv1.Firing{}, Past: []*storedv1.Attempt{{}}}},
			Ranges:   []*storedv1.Range{{}},
			Counters: []*storedv1.Counter{{}},
		}
		return m, []proto.Message{
			m, m.Backlog, m.Entries[0], m.Entries[0].Firing, m.Entries[0].Past[0], m.Retries[0], m.Retries[0].Firing,
			m.Retries[0].Past[0], m.Ranges[0], m.Counters[0],
		}
	}
	m, parts := whole()
	if stateHasUnknown(m) || hasUnknown(m.ProtoReflect()) {
		t.Error("unknown fields were found where there are none")
	}
	for i := range parts {
		m, parts := whole()
		strange(parts[i], "x")
		if !stateHasUnknown(m) || !hasUnknown(m.ProtoReflect()) {
			t.Errorf("the unknown field of a %T was not found", parts[i])
		}
	}
}
