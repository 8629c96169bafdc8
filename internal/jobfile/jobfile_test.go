package jobfile

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	quorumcronv1 "github.com/quorumcron/quorumcron/proto/quorumcron/v1"
	"github.com/quorumcron/quorumcron/scheduler"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func parseText(t *testing.T, name, text string, o Options) ([]*Document, error) {
	t.Helper()
	return Parse([]Source{{Name: name, Text: []byte(text)}}, o)
}

const whole = `# A comment, then everything a job can have.
name: nightly-report
namespace: reports
labels: {team: billing, "on": 'yes'}
schedule:
  cron: ["30 2 * * *", '0 12 * * 1']
  every: 15m
  at: [2026-12-24T18:00:00Z, "2026-12-24T19:00:00+01:00"]
  timeZone: Europe/Berlin
  start: 2026-01-01T00:00:00Z
  end: 2027-01-01T00:00:00Z
  jitter: 30s
run:
  command:
    args:
      - sh
      - -c
      - |
        echo one
        echo two
    env: {A: b, PORT: !!str 8080}
    dir: /srv
    user: report
target: {selector: {zone: eu}, mode: one}
policy:
  overlap: skip
  catchUp: {mode: latest, window: 24h, max: 100}
  onLost: retry
  onSessionLost: kill
  retry: {maxAttempts: 3}
  timeout: 10m
  startDeadline: 5m
history: {limit: 10}
paused: true
`

func wholeJob() *quorumcronv1.Job {
	christmas := &timestamppb.Timestamp{Seconds: time.Date(2026, 12, 24, 18, 0, 0, 0, time.UTC).Unix()}
	return &quorumcronv1.Job{
		Name: "nightly-report", Namespace: "reports", Labels: map[string]string{"team": "billing", "on": "yes"}, Paused: true,
		Schedule: &quorumcronv1.Schedule{
			Cron: []string{"30 2 * * *", "0 12 * * 1"}, Every: "15m", At: []*timestamppb.Timestamp{christmas, christmas},
			TimeZone: "Europe/Berlin", Jitter: "30s",
			Start: timestamppb.New(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)), End: timestamppb.New(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)),
		},
		Run: &quorumcronv1.Executable{Kind: &quorumcronv1.Executable_Command{Command: &quorumcronv1.Command{
			Args: []string{"sh", "-c", "echo one\necho two\n"}, Env: map[string]string{"A": "b", "PORT": "8080"}, Dir: "/srv", User: "report",
		}}},
		Target: &quorumcronv1.Target{Selector: map[string]string{"zone": "eu"}, Mode: "one"},
		Policy: &quorumcronv1.Policy{
			Overlap: "skip", CatchUp: &quorumcronv1.CatchUp{Mode: "latest", Window: "24h", Max: 100}, OnLost: "retry", OnSessionLost: "kill",
			Retry: &quorumcronv1.Retry{MaxAttempts: 3}, Timeout: "10m", StartDeadline: "5m",
		},
		History: &quorumcronv1.History{Limit: 10},
	}
}

func TestEveryFieldIsRead(t *testing.T) {
	t.Parallel()
	docs, err := parseText(t, "job.yaml", whole, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wholeJob(), docs[0].Job, protocmp.Transform()); diff != "" {
		t.Errorf("job differs (-want +got):\n%s", diff)
	}
}

// TestOneFormIsAsGoodAsAnother reads the same two jobs written in every way that is allowed.
func TestOneFormIsAsGoodAsAnother(t *testing.T) {
	t.Parallel()
	const jsonA, jsonB = `{"name": "a", "run": {"command": {"args": ["sh", "-c", "echo \"\u00e9\ud83d\ude00\/\"\t*"]}}}`, `{"name":"b","paused":true}`
	const yamlA = "name: a\nrun:\n  command:\n    args: [sh, -c, \"echo \\\"é😀/\\\"\\t*\"]\n"
	for name, text := range map[string]string{
		"yaml":                     yamlA + "---\nname: b\npaused: true\n",
		"begins with a marker":     "---\n" + yamlA + "---\n---\n# nothing\n---\nname: b\npaused: True\n...\n",
		"content after the marker": "--- # one\n" + yamlA + "--- {name: b, paused: true}\n",
		"directive":                "%YAML 1.2\n---\n" + yamlA + "--- \nname: b\npaused: true",
		"byte order mark and CRLF": "\uFEFF" + strings.ReplaceAll(yamlA+"---\nname: b\npaused: true\n", "\n", "\r\n"),
		"json in yaml":             jsonA + "\n---\n" + jsonB,
		"json after json":          jsonA + jsonB,
		"json lines":               jsonA + "\n" + jsonB + "\n",
		"json with tabs":           strings.ReplaceAll(jsonA, ": ", ":\t") + "\r\n" + strings.ReplaceAll(jsonB, ",", ",\n\t"),
		"anchors":                  "name: &n a\nrun: {command: &c {args: [sh, -c, \"echo \\\"é😀/\\\"\\t*\"]}}\n---\nname: b\nlabels: &l {}\ntarget: {selector: *l}\npaused: true\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			docs, err := parseText(t, "<stdin>", text, Options{})
			if err != nil {
				t.Fatalf("%v\nin:\n%s", err, text)
			}
			if len(docs) != 2 || docs[0].Job.Name != "a" || docs[1].Job.Name != "b" || !docs[1].Job.Paused {
				t.Fatalf("got %v, want jobs a and b", docs)
			}
			const want = "echo \"é😀/\"\t*"
			if got := docs[0].Job.GetRun().GetCommand().Args[2]; got != want {
				t.Errorf("got argument %q, want %q", got, want)
			}
		})
	}
}

func TestMergeKeysFillInWhatIsMissing(t *testing.T) {
	t.Parallel()
	const text = "name: a\nlabels: &base {x: base, y: base}\ntarget:\n  selector:\n    <<: *base\n    x: own\n"
	docs, err := parseText(t, "a.yaml", text, Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"x": "own", "y": "base"}
	if diff := cmp.Diff(want, docs[0].Job.GetTarget().GetSelector()); diff != "" {
		t.Errorf("selector differs (-want +got):\n%s", diff)
	}
}

// TestShownJobsCanBeApplied reads the output-only fields of a shown job, and drops them.
func TestShownJobsCanBeApplied(t *testing.T) {
	t.Parallel()
	const shown = `{"name":"a","namespace":"default","schedule":{"every":"10s","at":[],"cron":[],"origin":"2026-01-01T00:00:00Z","start":null},
		"uid":"01x","generation":"3","revision":"12","counters":[{"verdict":"SUCCEEDED","count":"5"}],"running":[],"backlog":null,"target":{"prefer":[]}}`
	docs, err := parseText(t, "a.json", shown, Options{Namespace: "other"})
	if err != nil {
		t.Fatal(err)
	}
	want := &quorumcronv1.Job{Name: "a", Namespace: "default", Schedule: &quorumcronv1.Schedule{Every: "10s"}, Target: &quorumcronv1.Target{}}
	if diff := cmp.Diff(want, docs[0].Job, protocmp.Transform()); diff != "" {
		t.Errorf("job differs (-want +got):\n%s", diff)
	}
}

func TestNamespaceOfTheCommandLine(t *testing.T) {
	t.Parallel()
	const text = "name: a\n---\nname: b\nnamespace: own\n"
	docs, err := parseText(t, "a.yaml", text, Options{Namespace: "default"})
	if err != nil || docs[0].Job.Namespace != "default" || docs[1].Job.Namespace != "own" {
		t.Errorf("got %v, %v; want the namespaces default and own", docs, err)
	}
	_, err = parseText(t, "a.yaml", text, Options{Namespace: "prod", Fixed: true})
	if err == nil || !strings.Contains(err.Error(), "a.yaml:4:12: namespace: \"own\": the command line says --namespace prod") {
		t.Errorf("got error %v, want one about line 4", err)
	}
}

// checkCron stands for scheduler's validation: it knows enough to be wrong about.
func checkCron(j *quorumcronv1.Job) []scheduler.FieldError {
	var wrong []scheduler.FieldError
	if j.Name == "" {
		wrong = append(wrong, scheduler.FieldError{Field: "name", Problem: "is missing", Remedy: "give the job a name"})
	}
	if j.Schedule == nil {
		wrong = append(wrong, scheduler.FieldError{Field: "schedule", Problem: "is missing"})
	}
	for i, c := range j.GetSchedule().GetCron() {
		if n := len(strings.Fields(c)); n != 5 {
			wrong = append(wrong, scheduler.FieldError{Field: fmt.Sprintf("schedule.cron[%d]", i), Value: c,
				Problem: fmt.Sprintf("has %d fields, not 5 or 6", n), Remedy: "write minute, hour, day, month, weekday"})
		}
	}
	for k := range j.GetRun().GetCommand().GetEnv() {
		if strings.HasPrefix(k, "QUORUMCRON_") {
			wrong = append(wrong, scheduler.FieldError{Field: "run.command.env." + k, Value: k, Problem: "is set by the node"})
		}
	}
	return wrong
}

// TestBadFilesAreExplained compares what is said about each file of testdata/bad with what was once
// found good.
func TestBadFilesAreExplained(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/bad/*")
	if err != nil || len(files) < 20 {
		t.Fatalf("found %d bad files, %v", len(files), err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, ".golden") {
			continue
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			docs, err := parseText(t, filepath.Base(file), string(text), Options{Namespace: "default", Check: checkCron})
			var problems *Problems
			if docs != nil || !errors.As(err, &problems) {
				t.Fatalf("got %v, %v; want no documents and a Problems", docs, err)
			}
			golden := file + ".golden"
			got := err.Error() + "\n"
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
		})
	}
}

// TestHugeInputIsBounded feeds texts whose parsing, or whose meaning, would grow out of hand.
func TestHugeInputIsBounded(t *testing.T) {
	t.Parallel()
	bomb := "name: a\nlabels:\n"
	for i := range 30 {
		bomb = fmt.Sprintf("x%d: &x%d [%s]\n", i, i, strings.Repeat(fmt.Sprintf("*x%d, ", max(0, i-1)), 10)) + bomb
	}
	var many strings.Builder
	for i := range maxDocuments + 1 {
		fmt.Fprintf(&many, "name: a%d\n---\n", i)
	}
	merges := "name: a\nlabels: &a {" + keys(2000) + "}\n"
	for i := range 2000 {
		merges += fmt.Sprintf("m%d: {<<: *a}\n", i)
	}
	for name, c := range map[string]struct{ text, want string }{
		"flow nesting":      {"a: " + strings.Repeat("[", 1_000_000), "nested too deeply"},
		"block nesting":     {strings.Repeat("- ", 100_000) + "x", "nested too deeply"},
		"tags":              {"a: " + strings.Repeat("!a ", 100_000) + "x", "nested too deeply"},
		"blank lines":       {"a: |\n" + strings.Repeat("\n", 100_000) + "  x", "at most 1 MiB and 10000 lines"},
		"one document":      {"name: \"" + strings.Repeat("x", 2<<20) + "\"", "at most 1 MiB and 10000 lines"},
		"json nesting":      {strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000), "nested too deeply"},
		"a file":            {strings.Repeat("#", maxFile+1), "larger than 4 MiB"},
		"aliases":           {bomb, "x29"},
		"merges":            {merges, "more than 100000 values"},
		"many documents":    {many.String(), "more than 10000 documents"},
		"many wrong fields": {strings.Repeat("name: a\n", 9000), "and 7999 more"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := parseText(t, "big.yaml", c.text, Options{})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %.300v, want one that contains %q", err, c.want)
			}
		})
	}
}

func keys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "k%d: v, ", i)
	}
	return b.String()
}

func TestAFullSetIsReadQuickly(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := range maxDocuments {
		fmt.Fprintf(&b, "---\nname: job-%d\nschedule: {cron: [\"*/5 * * * *\"]}\nrun: {command: {args: [echo, hello]}}\n", i)
	}
	docs, err := parseText(t, "all.yaml", b.String(), Options{Check: checkCron})
	if err != nil || len(docs) != maxDocuments {
		t.Fatalf("got %d documents, %v", len(docs), err)
	}
	if got, want := docs[maxDocuments-1].Where(), "all.yaml:39998"; got != want {
		t.Errorf("the last one is at %s, want %s", got, want)
	}
}

// TestEveryFieldOfAJobHasAReadableKind breaks when the message gets a field that files cannot hold.
func TestEveryFieldOfAJobHasAReadableKind(t *testing.T) {
	t.Parallel()
	var walk func(m protoreflect.MessageDescriptor, path string)
	walk = func(m protoreflect.MessageDescriptor, path string) {
		for _, name := range fieldNames(m, path) {
			fd := m.Fields().ByJSONName(name)
			switch {
			case isTimestamp(fd), fd.Kind() == protoreflect.StringKind, fd.Kind() == protoreflect.BoolKind, fd.Kind() == protoreflect.Int32Kind:
			case fd.IsMap() && fd.MapKey().Kind() == protoreflect.StringKind && fd.MapValue().Kind() == protoreflect.StringKind:
			case fd.Kind() == protoreflect.MessageKind && !fd.IsList():
				walk(fd.Message(), join(path, name))
			default:
				t.Errorf("%s has kind %s, which decode.go cannot read", join(path, name), fd.Kind())
			}
			if durations[name] && fd.Kind() != protoreflect.StringKind {
				t.Errorf("%s is listed as a duration, but is no string", join(path, name))
			}
		}
	}
	walk((&quorumcronv1.Job{}).ProtoReflect().Descriptor(), "")
	for word, place := range elsewhere {
		if m := (&quorumcronv1.Job{}).ProtoReflect().Descriptor(); !exists(m, place) {
			t.Errorf("%q leads to %s, which does not exist", word, place)
		}
	}
	for path := range planned {
		if exists((&quorumcronv1.Job{}).ProtoReflect().Descriptor(), path) {
			t.Errorf("%s is called planned, but exists", path)
		}
	}
}

func exists(m protoreflect.MessageDescriptor, path string) bool {
	first, rest, more := strings.Cut(path, ".")
	fd := m.Fields().ByJSONName(first)
	return fd != nil && (!more || exists(fd.Message(), rest))
}

func TestRead(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for name, text := range map[string]string{"b.yaml": "b", "a.yml": "a", "c.json": "c", "d.txt": "d", ".hidden.yaml": "h", "sub.yaml/x.yaml": "x"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(folder, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("d.txt", filepath.Join(folder, "e.yaml")); err != nil {
		t.Fatal(err)
	}
	sources, err := Read(folder, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range sources {
		got = append(got, filepath.Base(s.Name)+"="+string(s.Text))
	}
	if diff := cmp.Diff([]string{"a.yml=a", "b.yaml=b", "c.json=c", "e.yaml=d"}, got); diff != "" {
		t.Errorf("sources differ (-want +got):\n%s", diff)
	}
	stdin, err := Read("-", strings.NewReader("name: x"))
	if err != nil || len(stdin) != 1 || stdin[0].Name != "<stdin>" || string(stdin[0].Text) != "name: x" {
		t.Errorf("got %v, %v from stdin", stdin, err)
	}
	for name, want := range map[string]string{
		filepath.Join(folder, "none.yaml"): "none.yaml: no such file or directory",
		t.TempDir():                        "there is no *.yaml, *.yml or *.json file in it",
	} {
		if _, err := Read(name, nil); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("Read(%s) = %v, want an error that ends in %q", name, err, want)
		}
	}
	if _, err := Read("-", bytes.NewReader(make([]byte, maxFile+1))); err == nil || !strings.Contains(err.Error(), "larger than 4 MiB") {
		t.Errorf("got %v, want an error about the size", err)
	}
}

// FuzzParse looks for texts that panic, or hang, or whose problem lies outside of the text.
func FuzzParse(f *testing.F) {
	f.Add(whole)
	files, err := filepath.Glob("testdata/bad/*")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		docs, err := parseText(t, "fuzz.yaml", text, Options{Check: checkCron})
		var problems *Problems
		switch {
		case err == nil && len(docs) == 0:
			t.Errorf("neither documents nor an error for %q", text)
		case err == nil:
			for _, d := range docs {
				if _, err := proto.Marshal(d.Job); err != nil {
					t.Errorf("a job that cannot be sent: %v from %q", err, text)
				}
			}
		case !errors.As(err, &problems):
			t.Errorf("error %v is no Problems", err)
		default:
			for _, p := range problems.List {
				if p.Line > strings.Count(text, "\n")+1 {
					t.Errorf("problem %v is beyond the text %q", p, text)
				}
			}
		}
	})
}

// TestAWrittenZeroIsNotLeftOut: the API takes a zero of these for what was left out, so that a window of 0s would
// be one of a day.
func TestAWrittenZeroIsNotLeftOut(t *testing.T) {
	t.Parallel()
	const head = "name: a\nschedule: {cron: ['* * * * *']%s}\nrun: {command: {args: [x]}}\n%s"
	for _, test := range []struct{ schedule, rest, field string }{
		{schedule: ", every: 0s", field: "schedule.every"},
		{rest: "policy: {catchUp: {window: 0s}}", field: "policy.catchUp.window"},
		{rest: "policy: {catchUp: {window: '0'}}", field: "policy.catchUp.window"},
		{rest: "policy: {catchUp: {max: 0}}", field: "policy.catchUp.max"},
		{rest: "policy: {retry: {maxAttempts: 0}}", field: "policy.retry.maxAttempts"},
		{rest: "policy: {startDeadline: 0m}", field: "policy.startDeadline"},
		{rest: "history: {limit: 0}", field: "history.limit"},
	} {
		_, err := parseText(t, "jobs.yaml", fmt.Sprintf(head, test.schedule, test.rest), Options{})
		if err == nil || !strings.Contains(err.Error(), test.field+": ") || !strings.Contains(err.Error(), "must not be zero; ") {
			t.Errorf("%s%s: got %v, want %s refused with a remedy", test.schedule, test.rest, err, test.field)
		}
	}
	for _, rest := range []string{"policy: {timeout: 0s}", "policy: {catchUp: {window: ''}}", "history: {}", "history: {limit: 1}"} {
		if _, err := parseText(t, "jobs.yaml", fmt.Sprintf(head, "", rest), Options{}); err != nil {
			t.Errorf("%s: got %v, want it taken", rest, err)
		}
	}
}
