// Package gateway speaks HTTP for everyone who does not speak NATS: it submits
// jobs, tells how they ended, and shows the fleet. It keeps no state: any
// number of gateways may stand side by side.
//
// Who asks is told by a bearer token, which is bound to one tenant and to
// scopes; what another tenant has does not exist for him. Without any token
// the gateway is open, and then only to its own machine.
//
// Every route is one line of a table, from which its description in
// /openapi.json is made too. Every error is a problem of RFC 9457 with one of
// the codes of this package.
package gateway
