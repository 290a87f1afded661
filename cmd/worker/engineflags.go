package main

import (
	"github.com/rs/zerolog"

	"airlock/backends/docker"
)

// engineFlags are the flags that say which engine guests run in, and in what.
type engineFlags struct {
	DockerHost string   `help:"Address of the Docker Engine; else that of DOCKER_HOST, else the system's own." placeholder:"URL"`
	Images     []string `help:"Images that a job may have of the docker backend, by digest, ID or tag; the first is the default. None is ever pulled." placeholder:"NAME,…"`
}

// docker is what the docker backend makes of them.
func (f engineFlags) docker(log zerolog.Logger) docker.Config {
	return docker.Config{Log: log, Host: f.DockerHost, Images: f.Images}
}

// containerFlags are those that matter only to guests with a job.
type containerFlags struct {
	engineFlags
	GuestNetwork   string `help:"The operator's policy for jobs that ask for a network: the engine's network that they get. Without it none gets any. dev/guest-network.sh makes one; each probe tests its walls." placeholder:"NAME"`
	ComposeProject string `help:"Compose project that guests' containers are labelled as part of, so that its down --remove-orphans clears them too." placeholder:"NAME"`
}

// docker is what the docker backend makes of them.
func (f containerFlags) docker(log zerolog.Logger) docker.Config {
	config := f.engineFlags.docker(log)
	config.Network, config.Project = f.GuestNetwork, f.ComposeProject
	return config
}
