package docker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"airlock/job"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/client"
)

// patience bounds single requests, and what is waited for. An engine that
// hangs must not take the worker with it.
type patience struct {
	ask, start time.Duration
	// remove is longer, as an engine deletes files meanwhile.
	remove time.Duration
	// kill is how long a container's first process may take to kill the rest
	// and report. Then the engine kills it too, and what was on its way is
	// lost.
	kill time.Duration
}

// usual is the patience with engines that may be busy or far.
func usual() patience {
	return patience{ask: 10 * time.Second, start: 30 * time.Second, remove: 60 * time.Second, kill: 5 * time.Second}
}

// engine is the part of the Engine API that is used. Each request is bounded.
type engine struct {
	api *client.Client
	patience
}

// connect makes a client and agrees on a version with the engine.
func connect(ctx context.Context, host string, bounds patience) (*engine, error) {
	// No idle connections: a socket is opened in microseconds, and one that
	// is kept may be to an engine that was restarted.
	transport := &http.Transport{DisableKeepAlives: true}
	opts := []client.Opt{
		client.WithHTTPClient(&http.Client{Transport: transport, CheckRedirect: client.CheckRedirect}),
		// Without a host here the transport is not told of the default one,
		// which is a socket's path, and takes it for a name to look up.
		client.WithHost(client.DefaultDockerHost),
		client.FromEnv,
	}
	if host != "" {
		opts = append(opts, client.WithHost(host))
	}
	api, err := client.NewClientWithOpts(append(opts, client.WithAPIVersionNegotiation())...)
	if err != nil {
		return nil, translate("connect to the engine", err)
	}
	ctx, cancel := context.WithTimeout(ctx, bounds.ask)
	defer cancel()
	if _, err := api.Ping(ctx); err != nil {
		return nil, fmt.Errorf("%w; start a Docker Engine, or name it with DOCKER_HOST; "+
			"the worker's user must be in its socket's group", translate("ask the engine", err))
	}
	api.NegotiateAPIVersion(ctx)
	return &engine{api, bounds}, nil
}

// translate keeps the engine's text and drops the client's types, but for the
// ends of contexts.
func translate(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: the engine did not answer in time: %w", what, context.DeadlineExceeded)
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("%s: %w", what, context.Canceled)
	}
	return fmt.Errorf("%s: %s", what, job.Printable(err.Error(), 500))
}

// near reports whether the engine is on this host, or as good as.
func (e *engine) near() bool {
	host := e.api.DaemonHost()
	return strings.HasPrefix(host, "unix:") || strings.HasPrefix(host, "npipe:")
}

func (e *engine) close() error { return translate("close the engine's client", e.api.Close()) }

func (e *engine) info(ctx context.Context) (system.Info, error) {
	ctx, cancel := context.WithTimeout(ctx, e.patience.ask)
	defer cancel()
	info, err := e.api.Info(ctx)
	return info, translate("ask the engine about itself", err)
}

var errNoImage = errors.New("the engine has no image")

func (e *engine) image(ctx context.Context, name string) (image.InspectResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, e.patience.ask)
	defer cancel()
	found, err := e.api.ImageInspect(ctx, name)
	if errdefs.IsNotFound(err) {
		return found, fmt.Errorf("%w %s: make it with dev/runner-image.sh, or build runner-image/Dockerfile", errNoImage, job.Printable(name, 100))
	}
	return found, translate("look for the image", err)
}

func (e *engine) create(ctx context.Context, r request) (id string, err error) {
	ctx, cancel := context.WithTimeout(ctx, e.patience.start)
	defer cancel()
	made, err := e.api.ContainerCreate(ctx, &r.config, &r.host, nil, nil, r.name)
	if err != nil && strings.Contains(err.Error(), "opening seccomp profile failed") {
		return "", errors.New("create container: podman is not supported, because it takes a system-call filter from a file of its host only: use a Docker Engine")
	}
	if errdefs.IsNotFound(err) {
		return "", fmt.Errorf("create container: the image is gone from the engine (%s): make it again with dev/runner-image.sh, or build runner-image/Dockerfile",
			job.Printable(err.Error(), 200))
	}
	return made.ID, translate("create container", err)
}

func (e *engine) attach(ctx context.Context, id string) (types.HijackedResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, e.patience.ask)
	defer cancel()
	streams, err := e.api.ContainerAttach(ctx, id, container.AttachOptions{Stream: true, Stdin: true, Stdout: true, Stderr: true})
	return streams, translate("attach to container", err)
}

func (e *engine) start(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, e.patience.start)
	defer cancel()
	return translate("start container", e.api.ContainerStart(ctx, id, container.StartOptions{}))
}

// limitProcesses changes the limit of a container that runs.
func (e *engine) limitProcesses(ctx context.Context, id string, limit int64) error {
	ctx, cancel := context.WithTimeout(ctx, e.patience.ask)
	defer cancel()
	change := container.UpdateConfig{Resources: container.Resources{PidsLimit: &limit}}
	_, err := e.api.ContainerUpdate(ctx, id, change)
	return translate("limit container", err)
}

// inspect returns what the engine has of a container, with its State and its
// HostConfig.
func (e *engine) inspect(ctx context.Context, id string) (container.InspectResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, e.patience.ask)
	defer cancel()
	found, err := e.api.ContainerInspect(ctx, id)
	if err == nil && (found.ContainerJSONBase == nil || found.State == nil || found.HostConfig == nil) {
		err = errors.New("the engine says nothing of its state")
	}
	return found, translate("inspect container", err)
}

func (e *engine) state(ctx context.Context, id string) (container.State, error) {
	found, err := e.inspect(ctx, id)
	if err != nil {
		return container.State{}, err
	}
	return *found.State, nil
}

// network looks for one; without it the result is nil.
func (e *engine) network(ctx context.Context, name string) (*network.Inspect, error) {
	ctx, cancel := context.WithTimeout(ctx, e.patience.ask)
	defer cancel()
	found, err := e.api.NetworkInspect(ctx, name, network.InspectOptions{})
	if errdefs.IsNotFound(err) {
		return nil, nil
	}
	return &found, translate("look for the network", err)
}

// ended waits until the container does not run any more.
func (e *engine) ended(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, e.patience.ask)
	defer cancel()
	over, failed := e.api.ContainerWait(ctx, id, container.WaitConditionNotRunning)
	select {
	case <-over:
		return nil
	case err := <-failed:
		return translate("wait for container", err)
	}
}

// remove kills the container and removes it. One that is gone is no error.
func (e *engine) remove(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, e.patience.remove)
	defer cancel()
	err := e.api.ContainerRemove(ctx, id, container.RemoveOptions{Force: true, RemoveVolumes: true})
	if errdefs.IsNotFound(err) {
		return nil
	}
	return translate("remove container", err)
}

// guests lists the containers of all workers.
func (e *engine) guests(ctx context.Context) ([]container.Summary, error) {
	ctx, cancel := context.WithTimeout(ctx, e.patience.ask)
	defer cancel()
	all, err := e.api.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", labelOwner))})
	return all, translate("list containers", err)
}
