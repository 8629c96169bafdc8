package store

import (
	"context"
	"fmt"
	"time"

	"github.com/quorumcron/quorumcron/scheduler"
)

// turnPause spaces the changes of calendars that one member makes. Each moves the rules, which refuses the
// claims that are under way everywhere: whoever changes many of them in a row, close to etcd, would keep
// members that are further away from claiming anything for as long as it lasts.
const turnPause = 100 * time.Millisecond

// turns has calendars changed one after the other.
type turns struct {
	token chan struct{} // size 1: whoever has it may move the rules
	moved bool          // they have been; only who has the token touches it
}

// turn waits until it is the caller's. The caller ends it; if it has moved the rules the next one begins
// turnPause later.
func (s *Store) turn(ctx context.Context) (end func(), err error) {
	select {
	case <-s.turns.token:
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: too many calendars are being changed; try again: %w", scheduler.ErrUnavailable, context.Cause(ctx))
	}
	s.turns.moved = false
	return func() {
		pass := func() { s.turns.token <- struct{}{} } // nobody else has put one: it never blocks
		if s.turns.moved {
			time.AfterFunc(turnPause, pass)
		} else {
			pass()
		}
	}, nil
}
