package jobfile

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	quorumcronv1 "github.com/quorumcron/quorumcron/proto/quorumcron/v1"
	"github.com/quorumcron/quorumcron/scheduler"
)

func TestCalendarsReadAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	want := &quorumcronv1.Calendar{
		Name: "holidays", Namespace: "default", Description: "Public ones", TimeZone: "Europe/Berlin",
		Dates: []string{"12-25", "2026-12-24..2026-12-27"}, Weekdays: []string{"sat"},
		Hours: []*quorumcronv1.Hours{{From: "22:00", To: "06:00"}, {From: "12:00", To: "13:00"}},
	}
	for name, text := range map[string]string{
		"c.yaml": "name: holidays\ndescription: Public ones\ntimeZone: Europe/Berlin\ndates: [12-25, 2026-12-24..2026-12-27]\n" +
			"weekdays: [sat]\nhours:\n  - {from: 22:00, to: 06:00}\n  - from: '12:00'\n    to: '13:00'\n" +
			"revision: '7'\nsince: 2026-01-01T00:00:00Z\ndeleting: true\n", // output only
		"c.json": `{"name": "holidays", "description": "Public ones", "timeZone": "Europe/Berlin", "dates": ["12-25", "2026-12-24..2026-12-27"],
			"weekdays": ["sat"], "hours": [{"from": "22:00", "to": "06:00"}, {"from": "12:00", "to": "13:00"}]}`,
	} {
		docs, err := parseText(t, name, text, Options{Namespace: "default", Calendars: true})
		if err != nil || len(docs) != 1 {
			t.Fatalf("%s: got %d documents, %v", name, len(docs), err)
		}
		if diff := cmp.Diff(want, docs[0].Calendar, protocmp.Transform()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestProblemsOfCalendarsStandWhereTheyAre(t *testing.T) {
	t.Parallel()
	text := "name: a\nhours:\n  - {from: '22:00', too: '06:00'}\n  - [x]\n  - {from: 7, to: '08:00'}\n---\nname: a\nnamespace: other\n---\n- name: b\n"
	_, err := parseText(t, "c.yaml", text, Options{
		Namespace: "default", Fixed: true, Calendars: true,
		CheckCalendar: func(*quorumcronv1.Calendar) []scheduler.FieldError {
			return []scheduler.FieldError{{Field: "hours[0].from", Problem: "is early"}}
		},
	})
	var found *Problems
	if !errors.As(err, &found) {
		t.Fatalf("got %v", err)
	}
	var got []string
	for _, p := range found.List {
		got = append(got, fmt.Sprintf("%s:%d:%d %s: %s", p.Source, p.Line, p.Column, p.Field, p.Problem))
	}
	want := []string{
		"c.yaml:3:12 hours[0].from: is early",
		"c.yaml:3:21 hours[0].too: unknown field",
		"c.yaml:4:5 hours[1]: must be a mapping, but is a list",
		"c.yaml:5:12 hours[2].from: must be a string, but is a number",
		"c.yaml:7:1 hours[0].from: is early",
		"c.yaml:8:12 namespace: the command line says --namespace default",
		"c.yaml:10:1 : a calendar is a mapping, but this is a list",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
