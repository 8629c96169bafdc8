package store

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"github.com/quorumcron/quorumcron/scheduler"
)

// Formats of the stored values that this version can live with. A cluster whose format in force
// (Meta.Format) lies outside must not be joined.
const (
	FormatMin = 1
	FormatMax = 1
)

// Config says where the cluster's keys are and how etcd is used.
type Config struct {
	// Prefix is the part of etcd's key space the cluster lives in; default DefaultPrefix. It ends
	// with a slash.
	Prefix string
	// Logger receives what an operator wants to read; nil discards.
	Logger *slog.Logger
	// Window is how many groups of each kind, claims and ends, are on their way at once: 1 to 4,
	// default 2. What gathers meanwhile is the next group, so that a smaller window makes larger
	// groups.
	Window int
	// RequestTimeout is the deadline of each request to etcd, default 3 s. A write that it cuts off
	// is unknown.
	RequestTimeout time.Duration
	// SilentAfter is how long a watch may say nothing, though its progress was asked for every third
	// of it, before it is opened again; default 15 s.
	SilentAfter time.Duration
}

// Store reads, follows and changes the facts of one cluster. It is safe for concurrent use.
type Store struct {
	client *clientv3.Client
	cfg    Config
	keys   keys
	log    *slog.Logger
	packer *packer
	// history is shared with the packer.
	history *history
	kept    kept
	// turns are those of who changes calendars.
	turns turns
	// decoded are the calendars of the last rules.
	decoded decoded
	// followers counts the watches that are open: without any, no progress is asked for.
	followers atomic.Int64
	// restricted is what etcd has no room for; nil is nothing.
	restricted atomic.Pointer[restriction]
}

// New returns a Store on a client that the caller closes after Run has returned.
func New(client *clientv3.Client, cfg Config) *Store {
	if cfg.Prefix == "" {
		cfg.Prefix = DefaultPrefix
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Window <= 0 {
		cfg.Window = 2
	}
	cfg.Window = min(cfg.Window, 4)
	if cfg.RequestTimeout <= 0 {
		cfg.RequestTimeout = 3 * time.Second
	}
	if cfg.SilentAfter <= 0 {
		cfg.SilentAfter = 15 * time.Second
	}
	s := &Store{client: client, cfg: cfg, keys: keys(cfg.Prefix), log: cfg.Logger}
	s.turns.token = make(chan struct{}, 1)
	s.turns.token <- struct{}{}
	s.packer = newPacker(client, s.keys.head(), cfg.RequestTimeout)
	s.history = s.packer.history
	return s
}

// Run commits groups until ctx ends, and then waits for those that are on their way. Calls that need
// it wait for it to be started; after it has returned they are refused with ErrUnavailable.
func (s *Store) Run(ctx context.Context) error {
	var g errgroup.Group
	g.Go(func() error { return s.packer.run(ctx, s.cfg.Window) })
	g.Go(func() error { return s.askProgress(ctx) })
	if err := g.Wait(); err != nil && !errors.Is(err, context.Cause(ctx)) {
		return err
	}
	return nil
}

// Stats counts what the packer did since the start.
type Stats struct {
	Groups     int64 // transactions sent
	Operations int64 // operations in them
	Refused    int64 // groups refused as a whole, for size, count, keys or a dead lease
	Unknown    int64 // groups whose outcome is unknown
	Limit      int   // operations that a transaction may count; lowered when etcd says so
}

// Stats returns the packer's counts.
func (s *Store) Stats() Stats { return s.packer.stats() }

// ParseLock reads the key of a lock, as the listing of a lease shows it: the firing and the part.
func (s *Store) ParseLock(key string) (f scheduler.Firing, part int, ok bool) {
	return s.keys.parseLock(key)
}
