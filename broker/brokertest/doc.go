// Package brokertest holds what tests of conversations need: a guest that says
// what it is told, tools and an audit in memory, and a NATS server in process.
package brokertest
