package store

import (
	"fmt"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/quorumcron/quorumcron/proto/quorumcron/stored/v1"
)

// kept remembers the values, by key and revision, in which a newer member wrote fields that this
// version does not know, so that they survive a rewrite that was planned on that very revision. A
// cluster of one version has none, and then it costs nothing to write. It is safe for concurrent use.
type kept struct {
	mu     sync.Mutex
	values map[string]keptValue
}

type keptValue struct {
	revision int64
	message  proto.Message
}

// read takes in a value that was read; strange says whether it has unknown fields.
func (k *kept) read(key string, revision int64, m proto.Message, strange bool) {
	k.note(key, revision, m, strange)
}

// wrote takes in a value that was written; carried is what carry said of it.
func (k *kept) wrote(key string, revision int64, m proto.Message, carried bool) {
	k.note(key, revision, m, carried)
}

func (k *kept) note(key string, revision int64, m proto.Message, strange bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	old, known := k.values[key]
	switch {
	case known && old.revision >= revision:
	case strange:
		if k.values == nil {
			k.values = map[string]keptValue{}
		}
		k.values[key] = keptValue{revision, m}
	case known:
		delete(k.values, key)
	}
}

// forget drops what is kept for a key that is gone.
func (k *kept) forget(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.values, key)
}

// carry adds what is kept of the value at the revision to the message that will replace it, and says
// whether there was anything.
func (k *kept) carry(key string, revision int64, to proto.Message) bool {
	k.mu.Lock()
	old, ok := k.values[key]
	k.mu.Unlock()
	if !ok || old.revision != revision {
		return false
	}
	carryUnknown(old.message, to)
	return true
}

// carryNewest is carry for values whose revision is guarded otherwise: all rules by rules/head.
func (k *kept) carryNewest(key string, to proto.Message) bool {
	k.mu.Lock()
	old, ok := k.values[key]
	k.mu.Unlock()
	if ok {
		carryUnknown(old.message, to)
	}
	return ok
}

// hasUnknown says whether m, or a message in it, has fields that this version does not know.
func hasUnknown(m protoreflect.Message) bool {
	if len(m.GetUnknown()) > 0 {
		return true
	}
	strange := false
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.IsMap() || fd.Message() == nil:
		case fd.IsList():
			for i := range v.List().Len() {
				strange = strange || hasUnknown(v.List().Get(i).Message())
			}
		default:
			strange = hasUnknown(v.Message())
		}
		return !strange
	})
	return strange
}

// stateHasUnknown is hasUnknown for a state without reflection over its fields: a member that takes
// over a million jobs reads a million of them.
func stateHasUnknown(m *storedv1.State) bool {
	strange := unknownIn(m)
	if m.Backlog != nil {
		strange = strange || unknownIn(m.Backlog)
	}
	for _, e := range m.Entries {
		strange = strange || unknownIn(e) || unknownIn(e.GetFiring()) || linesHaveUnknown(e.Past)
	}
	for _, r := range m.Retries {
		strange = strange || unknownIn(r) || unknownIn(r.GetFiring()) || linesHaveUnknown(r.Past)
	}
	for _, r := range m.Ranges {
		strange = strange || unknownIn(r)
	}
	for _, c := range m.Counters {
		strange = strange || unknownIn(c)
	}
	return strange
}

func linesHaveUnknown(lines []*storedv1.Attempt) bool {
	return slices.ContainsFunc(lines, func(a *storedv1.Attempt) bool { return unknownIn(a) })
}

// unknownIn looks at m alone, not at the messages in it.
func unknownIn(m proto.Message) bool { return len(m.ProtoReflect().GetUnknown()) > 0 }

// carryUnknown copies the unknown fields of a value into the one that replaces it, message by
// message. Elements of lists are paired by what identifies them, not by their place; an element
// that is gone takes its unknown fields along.
func carryUnknown(from, to proto.Message) {
	carryMessage(from.ProtoReflect(), to.ProtoReflect())
}

func carryMessage(from, to protoreflect.Message) {
	if unknown := from.GetUnknown(); len(unknown) > 0 {
		to.SetUnknown(append(append(protoreflect.RawFields{}, to.GetUnknown()...), unknown...))
	}
	from.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.IsMap() || fd.Message() == nil || !to.Has(fd):
		case fd.IsList():
			carryList(v.List(), to.Get(fd).List())
		default:
			carryMessage(v.Message(), to.Mutable(fd).Message())
		}
		return true
	})
}

func carryList(from, to protoreflect.List) {
	byIdentity := map[string]protoreflect.Message{}
	for i := range from.Len() {
		m := from.Get(i).Message()
		byIdentity[identity(m.Interface())] = m
	}
	delete(byIdentity, "")
	for i := range to.Len() {
		m := to.Get(i).Message()
		if old, ok := byIdentity[identity(m.Interface())]; ok {
			carryMessage(old, m)
		}
	}
}

// identity is what makes an element of a list the same one after a rewrite; "" for elements that
// have no identity.
func identity(m proto.Message) string {
	switch m := m.(type) {
	case *storedv1.Entry:
		return fmt.Sprint(m.GetFiring().GetScheduled(), m.GetFiring().GetTrigger(), m.GetAttempt())
	case *storedv1.PendingRetry:
		return fmt.Sprint(m.GetFiring().GetScheduled(), m.GetFiring().GetTrigger(), m.GetAttempt())
	case *storedv1.Range:
		return fmt.Sprint(m.GetVerdict(), m.GetReason(), m.GetTrigger(), m.GetFirst().GetSeconds())
	case *storedv1.Counter:
		return fmt.Sprint(m.GetVerdict(), m.GetReason())
	case *storedv1.CalendarVersion:
		return fmt.Sprint(m.GetSince().GetSeconds())
	case *storedv1.Attempt:
		return fmt.Sprint(m.GetNumber())
	}
	return ""
}
