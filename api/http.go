package api

import (
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// HTTPConfig is what the HTTP pages are made of. All fields are required.
type HTTPConfig struct {
	Vitals  Vitals
	Metrics prometheus.Gatherer
	Member  string
	Version string
}

// NewHTTP is the handler of a member's HTTP address: /healthz (is it alive, or should it be restarted),
// /readyz (does it serve; ?verbose lists every check), /metrics, and an index at /. It only reads.
func NewHTTP(cfg HTTPConfig) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if err := cfg.Vitals.Alive(); err != nil {
			answer(w, http.StatusServiceUnavailable, "not alive: "+err.Error()+"\n")
			return
		}
		answer(w, http.StatusOK, "alive\n")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) { readyz(cfg.Vitals, w, r) })
	mux.Handle("GET /metrics", promhttp.HandlerFor(cfg.Metrics, promhttp.HandlerOpts{MaxRequestsInFlight: 8}))
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, fmt.Sprintf("quorumcron %s, member %s\n\n"+
			"/healthz          is it alive\n"+
			"/readyz           does it serve, and if not, why\n"+
			"/readyz?verbose   every check\n"+
			"/metrics          for Prometheus\n", cfg.Version, cfg.Member))
	})
	return mux
}

// readyz answers 200 or 503. The reasons are lines of text, for the person who looks at a failing probe.
func readyz(vitals Vitals, w http.ResponseWriter, r *http.Request) {
	readiness := vitals.Ready()
	var body strings.Builder
	code := http.StatusOK
	if readiness.Ready {
		body.WriteString("ready\n")
	} else {
		code = http.StatusServiceUnavailable
		body.WriteString("not ready\n")
	}
	if r.URL.Query().Has("verbose") {
		for _, c := range readiness.Checks {
			mark := "ok  "
			if !c.OK {
				mark = "FAIL"
			}
			fmt.Fprintf(&body, "%s %s: %s\n", mark, c.Name, c.Detail)
		}
	} else {
		for _, reason := range readiness.Reasons() {
			body.WriteString(reason + "\n")
		}
	}
	answer(w, code, body.String())
}

func answer(w http.ResponseWriter, code int, text string) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	io.WriteString(w, text) //nolint:errcheck // the reader has gone; there is nobody to tell
}
