package api

import (
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/quorumcron/quorumcron/scheduler"
)

// Sizes of a page in entries.
const (
	defaultPage = 100
	largestPage = 1000
)

// pageSize is the number of entries to answer.
func pageSize(asked int32) (int, []scheduler.FieldError) {
	switch {
	case asked < 0:
		return 0, []scheduler.FieldError{{
			Field: "pageSize", Value: fmt.Sprint(asked), Problem: "is negative", Remedy: "leave it out for 100",
		}}
	case asked == 0:
		return defaultPage, nil
	}
	return min(int(asked), largestPage), nil
}

// cut shortens a page to what was asked for and to maxPage bytes, but never to nothing, and says whether
// something is left. The caller asked its member for one entry more than it may answer.
func cut[M proto.Message](page []M, size int) (kept []M, more bool) {
	bytes := 0
	for i, m := range page {
		bytes += proto.Size(m) + 8 // 8: its tag and length
		if i == size || (i > 0 && bytes > maxPage) {
			return page[:i], true
		}
	}
	return page, false
}

// Page tokens are opaque to clients. What they hold is a place in the order, so that nothing is kept
// between two pages, and entries that come and go shift nothing.
const (
	jobToken      = "j1 "
	runToken      = "r1 "
	calendarToken = "c1 "
)

func encodeToken(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

func decodeToken(kind, token string) (string, bool) {
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return "", false
	}
	return strings.CutPrefix(string(raw), kind)
}

func badToken(token string) []scheduler.FieldError {
	return []scheduler.FieldError{{
		Field: "pageToken", Value: token, Problem: "is not a page token of this list",
		Remedy: "hand in nextPageToken of the page before, with the same filter",
	}}
}

// afterJob and afterCalendar are the token of the page after n.
func afterJob(n scheduler.JobName) string           { return encodeToken(jobToken + n.String()) }
func afterCalendar(n scheduler.CalendarName) string { return encodeToken(calendarToken + n.String()) }

func jobPlace(token, namespace string) (scheduler.JobName, []scheduler.FieldError) {
	return namedPlace(jobToken, token, namespace)
}

func calendarPlace(token, namespace string) (scheduler.CalendarName, []scheduler.FieldError) {
	n, errs := namedPlace(calendarToken, token, namespace)
	return scheduler.CalendarName(n), errs
}

func namedPlace(kind, token, namespace string) (scheduler.JobName, []scheduler.FieldError) {
	if token == "" {
		return scheduler.JobName{}, nil
	}
	s, ok := decodeToken(kind, token)
	ns, name, both := strings.Cut(s, "/")
	if !ok || !both || (namespace != "" && ns != namespace) {
		return scheduler.JobName{}, badToken(token)
	}
	return scheduler.JobName{Namespace: ns, Name: name}, nil
}

// afterRun is the token of the page after the run at p.
func afterRun(p scheduler.RunPlace) string {
	return encodeToken(fmt.Sprintf("%s%d %d %s", runToken, p.Granted.Unix(), p.Granted.Nanosecond(), p.Firing))
}

func runPlace(token string) (*scheduler.RunPlace, []scheduler.FieldError) {
	if token == "" {
		return nil, nil
	}
	s, ok := decodeToken(runToken, token)
	var seconds, nanos int64
	var firing string
	if n, _ := fmt.Sscanf(s, "%d %d %s", &seconds, &nanos, &firing); !ok || n != 3 {
		return nil, badToken(token)
	}
	return &scheduler.RunPlace{Granted: time.Unix(seconds, nanos).UTC(), Firing: firing}, nil
}
