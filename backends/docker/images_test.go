package docker_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"

	"airlock/backends"
	"airlock/backends/docker"
	"airlock/job"

	"github.com/docker/docker/api/types/build"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
	"github.com/rs/zerolog"
)

// engineClient is the test's own.
func engineClient(t *testing.T) *client.Client {
	t.Helper()
	api, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = api.Close() })
	return api
}

// makeImage builds on the runner's image and returns the ID. It is removed when the
// test ends. The content is that of a file "file" beside the Dockerfile.
func makeImage(t *testing.T, api *client.Client, tag, dockerfile string, content ...string) string {
	t.Helper()
	files := map[string]string{"Dockerfile": "FROM " + docker.DefaultImage + "\n" + dockerfile, "file": strings.Join(content, "")}
	made, err := api.ImageBuild(t.Context(), archive(t, files), build.ImageBuildOptions{Remove: true, ForceRemove: true, Tags: []string{tag}})
	if err != nil {
		t.Fatal(err)
	}
	said, _ := io.ReadAll(made.Body)
	_ = made.Body.Close()
	t.Cleanup(func() { removeImage(api, tag) })
	found, err := api.ImageInspect(t.Context(), tag)
	if err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	return found.ID
}

func removeImage(api *client.Client, tag string) {
	_, _ = api.ImageRemove(context.Background(), tag, image.RemoveOptions{Force: true})
}

// loadImage makes an image that has one file only.
func loadImage(t *testing.T, api *client.Client, tag, arch string) {
	t.Helper()
	layer, err := io.ReadAll(archive(t, map[string]string{"file": "nothing"}))
	if err != nil {
		t.Fatal(err)
	}
	made, err := api.ImageLoad(t.Context(), archive(t, map[string]string{
		"layer.tar":     string(layer),
		"config.json":   fmt.Sprintf(`{"architecture":%q,"os":"linux","rootfs":{"type":"layers","diff_ids":["sha256:%x"]}}`, arch, sha256.Sum256(layer)),
		"manifest.json": fmt.Sprintf(`[{"Config":"config.json","RepoTags":[%q],"Layers":["layer.tar"]}]`, tag+":latest"),
	}))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, made.Body)
	_ = made.Body.Close()
	t.Cleanup(func() { removeImage(api, tag) })
}

func archive(t *testing.T, files map[string]string) io.Reader {
	t.Helper()
	var all bytes.Buffer
	w := tar.NewWriter(&all)
	for name, content := range files {
		err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content))})
		if err == nil {
			_, err = io.WriteString(w, content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &all
}

// TestImages: jobs have the image they ask for by any of its names, the default
// without, and none that was not offered, such as another that the engine has.
func TestImages(t *testing.T) {
	t.Parallel()
	open(t, docker.Config{})
	api := engineClient(t)
	other, bare, unlisted, missing := own("other"), own("bare"), own("unlisted"), own("missing")
	id := makeImage(t, api, other, "LABEL which=other")
	makeImage(t, api, unlisted, "LABEL which=unlisted")
	loadImage(t, api, bare, runtime.GOARCH)
	var logged bytes.Buffer
	b := docker.New(docker.Config{Log: zerolog.New(&logged), Images: []string{docker.DefaultImage, other, bare, missing}})
	defer b.Close()
	can, err := b.Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{docker.DefaultImage, other, id, can.Isolated.Image} {
		if !slices.Contains(can.Images, name) {
			t.Errorf("got images %q, want %s among them", can.Images, name)
		}
	}
	for _, name := range []string{bare, unlisted, missing} {
		if slices.Contains(can.Images, name) {
			t.Errorf("%s is offered", name)
		}
	}
	for _, want := range []string{bare, "/airlock/python", "dev/runner-image.sh", missing} {
		if !strings.Contains(logged.String(), want) {
			t.Errorf("got log %s, want %s in it", logged.String(), want)
		}
	}
	for name, want := range map[string]string{"": can.Isolated.Image, other: id, id: id} {
		guest := task("pass", job.Limits{}, io.Discard)
		guest.Image = name
		out, err := b.Run(t.Context(), guest)
		if err != nil || out.Isolated == nil || out.Isolated.Image != want {
			t.Errorf("image %q: got %+v and error %v, want a guest of %s", name, out.Isolated, err, want)
		}
	}
	for _, name := range []string{bare, unlisted, "airlock-runner:none"} {
		guest := task("pass", job.Limits{}, io.Discard)
		guest.Image = name
		if _, err := b.Run(t.Context(), guest); !errors.Is(err, backends.ErrUnenforceable) {
			t.Errorf("image %q: got error %v, want one that wraps ErrUnenforceable", name, err)
		}
	}
}

// TestBadImage: the reason says what is wrong with the default image.
func TestBadImage(t *testing.T) {
	t.Parallel()
	open(t, docker.Config{})
	api := engineClient(t)
	bare, foreign, broken, volume := own("bad-bare"), own("bad-foreign"), own("bad-broken"), own("bad-volume")
	loadImage(t, api, bare, runtime.GOARCH)
	loadImage(t, api, foreign, "s390x")
	makeImage(t, api, volume, "VOLUME /data")
	makeImage(t, api, broken, "COPY Dockerfile /airlock/first.py")
	for name, want := range map[string]string{
		bare: "/airlock/python", foreign: "s390x", broken: "SyntaxError", volume: "volumes", own("bad-none"): "dev/runner-image.sh",
	} {
		unavailable(t, docker.Config{Images: []string{name}}, want)
	}
}

// TestProbeLooksAgain: a probe takes a name for what it now means, and finds an image
// that is gone.
func TestProbeLooksAgain(t *testing.T) {
	t.Parallel()
	open(t, docker.Config{})
	api := engineClient(t)
	name := own("again")
	b := docker.New(docker.Config{Images: []string{name}})
	defer b.Close()
	for _, turn := range []string{"1", "2"} {
		want := makeImage(t, api, name, "LABEL turn="+turn)
		can, err := b.Probe(t.Context())
		if err != nil || can.Isolated.Image != want {
			t.Errorf("turn %s: got %+v and error %v, want image %s", turn, can.Isolated, err, want)
		}
	}
	removeImage(api, name)
	if _, err := b.Probe(t.Context()); !errors.Is(err, backends.ErrUnavailable) || !strings.Contains(err.Error(), name) {
		t.Errorf("got error %v, want one that wraps ErrUnavailable and names the image", err)
	}
}

// TestOldImage: an image whose first process is of before greetings had a
// version is refused by the probe, which says what to do.
func TestOldImage(t *testing.T) {
	t.Parallel()
	open(t, docker.Config{})
	const tag = "airlock-test-images:old"
	makeImage(t, engineClient(t), tag, "COPY file /airlock/first.py\n", `
import os
with open("/proc/self/status") as f:
    body = ("Python:3.11.2\nKernel:6.1\n" + "".join(f.read().splitlines(True))).encode()
os.write(1, b"r" + len(body).to_bytes(4, "big") + body)
os.read(0, 1)
`)
	unavailable(t, docker.Config{Images: []string{tag}}, "the image or the worker is an old one")
	unavailable(t, docker.Config{Images: []string{tag}}, "make it anew with dev/runner-image.sh")
}
