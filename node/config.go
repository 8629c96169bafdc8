package node

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorumcron/quorumcron/scheduler"
)

// Config says what a Node is. Name and Client are required; the rest has the defaults given here.
type Config struct {
	// Name is the member's name, unique among live members: [a-z0-9]([a-z0-9._-]*[a-z0-9])?, ≤ 63.
	Name string
	// Client reaches the etcd cluster. The caller makes it with election.Dial and closes it after
	// Run has returned.
	Client *clientv3.Client
	// Prefix is the part of etcd's key space the cluster lives in: it ends with '/'; default "/quorumcron/".
	Prefix string
	// DataDir holds the member's lock, incarnation, output files and spool. Without one there are
	// no command jobs, no output files, and results do not survive the process.
	DataDir string

	// Labels are what jobs select members by; their keys and values are those that a selector can have.
	Labels      map[string]string
	GRPCAddress string // advertised to the other members; "" when this member serves no API
	HTTPAddress string
	Version     string

	// SessionTTL is the life of the member's leases without a keep-alive: 3 s to 60 s, whole
	// seconds; default 10 s.
	SessionTTL time.Duration
	// Grace is how long past the TTL a running attempt may go on: default 5 s, 4 s to 60 s.
	Grace time.Duration
	// DrainTimeout is how long a stop waits for running attempts: default 30 s, at most an hour; less than
	// zero waits for none, and has them end at once.
	DrainTimeout time.Duration
	// Capacity bounds the command attempts in flight here, default 256; HandlerCapacity the handler
	// attempts, default 10,000.
	Capacity, HandlerCapacity int
	// Commands says whether command jobs may run here. It needs a DataDir and executor.Supervise.
	Commands bool

	// Compact has this member, while it is the dispatcher, drop etcd's history older than this, and at the
	// latest when it is twice as old and a minute: 1m to 24h, default 0, which leaves it to etcd. It is for
	// an etcd without auto-compaction that nobody else uses, and must be the same on all members.
	Compact time.Duration

	// Clock reads the clocks; default the wall clock and CLOCK_BOOTTIME.
	Clock func() scheduler.Reading
	// Logger receives what an operator wants to read; nil discards.
	Logger *slog.Logger
	// Metrics receives the node's collectors, and keeps them after Run has returned; nil means they are kept
	// but not exported. Each Node needs one of its own, or with a label of its own by WrapRegistererWith.
	Metrics prometheus.Registerer
}

// The bounds of Config.Compact. A minute is several times what a watch may be silent before it is opened
// again (15 s) with its tries, and what a read of all jobs takes.
const (
	leastCompact = time.Minute
	mostCompact  = 24 * time.Hour
)

var memberName = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$`)

// CheckName refuses what can be no member's name; field is what the error calls it.
func CheckName(field, name string) error {
	if memberName.MatchString(name) {
		return nil
	}
	return fmt.Errorf("%s %q: must be 1 to 63 of a-z, 0-9, '.', '_' and '-', and begin and end with a letter or digit", field, name)
}

// withDefaults fills in what is left out and reports everything that cannot be.
func (c Config) withDefaults() (Config, error) {
	if c.Prefix == "" {
		c.Prefix = "/quorumcron/"
	}
	if c.SessionTTL == 0 {
		c.SessionTTL = 10 * time.Second
	}
	if c.Grace == 0 {
		c.Grace = 5 * time.Second
	}
	if c.DrainTimeout == 0 {
		c.DrainTimeout = 30 * time.Second
	}
	c.DrainTimeout = max(c.DrainTimeout, 0)
	c.Labels = maps.Clone(c.Labels) // the caller's may change
	if c.Capacity == 0 {
		c.Capacity = 256
	}
	if c.HandlerCapacity == 0 {
		c.HandlerCapacity = 10_000
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	var errs []error
	refuse := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	if err := CheckName("name", c.Name); err != nil {
		errs = append(errs, err)
	}
	if c.Client == nil {
		refuse("client: is required; make one with election.Dial")
	}
	if c.SessionTTL < 3*time.Second || c.SessionTTL > time.Minute || c.SessionTTL%time.Second != 0 {
		refuse("session TTL %s: must be whole seconds from 3s to 60s", c.SessionTTL)
	}
	if c.Grace < 4*time.Second || c.Grace > time.Minute {
		refuse("grace %s: must be from 4s (an attempt is told to stop 3 s before it is killed) to 60s", c.Grace)
	}
	if !strings.HasSuffix(c.Prefix, "/") {
		refuse("prefix %q: must end with '/', or it would be the beginning of others'", c.Prefix)
	}
	for _, wrong := range scheduler.CheckLabels("labels", c.Labels) {
		errs = append(errs, wrong)
	}
	if c.DrainTimeout > time.Hour {
		refuse("drain timeout %s: must be at most 1h", c.DrainTimeout)
	}
	if c.Capacity < 1 || c.Capacity > 100_000 {
		refuse("capacity %d: must be from 1 to 100000", c.Capacity)
	}
	if c.HandlerCapacity < 1 || c.HandlerCapacity > 1_000_000 {
		refuse("handler capacity %d: must be from 1 to 1000000", c.HandlerCapacity)
	}
	if c.Compact != 0 && (c.Compact < leastCompact || c.Compact > mostCompact) {
		refuse("compact %s: must be from 1m (watches and long reads need the history of their last seconds) to 24h, or 0 to leave it to etcd", c.Compact)
	}
	if c.Commands && c.DataDir == "" {
		refuse("commands: need a data folder for output files; set DataDir")
	}
	return c, errors.Join(errs...)
}
