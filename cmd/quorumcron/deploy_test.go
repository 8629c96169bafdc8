package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
)

// acceptable checks that a command line names a command that exists, with flags that exist and values
// that `start` accepts.
func acceptable(t *testing.T, where string, args []string, env map[string]string) *startOptions {
	t.Helper()
	c := newTestConsole("")
	for k, v := range env {
		c.environment[k] = v
	}
	cmd, rest, err := newRoot(&c.console).Find(args)
	if err != nil || !cmd.HasParent() {
		t.Fatalf("%s: %q is no command: %v", where, args, err)
	}
	if cmd.Name() != "start" {
		if err := cmd.ParseFlags(rest); err != nil {
			t.Errorf("%s: %q: %v", where, args, err)
		}
		if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
			t.Errorf("%s: %q: %v", where, args, err)
		}
		return nil
	}
	// The same flags on options that can be looked at.
	o := &startOptions{}
	cmd.ResetFlags()
	o.addFlags(cmd.Flags())
	if err := cmd.ParseFlags(rest); err != nil {
		t.Fatalf("%s: %q: %v", where, args, err)
	}
	if err := applyEnvironment(cmd, &c.console); err != nil {
		t.Fatalf("%s: %v", where, err)
	}
	if err := o.complain(cmd.Flags(), &c.console); err != nil {
		t.Errorf("%s: %q: %v", where, args, err)
	}
	return o
}

// TestComposeFileFits checks the flags of every node, and what the promises of etcd rest on.
func TestComposeFileFits(t *testing.T) {
	t.Parallel()
	var file struct {
		Services map[string]struct {
			Command         []string
			Image           string
			Build           struct{ Context, Dockerfile, Target string }
			StopGracePeriod string `yaml:"stop_grace_period"`
			Ports, Volumes  []string
		}
		Volumes map[string]any
	}
	if err := yaml.Unmarshal(read(t, "../../deploy/compose.yaml"), &file); err != nil {
		t.Fatal(err)
	}
	nodes, members := 0, 0
	for name, s := range file.Services {
		flags := strings.Join(s.Command, " ")
		for _, v := range s.Volumes {
			volume, _, _ := strings.Cut(v, ":")
			if _, ok := file.Volumes[volume]; !ok {
				t.Errorf("%s: volume %s is not declared", name, volume)
			}
		}
		for _, port := range s.Ports {
			if !strings.HasPrefix(port, "127.0.0.1:") {
				t.Errorf("%s: port %s is open to other machines", name, port)
			}
		}
		if s.Image != "" {
			members++
			if strings.Contains(flags, "no-fsync") || !strings.Contains(flags, "--auto-compaction-retention=") {
				t.Errorf("%s: etcd must flush its writes and compact its history: %s", name, flags)
			}
			continue
		}
		nodes++
		o := acceptable(t, name, s.Command, map[string]string{"QUORUMCRON_DATA_DIR": "/var/lib/quorumcron"})
		if o.name != name || o.advertise != name+":7460" {
			t.Errorf("%s: is named %s and advertises %s", name, o.name, o.advertise)
		}
		grace, err := time.ParseDuration(s.StopGracePeriod)
		if err != nil || grace <= o.drain {
			t.Errorf("%s: stop_grace_period %s (%v) must be more than --drain-timeout %s", name, s.StopGracePeriod, err, o.drain)
		}
		if !strings.Contains(string(read(t, "../../deploy/Dockerfile")), " AS "+s.Build.Target+"\n") {
			t.Errorf("%s: the Dockerfile has no target %q", name, s.Build.Target)
		}
	}
	if nodes != 3 || members != 3 {
		t.Errorf("%d nodes and %d members of etcd, want 3 and 3", nodes, members)
	}
}

// TestDockerfileFits checks the commands in it, and that nothing runs as root.
func TestDockerfileFits(t *testing.T) {
	t.Parallel()
	text := strings.ReplaceAll(string(read(t, "../../deploy/Dockerfile")), "\\\n", " ")
	stages := regexp.MustCompile(`(?m)^FROM `).Split(text, -1)[2:] // The first is what stands before, the second builds.
	for _, stage := range stages {
		if !strings.Contains(stage, "USER 65532:65532\n") {
			t.Errorf("a stage runs as root:\n%s", stage)
		}
		for _, instruction := range []string{"HEALTHCHECK", "CMD"} {
			m := regexp.MustCompile(`(?m)^` + instruction + `.*?(\[.*\])$`).FindStringSubmatch(stage)
			if m == nil {
				t.Fatalf("a stage has no %s:\n%s", instruction, stage)
			}
			var args []string
			if err := json.Unmarshal([]byte(m[1]), &args); err != nil {
				t.Fatal(err)
			}
			if args[0] == "/usr/local/bin/quorumcron" {
				args = args[1:]
			}
			acceptable(t, "Dockerfile", args, map[string]string{"QUORUMCRON_NAME": "a", "QUORUMCRON_ETCD_ENDPOINTS": "etcd:2379", "QUORUMCRON_DATA_DIR": "/x"})
		}
	}
	if len(stages) != 2 {
		t.Errorf("%d stages besides the build, want 2", len(stages))
	}
}

// TestUnitFits checks the flags and variables of the systemd unit, and has systemd look at it.
func TestUnitFits(t *testing.T) {
	t.Parallel()
	unit := string(read(t, "../../deploy/systemd/quorumcron.service"))
	setting := func(name string) string {
		m := regexp.MustCompile(`(?m)^` + name + `=(.*)$`).FindStringSubmatch(unit)
		if m == nil {
			t.Fatalf("the unit has no %s", name)
		}
		return m[1]
	}
	env := map[string]string{}
	for _, line := range regexp.MustCompile(`(?m)^#?(QUORUMCRON_[A-Z_]+)=(.*)$`).FindAllStringSubmatch(string(read(t, "../../deploy/systemd/quorumcron.env")), -1) {
		env[line[1]] = line[2]
	}
	program, args, _ := strings.Cut(setting("ExecStart"), " ")
	o := acceptable(t, "quorumcron.service", strings.Fields(strings.ReplaceAll(args, "%l", "node-a")), env)
	stop, err := strconv.Atoi(setting("TimeoutStopSec"))
	if err != nil || time.Duration(stop)*time.Second <= o.drain {
		t.Errorf("TimeoutStopSec=%d (%v) must be more than --drain-timeout %s", stop, err, o.drain)
	}
	if setting("KillMode") != "mixed" || setting("RestartPreventExitStatus") != "2 4" || len(o.labels) != 2 || !o.insecure {
		t.Errorf("the unit does not say what it should, or the variables were not read: %+v", o)
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd is not installed")
	}
	// It looks whether the program is there, so it is given one that is.
	copied := filepath.Join(t.TempDir(), "quorumcron.service")
	if err := os.WriteFile(copied, []byte(strings.Replace(unit, program, os.Args[0], 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if out, err := exec.CommandContext(ctx, analyze, "verify", "--man=no", copied).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}

// TestDocumentsNameCommandsThatExist parses every command line in the fenced blocks of the documents.
func TestDocumentsNameCommandsThatExist(t *testing.T) {
	t.Parallel()
	documents, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, document := range append(documents, "../../README.md", "../../CONTRIBUTING.md") {
		for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(read(t, document)), -1) {
			for _, line := range strings.Split(strings.ReplaceAll(block[1], "\\\n", " "), "\n") {
				line = strings.Replace(line, "go run ./cmd/quorumcron", "quorumcron", 1)
				args, ours := strings.CutPrefix(strings.TrimPrefix(strings.TrimSpace(line), "$ "), "quorumcron ")
				if !ours {
					continue
				}
				found++
				args, _, _ = strings.Cut(args, " #")
				args, _, _ = strings.Cut(args, " | ")
				if strings.HasPrefix(args, "start ") {
					args += " --name a --data-dir /x" // A document may leave out what it is not about.
				}
				acceptable(t, document, words(args), map[string]string{"QUORUMCRON_ETCD_ENDPOINTS": "etcd:2379"})
			}
		}
	}
	if found < 5 {
		t.Errorf("found %d command lines in the documents", found)
	}
}

// words splits a command line as a shell would, as far as quotes go.
func words(line string) []string {
	var all []string
	for _, m := range regexp.MustCompile(`'([^']*)'|"([^"]*)"|(\S+)`).FindAllStringSubmatch(line, -1) {
		all = append(all, m[1]+m[2]+m[3])
	}
	return all
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
