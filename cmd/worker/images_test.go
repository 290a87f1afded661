package main

import (
	"bytes"
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"airlock/backends/all"
	"airlock/backends/docker"
)

// needEngine skips the test where no engine answers, unless it must be there.
func needEngine(t *testing.T) {
	t.Helper()
	_, err := docker.Images(t.Context(), docker.Config{})
	if err == nil {
		return
	}
	if slices.Contains(strings.Split(os.Getenv("AIRLOCK_REQUIRE"), ","), docker.Name) {
		t.Fatalf("AIRLOCK_REQUIRE names docker, but: %v", err)
	}
	t.Skip(err)
}

func listImages(ctx context.Context, t *testing.T, args ...string) map[string]shownImage {
	t.Helper()
	var out, errs bytes.Buffer
	if code := run(ctx, all.Self{}, append([]string{"images", "--json"}, args...), &out, &errs); code != exitOK {
		t.Fatalf("worker images: code %d, %s", code, errs.String())
	}
	var rows []shownImage
	if err := json.Unmarshal(out.Bytes(), &rows); err != nil {
		t.Fatal(err)
	}
	byName := map[string]shownImage{}
	for _, r := range rows {
		byName[r.Image] = r
	}
	return byName
}

func TestImagesAreTriedAndWarmed(t *testing.T) {
	t.Parallel()
	needEngine(t)
	images := listImages(t.Context(), t, "--warm", "--images", docker.DefaultImage+",airlock-no-such-image")
	runner := images[docker.DefaultImage]
	if !runner.Usable || !runner.Default || !runner.Configured || runner.Python == "" || runner.Size == 0 || runner.Platform == "" || runner.Created.IsZero() || runner.ID == "" {
		t.Errorf("got %+v, want a default image that works and is described", runner)
	}
	if runner.First == 0 || runner.Warm == 0 {
		t.Errorf("got starts of %s and %s, want both measured", runner.First, runner.Warm)
	}
	missing := images["airlock-no-such-image"]
	if missing.Usable || missing.Default || !missing.Configured || !strings.Contains(missing.Reason, "dev/runner-image.sh") {
		t.Errorf("got %+v, want one that is not there and how to make it", missing)
	}
}

// TestImagesThatNobodyConfigured are listed, as not configured.
func TestImagesThatNobodyConfigured(t *testing.T) {
	t.Parallel()
	needEngine(t)
	images := listImages(t.Context(), t, "--images", "airlock-no-such-image")
	for _, runner := range images {
		// It may have other tags, of which one is its label.
		if !slices.Contains(runner.Names, docker.DefaultImage+":latest") {
			continue
		}
		if runner.Configured || !runner.Usable || runner.First != 0 {
			t.Errorf("got %+v, want one that works, is not configured and was not warmed", runner)
		}
		return
	}
	t.Errorf("got %+v, want %s among them", images, docker.DefaultImage)
}

func TestImagesWithoutAnEngine(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	code := run(t.Context(), all.Self{}, []string{"images", "--docker-host", "unix:///no/such/engine.sock"}, &out, &errs)
	if code != exitInternal || out.Len() > 0 || !strings.Contains(errs.String(), "/no/such/engine.sock") || !strings.Contains(errs.String(), "DOCKER_HOST") {
		t.Errorf("code %d, printed %q, said %q; want %d, the address and what to try", code, out.String(), errs.String(), exitInternal)
	}
}
