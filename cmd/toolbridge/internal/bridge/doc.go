// Package bridge serves the tools of MCP servers as NATS tools of namespaces.
//
// An MCP server is a program that is started here and spoken to by its standard
// input and output, or is reached by streamable HTTP. Its words are foreign
// bytes: each message is checked before the SDK sees it, and results are read
// from the server's own text, so that big integers and the order of arguments
// survive. A server that ends is started again; its tools fail meanwhile so
// that the guest may call again.
//
// broker/PROVIDERS.md says how tools, arguments, answers and errors are mapped.
package bridge
