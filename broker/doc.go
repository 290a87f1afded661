// Package broker holds the conversation with one guest: it hands over the
// code, carries the guest's tool calls to their providers, and takes the
// result. PROTOCOL.md beside it is the contract of the channel,
// POLICY.md what an operator allows.
//
// Everything that arrives from a guest is data written by the guest. Whose job
// it is, what it may call and how much of everything it may use come from the
// job.Attempt and from nowhere else: no byte of a frame becomes a subject, a
// header or a log field's name.
//
// A call goes through four gates, in this order: policy (grants, schema,
// limits), audit (a started row is committed, or the call is refused), the
// provider, and audit again before the guest sees the answer. Refused calls
// are recorded too, so that the attempt's calls are numbered without gaps and
// chained by hashes; Verify recomputes the chain.
//
// Catalogue finds the tools that providers offer over NATS and calls them.
// Package provider is what a provider written in Go imports.
package broker
