package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestStartComplains has every error at once, and starts nothing.
func TestStartComplains(t *testing.T) {
	t.Parallel()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	good := "start --name a --data-dir " + t.TempDir() + " --etcd-endpoints 127.0.0.1:1 --grpc-addr 127.0.0.1:0 --http-addr 127.0.0.1:0 "
	for _, c := range []struct {
		name, args string
		env        map[string]string
		want       []string
	}{
		{"what is missing, all at once", "start", nil,
			[]string{"--name is missing (or QUORUMCRON_NAME)", "--data-dir is missing", "--etcd-endpoints is missing"}},
		{"what is wrong, all at once", good + "--etcd-endpoints nohost,ftp://x:1 --session-ttl 2500ms --drain-timeout 2h --capacity 0 --compact 30s --prefix cron --advertise-addr here --etcd-cert-file x", nil,
			[]string{`--etcd-endpoints "nohost": must be host:port`, `"ftp://x:1": must be host:port, or a URL`, "--session-ttl 2.5s: must be whole seconds from 3s to 60s",
				"--drain-timeout 2h0m0s: must be from 0s to 1h", "--capacity 0: must be from 1", "--compact 30s: must be from 1m to 24h", `--prefix "cron": must begin with /`, `--advertise-addr "here"`, "--etcd-key-file go together"}},
		{"ports that are none", good + "--grpc-addr 127.0.0.1:99999 --http-addr 127.0.0.1:web2 --advertise-addr host: --etcd-endpoints h:0,h:abc,http://h:70000", nil,
			[]string{`--grpc-addr "127.0.0.1:99999": `, `--http-addr "127.0.0.1:web2": `, `--advertise-addr "host:": must be host:port`,
				`"h:0": must be host:port`, `"h:abc": must be`, `"http://h:70000": must be`}},
		{"reachable from elsewhere", good + "--grpc-addr 0.0.0.0:7460 --http-addr :7461", nil,
			[]string{`--grpc-addr "0.0.0.0:7460": refused`, `--http-addr ":7461": refused`, "add --insecure"}},
		{"variables are read", "start", map[string]string{"QUORUMCRON_NAME": "a", "QUORUMCRON_DATA_DIR": "/x", "QUORUMCRON_ETCD_ENDPOINTS": "a:1,b", "QUORUMCRON_LABEL": "zone=eu,disk=ssd"},
			[]string{`--etcd-endpoints "b": must be host:port`}},
		{"a variable that cannot be read", good, map[string]string{"QUORUMCRON_CAPACITY": "many"}, []string{`QUORUMCRON_CAPACITY="many": `}},
		{"a variable with a typo", good, map[string]string{"QUORUMCRON_SESION_TTL": "5s"},
			[]string{"the variable QUORUMCRON_SESION_TTL does not exist; did you mean QUORUMCRON_SESSION_TTL?"}},
		{"a variable for compaction", good, map[string]string{"QUORUMCRON_COMPACT": "25h"}, []string{"--compact 25h0m0s: must be from 1m to 24h"}},
		{"labels", good + "--label zone", nil, []string{`"zone" must be k=v`}},
		{"labels twice", good + "--label a=1 --label a=2", nil, []string{`label a is given twice, as "1" and "2"`}},
		{"labels that no job can select", good + "--label zo+ne=eu --label disk=a\x01b", nil,
			[]string{"--label.zo+ne: is not a label key (use 1 to 128", "--label.disk: is not a label value"}},
		{"level", good + "--log-level loud", nil, []string{"must be debug, info, warn or error"}},
		{"name", strings.Replace(good, "--name a", "--name Node_A", 1) + "--capacity 0", nil, []string{`quorumcron: --name "Node_A": must be`, "--capacity 0"}},
		{"a duration without its unit", good + "--session-ttl 10", nil, []string{`"10" for "--session-ttl" flag: must be a duration with its unit, such as 10s or 5m`}},
		{"authority", good + "--etcd-ca-file " + ca, nil, []string{"there is no certificate in it"}},
		{"password", good + "--etcd-username me", nil, []string{"set QUORUMCRON_ETCD_PASSWORD, or --etcd-password-file"}},
		{"data folder is a file", good + "--data-dir " + ca, nil, []string{"--data-dir: mkdir", "not a directory; name a folder"}},
		{"an argument", good + "now", nil, []string{`unexpected argument "now"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			console := newTestConsole("")
			for k, v := range c.env {
				console.environment[k] = v
			}
			got := console.run(strings.Fields(c.args)...)
			for _, want := range append(c.want, "-- exit 2") {
				if !strings.Contains(got, want) {
					t.Errorf("got\n%s\nwant it to contain %q", got, want)
				}
			}
		})
	}
}

// TestForeignVariablesDoNoHarm keeps a node startable where something else makes variables of our prefix.
func TestForeignVariablesDoNoHarm(t *testing.T) {
	t.Parallel()
	cmd := newStart(&newTestConsole("").console)
	stray, near := strayVariables(cmd.Flags(), []string{
		"PATH=/bin", "QUORUMCRON_NAME=a", "QUORUMCRON_SERVER=x", "QUORUMCRON_TOKEN=4711", "QUORUMCRON_SERVICE_HOST=10.0.0.1", "QUORUMCRON_PORT=tcp://10.0.0.1:7460",
		"QUORUMCRON_PORT_7460_TCP_ADDR=10.0.0.1", "QUORUMCRON_FAVOURITE_COLOUR=blue", "QUORUMCRON_PREFXI=/x/",
	})
	if strings.Join(stray, " ") != "QUORUMCRON_FAVOURITE_COLOUR QUORUMCRON_PREFXI" || strings.Join(near, ",") != ",QUORUMCRON_PREFIX" {
		t.Errorf("got %q, near %q; want the colour, near nothing, and the swapped letters", stray, near)
	}
}

// TestNoDrainTimeIsNotTheDefault: zero means the default to node.Config, and none to who writes 0s.
func TestNoDrainTimeIsNotTheDefault(t *testing.T) {
	t.Parallel()
	if got := waitFor(0); got >= 0 {
		t.Errorf("--drain-timeout 0s became %s, want less than zero, which is none", got)
	}
	if got := waitFor(time.Minute); got != time.Minute {
		t.Errorf("--drain-timeout 1m became %s", got)
	}
}

func TestDevComplains(t *testing.T) {
	t.Parallel()
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(bad, []byte("nmae: x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"dev --nodes 10":             "--nodes 10: must be from 1 to 9",
		"dev --grpc-addr 0.0.0.0:1":  "refused, since anyone who reaches 0.0.0.0 could run commands",
		"dev --jobs testdata/none":   "testdata/none: no such file",
		"dev --jobs " + bad:          "bad.yaml:1:1: nmae: unknown field; did you mean `name`?",
		"dev --data-dir /dev/null/x": "--data-dir: mkdir /dev/null",
		"dev --http-addr nowhere":    `--http-addr "nowhere"`,
		"dev --insecure":             "unknown flag: --insecure",
	} {
		c := newTestConsole("")
		if got := c.run(strings.Fields(args)...); !strings.Contains(got, want) || !strings.Contains(got, "-- exit 2") {
			t.Errorf("%s: got\n%s\nwant it to contain %q and exit 2", args, got, want)
		}
	}
}

func TestAddressesThatOthersCanReach(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ listening, advertise, want string }{
		{"127.0.0.1:7461", "", "127.0.0.1:7461"},
		{"10.0.0.1:7461", "node-1:7460", "10.0.0.1:7461"},
		{"0.0.0.0:7461", "node-1:7460", "node-1:7461"},
		{"[::]:7461", "[fd00::1]:7460", "[fd00::1]:7461"},
	} {
		address, err := net.ResolveTCPAddr("tcp", c.listening)
		if err != nil {
			t.Fatal(err)
		}
		if got := advertised(hostOf(c.advertise), address); got != c.want {
			t.Errorf("listening on %s, advertising %q: got %s, want %s", c.listening, c.advertise, got, c.want)
		}
	}
	if name, err := os.Hostname(); err == nil && hostOf("") != name {
		t.Errorf("without an address to advertise: got %s, want %s", hostOf(""), name)
	}
}
