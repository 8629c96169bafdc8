package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorumcron/quorumcron/api"
	"github.com/quorumcron/quorumcron/election"
	"github.com/quorumcron/quorumcron/internal/devetcd"
	"github.com/quorumcron/quorumcron/internal/jobfile"
	"github.com/quorumcron/quorumcron/node"
)

//go:embed samples.yaml
var samples []byte

//go:embed sample_calendars.yaml
var sampleCalendars []byte

// devOptions are the flags of `dev`.
type devOptions struct {
	nodes              int
	jobs, calendars    string
	dataDir            string
	grpcAddr, httpAddr string
	level              levelFlag
}

func newDev(c *console) *cobra.Command {
	o := &devOptions{level: levelFlag{slog.LevelError}}
	cmd := &cobra.Command{
		Use: "dev", Short: "Try it: etcd, nodes and sample jobs in this one process", Args: exactly(),
		Long: "Try it: an etcd member, some nodes and a few sample jobs in this one process, on loopback only.\n" +
			"Each run is shown as it ends. Ctrl-C ends it and leaves nothing behind, unless --data-dir keeps it.",
		Example: "  quorumcron dev\n  quorumcron dev --nodes 5 --calendars calendars/ --jobs jobs/",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.complain(); err != nil {
				return err
			}
			return o.run(cmd.Context(), c)
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.nodes, "nodes", 3, "how many nodes, 1 to 9")
	f.StringVar(&o.jobs, "jobs", "", "file or folder of jobs to apply instead of the samples")
	f.StringVar(&o.calendars, "calendars", "", "file or folder of calendars to apply before the jobs")
	f.StringVar(&o.dataDir, "data-dir", "", "keep everything in this folder, and go on with what is in it")
	f.StringVar(&o.grpcAddr, "grpc-addr", "127.0.0.1:7460", "where the first node's API listens; the others choose a port")
	f.StringVar(&o.httpAddr, "http-addr", "127.0.0.1:7461", "where the first node's /healthz, /readyz and /metrics listen")
	f.Var(&o.level, "log-level", "least level of what is logged")
	return cmd
}

func (o *devOptions) complain() error {
	var errs []error
	if o.nodes < 1 || o.nodes > 9 {
		errs = append(errs, fmt.Errorf("--nodes %d: must be from 1 to 9", o.nodes))
	}
	// There is no --insecure here: what is tried on a machine stays on it.
	for _, a := range []struct{ flag, address string }{{"--grpc-addr", o.grpcAddr}, {"--http-addr", o.httpAddr}} {
		if err := api.CheckListen(a.flag, a.address, false); err != nil {
			errs = append(errs, errors.New(strings.Split(err.Error(), ", or add --insecure")[0]))
		}
	}
	if len(errs) > 0 {
		return invalid(errors.Join(errs...))
	}
	return nil
}

// readFiles reads what is to be applied before anything is started, so that a typo costs no time.
func (o *devOptions) readFiles(c *console) (calendars, jobs []*jobfile.Document, err error) {
	read := func(file string, sources []jobfile.Source, options jobfile.Options) (docs []*jobfile.Document) {
		if file != "" && err == nil {
			sources, err = jobfile.Read(file, c.in)
		}
		if len(sources) > 0 && err == nil {
			docs, err = jobfile.Parse(sources, options)
		}
		return docs
	}
	var ours, theirs []jobfile.Source
	if o.jobs == "" {
		ours = []jobfile.Source{{Name: "samples.yaml", Text: samples}}
		theirs = []jobfile.Source{{Name: "sample_calendars.yaml", Text: sampleCalendars}}
	}
	if o.jobs == "" && o.calendars != "" { // the samples name theirs
		return nil, nil, invalid(errors.New("--calendars needs --jobs: the sample jobs have a calendar of their own"))
	}
	calendars = read(o.calendars, theirs, jobfile.Options{Namespace: api.DefaultNamespace, Calendars: true, CheckCalendar: api.CheckCalendar})
	jobs = read(o.jobs, ours, jobfile.Options{Namespace: api.DefaultNamespace, Check: api.CheckJob})
	if err != nil {
		return nil, nil, invalid(err)
	}
	return calendars, jobs, nil
}

func (o *devOptions) run(ctx context.Context, c *console) (err error) {
	began := c.now()
	calendars, docs, err := o.readFiles(c)
	if err != nil {
		return err
	}
	var members []*member // what a second signal ends; guarded by mu until they run
	var mu sync.Mutex
	// Listened to before there is anything on disk, so that it is tidied up whatever ends this.
	draining, stop := onSignals(ctx, true, func(what string) { c.say("\n%s", what) }, func() {
		mu.Lock()
		defer mu.Unlock()
		for _, m := range members {
			m.node.Kill()
		}
	})
	defer stop()
	dir, tidy, err := o.folder()
	if err != nil {
		return err
	}
	defer tidy()
	log := newLogger(c.err, c.errTerminal, o.level.Level)
	etcd, err := devetcd.Start(draining, devetcd.Config{Dir: filepath.Join(dir, "etcd"), Fsync: true, Logger: log})
	switch {
	case draining.Err() != nil && err != nil:
		return nil
	case errors.Is(err, devetcd.ErrInUse):
		return failedWith(exitConflict, fmt.Errorf("--data-dir %s: another `quorumcron dev` uses it", dir))
	case err != nil:
		return err
	}
	defer etcd.Close()
	opened, err := o.open(etcd.Endpoint(), dir, log)
	if err != nil {
		return err
	}
	mu.Lock()
	members = opened
	mu.Unlock()
	life, end := context.WithCancelCause(draining)
	defer end(nil)

	var group sync.WaitGroup
	lines := &runLines{console: c}
	for _, m := range members {
		group.Go(func() {
			if err := m.run(life); err != nil {
				end(memberError(err))
			}
		})
		group.Go(func() { lines.follow(life, m.node) })
	}
	lines.mu.Lock() // Runs are shown below the banner, even if they end before it is written.
	err = o.begin(life, c, members, calendars, docs, began)
	lines.mu.Unlock()
	if err != nil {
		end(err)
	}
	group.Wait()
	if cause := context.Cause(life); cause != nil && draining.Err() == nil {
		return cause
	}
	return nil
}

// folder is where everything lives, and what tidies it up.
func (o *devOptions) folder() (dir string, tidy func(), err error) {
	if o.dataDir == "" {
		dir, err = os.MkdirTemp("", "quorumcron-dev-")
		return dir, func() { _ = os.RemoveAll(dir) }, err
	}
	dir, err = filepath.Abs(o.dataDir)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return "", nil, invalid(fmt.Errorf("--data-dir: %w", err))
	}
	return dir, func() {}, nil
}

// open makes the nodes, each with a folder and a client of its own, as if they were on machines.
func (o *devOptions) open(endpoint, dir string, log *slog.Logger) ([]*member, error) {
	var members []*member
	for i := range o.nodes {
		cfg := memberConfig{
			node: node.Config{
				Name: fmt.Sprintf("dev-%d", i+1), DataDir: filepath.Join(dir, fmt.Sprintf("dev-%d", i+1)),
				SessionTTL: 5 * time.Second, DrainTimeout: 5 * time.Second, Commands: true, Logger: log,
			},
			etcd:     election.DialConfig{Endpoints: []string{endpoint}, Logger: log},
			grpcAddr: o.grpcAddr, httpAddr: o.httpAddr,
		}
		if i > 0 {
			cfg.grpcAddr, cfg.httpAddr = "127.0.0.1:0", "127.0.0.1:0"
		}
		m, err := openMember(cfg)
		if err != nil {
			for _, other := range members {
				other.close()
			}
			return nil, err
		}
		members = append(members, m)
	}
	return members, nil
}

// begin waits until all nodes are ready, applies calendars and jobs, and says what is where.
func (o *devOptions) begin(ctx context.Context, c *console, members []*member, calendars, docs []*jobfile.Document, began time.Time) error {
	for _, m := range members {
		if err := untilReady(ctx, m.node); err != nil {
			return err
		}
	}
	for _, doc := range calendars {
		calendar := api.CalendarFromProto(doc.Calendar)
		if _, err := members[0].node.ApplyCalendar(ctx, calendar, 0); err != nil && ctx.Err() == nil {
			return fmt.Errorf("apply calendar %s from %s: %w", calendar.Name, doc.Where(), err)
		}
	}
	for _, doc := range docs {
		job, _ := api.JobFromProto(doc.Job) // It was checked when it was read.
		if _, err := members[0].node.Apply(ctx, job, 0); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("apply %s from %s: %w", job.Name, doc.Where(), err)
		}
	}
	o.banner(ctx, c, members, docs, c.now().Sub(began))
	return nil
}

// untilReady waits for a node to be ready; ctx ending is no error.
func untilReady(ctx context.Context, n *node.Node) error {
	const limit = 30 * time.Second
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	for {
		readiness := n.Ready()
		if readiness.Ready {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-timeout.C:
			return fmt.Errorf("not ready after %s: %s", limit, strings.Join(readiness.Reasons(), "; "))
		case <-tick.C:
		}
	}
}
