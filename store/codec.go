package store

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/quorumcron/quorumcron/proto/quorumcron/stored/v1"
	"github.com/quorumcron/quorumcron/scheduler"
)

// errUnreadable is what every value that cannot be read comes with. It quarantines one record and
// nothing else.
var errUnreadable = errors.New("unreadable")

func unreadable(format string, a ...any) error {
	return fmt.Errorf("%w: %w", errUnreadable, fmt.Errorf(format, a...))
}

// marshalling is deterministic so that rewriting an unchanged value writes the same bytes.
var marshalling = proto.MarshalOptions{Deterministic: true}

func marshal(m proto.Message) (string, error) {
	value, err := marshalling.Marshal(m)
	return string(value), err
}

func unmarshal(value []byte, m proto.Message) error {
	if err := proto.Unmarshal(value, m); err != nil {
		return unreadable("%w", err)
	}
	return nil
}

// decoder reads the parts of a message that can be out of range and remembers the first problem.
type decoder struct{ err error }

func (d *decoder) fail(format string, a ...any) {
	if d.err == nil {
		d.err = unreadable(format, a...)
	}
}

func (d *decoder) time(what string, t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	if err := t.CheckValid(); err != nil {
		d.fail("%s: %w", what, err)
	}
	return t.AsTime()
}

func (d *decoder) duration(what string, t *durationpb.Duration) time.Duration {
	if t == nil {
		return 0
	}
	if err := t.CheckValid(); err != nil {
		d.fail("%s: %w", what, err)
	}
	return t.AsDuration()
}

func (d *decoder) atLeast(what string, least, n int64) {
	if n < least {
		d.fail("%s is %d, less than %d", what, n, least)
	}
}

// encoder writes what may have no stored form and remembers the first problem.
type encoder struct{ err error }

func encodeWord[E ~int32, W ~string](e *encoder, w words[W], word W) E {
	n, err := w.number(word)
	if err != nil && e.err == nil {
		e.err = err
	}
	return E(n)
}

func encodeTime(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

func encodeDuration(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

func encodeFiring(f scheduler.Firing) *storedv1.Firing {
	if f.Manual() {
		return &storedv1.Firing{Trigger: f.Trigger}
	}
	return &storedv1.Firing{Scheduled: f.Scheduled}
}

func decodeFiring(uid string, m *storedv1.Firing) scheduler.Firing {
	if m.GetTrigger() != "" {
		return scheduler.Triggered(uid, m.GetTrigger())
	}
	return scheduler.Firing{UID: uid, Scheduled: m.GetScheduled()}
}
