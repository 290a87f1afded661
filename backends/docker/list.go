package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"airlock/job"

	imageapi "github.com/docker/docker/api/types/image"
)

// Image is one that an engine has, or that a Config names and it lacks.
type Image struct {
	// ID is empty when the engine lacks the image.
	ID string
	// Asked is what the Config calls it; Names are its tags.
	Asked string
	Names []string
	// Digests are those that a registry knows it by.
	Digests  []string
	Size     job.Size
	Created  time.Time
	Platform string // such as linux/amd64
	// Configured is its place among Config.Images, counted from 1; 0 says
	// that the Config does not name it.
	Configured int
}

// Images lists the images that guests could have: those that config names,
// also when the engine lacks them, and those that are made to start a guest.
// It comes in the order of config, then by name. Whether a guest really starts
// in one is for a Probe to find out. The error says why the engine cannot be
// asked.
func Images(ctx context.Context, config Config) ([]Image, error) {
	config = New(config).config
	e, err := connect(ctx, config.Host, usual())
	if err != nil {
		return nil, err
	}
	found, err := e.runnerImages(ctx, config.Images)
	return found, errors.Join(err, e.close())
}

func (e *engine) runnerImages(ctx context.Context, configured []string) ([]Image, error) {
	var found []Image
	for i, name := range configured {
		about, err := e.image(ctx, name)
		if errors.Is(err, errNoImage) {
			found = append(found, Image{Asked: name, Configured: i + 1})
			continue
		}
		if err != nil {
			return nil, err
		}
		known := func(other Image) bool { return other.ID == about.ID }
		if !slices.ContainsFunc(found, known) {
			one := describe(about, i+1)
			one.Asked = name
			found = append(found, one)
		}
	}
	others, err := e.otherRunners(ctx, found)
	return append(found, others...), err
}

// otherRunners are those that nobody configured.
func (e *engine) otherRunners(ctx context.Context, known []Image) ([]Image, error) {
	ids, err := e.imageIDs(ctx)
	if err != nil {
		return nil, err
	}
	var found []Image
	for _, id := range ids {
		if slices.ContainsFunc(known, func(i Image) bool { return i.ID == id }) {
			continue
		}
		about, err := e.image(ctx, id)
		if errors.Is(err, errNoImage) {
			continue // it was removed meanwhile
		}
		if err != nil {
			return nil, err
		}
		if isRunner(about) {
			found = append(found, describe(about, 0))
		}
	}
	slices.SortFunc(found, func(a, b Image) int {
		return cmp.Or(strings.Compare(a.Label(), b.Label()), strings.Compare(a.ID, b.ID))
	})
	return found, nil
}

// imageIDs are those of all images that are not only parts of others.
func (e *engine) imageIDs(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, e.patience.ask)
	defer cancel()
	all, err := e.api.ImageList(ctx, imageapi.ListOptions{})
	ids := make([]string, len(all))
	for i, one := range all {
		ids[i] = one.ID
	}
	return ids, translate("list the images", err)
}

// firstProcess is what every runner image starts; see first.py.
const firstProcess = "/airlock/first.py"

func isRunner(about imageapi.InspectResponse) bool {
	return about.Config != nil && slices.Contains(about.Config.Entrypoint, firstProcess)
}

// describe keeps what is shown. An image's author writes its names and times.
func describe(about imageapi.InspectResponse, configured int) Image {
	made, err := time.Parse(time.RFC3339Nano, about.Created)
	if err != nil {
		made = time.Time{} // shown as not known
	}
	return Image{
		ID: about.ID, Names: printable(about.RepoTags), Digests: printable(about.RepoDigests),
		Size: job.Size(about.Size), Created: made, Configured: configured,
		Platform: job.Printable(fmt.Sprintf("%s/%s", about.Os, goarch(about.Architecture)), 60),
	}
}

func printable(texts []string) []string {
	clean := make([]string, len(texts))
	for i, t := range texts {
		clean[i] = job.Printable(t, 200)
	}
	return clean
}

// Label is what the Config calls it, else its first tag, else its ID.
func (i Image) Label() string {
	if i.Asked != "" {
		return i.Asked
	}
	if len(i.Names) > 0 {
		return i.Names[0]
	}
	return i.ID
}
