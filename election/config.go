package election

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorumcron/quorumcron/scheduler"
)

// Config says who holds the sessions and where. Client, Member.Name and Clock are required.
type Config struct {
	// Client comes from Dial; the caller closes it after Run has returned.
	Client *clientv3.Client
	// Prefix is the part of etcd's key space the cluster lives in; default "/quorumcron/".
	Prefix string
	// Member is what the member key shows. Incarnation and CreateRevision are drawn here.
	Member scheduler.Member
	// TTL is the life of each lease without a keep-alive: 3 s to 60 s, whole seconds; default 10 s.
	TTL time.Duration
	// Grace is how long past the TTL an attempt may run: default 5 s, 4 s to 60 s.
	Grace time.Duration
	// Folder is the open data folder, nil without one. The caller closes it after Run has returned.
	Folder *Folder
	// Clock reads the clocks; BootClock outside tests.
	Clock func() scheduler.Reading
	// Notify receives the events, one at a time, in order. It must not block, or keep-alives wait; it may
	// call the methods of Sessions that take no context. Nil means that nobody listens.
	Notify func(Event)
	// Logger receives what an operator wants to read; nil discards.
	Logger *slog.Logger
}

// Limits of TTL and grace. etcd grants no less than 2 s, and 3 s leaves time for one lost keep-alive;
// the grace holds the 3 s between TERM and KILL.
const (
	DefaultTTL   = 10 * time.Second
	MinTTL       = 3 * time.Second
	MaxTTL       = time.Minute
	DefaultGrace = 5 * time.Second
	MinGrace     = 4 * time.Second
	MaxGrace     = time.Minute
)

// withDefaults fills in what is left out and reports all that cannot be.
func (c Config) withDefaults() (Config, error) {
	if c.Prefix == "" {
		c.Prefix = "/quorumcron/"
	}
	if c.TTL == 0 {
		c.TTL = DefaultTTL
	}
	if c.Grace == 0 {
		c.Grace = DefaultGrace
	}
	if c.Notify == nil {
		c.Notify = func(Event) {}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	var errs []error
	refuse := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	if c.Client == nil {
		refuse("client: is required; make one with Dial")
	}
	if c.Clock == nil {
		refuse("clock: is required; BootClock reads the machine's")
	}
	if c.Member.Name == "" || strings.Contains(c.Member.Name, "/") {
		refuse("member name %q: must not be empty or contain '/'", c.Member.Name)
	}
	if !strings.HasSuffix(c.Prefix, "/") {
		refuse("prefix %q: must end with '/'", c.Prefix)
	}
	// A session's TTL is whole seconds, and concurrency.WithTTL turns 0 into 60 without a word.
	if c.TTL < MinTTL || c.TTL > MaxTTL || c.TTL%time.Second != 0 {
		refuse("TTL %s: must be whole seconds from %s to %s", c.TTL, MinTTL, MaxTTL)
	}
	if c.Grace < MinGrace || c.Grace > MaxGrace {
		refuse("grace %s: must be from %s to %s", c.Grace, MinGrace, MaxGrace)
	}
	return c, errors.Join(errs...)
}
