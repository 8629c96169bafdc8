package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/quorumcron/quorumcron/executor"
	quorumcronv1 "github.com/quorumcron/quorumcron/proto/quorumcron/v1"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// actAs makes the test binary the program itself, for tests that need processes.
const actAs = "ACT_AS_QUORUMCRON"

func TestMain(m *testing.M) {
	executor.Supervise()
	if os.Getenv(actAs) != "" {
		main()
	}
	os.Exit(m.Run())
}

// testConsole is a console that keeps what is written, at noon, without a terminal.
type testConsole struct {
	console
	stdout, stderr bytes.Buffer
	environment    map[string]string
}

func newTestConsole(stdin string) *testConsole {
	c := &testConsole{environment: map[string]string{}}
	c.console = console{
		in: strings.NewReader(stdin), out: &c.stdout, err: &c.stderr, now: func() time.Time { return noon },
		newID:  func() string { return "made-up" },
		lookup: func(name string) (string, bool) { v, ok := c.environment[name]; return v, ok },
		environ: func() (all []string) {
			for k, v := range c.environment {
				all = append(all, k+"="+v)
			}
			return all
		},
	}
	return c
}

// run runs a command line and returns all that can be seen of it.
func (c *testConsole) run(args ...string) string {
	code := execute(context.Background(), args, &c.console)
	return fmt.Sprintf("%s-- stderr\n%s-- exit %d\n", c.stdout.String(), c.stderr.String(), code)
}

// compare checks a result against testdata/<name>.golden.
func compare(t *testing.T, name, got string) {
	t.Helper()
	golden := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", golden, diff)
	}
}

const twoJobs = "name: report\nschedule: {every: 10m}\nrun: {command: {args: [report]}}\n---\nname: same\nschedule: {cron: ['0 2 * * *']}\nrun: {command: {args: [x]}}\ntarget: {selector: {zone: mars}}\n"

func oneJob(name string) string {
	return "name: " + name + "\nschedule: {every: 10m}\nrun: {command: {args: [x]}}\n---\n"
}

// TestCommands runs every command against a node that answers always the same.
func TestCommands(t *testing.T) {
	t.Parallel()
	fake := startFake(t)
	for _, c := range []struct{ name, args, stdin string }{
		{"job-apply", "job apply -f -", twoJobs},
		{"job-apply-json", "job apply -f - -o json", twoJobs},
		{"job-apply-wrong", "job apply -f -", twoJobs + "---\nname: Bad\nschedule: {cron: ['61 * * * *'], timeZone: Mars/Olympus}\nrun: {command: {args: []}}\npolicy: {timout: 1m, overlap: allow_all}\n"},
		{"job-apply-some-fail", "job apply -f -", oneJob("a") + oneJob("busy") + oneJob("bad") + oneJob("unknown") + oneJob("away") + oneJob("never-sent")},
		{"job-apply-namespace", "job apply --namespace prod -f -", "namespace: test\n" + oneJob("a")},
		{"job-apply-nothing", "job apply -f -", "# nothing\n"},
		{"job-apply-no-file", "job apply -f testdata/none.yaml", ""},
		{"job-apply-no-flag", "job apply", ""},
		{"job-list", "job list", ""},
		{"job-list-all", "job list -A", ""},
		{"job-list-empty", "job list --namespace empty", ""},
		{"job-list-json", "job list -o json --namespace empty", ""},
		{"job-show", "job show report", ""},
		{"job-show-json", "job show report -o json", ""},
		{"job-show-yaml", "job show report -o yaml", ""},
		{"job-show-gone", "job show gone", ""},
		{"job-show-no-name", "job show", ""},
		{"job-show-two-names", "job show a b", ""},
		{"job-delete", "job delete report", ""},
		{"job-delete-dry", "job delete report --dry-run", ""},
		{"job-delete-busy", "job delete busy", ""},
		{"job-pause", "job pause report", ""},
		{"job-pause-same", "job pause same", ""},
		{"job-resume", "job resume report", ""},
		{"job-resume-same", "job resume same", ""},
		{"job-next", "job next report -n 2", ""},
		{"job-next-json", "job next report -n 2 --after 2026-12-24T18:00:00+01:00 -o json", ""},
		{"job-next-over", "job next over", ""},
		{"job-next-bad-count", "job next report -n 0", ""},
		{"job-next-bad-after", "job next report --after yesterday", ""},
		{"job-trigger", "job trigger report", ""},
		{"job-trigger-again", "job trigger report --request-id req-1", ""},
		{"job-trigger-json", "job trigger report -o json", ""},
		{"job-trigger-unknown", "job trigger unknown --namespace prod", ""},
		{"job-verb", "job aply", ""},
		{"job-no-verb", "job", ""},
		{"run-list", "run list --limit 3", ""},
		{"run-list-pages", "run list --limit 4 -o json --job report", ""},
		{"run-list-all", "run list -A --limit 1", ""},
		{"run-list-none", "run list --job never-ran", ""},
		{"run-list-limit", "run list --limit 0", ""},
		{"run-show", "run show 01abc@2026-11-30T11:59:00Z", ""},
		{"run-show-triggered", "run show 01abc+01trig", ""},
		{"run-show-json", "run show 01abc+01trig -o json", ""},
		{"run-logs", "run logs 01abc+01trig", ""},
		{"run-logs-gone", "run logs gone", ""},
		{"run-cancel", "run cancel 01abc+01trig", ""},
		{"run-cancel-waiting", "run cancel waiting", ""},
		{"run-cancel-ended", "run cancel ended", ""},
		{"calendar-apply", "calendar apply -f -", twoCalendars},
		{"calendar-apply-json", "calendar apply -f - -o json", twoCalendars},
		{"calendar-apply-wrong", "calendar apply -f -", wrongCalendars},
		{"calendar-apply-job", "calendar apply -f -", oneJob("a")},
		{"calendar-list", "calendar list", ""},
		{"calendar-list-all", "calendar list -A", ""},
		{"calendar-list-empty", "calendar list --namespace empty", ""},
		{"calendar-show", "calendar show holidays", ""},
		{"calendar-show-yaml", "calendar show holidays -o yaml", ""},
		{"calendar-show-gone", "calendar show gone", ""},
		{"calendar-delete", "calendar delete holidays", ""},
		{"calendar-delete-dry", "calendar delete holidays --dry-run", ""},
		{"calendar-delete-busy", "calendar delete busy", ""},
		{"job-apply-calendar", "job apply -f -", twoCalendars},
		{"member-list", "member list", ""},
		{"member-list-json", "member list -o json", ""},
		{"cluster-status", "cluster status", ""},
		{"cluster-status-json", "cluster status -o json", ""},
		{"schedule-next", "schedule next 30_2_*_*_* --time-zone Europe/Berlin -n 3 --after 2027-03-26T12:00:00Z", ""},
		{"schedule-next-json", "schedule next @every_15m --anchor 2026-01-01T00:05:00Z -n 3 -o json", ""},
		{"schedule-next-yaml", "schedule next @daily -o yaml -n 2", ""},
		{"schedule-next-wrong", "schedule next 61_*_*_*_25", ""},
		{"schedule-next-never", "schedule next 0_0_30_2_*", ""},
		{"schedule-next-zone", "schedule next @daily --time-zone CET+1", ""},
		{"schedule-next-count", "schedule next @daily -n 0", ""},
		{"no-command", "", ""},
		{"no-such-command", "jbo list", ""},
		{"no-such-flag", "job list --servr x", ""},
		{"no-such-format", "job list -o xml", ""},
		{"bad-server", "job list --server nowhere", ""},
		{"bad-timeout", "job list --timeout 0s", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			console := newTestConsole(c.stdin)
			console.environment["QUORUMCRON_SERVER"] = fake.address
			var args []string
			for _, arg := range strings.Fields(c.args) {
				args = append(args, strings.ReplaceAll(arg, "_", " "))
			}
			compare(t, c.name, console.run(args...))
		})
	}
}

// TestExitCodes maps what servers answer, by every way a command can go.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	fake := startFake(t)
	for name, want := range map[string]int{"fine": 0, "full": 1, "unknown": 1, "bad": 2, "gone": 3, "busy": 4, "ended": 4, "away": 5, "slow": 5} {
		for _, verb := range []string{"calendar show", "calendar delete", "job show", "job delete", "job pause", "job resume", "job next", "job trigger", "run show", "run logs", "run cancel"} {
			t.Run(verb+" "+name, func(t *testing.T) {
				t.Parallel()
				c := newTestConsole("")
				got := execute(context.Background(), append(strings.Fields(verb), name, "--server", fake.address, "--timeout", "200ms"), &c.console)
				// On a busy machine anything may take longer than the deadline of the slow one.
				if got != want && !(name != "slow" && got == exitUnreachable && strings.Contains(c.stderr.String(), "within 200ms")) {
					t.Errorf("exit %d, want %d\n%s", got, want, c.stderr.String())
				}
			})
		}
	}
}

// TestSilenceIsTheSameWhoeverNoticesIt: a server whose deadline is over first breaks the stream off.
func TestSilenceIsTheSameWhoeverNoticesIt(t *testing.T) {
	t.Parallel()
	options := serverOptions{server: "127.0.0.1:1", timeout: time.Millisecond}
	client, err := options.connect()
	if err != nil {
		t.Fatal(err)
	}
	defer client.close()
	for _, code := range []codes.Code{codes.Canceled, codes.DeadlineExceeded, codes.Internal} {
		_, err = call(t.Context(), client, func(ctx context.Context, _ string, _ ...grpc.CallOption) (string, error) {
			<-ctx.Done()
			return "", status.Error(code, "stream terminated by RST_STREAM")
		}, "")
		if exitCode(err) != exitUnreachable || !strings.Contains(err.Error(), "no answer from 127.0.0.1:1 within 1ms; give it longer with --timeout") {
			t.Errorf("%s: got exit %d, %v", code, exitCode(err), err)
		}
	}
}

// TestWhatNeverLeftIsNotUnknown: nothing can have come of a call that found no node.
func TestWhatNeverLeftIsNotUnknown(t *testing.T) {
	t.Parallel()
	c := newTestConsole(oneJob("a") + oneJob("b"))
	if got := c.run("job", "apply", "-f", "-", "--server", "127.0.0.1:1"); !strings.Contains(got, "failed     default/a  no node answers") ||
		!strings.Contains(got, "not tried  default/b") || strings.Contains(got, "unknown") {
		t.Errorf("apply: got\n%s\nwant failed and not tried", got)
	}
	if got := newTestConsole("").run("job", "trigger", "a", "--server", "127.0.0.1:1"); strings.Contains(got, "--request-id") {
		t.Errorf("trigger: got\n%s\nwant no word of a repeat", got)
	}
}

// cutShort is a node that dies while it serves a call.
type cutShort struct {
	quorumcronv1.UnimplementedJobServiceServer
	die func()
}

func (n cutShort) Trigger(ctx context.Context, _ *quorumcronv1.JobServiceTriggerRequest) (*quorumcronv1.JobServiceTriggerResponse, error) {
	go n.die()
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestATriggerThatWasCutShortSaysHowToRepeatIt: it may have been taken, and a repeat without its id would be a
// second firing.
func TestATriggerThatWasCutShortSaysHowToRepeatIt(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	quorumcronv1.RegisterJobServiceServer(server, cutShort{die: server.Stop})
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	c := newTestConsole("")
	got := c.run("job", "trigger", "report", "--namespace", "billing", "--server", l.Addr().String())
	for _, want := range []string{"broke before it answered", "repeat it safely, with: quorumcron job trigger report --request-id made-up --namespace billing", "-- exit 5"} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant it to contain %q", got, want)
		}
	}
	server.Stop()
	<-ended
}

func TestNobodyThere(t *testing.T) {
	t.Parallel()
	c := newTestConsole("")
	got := c.run("job", "list", "--server", "127.0.0.1:1")
	for _, want := range []string{"no node answers at 127.0.0.1:1 (", "start one with `quorumcron dev`", "-- exit 5"} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant it to contain %q", got, want)
		}
	}
}

func TestInterrupted(t *testing.T) {
	t.Parallel()
	fake := startFake(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	c := newTestConsole("")
	if got := execute(ctx, []string{"job", "show", "slow", "--server", fake.address}, &c.console); got != exitFailed {
		t.Errorf("exit %d, want %d\n%s", got, exitFailed, c.stderr.String())
	}
}

// TestFlagsComeBeforeVariables looks at which namespace the server is asked for.
func TestFlagsComeBeforeVariables(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ variable, flag, want string }{
		{"", "", "default"}, {"from-env", "", "from-env"}, {"from-env", "from-flag", "from-flag"}, {"", "from-flag", "from-flag"},
	} {
		fake := startFake(t)
		console := newTestConsole("")
		console.environment["QUORUMCRON_SERVER"] = fake.address
		console.environment["QUORUMCRON_NAMESPACE"] = c.variable
		args := []string{"job", "show", "x"}
		if c.flag != "" {
			args = append(args, "--namespace", c.flag)
		}
		console.run(args...)
		want := []proto.Message{&quorumcronv1.JobServiceGetRequest{Namespace: c.want, Name: "x"}}
		if len(fake.seen) != 1 || !proto.Equal(fake.seen[0], want[0]) {
			t.Errorf("variable %q, flag %q: the server saw %v, want %v", c.variable, c.flag, fake.seen, want)
		}
	}
	c := newTestConsole("")
	c.environment["QUORUMCRON_TIMEOUT"] = "soon"
	if got := c.run("job", "list"); !strings.Contains(got, `QUORUMCRON_TIMEOUT="soon": `) || !strings.Contains(got, "-- exit 2") {
		t.Errorf("got\n%s\nwant it to name the variable and to exit 2", got)
	}
}

func TestColoursAreForTerminals(t *testing.T) {
	t.Parallel()
	fake := startFake(t)
	for _, c := range []struct {
		terminal    bool
		term, no    string
		wantColours bool
	}{{false, "xterm", "", false}, {true, "xterm", "", true}, {true, "xterm", "1", false}, {true, "dumb", "", false}} {
		console := newTestConsole("")
		console.outTerminal = c.terminal
		console.environment["TERM"], console.environment["NO_COLOR"] = c.term, c.no
		console.run("run", "list", "--limit", "3", "--server", fake.address)
		out := console.stdout.String()
		if got := strings.Contains(out, "\x1b["); got != c.wantColours {
			t.Errorf("%+v: colours %v", c, got)
		}
		if !c.wantColours {
			continue
		}
		// Colours must not move the columns.
		var at []int
		for _, line := range strings.Split(strings.TrimSpace(out), "\n") {
			for _, colour := range []string{plain, green, yellow, red, reset} {
				line = strings.ReplaceAll(line, colour, "")
			}
			at = append(at, strings.Index(line+"01abc@", "01abc@"))
		}
		if at[1] != at[2] || at[2] != at[3] {
			t.Errorf("the last column begins at %v in\n%s", at, out)
		}
	}
}

func TestCompletionOffersJobs(t *testing.T) {
	t.Parallel()
	fake := startFake(t)
	for line, want := range map[string]string{
		"job show ":            "db-backup\nidle\n:4\n",
		"job trigger d":        "db-backup\n:4\n",
		"run list --job i":     "idle\n:4\n",
		"job list -o ":         "table\njson\nyaml\n:4\n",
		"job pause db-backup ": ":4\n",
	} {
		c := newTestConsole("")
		c.environment["QUORUMCRON_SERVER"] = fake.address
		args := append([]string{"__complete"}, strings.Split(line, " ")...)
		if code := execute(context.Background(), args, &c.console); code != 0 || c.stdout.String() != want {
			t.Errorf("completing %q: exit %d, got %q, want %q", line, code, c.stdout.String(), want)
		}
	}
	c := newTestConsole("")
	if code := execute(context.Background(), []string{"__complete", "job", "show", "--server", "127.0.0.1:1", ""}, &c.console); code != 0 || c.stdout.String() != ":4\n" {
		t.Errorf("without a node: exit %d, got %q", code, c.stdout.String())
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		c := newTestConsole("")
		if code := execute(context.Background(), []string{"completion", shell}, &c.console); code != 0 || !strings.Contains(c.stdout.String(), "quorumcron") {
			t.Errorf("completion %s: exit %d, %d bytes", shell, code, c.stdout.Len())
		}
	}
}

// TestEveryCommandExplainsItself walks the tree: help for each, with what scripts rely on.
func TestEveryCommandExplainsItself(t *testing.T) {
	t.Parallel()
	root := newRoot(&newTestConsole("").console)
	var walk func(path []string)
	walk = func(path []string) {
		cmd, _, err := root.Find(path)
		if err != nil {
			t.Fatal(err)
		}
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%v: short help %q", path, cmd.Short)
		}
		c := newTestConsole("")
		if code := execute(context.Background(), append(path, "--help"), &c.console); code != 0 || c.stderr.Len() > 0 {
			t.Errorf("%v --help: exit %d, stderr %q", path, code, c.stderr.String())
		}
		for _, line := range strings.Split(c.stdout.String(), "\n") {
			if len([]rune(line)) > 140 {
				t.Errorf("%v --help has a line of %d characters: %q", path, len(line), line)
			}
		}
		// What cannot be guessed from a usage line has an example, and examples are commands.
		if _, arguments, _ := strings.Cut(cmd.Use, " "); arguments != "" && arguments != "NAME" && cmd.Example == "" {
			t.Errorf("%v: no example of %s", path, arguments)
		}
		for _, line := range strings.Split(strings.ReplaceAll(cmd.Example, "\\\n", " "), "\n") {
			for _, one := range strings.Split(line, " | ") {
				if args, ours := strings.CutPrefix(strings.TrimSpace(one), "quorumcron "); ours {
					acceptable(t, strings.Join(path, " ")+" --help", words(args), nil)
				} else if one != "" {
					t.Errorf("%v: the example %q is no command of ours", path, line)
				}
			}
		}
		for _, sub := range cmd.Commands() {
			walk(append(path[:len(path):len(path)], sub.Name()))
		}
	}
	walk(nil)
	c := newTestConsole("")
	compare(t, "help", c.run("--help"))
}

func TestVersion(t *testing.T) {
	t.Parallel()
	c := newTestConsole("")
	got := c.run("version", "-o", "json")
	for _, want := range []string{`"version": "`, `"go": "go1.`, `"tzdata": "20`, "-- exit 0"} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant it to contain %q", got, want)
		}
	}
}

func TestSpans(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0ms", 12 * time.Millisecond: "12ms", 1500 * time.Millisecond: "1.5s", 5 * time.Second: "5s", 42 * time.Second: "42s", 100 * time.Second: "1m 40s",
		4 * time.Minute: "4m", 42*time.Minute + 5*time.Second: "42m", 7*time.Hour + 12*time.Minute: "7h 12m", 3 * time.Hour: "3h", 50 * time.Hour: "2d 2h", 2400 * time.Hour: "100d",
	} {
		if got := span(d); got != want {
			t.Errorf("span(%s) = %q, want %q", d, got, want)
		}
	}
	for d, want := range map[time.Duration]string{0: "now", 900 * time.Millisecond: "now", 4 * time.Minute: "in 4m", -2 * time.Minute: "2m ago", -time.Second: "1s ago"} {
		if got := relative(noon.Add(d), noon); got != want {
			t.Errorf("relative(%s) = %q, want %q", d, got, want)
		}
	}
}
