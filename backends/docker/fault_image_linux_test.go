package docker_test

import (
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"airlock/backends"
	"airlock/backends/docker"
	"airlock/job"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/rs/zerolog"
)

// removeRunner removes the runner image by all its names; the engine does not
// while containers of it run.
func (d *dockerd) removeRunner(t *testing.T) {
	t.Helper()
	found, err := d.api.ImageInspect(t.Context(), docker.DefaultImage)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{docker.DefaultImage, found.ID} {
		if _, err := d.api.ImageRemove(t.Context(), name, image.RemoveOptions{Force: true}); err != nil {
			t.Logf("remove image %s: %v", name, err)
		}
	}
}

// TestImageRemoved: guests that stand ready or run are served when their image
// is taken away, the next one is an error of ours that names it, a probe says
// so, and all goes on when it is back.
func TestImageRemoved(t *testing.T) {
	t.Parallel()
	needDockerd(t)
	d := newDockerd(t)
	inner := open(t, docker.Config{Host: d.host})
	pool := backends.Parked(docker.New(docker.Config{Host: d.host}), backends.ParkedConfig{Size: 2, Log: zerolog.Nop()})
	defer pool.Close()
	if _, err := pool.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	running := sleepers(t, t.Context(), inner, 1)
	until(t, "two guests are parked", func() bool { return len(pids(t, d.api)) == 3 })
	d.removeRunner(t)
	wantWorks(t, pool)
	// The engine kept the image for those guests; now nobody is to need it.
	until(t, "the image is gone", func() bool {
		for id := range containerIDs(t, d.api) {
			_ = d.api.ContainerRemove(t.Context(), id, container.RemoveOptions{Force: true})
		}
		all, err := d.api.ImageList(t.Context(), image.ListOptions{All: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range all {
			_, _ = d.api.ImageRemove(t.Context(), one.ID, image.RemoveOptions{Force: true})
		}
		return len(all) == 0
	})
	wantError(t, running[0])
	_, err := inner.Run(t.Context(), task("pass", job.Limits{}, io.Discard))
	if err == nil || !strings.Contains(err.Error(), docker.DefaultImage) || !strings.Contains(err.Error(), "the image is gone") {
		t.Errorf("got error %v, want one that says that the image %s is gone", err, docker.DefaultImage)
	}
	// The first probe may still go by what the last one found.
	for range 2 {
		_, err = inner.Probe(t.Context())
		if !errors.Is(err, backends.ErrUnavailable) || !strings.Contains(err.Error(), docker.DefaultImage) || !strings.Contains(err.Error(), "dev/runner-image.sh") {
			t.Errorf("got error %v from the probe, want one that names the image and what makes it", err)
		}
	}
	d.load(t, runnerImage(t))
	if _, err := inner.Probe(t.Context()); err != nil {
		t.Errorf("got error %v from the probe after the image is back", err)
	}
	wantWorks(t, inner)
	wantWorks(t, pool)
}

// TestBadImageOnly: an image in which no container starts costs its own jobs
// an error, and no others.
func TestBadImageOnly(t *testing.T) {
	t.Parallel()
	needDockerd(t)
	open(t, docker.Config{})
	client := engineClient(t)
	const bad = "airlock-test-fault:bad"
	id := makeImage(t, client, bad, "LABEL which=bad")
	b := docker.New(docker.Config{Images: []string{docker.DefaultImage, bad}})
	defer b.Close()
	can, err := b.Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	work := task("print(1)", job.Limits{}, io.Discard)
	work.Image = bad
	if out, err := b.Run(t.Context(), work); err != nil || out.Cause != backends.Exited {
		t.Fatalf("got %+v and error %v of the image while it is good", out, err)
	}
	until(t, "the image is gone", func() bool {
		// The container of the last guest may still need it.
		_, err := client.ImageRemove(t.Context(), id, image.RemoveOptions{Force: true})
		return errdefs.IsNotFound(err)
	})
	for range 3 {
		if out, err := b.Run(t.Context(), work); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("got %+v and error %v, want an error that names the image %s", out, err, bad)
		}
		wantWorks(t, b)
	}
	if again, err := b.Probe(t.Context()); err != nil || len(again.Images) >= len(can.Images) {
		t.Errorf("got images %v and error %v, want fewer than %v", again.Images, err, can.Images)
	}
}

// TestDiskFull: an engine without room is an error of ours with its own words,
// and none any more when there is room again.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	needDockerd(t)
	dir, err := os.MkdirTemp("", "airlock-dockerd-")
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=256m"); err != nil {
		t.Skip("no small file system can be mounted: " + err.Error())
	}
	d := dockerdIn(t, dir)
	b := open(t, docker.Config{Host: d.host})
	sleepers(t, t.Context(), b, 1)
	full, err := os.Create(d.at("data/full"))
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	if _, err := io.Copy(full, zeros{}); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Fatalf("got error %v, want a full disk", err)
	}
	out, err := b.Run(t.Context(), task("pass", job.Limits{}, io.Discard))
	if err == nil || !strings.Contains(err.Error(), "no space left on device") {
		t.Errorf("got %+v and error %v, want one with no space left on device", out, err)
	}
	if err := full.Truncate(0); err != nil {
		t.Fatal(err)
	}
	wantWorks(t, b)
	until(t, "only the guest is left that ran all the time", func() bool { return len(pids(t, d.api)) == 1 })
}

// zeros are without end.
type zeros struct{}

// Read implements io.Reader.
func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
