// Package validate holds the Kubernetes manifests of the folder above against
// the schema and against Airlock's own rules, without a cluster. It is a
// module of its own, so that Kubernetes' packages are no part of Airlock's.
// Run it with make k8s-check.
package validate
