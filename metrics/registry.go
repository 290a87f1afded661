package metrics

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// buckets reach from what a parked guest needs to start to what a job may
// take: 0.5 ms to an hour.
func buckets() []float64 {
	return []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600}
}

// registry is a program's metrics, and those of Go and of the process.
type registry struct{ *prometheus.Registry }

func newRegistry(program, version string) registry {
	r := registry{prometheus.NewRegistry()}
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	r.gauge(buildInfo).WithLabelValues(program, version).Set(1)
	return r
}

func (r registry) counter(m Metric) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: m.Name, Help: m.Help}, m.Labels)
	r.MustRegister(c)
	return c
}

func (r registry) gauge(m Metric) *prometheus.GaugeVec {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: m.Name, Help: m.Help}, m.Labels)
	r.MustRegister(g)
	return g
}

func (r registry) histogram(m Metric) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: m.Name, Help: m.Help, Buckets: buckets()}, m.Labels)
	r.MustRegister(h)
	return h
}

// scrapesAtOnce bounds what many scrapers cost.
const (
	scrapesAtOnce = 8
	scrapeTime    = 10 * time.Second
)

func (r registry) handler() http.Handler {
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{MaxRequestsInFlight: scrapesAtOnce, Timeout: scrapeTime, Registry: r})
}

// looked gathers what is looked at when somebody scrapes.
type looked struct {
	metrics []Metric
	look    func(set func(m Metric, value float64, labels ...string))
}

func (r registry) looked(look func(set func(m Metric, value float64, labels ...string)), metrics ...Metric) {
	r.MustRegister(&looked{metrics, look})
}

func (l *looked) desc(m Metric) *prometheus.Desc {
	return prometheus.NewDesc(m.Name, m.Help, m.Labels, nil)
}

// Describe implements prometheus.Collector.
func (l *looked) Describe(to chan<- *prometheus.Desc) {
	for _, m := range l.metrics {
		to <- l.desc(m)
	}
}

// Collect implements prometheus.Collector.
func (l *looked) Collect(to chan<- prometheus.Metric) {
	l.look(func(m Metric, value float64, labels ...string) {
		kind := prometheus.GaugeValue
		if m.Kind == Counter {
			kind = prometheus.CounterValue
		}
		to <- prometheus.MustNewConstMetric(l.desc(m), kind, value, labels...)
	})
}

func one(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
