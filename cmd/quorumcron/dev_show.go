package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/quorumcron/quorumcron/internal/jobfile"
	"github.com/quorumcron/quorumcron/node"
	"github.com/quorumcron/quorumcron/scheduler"
)

// banner says what runs, where, and what to try.
func (o *devOptions) banner(ctx context.Context, c *console, members []*member, docs []*jobfile.Document, took time.Duration) {
	kept := "nothing is kept (--data-dir keeps it)"
	if o.dataDir != "" {
		kept = "kept in " + o.dataDir
	}
	nodes := "one node"
	if len(members) > 1 {
		nodes = fmt.Sprintf("%d nodes", len(members))
	}
	server := ""
	if address := members[0].grpc.Addr().String(); address != "127.0.0.1:7460" {
		server = " --server " + address
	}
	var names, others []string
	for _, doc := range docs {
		names = append(names, doc.Job.GetName())
	}
	if len(names) > 8 {
		names = append(names[:8], fmt.Sprintf("and %d more", len(docs)-8))
	}
	for _, m := range members[1:] {
		others = append(others, fmt.Sprintf("%s %s", m.name, m.grpc.Addr()))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "quorumcron %s · development mode, %s, %s\n\n", thisBuild().Version, nodes, kept)
	fmt.Fprintf(&b, "  gRPC     %s\n", members[0].grpc.Addr())
	fmt.Fprintf(&b, "  HTTP     http://%s  (/healthz /readyz /metrics)\n", members[0].http.Addr())
	if len(others) > 0 {
		fmt.Fprintf(&b, "  more     %s\n", strings.Join(others, ", "))
	}
	fmt.Fprintf(&b, "  etcd     in this process, with fsync\n\n")
	fmt.Fprintf(&b, "  Ready after %s%s. Jobs: %s.\n", span(took), dispatcherOf(ctx, members[0].node), strings.Join(names, ", "))
	fmt.Fprintf(&b, "  Try in another terminal:\n")
	for _, line := range []string{"job list", "job show " + docs[0].Job.GetName(), "job trigger " + docs[0].Job.GetName(), "run list", "cluster status"} {
		fmt.Fprintf(&b, "    quorumcron %s%s\n", line, server)
	}
	fmt.Fprintf(&b, "  Ctrl-C ends it. Each run is shown as it ends:\n\n")
	_, _ = c.out.Write([]byte(b.String())) // Nobody reads along: the jobs run all the same.
}

func dispatcherOf(ctx context.Context, n *node.Node) string {
	status, err := n.Status(ctx)
	if err != nil || status.Dispatcher == "" {
		return ""
	}
	return ", dispatcher is " + status.Dispatcher
}

// runLines writes one line for each run that ends, whichever node it ran on.
type runLines struct {
	console *console
	mu      sync.Mutex // guards the console's out: nodes report at the same time
}

// follow writes the runs of one node until ctx ends.
func (l *runLines) follow(ctx context.Context, n *node.Node) {
	_ = n.WatchRuns(ctx, func(e scheduler.RunEvent) error { // It ends with ctx, and deliver never fails.
		l.mu.Lock()
		defer l.mu.Unlock()
		if e.Missed > 0 {
			fmt.Fprintf(l.console.out, "… %d events were not shown\n", e.Missed)
		}
		if e.Finished {
			fmt.Fprintln(l.console.out, l.line(e.Run))
		}
		return nil
	})
}

// line is one ended attempt: when, which, how, how long, where, and the last it said.
func (l *runLines) line(r scheduler.Run) string {
	a := r.Last()
	verdict := l.console.verdict(string(a.Verdict))
	pad := strings.Repeat(" ", max(0, 9-len(a.Verdict)))
	what := "triggered"
	if !r.Firing.Manual() {
		what = "due " + r.Firing.Instant().Format("15:04:05Z")
	}
	took := "-"
	if !a.Started.IsZero() && !a.Finished.IsZero() {
		took = span(a.Finished.Sub(a.Started))
	}
	last := lastLine(r.Output)
	switch {
	case a.Message != "":
		last = "(" + lastLine([]byte(a.Message)) + ") " + last
	case a.Reason != "":
		last = "(" + string(a.Reason) + ") " + last
	}
	return strings.TrimRight(fmt.Sprintf("%s  %-10s %-13s %s%s %6s  %-6s %s", l.console.now().Format("15:04:05"),
		r.Job.Name, what, verdict, pad, took, a.Member, last), " ")
}

// lastLine is the last line of output that says anything, fit for a terminal.
func lastLine(output []byte) string {
	lines := bytes.Split(bytes.TrimSpace(output), []byte("\n"))
	text := []rune(strings.ToValidUTF8(string(bytes.TrimSpace(lines[len(lines)-1])), "·"))
	for i, r := range text {
		if !unicode.IsPrint(r) {
			text[i] = '·'
		}
	}
	if len(text) > 80 {
		text = append(text[:80], '…')
	}
	return string(text)
}
