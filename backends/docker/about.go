package docker

import (
	"context"
	"net/http"
	"strings"

	"airlock/job"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/client"
)

// About is what an engine says of itself and of its parts.
type About struct {
	// Address is a URL; it is known also when the engine does not answer.
	Address string
	// TLS: it is talked to by TLS.
	TLS bool

	Version, Containerd, Runc string
	// Rootless: the engine does not run as root. Remapped: the users of
	// containers are others on its host. LiveRestore: containers outlive a
	// restart of the engine.
	Rootless, Remapped, LiveRestore bool
}

// Ask asks the engine about itself.
func Ask(ctx context.Context, config Config) (About, error) {
	about, err := address(config.Host)
	if err != nil {
		return about, err
	}
	e, err := connect(ctx, config.Host, usual())
	if err != nil {
		return about, err
	}
	defer e.close()
	info, err := e.info(ctx)
	if err != nil {
		return about, err
	}
	about.LiveRestore = info.LiveRestoreEnabled
	for _, option := range info.SecurityOptions {
		about.Rootless = about.Rootless || strings.Contains(option, "name=rootless")
		about.Remapped = about.Remapped || strings.Contains(option, "name=userns")
	}
	found, err := e.parts(ctx)
	if err != nil {
		return about, err
	}
	about.Version = job.Printable(found.Version, 60)
	for _, part := range found.Components {
		switch part.Name {
		case "containerd":
			about.Containerd = job.Printable(part.Version, 60)
		case "runc":
			about.Runc = job.Printable(part.Version, 60)
		}
	}
	return about, nil
}

// address is where the engine is looked for, without asking it.
func address(host string) (About, error) {
	opts := []client.Opt{client.FromEnv}
	if host != "" {
		opts = append(opts, client.WithHost(host))
	}
	api, err := client.NewClientWithOpts(opts...)
	if err != nil {
		return About{Address: host}, translate("connect to the engine", err)
	}
	defer api.Close()
	about := About{Address: api.DaemonHost()}
	if transport, ok := api.HTTPClient().Transport.(*http.Transport); ok {
		about.TLS = transport.TLSClientConfig != nil
	}
	return about, nil
}

func (e *engine) parts(ctx context.Context) (types.Version, error) {
	ctx, cancel := context.WithTimeout(ctx, e.patience.ask)
	defer cancel()
	found, err := e.api.ServerVersion(ctx)
	return found, translate("ask the engine for its parts' versions", err)
}
