// Command worker joins a pool of Airlock workers, or with --standalone is a
// whole Airlock on one machine.
package main

import (
	"context"
	"os"

	"airlock/backends/all"
)

func main() {
	self := all.Main()
	os.Exit(run(context.Background(), self, os.Args[1:], os.Stdout, os.Stderr))
}
