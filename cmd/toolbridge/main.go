// Command toolbridge serves the tools of MCP servers as NATS tools, which
// guests call like any other.
package main

import (
	"context"
	"os"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}
