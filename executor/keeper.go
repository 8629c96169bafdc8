package executor

import (
	"context"
	"sync/atomic"

	"github.com/quorumcron/quorumcron/scheduler"
)

// supervised says that this program called Supervise, and so can be re-executed as the supervisor.
var supervised atomic.Bool

// Supervise must be the first call in main of a program that runs commands. In the program itself it
// returns at once; re-executed as the supervisor it never returns.
func Supervise() { supervised.Store(true) }

type keeper struct{}

func newKeeper(Config) *keeper { return &keeper{} }

func (k *keeper) run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func (e *Executor) runCommand(context.Context, Attempt, func() scheduler.LockLife) Result {
	if e.noCmd != nil {
		return startError(e.noCmd.Error())
	}
	return startError("the supervisor is not running")
}
