package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/quorumcron/quorumcron/election"
	"github.com/quorumcron/quorumcron/executor"
	"github.com/quorumcron/quorumcron/scheduler"
	"github.com/quorumcron/quorumcron/scheduler/cron"
	"github.com/quorumcron/quorumcron/store"
)

// Handler is a Go function that handler jobs may name. It gets who it is, and a context that is
// cancelled, with a cause of package executor, when the attempt must end. An error makes the attempt
// FAILED(error), a panic FAILED(panic).
type Handler = executor.Handler

// ErrFormat: the cluster stores a format that this version cannot read.
var ErrFormat = errors.New("stored format not supported")

// ErrHistory: etcd no longer holds what was read from it; it was restored from a snapshot. A new process
// reads everything anew.
var ErrHistory = errors.New("etcd has gone back, as a restore from a snapshot does; what this process remembers is of no use, start it again")

// ErrUsed: a Node runs once; make another one.
var ErrUsed = errors.New("this node has already been run")

// Node is one member of the cluster. It is safe for concurrent use.
type Node struct {
	cfg Config
	log *slog.Logger

	// Set by New and not changed.
	store       *store.Store
	inbox       *inbox
	held        *holdings
	pulse       *pulse
	runEvents   *broadcast
	dispatching *dispatcher
	space       *space
	metrics     *metrics
	marksWanted chan struct{} // size 1: one token asks for a look at the marks
	killed      chan struct{} // closed by kill: the node is told to stop at once
	kill        func()
	broken      chan error // size 1: why the node cannot go on, from the one who set failed

	// Set by Run before anything else starts.
	sessions *election.Sessions
	executor *executor.Executor
	spool    *executor.Spool // nil without a data folder
	folder   *election.Folder

	// Owned by the loop.
	view      *view
	stepGuard scheduler.StepGuard
	clock     scheduler.ClockVerdict
	memberID  string             // as assignments name this process; "" while it is no member
	joinedAs  string             // the ID of the last join; it becomes memberID once the format is known
	endTerm   context.CancelFunc // ends the dispatcher's term, nil outside one

	// Read anywhere.
	meta            atomic.Pointer[store.Meta]
	rules           atomic.Pointer[store.Rules]
	shardsOwned     atomic.Int64
	assigned        atomic.Bool // an assignment names this process
	loaded          atomic.Bool // every owned shard has been read
	trusted         atomic.Bool // the clock is
	draining        atomic.Bool
	failed          atomic.Bool // the node cannot go on
	stoppedClaiming atomic.Bool
	lockCheck       atomic.Bool // forgotten locks are to be looked for though nothing is held
	waiting         atomic.Pointer[string]
	// believed is the last confirmed wall clock, carried on to when the loop last turned.
	believed atomic.Pointer[scheduler.Reading]

	mu       sync.Mutex // guards the two below, and that executor and sessions are set
	used     bool
	handlers map[string]Handler

	firings, followers sync.WaitGroup
}

// New makes a Node and starts nothing. The error says everything that is wrong with the Config.
func New(cfg Config) (*Node, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("node: %w", err)
	}
	if cfg.Clock == nil {
		cfg.Clock = election.BootClock()
	}
	killed := make(chan struct{})
	n := &Node{
		cfg: cfg, log: cfg.Logger.With("member", cfg.Name),
		store: store.New(cfg.Client, store.Config{Prefix: cfg.Prefix, Logger: cfg.Logger}),
		inbox: newInbox(), held: newHoldings(), pulse: newPulse(), runEvents: newBroadcast(),
		dispatching: newDispatcher(), marksWanted: make(chan struct{}, 1), killed: killed, kill: sync.OnceFunc(func() { close(killed) }),
		broken: make(chan error, 1),
		view:   newView(), space: newSpace(), handlers: map[string]Handler{},
	}
	if n.metrics, err = newMetrics(n, cfg.Metrics); err != nil {
		return nil, fmt.Errorf("node: %w", err)
	}
	return n, nil
}

// Handle registers a function under a name that handler jobs can use. It must be called before Run;
// a second registration of a name, a late one, or a name that no job may have (scheduler.NamesHandler) panics,
// for it is a mistake of the program.
func (n *Node) Handle(name string, fn Handler) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case fn == nil:
		panic("node: Handle needs a function")
	case !scheduler.NamesHandler(name):
		panic(fmt.Sprintf("node: Handle %q: no job can name it so: use 1 to %d letters, digits, '.', '_', '/' and '-'", name, scheduler.MaxLabelKeyBytes))
	case n.used:
		panic("node: Handle after Run")
	case n.handlers[name] != nil:
		panic("node: handler " + name + " registered twice")
	}
	n.handlers[name] = fn
}

// Run is the member's life: it joins the cluster, fires what it owns, and returns when all it started
// has ended. Ending ctx drains it first (DrainTimeout); Kill cuts that short. While etcd is away it
// waits, says so and is not ready. It returns nil after a stop that was asked for; an error that
// wraps election.ErrNameTaken or election.ErrFolderInUse means that another process is this member.
func (n *Node) Run(ctx context.Context) (err error) {
	n.mu.Lock()
	if n.used {
		n.mu.Unlock()
		return ErrUsed
	}
	n.used = true
	n.mu.Unlock()
	defer n.kill()

	// The layers are ended from the top: firings and followers, then the executor and the packer they
	// use, and the sessions last, so that no lock is given up while its attempt still runs.
	bottom, endBottom := context.WithCancel(context.WithoutCancel(ctx))
	defer endBottom()
	middle, endMiddle := context.WithCancel(bottom)
	defer endMiddle()
	life, endLife := context.WithCancel(middle)
	defer endLife()
	n.followers.Go(func() {
		select {
		case <-n.killed:
			endLife()
		case <-life.Done():
		}
	})

	if err := n.open(ctx, life); err != nil {
		if ctx.Err() != nil && errors.Is(err, election.ErrFolderLingers) {
			return nil // told to stop while it waited
		}
		return err
	}
	defer func() { err = errors.Join(err, n.close()) }()

	var middleGroup, bottomGroup sync.WaitGroup
	middleGroup.Go(func() { n.layer("executor", n.executor.Run(middle)) })
	middleGroup.Go(func() { n.layer("packer", n.store.Run(middle)) })

	fatal := n.initialise(ctx)
	if fatal == nil && ctx.Err() == nil {
		ended := make(chan error, 1) // one error, from the one Run
		bottomGroup.Go(func() { ended <- n.sessions.Run(bottom) })
		fatal = n.live(ctx, life, ended)
	}

	endLife()
	for _, h := range n.held.all() { // after a kill or a failure; a drain leaves nothing
		h.cancel(executor.ErrStopping)
	}
	n.followers.Wait()
	n.metrics.isDispatcher.Set(0) // an embedding program may go on, and be asked for its metrics
	n.shardsOwned.Store(0)
	// A handler that ignores its context, or a command that cannot be killed, must not keep the process
	// from ending: what is left then dies with it, and the supervisor kills the commands.
	n.waitFor(&n.firings, "attempts")
	endMiddle()
	n.waitFor(&middleGroup, "executor and packer")
	endBottom()
	bottomGroup.Wait()
	return fatal
}

// waitFor waits for a group that has been told to end: for as long as last words take, or a second
// after a kill.
func (n *Node) waitFor(group *sync.WaitGroup, what string) {
	ended := make(chan struct{})
	go func() { // ends with the group; left behind only if the process is about to end
		group.Wait()
		close(ended)
	}()
	limit := time.NewTimer(lastWords)
	defer limit.Stop()
	select {
	case <-ended:
		return
	case <-limit.C:
	case <-n.killed:
		select {
		case <-ended:
			return
		case <-time.After(time.Second):
		}
	}
	n.log.Error("left behind at the end", "what", what)
}

// Kill stops a running node at once: attempts are killed, and what cannot be written any more is
// kept in the spool. It is the second SIGTERM.
func (n *Node) Kill() { n.kill() }

func (n *Node) wasKilled() bool {
	select {
	case <-n.killed:
		return true
	default:
		return false
	}
}

// open takes the data folder, waiting for it until ctx ends, and makes what lives in it.
func (n *Node) open(ctx, life context.Context) (err error) {
	var lock *os.File
	if n.cfg.DataDir != "" {
		if n.folder, err = n.openFolder(ctx); err != nil {
			return err
		}
		lock = n.folder.File()
		if n.spool, err = executor.OpenSpool(n.cfg.DataDir); err != nil {
			return errors.Join(err, n.folder.Close())
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	handlers := n.handlers
	n.executor, err = executor.New(executor.Config{
		DataDir: n.cfg.DataDir, Handlers: handlers, Commands: n.cfg.Commands,
		FolderLock: lock, Clock: n.cfg.Clock, Logger: n.log,
	})
	if err != nil {
		return errors.Join(err, n.close())
	}
	names := slices.Sorted(maps.Keys(handlers))
	n.sessions, err = election.New(election.Config{
		Client: n.cfg.Client, Prefix: n.cfg.Prefix, TTL: n.cfg.SessionTTL, Grace: n.cfg.Grace,
		Folder: n.folder, Clock: n.cfg.Clock, Logger: n.cfg.Logger,
		Notify: func(e election.Event) {
			n.inbox.post(func(now scheduler.Reading) { n.takeSession(life, e, now) })
		},
		Member: scheduler.Member{
			Name: n.cfg.Name, Labels: n.cfg.Labels, Handlers: names,
			GRPCAddress: n.cfg.GRPCAddress, HTTPAddress: n.cfg.HTTPAddress,
			Capacity: n.cfg.Capacity, Version: n.cfg.Version,
			FormatMin: store.FormatMin, FormatMax: store.FormatMax,
			TZData: cron.Version(), BootID: bootID(),
		},
	})
	if err != nil {
		return errors.Join(err, n.close())
	}
	return nil
}

// lingering is how long a restarted node waits for the commands of its dead predecessor to be killed:
// the grace and margins of an attempt, and some.
const lingering = 15 * time.Second

// openFolder takes the data folder. One that a live node holds is refused at once; that of a node that
// was killed is free as soon as its supervisor has killed what it ran.
func (n *Node) openFolder(ctx context.Context) (*election.Folder, error) {
	for waited := time.Duration(0); ; waited += refusalPause {
		folder, err := election.OpenFolder(n.cfg.DataDir)
		if !errors.Is(err, election.ErrFolderLingers) || waited >= lingering {
			return folder, err
		}
		if waited == 0 {
			n.say("waiting for the commands of the node's former process to be killed")
			n.log.Warn("waiting for the data folder", "err", err)
		}
		if !sleep(ctx, refusalPause) {
			return nil, err
		}
	}
}

// close gives back what open took.
func (n *Node) close() error {
	var errs []error
	if n.spool != nil {
		errs = append(errs, n.spool.Close())
	}
	if n.folder != nil {
		errs = append(errs, n.folder.Close())
	}
	return errors.Join(errs...)
}

// initialise waits for etcd and makes the cluster if nobody has. It returns nil if it was told to stop
// meanwhile, and an error if this version cannot live with what is stored.
func (n *Node) initialise(ctx context.Context) error {
	for try := 0; ; try++ {
		meta, err := n.store.Initialise(ctx)
		switch {
		case err == nil:
			n.say("")
			return n.takeMeta(meta)
		case ctx.Err() != nil || n.wasKilled():
			return nil
		}
		if try == 0 {
			n.log.Warn("waiting for etcd", "err", err)
		}
		n.say("waiting for etcd: " + err.Error())
		if !sleep(ctx, min(100*time.Millisecond<<min(try, 4), time.Second)) {
			return nil
		}
	}
}

// takeMeta notes what is in force. The error says that this version cannot live with it.
func (n *Node) takeMeta(meta store.Meta) error {
	if !meta.Supported() {
		return fmt.Errorf("%w: format %d is in force, this version reads %d to %d; start a newer one",
			ErrFormat, meta.Format, store.FormatMin, store.FormatMax)
	}
	n.meta.Store(&meta)
	return nil
}

// live runs the member until it is told to stop or cannot go on, and drains it.
func (n *Node) live(ctx, life context.Context, ended <-chan error) error {
	follow := func(f func()) { n.followers.Go(f) }
	n.followRules(life)
	follow(func() { n.loop(life) })
	follow(func() {
		_ = n.sessions.FollowMembers(life, n.dispatching.noteMembers)
	})
	follow(func() { n.followCancels(life) })
	follow(func() { n.watchdog(life) })
	follow(func() { n.watchLocks(life) })
	if !cutMarks {
		follow(func() { n.watchMarks(life) })
	}
	follow(func() { n.watchSpace(life) })
	follow(func() { n.sendSpooled(life) })

	select {
	case err := <-ended:
		if err == nil {
			err = errors.New("the sessions ended by themselves")
		}
		return err
	case err := <-n.broken:
		return err
	case <-n.killed:
	case <-ctx.Done():
		n.drain(life)
	}
	return nil
}

// layer logs a layer that ended with an error; that it ended is noticed by what it no longer does.
func (n *Node) layer(name string, err error) {
	if err != nil {
		n.log.Error("layer ended", "layer", name, "err", err)
	}
}

// say notes what the member waits for; "" is nothing.
func (n *Node) say(what string) { n.waiting.Store(&what) }

// nonce tells one Begin from every other. ULIDs of one process never repeat, and the entropy keeps
// processes apart.
func (n *Node) nonce() string { return strings.ToLower(ulid.Make().String()) }

// bootID names the machine's boot, so that members on one host are known to share its clock.
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}
