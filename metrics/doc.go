// Package metrics is what Prometheus can ask of workers and gateways: the
// table of all metrics, and what fills it. Nobody else knows of Prometheus.
//
// Labels are bounded, however many tools, lanes or decisions there are, and
// hold nothing that a guest wrote: METRICS.md says of each metric what they
// can be.
package metrics
