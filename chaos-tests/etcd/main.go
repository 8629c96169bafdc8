// Command etcd is one etcd member in a process of its own, for tests that kill and freeze it. It gets
// its settings in the environment, says on standard output when it is ready and where it listens, and
// ends at SIGTERM or when the process that started it does. It leaves everything to devetcd; it exists
// so that the tests' own binary does not link the server.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/quorumcron/quorumcron/internal/devetcd"
)

func main() {
	devetcd.RunIfMember(context.Background()) // does not return if this process has settings
	fmt.Fprintln(os.Stderr, "etcd: for chaos-tests only; its settings come in the environment")
	os.Exit(2)
}
