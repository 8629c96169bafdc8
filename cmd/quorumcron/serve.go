package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorumcron/quorumcron/api"
	"github.com/quorumcron/quorumcron/election"
	"github.com/quorumcron/quorumcron/node"
	"github.com/quorumcron/quorumcron/peer"
)

// This file is the only one that knows how a node is put together: the client of etcd, the node, and
// the two servers in front of it.

// memberConfig is all that a node of this process is made of. Addresses have been checked.
type memberConfig struct {
	node node.Config // without the client and the advertised addresses
	etcd election.DialConfig
	// grpcAddr and httpAddr are where it listens; advertise is where the others reach gRPC, "" to
	// derive it.
	grpcAddr, httpAddr, advertise string
}

// member is a node of this process with what serves it.
type member struct {
	name   string
	node   *node.Node
	client *clientv3.Client
	api    *api.Server
	pages  *http.Server
	grpc   net.Listener
	http   net.Listener
}

// openMember listens and constructs, and starts nothing. Whatever fails, nothing stays open.
func openMember(cfg memberConfig) (*member, error) {
	m := &member{name: cfg.node.Name}
	if err := m.open(cfg); err != nil {
		m.close()
		return nil, err
	}
	return m, nil
}

func (m *member) open(cfg memberConfig) (err error) {
	if m.grpc, err = listen("--grpc-addr", cfg.grpcAddr); err != nil {
		return err
	}
	if m.http, err = listen("--http-addr", cfg.httpAddr); err != nil {
		return err
	}
	if m.client, err = election.Dial(cfg.etcd); err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	build := thisBuild()
	cfg.node.Client, cfg.node.Version, cfg.node.Metrics = m.client, build.Version, registry
	host := hostOf(cfg.advertise)
	cfg.node.GRPCAddress = cfg.advertise
	if cfg.advertise == "" {
		cfg.node.GRPCAddress = advertised(host, m.grpc.Addr())
	}
	cfg.node.HTTPAddress = advertised(host, m.http.Addr())
	if m.node, err = node.New(cfg.node); err != nil {
		return invalid(err)
	}
	m.api, err = api.New(api.Config{
		Jobs: m.node, Calendars: m.node, Runs: m.node, Cluster: m.node, Vitals: m.node, Member: cfg.node.Name,
		Forwarder: &peer.Client{}, Version: build.Version, Logger: cfg.node.Logger,
	})
	if err != nil {
		return err
	}
	m.pages = &http.Server{
		Handler:           api.NewHTTP(api.HTTPConfig{Vitals: m.node, Metrics: registry, Member: cfg.node.Name, Version: build.Version}),
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute,
		MaxHeaderBytes: 16 << 10, ErrorLog: slog.NewLogLogger(cfg.node.Logger.Handler(), slog.LevelDebug),
	}
	return nil
}

// close gives back what openMember took, if run never ran.
func (m *member) close() {
	for _, l := range []net.Listener{m.grpc, m.http} {
		if l != nil {
			_ = l.Close()
		}
	}
	if m.client != nil {
		_ = m.client.Close()
	}
}

// run is the member's life. The servers answer until the node has ended, so that a draining node says
// that it drains.
func (m *member) run(ctx context.Context) error {
	defer m.close()
	serving, endServing := context.WithCancel(context.WithoutCancel(ctx)) // outlives ctx by the drain
	defer endServing()
	// If a server fails the member is of no use to anybody, and its node drains.
	living, endLiving := context.WithCancelCause(ctx)
	defer endLiving(nil)

	var servers sync.WaitGroup
	servers.Go(func() {
		if err := m.api.Serve(serving, m.grpc); err != nil {
			endLiving(err)
		}
	})
	servers.Go(func() {
		if err := m.pages.Serve(m.http); !errors.Is(err, http.ErrServerClosed) {
			endLiving(fmt.Errorf("serve http on %s: %w", m.http.Addr(), err))
		}
	})
	err := m.node.Run(living)
	if cause := context.Cause(living); err == nil && ctx.Err() == nil && cause != nil {
		err = cause
	}
	endServing()
	// The context that ended must not cut the last answers short; a second does.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if m.pages.Shutdown(last) != nil {
		_ = m.pages.Close()
	}
	servers.Wait()
	return err
}

// listen opens a listener, and says which flag moves it if the port is taken.
func listen(flag, address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err == nil {
		return l, nil
	}
	if !errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%s %s: %w", flag, address, reason(err))
	}
	text := fmt.Sprintf("%s %s: the port is taken", flag, address)
	if free := freePort(address); free != "" {
		text += fmt.Sprintf("; %s is free: add %s %s", free, flag, free)
	}
	return nil, errors.New(text)
}

// reason takes the address off an error that repeats it.
func reason(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}

// freePort finds the next free port after a taken one, "" if there is none near.
func freePort(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return ""
	}
	taken, err := strconv.Atoi(port)
	if err != nil {
		return ""
	}
	for p := taken + 10; p <= min(taken+1000, 65535); p += 10 {
		candidate := net.JoinHostPort(host, strconv.Itoa(p))
		if l, err := net.Listen("tcp", candidate); err == nil {
			_ = l.Close()
			return candidate
		}
	}
	return ""
}

// hostOf is how others reach this machine: the host of the address that it advertises, else its name.
func hostOf(advertise string) string {
	if host, _, err := net.SplitHostPort(advertise); err == nil {
		return host
	}
	name, err := os.Hostname()
	if err != nil {
		return "localhost" // Nobody else can reach it, and the log of the node shows the address.
	}
	return name
}

// advertised is where others reach a listener: the address that it listens on, with host in place of
// one that stands for all interfaces.
func advertised(host string, listening net.Addr) string {
	address, port, err := net.SplitHostPort(listening.String())
	if err != nil {
		return listening.String()
	}
	if ip := net.ParseIP(address); ip != nil && !ip.IsUnspecified() {
		host = address
	}
	return net.JoinHostPort(host, port)
}

// memberError is a node's end with its exit code: 4 if another process is this member.
func memberError(err error) error {
	if errors.Is(err, election.ErrNameTaken) || errors.Is(err, election.ErrFolderInUse) {
		return failedWith(exitConflict, err)
	}
	return err
}
