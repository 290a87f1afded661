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
// broker/PROVIDERS.md is the contract, also for a provider in another language;
// the constants here are its words. providertest tests tools without NATS.
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
// Serve does so again, unless it is told to trust workers, and Func decodes them
// strictly all the same. Answers are held against the output schema.
package provider
