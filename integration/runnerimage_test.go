package integration_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"

	"airlock/backends"
	"airlock/backends/docker"
	"airlock/broker"
	"airlock/broker/brokertest"
	"airlock/job"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
)

// plainSize is what the plain runner image may hold.
const plainSize = 70_000_000

// importable are modules that guest code has a right to expect, whatever
// libraries they are linked with.
const importable = "import asyncio, bz2, ctypes, decimal, hashlib, lzma, sqlite3, ssl, uuid, zlib, zoneinfo"

// imageTool runs a command in the repository's root and returns what it said.
func imageTool(t *testing.T, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = "..", append(os.Environ(), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, &stderr)
	}
	return strings.TrimSpace(string(out))
}

func needEngine(t *testing.T) {
	t.Helper()
	if err := exec.CommandContext(t.Context(), "docker", "version").Run(); err != nil {
		if slices.Contains(strings.Split(os.Getenv("AIRLOCK_REQUIRE"), ","), docker.Name) {
			t.Fatalf("AIRLOCK_REQUIRE names docker, but docker version: %v", err)
		}
		t.Skipf("no engine answers to docker version: %v", err)
	}
}

// makeImage has dev/runner-image.sh make an image with a name of its own,
// which is removed at the end. It returns the name and the ID.
func makeImage(t *testing.T, variant, how string, env ...string) (name, id string) {
	t.Helper()
	name = "airlock-test-" + variant + "-" + how + "-" + job.NewID().String()[24:]
	t.Cleanup(func() { removeImage(t, name) })
	id = imageTool(t, append(env, "AIRLOCK_RUNNER_IMAGE="+name), "dev/runner-image.sh", variant, how)
	return name, id
}

// removeImage removes the tags only: another image may be the same.
func removeImage(t *testing.T, name string) {
	out, err := exec.Command("docker", "images", "--format", "{{.Repository}}:{{.Tag}}", name).Output()
	if err != nil {
		t.Error(err)
	}
	if tags := strings.Fields(string(out)); len(tags) > 0 {
		if out, err := exec.Command("docker", append([]string{"rmi"}, tags...)...).CombinedOutput(); err != nil {
			t.Errorf("remove %s: %v\n%s", name, err, out)
		}
	}
}

// TestRunnerImage: the host's image is small, holds nothing to break out with,
// runs jobs, and is the same when it is made again.
func TestRunnerImage(t *testing.T) {
	t.Parallel()
	needEngine(t)
	name, id := makeImage(t, "plain", "host")
	checkImage(t, name, "plain")
	if got, want := runIn(t, id, importable+"\nreturn zlib.crc32(b'airlock')"), "3129946368"; got != want {
		t.Errorf("got %s from a guest in the image, want %s", got, want)
	}
	again, sameID := makeImage(t, "plain", "host")
	if sameID != id {
		t.Errorf("got image %s for %s, want %s as for %s: the content is the same", sameID, again, id, name)
	}
}

// TestRunnerImageData: a job uses numpy and pandas under all the walls.
func TestRunnerImageData(t *testing.T) {
	t.Parallel()
	needEngine(t)
	name, id := makeImage(t, "data", "host")
	checkImage(t, name, "data")
	code := `import numpy, pandas
print(pandas.DataFrame({'a':[1,2]}).sum())
return [int(pandas.DataFrame({'a':[1,2]}).sum()['a']), float((numpy.ones((8, 8)) @ numpy.ones((8, 8))).sum())]`
	if got, want := runIn(t, id, code), "[3,512.0]"; got != want {
		t.Errorf("got %s from a guest in the image, want %s", got, want)
	}
}

// TestRunnerDockerfile builds the Dockerfile that is shipped, on Debian's own
// Python where the base it names is out of reach.
func TestRunnerDockerfile(t *testing.T) {
	t.Parallel()
	needEngine(t)
	base := imageTool(t, nil, "dev/runner-base.sh")
	name, id := makeImage(t, "plain", "dockerfile", "BASE_IMAGE="+base)
	checkImage(t, name, "plain")
	if got, want := runIn(t, id, importable+"\nreturn zlib.crc32(b'airlock')"), "3129946368"; got != want {
		t.Errorf("got %s from a guest in the image, want %s", got, want)
	}
}

// checkImage holds an image against what is promised of each.
func checkImage(t *testing.T, name, variant string) {
	t.Helper()
	about := inspectImage(t, name)
	if about.Config.User != "65532:65532" {
		t.Errorf("got user %q in %s, want the guest's", about.Config.User, name)
	}
	if len(about.RootFS.Layers) == 0 {
		t.Fatalf("got no layers in %s", name)
	}
	version := strings.TrimPrefix(about.RootFS.Layers[0], "sha256:")[:12]
	want := map[string]string{
		"org.opencontainers.image.title":   "airlock-runner (" + variant + ")",
		"org.opencontainers.image.version": version,
	}
	if diff := cmp.Diff(want, about.Config.Labels); diff != "" {
		t.Errorf("labels of %s differ (-want +got):\n%s", name, diff)
	}
	if tagged := inspectImage(t, name+":"+version); tagged.ID != about.ID {
		t.Errorf("got %s as %s:%s, want %s", tagged.ID, name, version, about.ID)
	}
	if variant == "plain" && about.Size > plainSize {
		t.Errorf("got %d bytes in %s, want at most %d", about.Size, name, plainSize)
	}
	checkFiles(t, imageFiles(t, name))
}

type imageAbout struct {
	ID     string `json:"Id"`
	Size   int64  `json:"Size"`
	Config struct {
		User   string            `json:"User"`
		Labels map[string]string `json:"Labels"`
	} `json:"Config"`
	RootFS struct {
		Layers []string `json:"Layers"`
	} `json:"RootFS"`
}

func inspectImage(t *testing.T, name string) imageAbout {
	t.Helper()
	var all []imageAbout
	if err := json.Unmarshal([]byte(imageTool(t, nil, "docker", "image", "inspect", name)), &all); err != nil || len(all) != 1 {
		t.Fatalf("got %d images and error %v for %s, want one", len(all), err, name)
	}
	return all[0]
}

// imageFiles are the files of an image, by path, as a container has them.
func imageFiles(t *testing.T, name string) map[string]*tar.Header {
	t.Helper()
	id := imageTool(t, nil, "docker", "create", "--network", "none", name)
	defer imageTool(t, nil, "docker", "rm", "-f", id)
	cmd := exec.CommandContext(t.Context(), "docker", "export", id)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	files := map[string]*tar.Header{}
	for archive := tar.NewReader(out); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		files[path.Clean("/"+header.Name)] = header
	}
	_, _ = io.Copy(io.Discard, out) // the padding at the end
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	return files
}

// unwanted are programs that help whoever gets hold of a guest.
var unwanted = []string{
	"sh", "bash", "dash", "ash", "busybox", "apt", "apt-get", "dpkg", "apk", "rpm", "dnf", "pip", "pip3", "perl",
	"env", "ls", "cat", "mount", "su", "sudo", "curl", "wget", "ld", "gcc",
}

func checkFiles(t *testing.T, files map[string]*tar.Header) {
	t.Helper()
	compiled, sources := 0, 0
	for name, header := range files {
		dir, base := path.Split(name)
		switch regular := header.Typeflag == tar.TypeReg; {
		case strings.HasSuffix(dir, "bin/") && slices.Contains(unwanted, base), base == "pip", base == "ensurepip":
			t.Errorf("the image has %s", name)
		case regular && header.Mode&0o6000 != 0:
			t.Errorf("%s has mode %o: it gives rights", name, header.Mode)
		case regular && header.Uid != 0:
			t.Errorf("%s is uid %d's, want root's", name, header.Uid)
		case regular && header.Mode&0o022 != 0:
			t.Errorf("%s has mode %o: others may write it", name, header.Mode)
		case strings.HasSuffix(name, ".pyc"):
			compiled++
		case strings.HasPrefix(name, "/airlock/") && strings.HasSuffix(name, ".py"):
			sources++
			if !hasCompiled(files, name) {
				t.Errorf("%s is not compiled", name)
			}
		}
	}
	if sources < 10 || compiled < 500 {
		t.Errorf("got %d files of the guest and %d compiled ones in all, want the guest and a standard library", sources, compiled)
	}
}

func hasCompiled(files map[string]*tar.Header, source string) bool {
	dir, base := path.Split(source)
	start := dir + "__pycache__/" + strings.TrimSuffix(base, "py") + "cpython-"
	for name := range files {
		if strings.HasPrefix(name, start) {
			return true
		}
	}
	return false
}

// runIn runs code as a job in a guest of the image and returns its value.
func runIn(t *testing.T, image, code string) string {
	t.Helper()
	b := docker.New(docker.Config{Images: []string{image}})
	defer b.Close()
	if _, err := b.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	a := brokertest.Attempt(t, "", func(j *job.Job) { j.Code = code })
	var report *job.Report
	var stderr bytes.Buffer
	talk := broker.New(broker.Config{Tools: brokertest.Math(t), Audit: brokertest.Nothing{}})
	nothing := func() {}
	outcome, err := b.Run(t.Context(), backends.Task{
		Job: a.Job.ID, Attempt: 1, Limits: job.Limits{}.WithDefaults(), Stdout: io.Discard, Stderr: &stderr,
		Serve: func(ctx context.Context, channel io.ReadWriteCloser) (err error) {
			report, err = talk.Serve(ctx, a, channel, job.Clock{Start: nothing, Pause: nothing, Resume: nothing})
			return err
		},
	})
	if err != nil || report == nil || !report.Done || outcome.Cause != backends.Exited {
		t.Fatalf("got outcome %+v, error %v and report %+v, want a result\n%s", outcome, err, report, stderr.String())
	}
	if report.Error != nil {
		t.Fatalf("got %+v, want a value", report.Error)
	}
	return string(report.Value)
}
