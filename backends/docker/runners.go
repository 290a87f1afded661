package docker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"airlock/backends"
	"airlock/job"
)

// runner is an image that guests may have.
type runner struct {
	// id is its content's digest, by which the engine is asked for it.
	id string
	// known are all names that jobs may use.
	known []string
	// about is what a guest in it said of itself, once one has run.
	about told
}

// runners are those that guests may have, the default first.
type runners []*runner

// names lists what jobs may ask by.
func (all runners) names() []string {
	var names []string
	for _, im := range all {
		names = append(names, im.known...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// find returns the image that a job asks for. Names are those of the last
// probe; the engine is not asked, which may know others.
func (all runners) find(name string) (*runner, error) {
	if name == "" {
		return all[0], nil
	}
	for _, im := range all {
		if slices.Contains(im.known, name) {
			return im, nil
		}
	}
	return nil, fmt.Errorf("%w: image %s: it is none of those that this worker has, see worker --list-backends",
		backends.ErrUnenforceable, job.Printable(name, 100))
}

// findImages resolves the names of the configuration to what they mean now.
// The default must be there; without another the backend does.
func (r *ready) findImages(ctx context.Context, arch string) (runners, error) {
	var all runners
	for i, name := range r.config.Images {
		im, err := r.findImage(ctx, name, arch)
		if err != nil && (i == 0 || ctx.Err() != nil) {
			return nil, err
		}
		if err != nil {
			r.config.Log.Warn().Err(err).Msg("an image cannot be offered")
			continue
		}
		all = append(all, im)
	}
	return all, nil
}

func (r *ready) findImage(ctx context.Context, name, arch string) (*runner, error) {
	found, err := r.engine.image(ctx, name)
	if err != nil {
		return nil, err
	}
	if has := goarch(found.Architecture); found.Os != "linux" || has != arch {
		return nil, fmt.Errorf("the image %s is for %s/%s, the engine runs linux/%s: make the image on or for that architecture",
			job.Printable(name, 100), job.Printable(found.Os, 20), job.Printable(has, 20), arch)
	}
	// The engine would make each anew, writable and without a bound.
	if found.Config != nil && len(found.Config.Volumes) > 0 {
		return nil, fmt.Errorf("the image %s declares volumes, which guests could fill: make it without", job.Printable(name, 100))
	}
	return &runner{id: found.ID, known: append([]string{name, found.ID}, found.RepoDigests...)}, nil
}

// tryImages runs a guest in each image, and keeps those in which one runs. The
// default must be among them.
func (r *ready) tryImages(ctx context.Context, b *Backend, f *facts) error {
	var good runners
	for i, im := range f.images {
		g := &guest{ready: r, backend: b, facts: f, image: im, probes: i == 0}
		err := g.try(ctx, "pass")
		if err == nil {
			err = g.checkKernel()
		}
		if err != nil {
			err = fmt.Errorf("the image %s: %w%s", job.Printable(im.known[0], 100), err, hint(err))
		}
		switch {
		case err != nil && (i == 0 || ctx.Err() != nil):
			return err
		case err != nil:
			r.config.Log.Warn().Err(err).Msg("an image cannot be offered")
		default:
			im.about = told{g.greeting, g.meter.by()}
			good = append(good, im)
		}
	}
	f.images = good
	return nil
}

// hint is what to do about an image in which no guest runs.
func hint(err error) string {
	said := err.Error()
	switch {
	case strings.Contains(said, "root network namespace"):
		return ": register runsc with the engine with runtimeArgs --network=none"
	case strings.Contains(said, "cgroups in hybrid mode"):
		return ": this crun wants control groups of one version only, or install a newer one"
	case strings.Contains(said, "failed to load") && strings.Contains(said, "permission denied"):
		return ": this runtime starts no program that a guest cannot read, and one that it can read cannot watch over it"
	case strings.Contains(said, "must have its own"):
		return ": is the runtime's name given to another? Or is the image an old one?"
	case strings.Contains(said, "the engine's counters"):
		return ": this worker cannot read the container's control group, and needs the engine's answers to GET /containers/ID/stats"
	case strings.Contains(said, "/airlock/"):
		return ": it has no guest runtime that can run there: make it with dev/runner-image.sh or runner-image/Dockerfile"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return ""
	}
	return ": make it anew with dev/runner-image.sh or runner-image/Dockerfile"
}
