package api_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/quorumcron/quorumcron/api"
	quorumcronv1 "github.com/quorumcron/quorumcron/proto/quorumcron/v1"
	"github.com/quorumcron/quorumcron/scheduler"
)

var update = flag.Bool("update", false, "write the golden files anew")

// filler sets every exported field of a value to something of its own, so that a field which a conversion
// forgets or mixes up shows, also one that is added later.
type filler struct{ n int }

func (f *filler) fill(v reflect.Value) {
	f.n++
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(noon.Add(time.Duration(f.n) * time.Hour)))
		return
	case time.Duration:
		v.SetInt(int64(time.Duration(f.n) * time.Second))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			f.fill(v.Field(i))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		f.fill(v.Index(0))
		f.fill(v.Index(1))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		f.fill(key)
		f.fill(value)
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString(fmt.Sprintf("text-%d", f.n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Uint8:
		v.SetUint(uint64('a' + f.n%26))
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(int64(f.n))
	default:
		panic(fmt.Sprintf("filler: no rule for %s", v.Type()))
	}
}

func filled[T any]() T {
	var v T
	(&filler{}).fill(reflect.ValueOf(&v).Elem())
	return v
}

// unset lists the fields of a message, and of those inside, that have no value.
func unset(m protoreflect.Message, path string) (fields []string) {
	all := m.Descriptor().Fields()
	for i := range all.Len() {
		f := all.Get(i)
		if f.ContainingOneof() != nil && !f.HasOptionalKeyword() {
			if m.WhichOneof(f.ContainingOneof()) == nil {
				fields = append(fields, path+"."+string(f.ContainingOneof().Name()))
			}
			if !m.Has(f) {
				continue
			}
		}
		here := path + "." + f.JSONName()
		switch {
		case !m.Has(f):
			fields = append(fields, here)
		case f.IsMap() || f.Message() == nil || f.Message().FullName() == "google.protobuf.Timestamp":
		case f.IsList():
			fields = append(fields, unset(m.Get(f).List().Get(0).Message(), here+"[0]")...)
		default:
			fields = append(fields, unset(m.Get(f).Message(), here)...)
		}
	}
	return fields
}

func TestJobSurvivesTheRoundTrip(t *testing.T) {
	t.Parallel()
	full := filled[scheduler.JobView]()
	for name, run := range map[string]scheduler.Executable{
		"command": {Command: full.Job.Run.Command},
		"handler": {Handler: full.Job.Run.Handler},
		"nothing": {},
	} {
		want := full.Job
		want.Run = run
		got, errs := api.JobFromProto(overTheWire(t, api.JobToProto(scheduler.JobView{Job: want})))
		if len(errs) > 0 {
			t.Fatalf("%s: %v", name, errs)
		}
		// What a client says about these is not true, so it does not come back.
		want.UID, want.Generation, want.Revision = "", 0, 0
		want.Created, want.Edited, want.Deleted, want.Schedule.Origin = time.Time{}, time.Time{}, time.Time{}, time.Time{}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: a field got lost (-want +got):\n%s", name, diff)
		}
	}
	got, errs := api.JobFromProto(overTheWire(t, api.JobToProto(scheduler.JobView{})))
	want := scheduler.Job{Name: scheduler.JobName{Namespace: "default"}}
	if diff := cmp.Diff(want, got); diff != "" || len(errs) > 0 {
		t.Errorf("the zero job: %v (-want +got):\n%s", errs, diff)
	}
}

// overTheWire sends a message through JSON, as a job file and -o json do, and through bytes.
func overTheWire(t *testing.T, j *quorumcronv1.Job) *quorumcronv1.Job {
	t.Helper()
	text, err := protojson.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	fromText, fromBytes := &quorumcronv1.Job{}, &quorumcronv1.Job{}
	if err := protojson.Unmarshal(text, fromText); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	raw, err := proto.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	if err := proto.Unmarshal(raw, fromBytes); err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(fromText, fromBytes) {
		t.Errorf("JSON and bytes differ: %v and %v", fromText, fromBytes)
	}
	return fromBytes
}

func TestConversionsFillEveryField(t *testing.T) {
	t.Parallel()
	view := filled[scheduler.JobView]()
	view.Job.Run.Handler = nil
	status := filled[scheduler.ClusterStatus]()
	status.Readiness.Checks[0].OK = false
	for name, row := range map[string]struct {
		message proto.Message
		allowed []string
	}{
		"job":      {api.JobToProto(view), nil},
		"calendar": {api.CalendarToProto(filled[scheduler.Calendar]()), nil},
		"run":      {api.RunToProto(filled[scheduler.Run]()), []string{"run.instant"}}, // triggered: it has none
		"status":   {api.StatusToProto(status, "1.2.3"), nil},
	} {
		var got []string
		for _, field := range unset(row.message.ProtoReflect(), name) {
			if field != "job.running[0].instant" {
				got = append(got, field)
			}
		}
		if diff := cmp.Diff(row.allowed, got); diff != "" {
			t.Errorf("%s: fields without a value (-want +got):\n%s", name, diff)
		}
	}
}

func TestDurationsReadAsPeopleWriteThem(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0:                       "",
		24 * time.Hour:          "24h",
		15 * time.Minute:        "15m",
		90 * time.Second:        "1m30s",
		90 * time.Minute:        "1h30m",
		10 * time.Second:        "10s",
		time.Hour + time.Second: "1h0m1s",
		100 * time.Hour:         "100h",
		20 * time.Minute:        "20m",
		1500 * time.Millisecond: "1.5s",
		-time.Minute:            "-1m",
	} {
		p := api.JobToProto(scheduler.JobView{Job: scheduler.Job{Policy: scheduler.Policy{Timeout: d}}})
		if got := p.GetPolicy().GetTimeout(); got != want {
			t.Errorf("%v: got %q, want %q", d, got, want)
		}
		if back, errs := api.JobFromProto(p); back.Policy.Timeout != d || len(errs) > 0 {
			t.Errorf("%q: read as %v, %v, want %v", want, back.Policy.Timeout, errs, d)
		}
	}
}

func TestOutputThatIsNoTextStillShows(t *testing.T) {
	t.Parallel()
	run := someRun(0, "node-a", scheduler.Failed)
	run.Output = []byte("\xa4 cut, then \xff")
	run.Attempts[0].Message = "bad \xff"
	p := api.RunToProto(run)
	if p.GetOutput() != "\uFFFD cut, then \uFFFD" || p.GetMessage() != "bad \uFFFD" || p.GetAttempts()[0].GetMessage() != "bad \uFFFD" {
		t.Errorf("got %q, %q", p.GetOutput(), p.GetMessage())
	}
	if _, err := proto.Marshal(p); err != nil {
		t.Errorf("it cannot be sent: %v", err)
	}
}

// TestJSONShape holds what scripts rely on. A change of these files breaks them.
func TestJSONShape(t *testing.T) {
	t.Parallel()
	exit := int32(3)
	ended := someRun(0, "node-b", scheduler.Failed)
	ended.Generation = 2
	ended.Attempts[0].Reason, ended.Attempts[0].ExitCode = scheduler.ReasonExitCode, &exit
	ended.Output, ended.OutputBytes = []byte("disk full\n"), 10
	job := scheduler.Job{
		Name: scheduler.JobName{Namespace: "default", Name: "report"}, UID: testUID(1), Generation: 2, Revision: 4711,
		Schedule:     scheduler.Schedule{Cron: []string{"30 2 * * *"}, TimeZone: "Europe/Berlin"},
		Run:          scheduler.Executable{Command: &scheduler.Command{Args: []string{"/usr/local/bin/report", "--daily"}}},
		Target:       scheduler.Target{Mode: "one"},
		HistoryLimit: 10,
		Policy: scheduler.Policy{
			Overlap: scheduler.OverlapSkip, OnLost: scheduler.OnLostFail, OnSessionLost: scheduler.SessionLostKill,
			CatchUp: scheduler.CatchUp{Mode: scheduler.CatchUpLatest, Window: 24 * time.Hour, Max: 100},
			Retry:   scheduler.Retry{MaxAttempts: 1},
		},
		Created: noon, Edited: noon.Add(time.Hour),
	}
	state := scheduler.State{
		UID: testUID(1), Cursor: noon,
		Counters: []scheduler.Counter{{Verdict: scheduler.Failed, Reason: scheduler.ReasonExitCode, Count: 1}},
		Ranges: []scheduler.Range{{
			Verdict: scheduler.Skipped, Reason: scheduler.ReasonOverlap, First: noon, Last: noon.Add(time.Hour), Count: 2,
		}},
		Backlog: &scheduler.Backlog{First: noon, Last: noon, Count: 1},
	}
	status := scheduler.ClusterStatus{
		Dispatcher: "node-a", Member: "node-a", ShardsOwned: 256, ClusterID: testUID(9), Format: 1, Now: noon,
		Readiness: scheduler.Readiness{Ready: true},
		Members: []scheduler.MemberView{{
			Member: scheduler.Member{Name: "node-a", Incarnation: 1, GRPCAddress: "127.0.0.1:7460", Capacity: 256}, ShardsOwned: 256, Dispatcher: true,
		}},
	}
	for name, message := range map[string]proto.Message{
		"run_ended":   api.RunToProto(ended),
		"run_running": api.RunToProto(someRun(0, "node-b", "")),
		"job":         api.JobToProto(scheduler.JobView{Job: job, State: &state, Next: []time.Time{noon}, Owner: "node-a", Pool: "all", Problem: "its state cannot be read"}),
		"job_listed":  &quorumcronv1.JobServiceListResponse{Jobs: []*quorumcronv1.Job{api.JobToProto(scheduler.JobView{Job: job})}},
		"status":      api.StatusToProto(status, "1.2.3"),
		"no_runs":     &quorumcronv1.RunServiceListResponse{},
	} {
		text, err := protojson.MarshalOptions{EmitDefaultValues: true}.Marshal(message)
		if err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		if err := json.Indent(&got, text, "", "  "); err != nil { // protojson's own spacing varies on purpose
			t.Fatal(err)
		}
		got.WriteByte('\n')
		path := filepath.Join("testdata", name+".json")
		if *update {
			if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
}
