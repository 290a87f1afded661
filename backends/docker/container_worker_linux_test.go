package docker_test

import (
	"archive/tar"
	"bytes"
	"context"
	"debug/elf"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"airlock/backends/docker"

	"github.com/docker/docker/api/types/container"
	imageapi "github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
	"github.com/docker/docker/pkg/stdcopy"
)

// TestWorkerInContainer: a worker runs guests from inside a container that has
// a read-only root, no network, no capabilities and no user of note, and of
// the engine its socket only. Without the socket's group it says what it needs.
func TestWorkerInContainer(t *testing.T) {
	t.Parallel()
	open(t, docker.Config{})
	engine := api(t, "")
	socket, ok := strings.CutPrefix(engine.DaemonHost(), "unix://")
	if !ok {
		t.Skip("the engine has no socket that could be mounted: ", engine.DaemonHost())
	}
	info, err := os.Stat(socket)
	if err != nil {
		t.Skip("the engine's socket cannot be seen: ", err)
	}
	group := strconv.Itoa(int(info.Sys().(*syscall.Stat_t).Gid))
	image := workerImage(t, engine)
	t.Run("works", func(t *testing.T) {
		t.Parallel()
		said, code := runContained(t, engine, image, socket, []string{group})
		if code != 0 || !strings.Contains(said, "works with docker") {
			t.Errorf("got code %d, want 0: %s", code, said)
		}
	})
	t.Run("without the group", func(t *testing.T) {
		t.Parallel()
		said, code := runContained(t, engine, image, socket, nil)
		if code != 1 || !strings.Contains(said, "permission denied") || !strings.Contains(said, "must be in its socket's group") {
			t.Errorf("got code %d, want 1 and a reason that names the socket's group: %s", code, said)
		}
	})
}

// runContained runs this test binary as the small worker.
func runContained(t *testing.T, engine *client.Client, image, socket string, groups []string) (said string, code int64) {
	t.Helper()
	made, err := engine.ContainerCreate(t.Context(), &container.Config{
		Image: image, User: "10001:10001", Cmd: []string{"/worker"},
		Env: []string{asWorker + "=small", "DOCKER_HOST=unix:///engine.sock"},
	}, &container.HostConfig{
		ReadonlyRootfs: true, CapDrop: []string{"ALL"}, SecurityOpt: []string{"no-new-privileges"}, NetworkMode: "none",
		GroupAdd: groups, Binds: []string{socket + ":/engine.sock:ro"},
	}, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = engine.ContainerRemove(context.Background(), made.ID, container.RemoveOptions{Force: true})
	})
	over, failed := engine.ContainerWait(t.Context(), made.ID, container.WaitConditionNextExit)
	if err := engine.ContainerStart(t.Context(), made.ID, container.StartOptions{}); err != nil {
		t.Fatal(err)
	}
	select {
	case end := <-over:
		code = end.StatusCode
	case err := <-failed:
		t.Fatal(err)
	}
	logs, err := engine.ContainerLogs(t.Context(), made.ID, container.LogsOptions{ShowStdout: true, ShowStderr: true})
	if err != nil {
		t.Fatal(err)
	}
	defer logs.Close()
	var all bytes.Buffer
	if _, err := stdcopy.StdCopy(&all, &all, logs); err != nil {
		t.Fatal(err)
	}
	return all.String(), code
}

// workerImage is an image with this test binary, and the libraries it needs if
// it is not static, and nothing else.
func workerImage(t *testing.T, engine *client.Client) string {
	t.Helper()
	const tag = "airlock-test-fault:worker"
	files := map[string]string{"worker": os.Args[0]}
	for _, library := range libraries(t, os.Args[0]) {
		files[strings.TrimPrefix(library, "/")] = library
	}
	content, feed := io.Pipe()
	go func() { feed.CloseWithError(archiveFiles(feed, files)) }()
	said, err := engine.ImageImport(t.Context(), imageapi.ImportSource{Source: content, SourceName: "-"}, tag, imageapi.ImportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(io.Discard, said)
	_ = said.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { removeImage(engine, tag) })
	return tag
}

// libraries are what the loader would load of a program.
func libraries(t *testing.T, program string) []string {
	t.Helper()
	file, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if needs, err := file.ImportedLibraries(); err != nil || len(needs) == 0 {
		return nil
	}
	out, err := exec.CommandContext(t.Context(), "ldd", program).Output()
	if err != nil {
		t.Skip("the libraries of this test binary cannot be found, and it is not static: ", err)
	}
	var found []string
	for _, word := range strings.Fields(string(out)) {
		if filepath.IsAbs(word) {
			found = append(found, word)
		}
	}
	return found
}

// archiveFiles writes programs, by their names in the archive and on this host.
func archiveFiles(to io.Writer, files map[string]string) error {
	w := tar.NewWriter(to)
	for name, path := range files {
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(content))}); err != nil {
			return err
		}
		if _, err := w.Write(content); err != nil {
			return fmt.Errorf("archive %s: %w", path, err)
		}
	}
	return w.Close()
}
