package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quorumcron/quorumcron/chaos-tests/history"
)

func TestTheFencedLedgerRefusesStaleTokensAndItsTwinDoesNot(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	r := newReceiver(&log)
	send := func(body string) int {
		answer := httptest.NewRecorder()
		r.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/effect", strings.NewReader(body)))
		return answer.Code
	}
	var codes []int
	for _, e := range []struct {
		job   string
		token int
	}{{"a", 5}, {"a", 7}, {"a", 5}, {"b", 6}, {"a", 7}} {
		codes = append(codes, send(fmt.Sprintf(`{"job":%q,"token":%d,"firing":"f","nonce":"n"}`, e.job, e.token)))
	}
	if diff := cmp.Diff([]int{200, 200, 409, 200, 200}, codes); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	effects, err := history.ReadEffects(&log)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range effects {
		got = append(got, fmt.Sprintf("%d %s %s %d above %d %t", e.Seq, e.Ledger, e.Job, e.Token, e.Highest, e.Accepted))
	}
	want := []string{
		"1 fenced a 5 above 0 true", "1 plain a 5 above 0 true", "2 fenced a 7 above 5 true", "2 plain a 7 above 5 true",
		"3 fenced a 5 above 7 false", "3 plain a 5 above 7 true", "4 fenced b 6 above 0 true", "4 plain b 6 above 0 true",
		"5 fenced a 7 above 7 true", "5 plain a 7 above 7 true",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ledgers (-want +got):\n%s", diff)
	}
	for _, bad := range []string{"", "{}", `{"job":"a"}`, `{"job":"a","token":"x"}`} {
		if code := send(bad); code != http.StatusBadRequest {
			t.Errorf("%q was answered %d", bad, code)
		}
	}
}
