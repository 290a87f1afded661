package main

import (
	"github.com/rs/zerolog"

	"airlock/backends/docker"
)

// engineFlags are the flags that say how guests get a container.
type engineFlags struct {
	DockerHost string   `help:"Address of the Docker Engine; else that of DOCKER_HOST, else the system's own." placeholder:"URL"`
	Images     []string `help:"Images that a job may have of the docker backend, by digest, ID or tag; the first is the default. None is ever pulled." placeholder:"NAME,…"`
}

// docker is what the docker backend makes of them.
func (f engineFlags) docker(log zerolog.Logger) docker.Config {
	return docker.Config{Log: log, Host: f.DockerHost, Images: f.Images}
}
