package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quorumcron/quorumcron/api"
	"github.com/quorumcron/quorumcron/election"
	"github.com/quorumcron/quorumcron/node"
	"github.com/quorumcron/quorumcron/scheduler"
)

// startOptions are the flags of `start`. Each can be set by an environment variable, too.
type startOptions struct {
	name, dataDir, prefix         string
	endpoints                     []string
	grpcAddr, httpAddr, advertise string
	insecure                      bool
	labels                        labelsFlag
	ttl, drain, compact           time.Duration
	capacity                      int
	level                         levelFlag

	etcdCA, etcdCert, etcdKey  string
	etcdUser, etcdPasswordFile string
}

func newStart(c *console) *cobra.Command {
	o := &startOptions{}
	cmd := &cobra.Command{
		Use: "start", Short: "Run one node of a cluster", Args: exactly(),
		Long: "Run one node of a cluster, on an etcd cluster of your own. While etcd is away the node waits, says so,\n" +
			"and is not ready. SIGTERM, SIGINT and SIGHUP drain it: its shards go to other nodes and its runs end within\n" +
			"--drain-timeout; a second signal ends it at once. Logs go to stderr, as JSON if that is no terminal.\n\n" +
			"Every flag can be set by the environment variable named beside it; the flag comes first. The password\n" +
			"for etcd comes from QUORUMCRON_ETCD_PASSWORD or a file, never from a flag.",
		Example: "  quorumcron start --name node-a --data-dir /var/lib/quorumcron \\\n    --etcd-endpoints 10.0.0.1:2379,10.0.0.2:2379,10.0.0.3:2379",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.complain(cmd.Flags(), c); err != nil {
				return err
			}
			return o.run(cmd.Context(), c)
		},
	}
	o.addFlags(cmd.Flags())
	return cmd
}

func (o *startOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.name, "name", "", "name of this node, unique in the cluster (required)")
	f.StringVar(&o.dataDir, "data-dir", "", "folder for output and unsent results; made if missing (required)")
	f.StringSliceVar(&o.endpoints, "etcd-endpoints", nil, "addresses of etcd's members, host:port or URL (required)")
	f.StringVar(&o.prefix, "prefix", "/quorumcron/", "part of etcd's keys that the cluster lives in")
	f.StringVar(&o.grpcAddr, "grpc-addr", "127.0.0.1:7460", "where the API listens")
	f.StringVar(&o.httpAddr, "http-addr", "127.0.0.1:7461", "where /healthz, /readyz and /metrics listen")
	f.StringVar(&o.advertise, "advertise-addr", "", "where other nodes reach the API (default: --grpc-addr or hostname)")
	f.BoolVar(&o.insecure, "insecure", false, "listen where other machines reach it, without TLS and tokens")
	f.Var(&o.labels, "label", "label for jobs to select by; may be repeated")
	durationVar(f, &o.ttl, "session-ttl", 10*time.Second, "silence after which the node counts as dead, 3s to 60s")
	durationVar(f, &o.drain, "drain-timeout", 30*time.Second, "how long a stop waits for runs, up to 1h")
	f.IntVar(&o.capacity, "capacity", 256, "the most commands that run here at a time")
	durationVar(f, &o.compact, "compact", 0, "drop etcd's history older than this, 1m to 24h (default: etcd does)")
	f.Var(&o.level, "log-level", "least level of what is logged")
	f.StringVar(&o.etcdCA, "etcd-ca-file", "", "certificate of the authority that signed etcd's; turns TLS on")
	f.StringVar(&o.etcdCert, "etcd-cert-file", "", "this node's certificate for etcd")
	f.StringVar(&o.etcdKey, "etcd-key-file", "", "the key of that certificate")
	f.StringVar(&o.etcdUser, "etcd-username", "", "user name for etcd")
	f.StringVar(&o.etcdPasswordFile, "etcd-password-file", "", "file with the password for etcd")
	var all []string
	f.VisitAll(func(flag *pflag.Flag) { all = append(all, flag.Name) })
	fromEnvironment(f, all...)
}

// labelsFlag is a flag that takes labels: one k=v each time, or several with commas between them.
type labelsFlag map[string]string

// String implements pflag.Value.
func (f *labelsFlag) String() string { return pairs(*f) }

// Type implements pflag.Value: what the help shows.
func (f *labelsFlag) Type() string { return "k=v" }

// Set implements pflag.Value.
func (f *labelsFlag) Set(s string) error {
	if *f == nil {
		*f = labelsFlag{}
	}
	for _, pair := range strings.Split(s, ",") {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" {
			return fmt.Errorf("%q must be k=v", pair)
		}
		if old, twice := (*f)[key]; twice && old != value {
			return fmt.Errorf("label %s is given twice, as %q and %q", key, old, value)
		}
		(*f)[key] = value
	}
	return nil
}

// complain says everything that is wrong with the flags and variables, all at once.
func (o *startOptions) complain(flags *pflag.FlagSet, c *console) error {
	var errs []error
	add := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	for _, required := range []struct{ flag, value string }{
		{"name", o.name}, {"data-dir", o.dataDir}, {"etcd-endpoints", strings.Join(o.endpoints, "")},
	} {
		if required.value == "" {
			add(fmt.Errorf("--%s is missing (or %s)", required.flag, envName(required.flag)))
		}
	}
	if o.name != "" {
		add(node.CheckName("--name", o.name))
	}
	for _, e := range o.endpoints {
		add(checkEndpoint(e))
	}
	add(api.CheckListen("--grpc-addr", o.grpcAddr, o.insecure))
	add(api.CheckListen("--http-addr", o.httpAddr, o.insecure))
	if o.advertise != "" {
		if !reachable(o.advertise) {
			add(fmt.Errorf("--advertise-addr %q: must be host:port, as other nodes reach this one", o.advertise))
		}
	}
	if !strings.HasPrefix(o.prefix, "/") || strings.ContainsAny(o.prefix, " \t\n\x00") {
		add(fmt.Errorf("--prefix %q: must begin with / and have no blanks", o.prefix))
	}
	if o.ttl < 3*time.Second || o.ttl > time.Minute || o.ttl%time.Second != 0 {
		add(fmt.Errorf("--session-ttl %s: must be whole seconds from 3s to 60s", o.ttl))
	}
	for _, wrong := range scheduler.CheckLabels("--label", o.labels) {
		add(wrong)
	}
	if o.drain < 0 || o.drain > time.Hour {
		add(fmt.Errorf("--drain-timeout %s: must be from 0s to 1h", o.drain))
	}
	if o.compact != 0 && (o.compact < time.Minute || o.compact > 24*time.Hour) {
		add(fmt.Errorf("--compact %s: must be from 1m to 24h, such as 5m, or 0 to leave it to etcd", o.compact))
	}
	if o.capacity < 1 || o.capacity > 100_000 {
		add(fmt.Errorf("--capacity %d: must be from 1 to 100000", o.capacity))
	}
	if (o.etcdCert == "") != (o.etcdKey == "") {
		add(errors.New("--etcd-cert-file and --etcd-key-file go together; one is missing"))
	}
	stray, near := strayVariables(flags, c.environ())
	for i, name := range stray {
		if near[i] == "" {
			c.say("note: the variable %s means nothing to this version", name)
			continue
		}
		add(fmt.Errorf("the variable %s does not exist; did you mean %s?", name, near[i]))
	}
	if len(errs) > 0 {
		return invalid(errors.Join(errs...))
	}
	return nil
}

// reachable says whether an address has a host and a port that others can connect to.
func reachable(address string) bool {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" {
		return false
	}
	number, err := net.LookupPort("tcp", port)
	return err == nil && number > 0
}

// checkEndpoint refuses what can be no address of etcd.
func checkEndpoint(endpoint string) error {
	address := endpoint
	if strings.Contains(endpoint, "://") {
		u, err := url.Parse(endpoint)
		if err == nil && (u.Scheme == "unix" || u.Scheme == "unixs") {
			return nil
		}
		if err != nil || u.Scheme != "http" && u.Scheme != "https" {
			return fmt.Errorf("--etcd-endpoints %q: must be host:port, or a URL with http, https or unix", endpoint)
		}
		address = u.Host
	}
	if !reachable(address) {
		return fmt.Errorf("--etcd-endpoints %q: must be host:port, such as 10.0.0.1:2379", endpoint)
	}
	return nil
}

func (o *startOptions) run(ctx context.Context, c *console) error {
	log := newLogger(c.err, c.errTerminal, o.level.Level)
	dial, err := o.dial(c)
	if err != nil {
		return invalid(err)
	}
	dial.Logger = log
	dir, err := filepath.Abs(o.dataDir)
	if err != nil {
		return fmt.Errorf("--data-dir %s: %w", o.dataDir, err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return invalid(fmt.Errorf("--data-dir: %w; name a folder that is this user's, or that it may make", err))
	}
	m, err := openMember(memberConfig{
		node: node.Config{
			Name: o.name, Prefix: strings.TrimSuffix(o.prefix, "/") + "/", DataDir: dir, Labels: o.labels, SessionTTL: o.ttl,
			DrainTimeout: waitFor(o.drain), Capacity: o.capacity, Compact: o.compact, Commands: true, Logger: log,
		},
		etcd: dial, grpcAddr: o.grpcAddr, httpAddr: o.httpAddr, advertise: o.advertise,
	})
	if err != nil {
		return err
	}
	c.say("quorumcron %s · %s · gRPC %s · HTTP http://%s · etcd %s%s", thisBuild().Version, o.name, m.grpc.Addr(), m.http.Addr(),
		strings.Join(o.endpoints, ","), o.prefix)
	draining, stop := onSignals(ctx, false, func(what string) { log.Info(what) }, m.node.Kill)
	defer stop()
	return memberError(m.run(draining))
}

// waitFor is a drain limit as node.Config has it, where zero is not "none" but the default.
func waitFor(limit time.Duration) time.Duration {
	if limit == 0 {
		return -1
	}
	return limit
}

// dial reads what the connection to etcd needs: certificates, and the password from where it is kept.
func (o *startOptions) dial(c *console) (election.DialConfig, error) {
	d := election.DialConfig{Endpoints: o.endpoints, Username: o.etcdUser}
	if o.etcdUser != "" {
		d.Password, _ = c.lookup(envName("etcd-password"))
		if o.etcdPasswordFile != "" {
			text, err := os.ReadFile(o.etcdPasswordFile)
			if err != nil {
				return d, fmt.Errorf("--etcd-password-file: %w", err)
			}
			d.Password = strings.TrimRight(string(text), "\r\n")
		}
		if d.Password == "" {
			return d, fmt.Errorf("--etcd-username needs a password: set %s, or --etcd-password-file", envName("etcd-password"))
		}
	}
	if o.etcdCA == "" && o.etcdCert == "" {
		return d, nil
	}
	d.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	if o.etcdCA != "" {
		pem, err := os.ReadFile(o.etcdCA)
		if err != nil {
			return d, fmt.Errorf("--etcd-ca-file: %w", err)
		}
		d.TLS.RootCAs = x509.NewCertPool()
		if !d.TLS.RootCAs.AppendCertsFromPEM(pem) {
			return d, fmt.Errorf("--etcd-ca-file %s: there is no certificate in it", o.etcdCA)
		}
	}
	if o.etcdCert != "" {
		pair, err := tls.LoadX509KeyPair(o.etcdCert, o.etcdKey)
		if err != nil {
			return d, fmt.Errorf("--etcd-cert-file: %w", err)
		}
		d.TLS.Certificates = []tls.Certificate{pair}
	}
	return d, nil
}
