// Command handlers is a member that embeds the library: its jobs are Go functions, not processes, so
// that a small machine runs a thousand of them each second. The one handler, "note", writes down what
// the witness program does, in the same form and to the same places. It is meant to be killed, and
// leaves judging to package history.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quorumcron/quorumcron/election"
	"github.com/quorumcron/quorumcron/executor"
	"github.com/quorumcron/quorumcron/node"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "handlers:", err)
		os.Exit(1)
	}
}

func run() error {
	name := flag.String("name", "", "name of the member")
	etcd := flag.String("etcd", "", "endpoint of etcd")
	ttl := flag.Duration("session-ttl", 3*time.Second, "life of the member's leases")
	flag.Parse()
	log, err := os.OpenFile(os.Getenv("WITNESS_LOG"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	client, err := election.Dial(election.DialConfig{Endpoints: []string{*etcd}, Logger: logger})
	if err != nil {
		return err
	}
	defer client.Close()
	member, err := node.New(node.Config{Name: *name, Client: client, SessionTTL: *ttl, Logger: logger})
	if err != nil {
		return err
	}
	w := &writer{log: log, node: os.Getenv("WITNESS_NODE")}
	member.Handle("note", func(ctx context.Context, _ executor.Identity) error { return w.note(ctx) })
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return member.Run(ctx)
}

type writer struct {
	log   *os.File
	node  string
	drawn atomic.Int64
}

// note is the handler: it starts and ends.
func (w *writer) note(ctx context.Context) error {
	id, ok := executor.IdentityFrom(ctx)
	if !ok {
		return fmt.Errorf("no identity in the context")
	}
	nonce := fmt.Sprintf("%d-%d", os.Getpid(), w.drawn.Add(1))
	if err := w.write("start", nonce, id); err != nil {
		return err
	}
	return w.write("end", nonce, id)
}

func (w *writer) write(event, nonce string, id executor.Identity) error {
	var boot unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot); err != nil {
		return err
	}
	instant := ""
	if !id.Firing.Manual() {
		instant = id.Firing.Instant().Format(time.RFC3339)
	}
	b := fmt.Appendf(make([]byte, 0, 512),
		`{"ev":%q,"boot":%d,"wall":%d,"node":%q,"namespace":%q,"job":%q,"firing":%q,"instant":%q,"attempt":%q,"token":%q,"member":%q,"pid":%d,"nonce":%q,"child":false,"exit":0}`+"\n",
		event, boot.Nano(), time.Now().UnixNano(), w.node, id.Job.Namespace, id.Job.Name, id.Firing.String(), instant,
		strconv.Itoa(id.Attempt), strconv.FormatInt(id.Token, 10), id.Member, os.Getpid(), nonce)
	_, err := w.log.Write(b)
	return err
}
