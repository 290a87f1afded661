// Package check evaluates every query of Airlock's dashboard with Prometheus'
// own engine, over what a worker and a gateway answered. It is a module of its
// own, so that Prometheus is no part of Airlock. Run it with make
// grafana-check, which makes the scrapes first.
package check
