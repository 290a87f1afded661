// Package provider is what a tool provider written in Go imports: a NATS micro
// service whose endpoints tools.<namespace>.<tool> answer the calls of guests.
//
//	err := provider.Serve(ctx, nc, provider.Namespace{
//		Name: "geo",
//		Tools: []provider.Tool{
//			provider.Func("distance", "Great-circle distance in km.", distance),
//		},
//	})
//
// A provider in another language needs a NATS client and the same wire: the
// request's body is the arguments, a JSON object; the Header… constants name
// what the worker says beside it; the answer is JSON, or an error with
// HeaderErrorCode. Endpoints describe themselves by the Metadata… keys.
//
// # What a provider must know of its callers
//
// Arguments are written by code that nobody trusts. Authority comes from
// Call.Tenant, which the worker states, never from an argument: a tool that
// takes a path, a URL or a query is a proxy for whoever wrote the job.
//
// The guest learns the code of an error. It learns more only from an Error,
// whose message the provider chose for it; the text of any other error stays
// with the operators.
//
// Arguments have been held against the input schema by a well-behaved worker.
// Func decodes them strictly all the same.
package provider
