package main

import (
	"cmp"
	"os"
	"os/user"

	"airlock/job"
)

// whoami is the user and host of this process, as far as they are known.
func whoami() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = cmp.Or(u.Username, u.Uid, name)
	}
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "unknown"
	}
	return job.Printable(name+"@"+host, job.MaxApprover-4)
}
