package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"airlock/backends"
	"airlock/backends/docker"
	"airlock/job"
)

// imagesCommand shows which images guests can have here.
type imagesCommand struct {
	engineFlags
	Warm bool `help:"Start a guest of each image that works once more, so that the engine and the system have it at hand, and show how long both starts took."`
	JSON bool `name:"json" help:"Print JSON."`
}

// imagesPatience bounds what the engine is given for one image.
const imagesPatience = 2 * time.Minute

// shownImage is a row of worker images.
type shownImage struct {
	Image string `json:"image"`
	ID    string `json:"id,omitzero"`
	// Names are all tags; Digests what registries call it.
	Names   []string `json:"names,omitzero"`
	Digests []string `json:"digests,omitzero"`
	// Configured says that --images names it, and Default that a job gets
	// it which asks for none.
	Configured bool      `json:"configured"`
	Default    bool      `json:"default,omitzero"`
	Size       job.Size  `json:"size,omitzero"`
	Created    time.Time `json:"created,omitzero"`
	Platform   string    `json:"platform,omitzero"`
	Python     string    `json:"python,omitzero"`
	Usable     bool      `json:"usable"`
	Reason     string    `json:"reason,omitzero"`
	// First and Warm are how long a guest took from nothing to its end.
	First job.Duration `json:"first,omitzero"`
	Warm  job.Duration `json:"warm,omitzero"`
}

// run prints the images. An image that does not work is an answer; an engine
// that does not answer is a failure.
func (c *imagesCommand) run(ctx context.Context, stdout, stderr io.Writer) int {
	config := c.docker(zerolog.Nop())
	found, err := docker.Images(ctx, config)
	if err != nil {
		fmt.Fprintln(stderr, "worker images:", err)
		return exitInternal
	}
	shown := []shownImage{}
	for _, image := range found {
		row := shownImage{
			Image: image.Label(), ID: image.ID, Names: image.Names, Digests: image.Digests,
			Configured: image.Configured > 0, Default: image.Configured == 1,
			Size: image.Size, Created: image.Created, Platform: image.Platform,
		}
		row.try(ctx, config, cmp.Or(image.ID, image.Label()), c.Warm)
		shown = append(shown, row)
	}
	if c.JSON {
		return printJSON(shown, "worker images", stdout, stderr)
	}
	fmt.Fprintln(stdout, renderImages(shown, c.Warm))
	return exitOK
}

// try starts a guest in the image, and another one if it is to be warmed.
func (s *shownImage) try(ctx context.Context, config docker.Config, image string, warm bool) {
	ctx, cancel := context.WithTimeout(ctx, imagesPatience)
	defer cancel()
	config.Images = []string{image}
	b := docker.New(config)
	can, took, err := timed(ctx, b)
	if err == nil && warm {
		s.First = job.Duration(took)
		_, took, err = timed(ctx, b)
		s.Warm = job.Duration(took)
	}
	if closing := b.Close(); err == nil {
		err = closing
	}
	s.Python, s.Usable = can.Python, err == nil
	if err != nil {
		s.Reason = job.Printable(err.Error(), 500)
	}
}

// timed probes, which runs a guest.
func timed(ctx context.Context, b backends.Backend) (backends.Capabilities, time.Duration, error) {
	began := time.Now()
	can, err := b.Probe(ctx)
	return can, time.Since(began), err
}

func renderImages(rows []shownImage, warm bool) string {
	header := []any{"image", "id", "size", "created", "platform", "python", "usable"}
	if warm {
		header = append(header, "first start", "warm start")
	}
	g := newGrid(append(header, "why not")...)
	for _, r := range rows {
		name, usable, created := r.Image, "yes", ""
		if r.Image == r.ID {
			name = "untagged"
		}
		switch {
		case r.Default:
			name += " (default)"
		case !r.Configured:
			name += " (not in --images)"
		}
		if !r.Usable {
			usable = "no"
		}
		if !r.Created.IsZero() {
			created = r.Created.Format("2006-01-02 15:04")
		}
		cells := []any{name, shortID(r.ID), megabytes(r.Size), created, r.Platform, r.Python, usable}
		if warm {
			cells = append(cells, millis(r.First), millis(r.Warm))
		}
		g.add(append(cells, r.Reason)...)
	}
	return g.Render()
}

// megabytes is empty for what is not there; millis likewise.
func megabytes(s job.Size) string {
	if s == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f MB", float64(s)/1e6)
}

func millis(d job.Duration) string {
	if d == 0 {
		return ""
	}
	return d.Std().Round(time.Millisecond).String()
}

// shortID is what docker images shows of an ID; a name stays as it is.
func shortID(id string) string {
	hex, ok := strings.CutPrefix(id, "sha256:")
	if !ok {
		return id
	}
	return hex[:min(12, len(hex))]
}
