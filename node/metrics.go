package node

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorumcron/quorumcron/scheduler"
)

// metrics are the node's collectors. Names carry their unit; labels are bounded; a job's name is
// never a label.
type metrics struct {
	decisions      *prometheus.CounterVec // by kind
	firings        *prometheus.CounterVec // by outcome: verdict of what was decided here
	startLag       prometheus.Histogram
	runDuration    prometheus.Histogram
	running        *prometheus.GaugeVec // by executor
	publications   prometheus.Counter
	resultsDropped prometheus.Counter
	eventsLost     prometheus.Counter
	resyncs        prometheus.Counter
	quarantined    prometheus.Counter
	isDispatcher   prometheus.Gauge
}

func newMetrics(n *Node, registry prometheus.Registerer) (*metrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "quorumcron_" + name, Help: help})
	}
	m := &metrics{
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "quorumcron_decisions_total", Help: "Writes of job states sent, by kind.",
		}, []string{"kind"}),
		firings: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "quorumcron_firings_total", Help: "Firings that ended here, by verdict; LOST counts those found by this member.",
		}, []string{"verdict"}),
		startLag: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "quorumcron_start_lag_seconds", Help: "Start of an attempt after its firing was due: its scheduled instant and jitter.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}),
		runDuration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "quorumcron_run_duration_seconds", Help: "Duration of attempts.",
			Buckets: prometheus.ExponentialBuckets(.01, 4, 10),
		}),
		running: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "quorumcron_running_attempts", Help: "Attempts that run here, by executor.",
		}, []string{"executor"}),
		publications:   counter("assignments_published_total", "Publications by this member as dispatcher."),
		resultsDropped: counter("late_results_dropped_total", "Results that came after their attempt had been called LOST."),
		resyncs:        counter("watch_resyncs_total", "Shards read again because their watch could not go on from where it was."),
		eventsLost:     counter("watch_events_lost_total", "Shards read again because a watch event was missing."),
		quarantined:    counter("records_quarantined_total", "Records that could not be read."),
		isDispatcher: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "quorumcron_is_dispatcher", Help: "1 while this member is the dispatcher.",
		}),
	}
	if registry == nil {
		return m, nil
	}
	return m, register(registry, m.decisions, m.firings, m.startLag, m.runDuration, m.running, m.publications,
		m.resultsDropped, m.eventsLost, m.resyncs, m.quarantined, m.isDispatcher, n.space,
		gauge("shards_owned", "Shards of all pools owned by this member.", func() float64 { return float64(n.shardsOwned.Load()) }),
		gauge("clock_trusted", "1 while the member plans by its clock.", func() float64 { return truth(n.trusted.Load()) }),
		gauge("store_groups", "Transactions sent by the packer.", func() float64 { return float64(n.store.Stats().Groups) }),
		gauge("store_operations", "Operations in them.", func() float64 { return float64(n.store.Stats().Operations) }),
	)
}

// register registers all collectors or none: a second node in a program is a mistake to be told, not a panic.
func register(registry prometheus.Registerer, collectors ...prometheus.Collector) error {
	for i, c := range collectors {
		err := registry.Register(c)
		if err == nil {
			continue
		}
		for _, registered := range collectors[:i] {
			registry.Unregister(registered)
		}
		if _, twice := errors.AsType[prometheus.AlreadyRegisteredError](err); twice {
			return errors.New("metrics: another node has been registered here, and its collectors stay: give each node a registry " +
				"of its own, or a label by prometheus.WrapRegistererWith")
		}
		return fmt.Errorf("metrics: %w", err)
	}
	return nil
}

func gauge(name, help string, value func() float64) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "quorumcron_" + name, Help: help}, value)
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// committed counts what a decision ended without an attempt.
func (m *metrics) committed(d scheduler.Decision) {
	if d.Excluded > 0 {
		m.firings.WithLabelValues(string(scheduler.Skipped)).Add(float64(d.Excluded))
	}
	switch d.Kind {
	case scheduler.KindSkip, scheduler.KindMiss:
		ended := d.Instants
		if d.Trigger != "" {
			ended++
		}
		m.firings.WithLabelValues(string(d.Verdict)).Add(float64(ended))
	case scheduler.KindLose:
		m.firings.WithLabelValues(string(scheduler.Lost)).Inc()
	}
}

// started counts an attempt that is about to run. Its lag is reckoned from due, for jitter is no lateness.
func (m *metrics) started(h *held, due time.Time, now scheduler.Reading) {
	m.running.WithLabelValues(h.kind()).Inc()
	if !h.firing.Manual() {
		m.startLag.Observe(now.Wall.Sub(due).Seconds())
	}
}

// ended counts an attempt that has run.
func (m *metrics) ended(h *held, started, now scheduler.Reading) {
	m.running.WithLabelValues(h.kind()).Dec()
	m.runDuration.Observe(time.Duration(now.Elapsed - started.Elapsed).Seconds())
}

// recorded counts the verdict of an attempt.
func (m *metrics) recorded(v scheduler.Verdict) { m.firings.WithLabelValues(string(v)).Inc() }
