package devetcd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/auth"
	"go.etcd.io/etcd/server/v3/embed"
)

// ErrInUse says that another server has the folder.
var ErrInUse = errors.New("folder is in use by another etcd server")

// anyPort has the system choose a port on loopback.
const anyPort = "127.0.0.1:0"

// Config describes one etcd member. Only Dir is required.
type Config struct {
	// Dir holds the data. It is made if missing; a server started on an old one goes on with its data.
	Dir string
	// Fsync has every write reach the disk before it is acknowledged. Without it a crash of the
	// machine, but not of the process, can lose acknowledged writes.
	Fsync bool
	// Logger gets what etcd has to say, a level lower than etcd thinks; nil discards it.
	Logger *slog.Logger `json:"-"`
	// Tick is the heartbeat; an election takes at least ten of them, and the smallest lease is fifteen,
	// rounded up to seconds. Zero is 10 ms for a single member, which elects itself anyway, and 100 ms,
	// the default of etcd, for several.
	Tick time.Duration
	// Compact is how much history is kept; zero is five minutes, negative all of it.
	Compact time.Duration
	// QuotaBytes is the size at which etcd raises NOSPACE; zero is etcd's default of 2 GiB.
	QuotaBytes int64
	// Name, Client and Peer are the member's name and the addresses it listens on; zero is "default"
	// and any port on 127.0.0.1.
	Name, Client, Peer string
	// Password, if set, is that of the user root, and nobody else gets in: authentication is switched on.
	// AuthToken is etcd's --auth-token, which says how long a token lives; empty is etcd's default.
	Password, AuthToken string
	// Members are the peer addresses of all members of a cluster by name; empty for a single member. Its
	// own may differ from Peer: others reach it there, through a proxy.
	Members map[string]string
}

// Server is a running etcd member inside this process.
type Server struct {
	etcd *embed.Etcd
	grpc *grpc.Server
	log  *bridge
	lock *os.File
	up   bool // it has been ready
	once sync.Once
}

// Start runs a member and returns when it has answered a linearizable read: with several members,
// when there are enough of them. It gives up when ctx ends.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	lock, err := takeFolder(cfg.Dir)
	if err != nil {
		return nil, err
	}
	s := &Server{log: newBridge(cfg.Logger), lock: lock}
	settings, err := s.settings(cfg)
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("configure etcd: %w", err)
	}
	if s.etcd, err = embed.StartEtcd(settings); err != nil {
		s.Close()
		return nil, fmt.Errorf("start etcd in %s: %w", cfg.Dir, err)
	}
	if err := s.ready(ctx); err != nil {
		s.Close()
		return nil, fmt.Errorf("start etcd in %s: %w", cfg.Dir, err)
	}
	if err := s.secure(ctx, cfg.Password); err != nil {
		s.Close()
		return nil, fmt.Errorf("switch on authentication of etcd in %s: %w", cfg.Dir, err)
	}
	return s, nil
}

// secure switches authentication on, once in the life of the data.
func (s *Server) secure(ctx context.Context, password string) error {
	server := s.etcd.Server
	if password == "" || server.AuthStore().IsAuthEnabled() {
		return nil
	}
	const root = "root" // etcd wants this user and this role to be there
	_, err := server.RoleAdd(ctx, &pb.AuthRoleAddRequest{Name: root})
	if err == nil {
		_, err = server.UserAdd(ctx, &pb.AuthUserAddRequest{Name: root, Password: password, Options: &authpb.UserAddOptions{}})
	}
	if err == nil {
		_, err = server.UserGrantRole(ctx, &pb.AuthUserGrantRoleRequest{User: root, Role: root})
	}
	if err == nil {
		_, err = server.AuthEnable(ctx, &pb.AuthEnableRequest{})
	}
	return err
}

// takeFolder keeps a second server, of this or another process, from waiting for the database for ever.
func takeFolder(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make folder for etcd: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock folder for etcd: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("%s: %w", dir, ErrInUse)
	}
	return f, nil
}

func (s *Server) settings(cfg Config) (*embed.Config, error) {
	for _, p := range []struct {
		value *string
		zero  string
	}{{&cfg.Name, "default"}, {&cfg.Client, anyPort}, {&cfg.Peer, anyPort}} {
		if *p.value == "" {
			*p.value = p.zero
		}
	}
	if cfg.Tick == 0 {
		cfg.Tick = 10 * time.Millisecond
		if len(cfg.Members) > 1 {
			cfg.Tick = 100 * time.Millisecond
		}
	}
	c := embed.NewConfig()
	c.Name, c.Dir = cfg.Name, filepath.Join(cfg.Dir, "etcd")
	client, peer := url.URL{Scheme: "http", Host: cfg.Client}, url.URL{Scheme: "http", Host: cfg.Peer}
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	c.ListenPeerUrls = []url.URL{peer}
	if others := cfg.Members[cfg.Name]; others != "" {
		peer.Host = others
	}
	c.AdvertisePeerUrls = []url.URL{peer}
	c.InitialCluster = cfg.Name + "=" + peer.String()
	if len(cfg.Members) > 0 {
		var all []string
		for name, addr := range cfg.Members {
			all = append(all, name+"=http://"+addr)
		}
		slices.Sort(all)
		c.InitialCluster = strings.Join(all, ",")
	}
	c.InitialClusterToken = "quorumcron"
	c.TickMs = uint(cfg.Tick.Milliseconds())
	c.ElectionMs = 10 * c.TickMs
	c.UnsafeNoFsync = !cfg.Fsync
	c.QuotaBackendBytes = cfg.QuotaBytes
	if cfg.AuthToken != "" {
		c.AuthToken = cfg.AuthToken
	}
	// etcd's client shows its password again for each stream that it opens; at the default cost the hash
	// alone takes 60 ms of a processor each time.
	c.BcryptCost = 4
	if cfg.Compact == 0 {
		cfg.Compact = 5 * time.Minute
	}
	if cfg.Compact > 0 {
		c.AutoCompactionMode, c.AutoCompactionRetention = embed.CompactorModePeriodic, cfg.Compact.String()
	}
	c.EnableGRPCGateway = false
	c.LogLevel = "info"
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.New(s.log))
	// The only way to the gRPC server, which Close has to stop at once: by itself etcd waits five
	// seconds and more for the streams of clients that are still there.
	c.ServiceRegister = func(g *grpc.Server) { s.grpc = g }
	return c, c.Validate()
}

func (s *Server) ready(ctx context.Context) error {
	select {
	case <-s.etcd.Server.ReadyNotify():
	case err := <-s.etcd.Err():
		return fmt.Errorf("serve: %w", err)
	case <-s.etcd.Server.StopNotify():
		return errors.New("stopped while it started")
	case <-ctx.Done():
		return ctx.Err()
	}
	// A server that asks who we are has served the read as far as readiness goes.
	if _, err := s.etcd.Server.Range(ctx, &pb.RangeRequest{Key: []byte("ready")}); err != nil && !errors.Is(err, auth.ErrUserEmpty) {
		return fmt.Errorf("first read: %w", err)
	}
	s.up = true
	return nil
}

// Endpoint is the address for clients.
func (s *Server) Endpoint() string { return s.etcd.Clients[0].Addr().String() }

// Failed is closed or gets an error when the server ends by itself.
func (s *Server) Failed() <-chan error { return s.etcd.Err() }

// Close stops the server, ends the connections of its clients, and lets go of the folder.
func (s *Server) Close() {
	s.once.Do(func() {
		s.log.quiet()
		if s.etcd != nil {
			if !s.up {
				s.etcd.Server.HardStop() // etcd's Close waits for a member to get ready before it stops it
			}
			if s.grpc != nil {
				s.grpc.Stop()
			}
			s.etcd.Close()
		}
		_ = s.lock.Close()
	})
}
