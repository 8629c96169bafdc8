package api_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorumcron/quorumcron/api"
	"github.com/quorumcron/quorumcron/scheduler"
)

func TestHTTPPages(t *testing.T) {
	t.Parallel()
	node := newFakeNode("node-a")
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGaugeFunc(
		prometheus.GaugeOpts{Name: "quorumcron_shards_owned", Help: "Shards."}, func() float64 { return 86 }))
	pages := api.NewHTTP(api.HTTPConfig{Vitals: node, Metrics: registry, Member: "node-a", Version: "1.2.3"})
	well := scheduler.Readiness{Ready: true, Checks: []scheduler.Check{{Name: "etcd", OK: true, Detail: "answers"}}}
	ill := scheduler.Readiness{Checks: []scheduler.Check{
		{Name: "etcd", Detail: "no answer for 12s"}, {Name: "clock", OK: true, Detail: "trusted"},
	}}
	for _, row := range []struct {
		does      string
		method    string
		path      string
		readiness scheduler.Readiness
		dead      error
		code      int
		want      string
		wantNot   string
	}{
		{does: "alive, though it does not serve", path: "/healthz", readiness: ill, code: 200, want: "alive\n"},
		{does: "not alive once its loop hangs", path: "/healthz", readiness: well, dead: errors.New("no turn for 5s"), code: 503, want: "not alive: no turn for 5s\n"},
		{does: "ready", path: "/readyz", readiness: well, code: 200, want: "ready\n", wantNot: "etcd"},
		{does: "not ready, with the reason alone", path: "/readyz", readiness: ill, code: 503, want: "not ready\netcd: no answer for 12s\n", wantNot: "clock"},
		{does: "every check", path: "/readyz?verbose", readiness: ill, code: 503, want: "FAIL etcd: no answer for 12s\nok   clock: trusted\n"},
		{does: "every check of a ready one", path: "/readyz?verbose=1", readiness: well, code: 200, want: "ready\nok   etcd: answers\n"},
		{does: "metrics", path: "/metrics", code: 200, want: "quorumcron_shards_owned 86"},
		{does: "an index that names the pages", path: "/", code: 200, want: "/readyz?verbose"},
		{does: "nothing else", path: "/nothing", code: 404},
		{does: "reading only", method: http.MethodPost, path: "/readyz", code: 405},
		{does: "probes with HEAD", method: http.MethodHead, path: "/readyz", readiness: ill, code: 503},
	} {
		node.set(func(n *fakeNode) { n.readiness, n.dead = row.readiness, row.dead })
		method := row.method
		if method == "" {
			method = http.MethodGet
		}
		answer := httptest.NewRecorder()
		pages.ServeHTTP(answer, httptest.NewRequest(method, row.path, nil))
		body := answer.Body.String()
		if answer.Code != row.code || !strings.Contains(body, row.want) {
			t.Errorf("%s: got %d %q, want %d with %q", row.does, answer.Code, body, row.code, row.want)
		}
		if row.wantNot != "" && strings.Contains(body, row.wantNot) {
			t.Errorf("%s: got %q, want no %q", row.does, body, row.wantNot)
		}
	}
}
