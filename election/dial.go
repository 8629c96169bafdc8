package election

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
)

// DialConfig says how to reach etcd.
type DialConfig struct {
	// Endpoints are host:port, or URLs with http, https, unix or unixs.
	Endpoints []string
	// TLS is nil for a connection without encryption.
	TLS *tls.Config
	// Username and Password are for etcd's own authentication; both or neither.
	Username, Password string
	// Logger receives what the client library says, all of it at debug level: it repeats itself on
	// every retry, and the sessions say once what it comes to.
	Logger *slog.Logger
}

const (
	// maxConnectBackoff: gRPC's default grows to 120 s, during which a healed network is not noticed.
	maxConnectBackoff = time.Second
	// connectTimeout: gRPC's default is 20 s, all of it lost when a packet filter swallows the SYN.
	connectTimeout = 3 * time.Second
	// Pings on an idle connection; gRPC raises the time to 10 s. A busy one, and ours always is, breaks
	// when sent data stays unacknowledged for the time-out, which gRPC hands to TCP_USER_TIMEOUT.
	pingTime    = 5 * time.Second
	pingTimeout = 3 * time.Second
	// maxSendBytes is above etcd's own limit of 1.5 MiB, so that etcd refuses and says why.
	maxSendBytes = 2 << 20
	// maxRecvBytes is no limit: a watch whose next batch is above one would fail, come back and fail
	// for ever. Lists are paged by those who ask for them.
	maxRecvBytes = math.MaxInt32
)

// Dial makes the client of one process. It does not wait for etcd, which may be away: every call
// waits for the connection until its own deadline. Ready tells whether etcd answers.
func Dial(config DialConfig) (*clientv3.Client, error) {
	if len(config.Endpoints) == 0 {
		return nil, errors.New("dial etcd: no endpoints; give at least one host:port")
	}
	for _, endpoint := range config.Endpoints {
		if strings.TrimSpace(endpoint) == "" || strings.ContainsAny(endpoint, ", ") {
			return nil, fmt.Errorf("dial etcd: endpoint %q: must be one host:port or URL", endpoint)
		}
	}
	if (config.Username == "") != (config.Password == "") {
		return nil, errors.New("dial etcd: user name and password go together; one is missing")
	}
	connect := grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: connectTimeout}
	connect.Backoff.BaseDelay = 100 * time.Millisecond
	connect.Backoff.MaxDelay = maxConnectBackoff
	settings := clientv3.Config{
		Endpoints:            config.Endpoints,
		TLS:                  config.TLS,
		DialKeepAliveTime:    pingTime,
		DialKeepAliveTimeout: pingTimeout,
		MaxCallSendMsgSize:   maxSendBytes,
		MaxCallRecvMsgSize:   maxRecvBytes,
		Logger:               zapToSlog(config.Logger),
		DialOptions:          []grpc.DialOption{grpc.WithConnectParams(connect)},
	}
	if config.Username != "" {
		// With a user name New would log in before it returns, and fail when etcd is away. It is told
		// of a token instead, which it takes unseen; the first call is refused for the token and then
		// logs in as the user.
		settings.Token = "none yet"
	}
	client, err := clientv3.New(settings)
	if err != nil {
		return nil, fmt.Errorf("dial etcd %s: %w", strings.Join(config.Endpoints, ","), err)
	}
	if config.Username != "" {
		client.Token, client.Username, client.Password = "", config.Username, config.Password
	}
	return client, nil
}

// Ready makes one linearizable read below the prefix: nil means that a quorum of etcd answers and
// lets us in. The context bounds the wait.
func Ready(ctx context.Context, client *clientv3.Client, prefix string) error {
	if _, err := client.Get(ctx, prefix+"meta", clientv3.WithKeysOnly()); err != nil {
		return fmt.Errorf("read %smeta: %w", prefix, err)
	}
	return nil
}
