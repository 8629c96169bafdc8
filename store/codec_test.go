package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/quorumcron/quorumcron/proto/quorumcron/stored/v1"
	"github.com/quorumcron/quorumcron/scheduler"
)

// arbitrary fills a value of the core at random, every field of it, so that a field that the codec
// forgets makes a round trip fail.
type arbitrary struct{ *rand.Rand }

func newArbitrary(t *testing.T) arbitrary {
	t.Helper()
	return arbitrary{rand.New(rand.NewPCG(Seed(t), 7))}
}

func fill[T any](a arbitrary, full bool) T {
	var v T
	a.fill(reflect.ValueOf(&v).Elem(), full)
	return v
}

func oneOf[T any](a arbitrary, w []T) T { return w[a.IntN(len(w))] }

// fill sets v. full leaves nothing at its zero value.
func (a arbitrary) fill(v reflect.Value, full bool) {
	if !full && a.IntN(5) == 0 {
		return
	}
	switch x := v.Addr().Interface().(type) {
	case *time.Time:
		*x = time.Unix(a.Int64N(4e9)-1e9, a.Int64N(1e9)).UTC()
		return
	case *time.Duration:
		*x = time.Duration(a.Int64N(int64(48*time.Hour)) + 1)
		return
	case *scheduler.Verdict:
		*x = oneOf(a, verdicts[1:])
		return
	case *scheduler.Reason:
		*x = oneOf(a, reasons[1:])
		return
	case *scheduler.OverlapPolicy:
		*x = oneOf(a, overlaps[1:])
		return
	case *scheduler.CatchUpMode:
		*x = oneOf(a, catchUps[1:])
		return
	case *scheduler.OnLost:
		*x = oneOf(a, onLosts[1:])
		return
	case *scheduler.OnSessionLost:
		*x = oneOf(a, onSessionLosts[1:])
		return
	case *scheduler.Target:
		a.fillFields(v, full)
		x.Mode = oneOf(a, targetModes[1:])
		return
	case *scheduler.Firing:
		*x = scheduler.Firing{UID: "uid", Scheduled: a.Int64N(4e9) - 1e9}
		if a.IntN(2) == 0 {
			*x = scheduler.Triggered("uid", fmt.Sprintf("t-%d", a.Int()))
		}
		return
	case *scheduler.Executable:
		if a.IntN(2) == 0 {
			x.Command = &scheduler.Command{}
			a.fillFields(reflect.ValueOf(x.Command).Elem(), full)
		} else {
			x.Handler = &scheduler.HandlerCall{}
			a.fillFields(reflect.ValueOf(x.Handler).Elem(), full)
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		a.fillFields(v, full)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		a.fill(v.Elem(), true)
	case reflect.Slice:
		n := 1 + a.IntN(3)
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			a.fill(v.Index(i), true)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf(fmt.Sprint("k", a.Int())), reflect.ValueOf(fmt.Sprint("v", a.Int())))
	case reflect.String:
		v.SetString(fmt.Sprintf("s-%d", a.Int()))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64, reflect.Int32:
		v.SetInt(1 + a.Int64N(1<<30))
	case reflect.Uint8:
		v.SetUint(1 + a.Uint64N(255))
	case reflect.Array:
		for i := range v.Len() {
			a.fill(v.Index(i), full)
		}
	default:
		panic("cannot fill a " + v.Type().String())
	}
}

func (a arbitrary) fillFields(v reflect.Value, full bool) {
	for i := range v.NumField() {
		a.fill(v.Field(i), full)
	}
}

// roundTrip writes and reads a value 500 times at random, once with every field set.
func roundTrip[T any](t *testing.T, adapt func(*T), through func(T) (T, error)) {
	t.Helper()
	a := newArbitrary(t)
	for i := range 500 {
		want := fill[T](a, i == 0)
		adapt(&want)
		got, err := through(want)
		if err != nil {
			t.Fatalf("%v\n%+v", err, want)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("round trip (-want +got):\n%s", diff)
		}
	}
}

// rewritten is m as its bytes say.
func rewritten[M proto.Message](m M) M {
	value, err := marshal(m)
	if err != nil {
		panic(err)
	}
	fresh := m.ProtoReflect().New().Interface().(M)
	if err := unmarshal([]byte(value), fresh); err != nil {
		panic(err)
	}
	return fresh
}

func TestJobsAreReadAsWritten(t *testing.T) {
	t.Parallel()
	roundTrip(t, func(j *scheduler.Job) {
		j.Revision, j.UID, j.Generation = 0, "uid", max(j.Generation, 1)
		if j.Run == (scheduler.Executable{}) {
			j.Run.Handler = &scheduler.HandlerCall{}
		}
	}, func(j scheduler.Job) (scheduler.Job, error) {
		m, err := encodeJob(j)
		if err != nil {
			return j, err
		}
		return decodeJob(j.Name, rewritten(m))
	})
}

func TestStatesAreReadAsWritten(t *testing.T) {
	t.Parallel()
	roundTrip(t, func(s *scheduler.State) {
		s.UID, s.Slots = "uid", max(s.Slots, 1)
		if s.Cursor.IsZero() {
			s.Cursor = time.Unix(1, 0).UTC()
		}
		for i := range s.Entries {
			s.Entries[i].Attempt = max(s.Entries[i].Attempt, 1)
		}
	}, func(s scheduler.State) (scheduler.State, error) {
		m, err := encodeState(s)
		if err != nil {
			return s, err
		}
		return decodeState(rewritten(m))
	})
}

func TestRunsAreReadAsWritten(t *testing.T) {
	t.Parallel()
	roundTrip(t, func(r *scheduler.Run) {
		r.Firing.UID = "uid"
		if len(r.Attempts) == 0 {
			r.Attempts = []scheduler.Attempt{{Number: 1}}
		}
	}, func(r scheduler.Run) (scheduler.Run, error) {
		m, err := encodeRun(r)
		if err != nil {
			return r, err
		}
		return decodeRun("uid", r.Slot, rewritten(m))
	})
}

func TestRulesPoolsAndTriggersAreReadAsWritten(t *testing.T) {
	t.Parallel()
	roundTrip(t, func(a *scheduler.Assignment) {
		for i := range a.Owners {
			a.Owners[i] = uint8(int(a.Owners[i]) % (len(a.Members) + 1))
		}
	}, func(a scheduler.Assignment) (scheduler.Assignment, error) {
		return decodeAssignment(a.Pool, rewritten(encodeAssignment(a)))
	})
	roundTrip(t, func(*scheduler.Pool) {}, func(p scheduler.Pool) (scheduler.Pool, error) {
		return decodePool(p.ID, rewritten(encodePool(p))), nil
	})
	roundTrip(t, func(*scheduler.Trigger) {}, func(tr scheduler.Trigger) (scheduler.Trigger, error) {
		return decodeTrigger(tr.ID, tr.Revision, rewritten(encodeTrigger(tr)))
	})
}

// TestNumbersOfANewerMemberSurvive: an enum value that this version does not know is written back.
func TestNumbersOfANewerMemberSurvive(t *testing.T) {
	t.Parallel()
	m := &storedv1.State{
		Uid: "uid", Cursor: encodeTime(time.Unix(5, 0)), Slots: 1,
		Counters: []*storedv1.Counter{{Verdict: 77, Reason: 99, Count: 3}},
	}
	state, err := decodeState(m)
	if err != nil {
		t.Fatal(err)
	}
	again, err := encodeState(state)
	if err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(m, again) {
		t.Errorf("got %v, want %v", again, m)
	}
	if _, err := encodeState(scheduler.State{Counters: []scheduler.Counter{{Verdict: "SOMEHOW"}}}); err == nil {
		t.Error("a verdict without a number was written")
	}
}

// TestDamagedValuesAreQuarantined: each is an error that says what is wrong, and none a panic.
func TestDamagedValuesAreQuarantined(t *testing.T) {
	t.Parallel()
	name := scheduler.JobName{Namespace: "ns", Name: "job"}
	job := func(change func(*storedv1.Job)) func() error {
		return func() error {
			m, err := encodeJob(scheduler.Job{Name: name, UID: "uid", Generation: 1, Run: scheduler.Executable{Handler: &scheduler.HandlerCall{Name: "h"}}})
			if err != nil {
				t.Fatal(err)
			}
			change(m)
			_, err = decodeJob(name, m)
			return err
		}
	}
	state := func(change func(*storedv1.State)) func() error {
		return func() error {
			m := &storedv1.State{Uid: "uid", Cursor: encodeTime(time.Unix(5, 0)), Slots: 1}
			change(m)
			_, err := decodeState(m)
			return err
		}
	}
	for what, decode := range map[string]func() error{
		"job of another name":    job(func(m *storedv1.Job) { m.Name = "other" }),
		"job without a uid":      job(func(m *storedv1.Job) { m.Uid = "" }),
		"job that runs nothing":  job(func(m *storedv1.Job) { m.Run = nil }),
		"job of generation 0":    job(func(m *storedv1.Job) { m.Generation = 0 }),
		"job with a broken time": job(func(m *storedv1.Job) { m.Created = encodeTime(time.Unix(1, 0)); m.Created.Nanos = -1 }),
		"state without a uid":    state(func(m *storedv1.State) { m.Uid = "" }),
		"state without a cursor": state(func(m *storedv1.State) { m.Cursor = nil }),
		"state without a ring":   state(func(m *storedv1.State) { m.Slots = 0 }),
		"state with attempt 0":   state(func(m *storedv1.State) { m.Entries = []*storedv1.Entry{{}} }),
		"state without end":      state(func(m *storedv1.State) { m.Ranges = make([]*storedv1.Range, mostElements+1) }),
		"record without attempts": func() error {
			_, err := decodeRun("uid", 0, &storedv1.Run{})
			return err
		},
		"assignment of 255 shards": func() error {
			_, err := decodeAssignment("all", &storedv1.Assignment{Owners: make([]byte, 255)})
			return err
		},
		"assignment to nobody": func() error {
			owners := make([]byte, 256)
			owners[9] = 1
			_, err := decodeAssignment("all", &storedv1.Assignment{Owners: owners})
			return err
		},
	} {
		if err := decode(); !errors.Is(err, errUnreadable) {
			t.Errorf("%s: got error %v, want unreadable", what, err)
		}
	}
	if err := job(func(*storedv1.Job) {})(); err != nil {
		t.Errorf("the undamaged job: %v", err)
	}
	if err := state(func(*storedv1.State) {})(); err != nil {
		t.Errorf("the undamaged state: %v", err)
	}
}

// FuzzDecode feeds every decoder any bytes: a damaged value must never stop the program.
func FuzzDecode(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x0a\x03uid\x12\x02\x08\x05\x22\x00\x48\x01"))
	f.Fuzz(func(t *testing.T, value []byte) {
		var job storedv1.Job
		if unmarshal(value, &job) == nil {
			_, _ = decodeJob(scheduler.JobName{Namespace: job.GetNamespace(), Name: job.GetName()}, &job)
		}
		var state storedv1.State
		if unmarshal(value, &state) == nil {
			if s, err := decodeState(&state); err == nil {
				if _, err := encodeState(scheduler.Fill(s, 9)); err != nil {
					t.Errorf("a state that was read cannot be written: %v", err)
				}
			}
		}
		var run storedv1.Run
		if unmarshal(value, &run) == nil {
			_, _ = decodeRun("uid", 0, &run)
		}
		var a storedv1.Assignment
		if unmarshal(value, &a) == nil {
			_, _ = decodeAssignment("all", &a)
		}
	})
}
