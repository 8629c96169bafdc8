// Command quorumcron is cron for a fleet: `quorumcron dev` tries it on this machine, `quorumcron start`
// runs one node of a cluster, and all other commands are a client of one.
//
// Each command is one file: an options struct, its flags, and a run function that gets a context and
// the console. Nothing is global, so that tests run commands side by side. What a command prints on
// stdout is its result, as a table or as the API's message; everything else goes to stderr. How a
// command ended is its exit code, mapped in one place, exit.go.
//
// The program holds no logic of its own: it turns flags into configuration, constructs, and runs.
package main

import (
	"context"
	"os"

	"github.com/quorumcron/quorumcron/executor"
)

func main() {
	// First of all, before anything of etcd or gRPC is initialised: if this process was started to be
	// the supervisor of a node's commands, it becomes that and never returns.
	executor.Supervise()
	os.Exit(execute(context.Background(), os.Args[1:], terminalConsole()))
}
