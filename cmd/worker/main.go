// Command worker joins a pool of Airlock workers, or with --standalone is a
// whole Airlock on one machine.
package main

import (
	"context"
	"os"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}
