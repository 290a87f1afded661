package integration_test

import (
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

// composeFile is what these tests look at of the file as Compose resolves it.
type composeFile struct {
	Name     string                    `json:"name"`
	Services map[string]composeService `json:"services"`
	Networks map[string]struct {
		Internal bool              `json:"internal"`
		Options  map[string]string `json:"driver_opts"`
	} `json:"networks"`
	Secrets map[string]struct {
		File        string `json:"file"`
		Environment string `json:"environment"`
	} `json:"secrets"`
	Configs map[string]any `json:"configs"`
}

type composeService struct {
	Image       string             `json:"image"`
	Build       any                `json:"build"`
	User        string             `json:"user"`
	ReadOnly    bool               `json:"read_only"`
	Privileged  bool               `json:"privileged"`
	CapAdd      []string           `json:"cap_add"`
	CapDrop     []string           `json:"cap_drop"`
	SecurityOpt []string           `json:"security_opt"`
	NetworkMode string             `json:"network_mode"`
	Pid         string             `json:"pid"`
	Ipc         string             `json:"ipc"`
	UserNS      string             `json:"userns_mode"`
	Networks    map[string]any     `json:"networks"`
	Environment map[string]*string `json:"environment"`
	Command     []string           `json:"command"`
	Devices     []any              `json:"devices"`
	Tmpfs       []string           `json:"tmpfs"`
	Ports       []struct {
		HostIP string `json:"host_ip"`
	} `json:"ports"`
	Volumes []struct {
		Type     string `json:"type"`
		Source   string `json:"source"`
		Target   string `json:"target"`
		ReadOnly bool   `json:"read_only"`
	} `json:"volumes"`
	Healthcheck *struct {
		Test          []string `json:"test"`
		StartInterval string   `json:"start_interval"`
	} `json:"healthcheck"`
	Deploy struct {
		Replicas  *int `json:"replicas"`
		Resources struct {
			Limits struct {
				CPUs   any `json:"cpus"`
				Memory any `json:"memory"`
				Pids   int `json:"pids"`
			} `json:"limits"`
		} `json:"resources"`
	} `json:"deploy"`
	Restart string `json:"restart"`
}

// compose runs dev/compose.sh in the root of the tree.
func compose(t testing.TB, env []string, args ...string) said {
	t.Helper()
	return script(t, env, "dev/compose.sh", args...)
}

// script runs a program of the tree in its root.
func script(t testing.TB, env []string, name string, args ...string) said {
	t.Helper()
	cmd := exec.Command("./"+name, args...)
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), env...)
	var out, errs transcript
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run() // the code says it
	return said{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

// resolved is docker-compose.yml as Compose sees it. Compose may have to be
// built first, which needs no engine.
func resolved(t *testing.T) composeFile {
	t.Helper()
	require(t, "docker", "bash")
	if testing.Short() {
		t.Skip("Compose may have to be built first, which takes a minute")
	}
	env := []string{"COMPOSE_PROJECT_NAME=", "COMPOSE_FILE=docker-compose.yml", "COMPOSE_DISABLE_ENV_FILE=true"}
	got := compose(t, env, "--profile", "submit", "--profile", "gateway", "config", "--format", "json")
	if got.code != 0 {
		t.Fatalf("config: %d, %s", got.code, got.stderr)
	}
	if warned := strings.TrimSpace(got.stderr); warned != "" && !strings.Contains(warned, "building Compose") {
		t.Errorf("Compose warns: %s", warned)
	}
	var file composeFile
	if err := json.Unmarshal([]byte(got.stdout), &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Services) < 8 {
		t.Fatalf("%d services were read, want all", len(file.Services))
	}
	return file
}

// oneShot are the services that do one thing and end, so that nobody asks them
// how they are.
var oneShot = map[string]bool{"volumes": true, "migrate": true, "submit": true}

func TestComposeFileIsHardened(t *testing.T) {
	t.Parallel()
	file := resolved(t)
	for _, row := range []struct {
		name string
		ok   func(name string, s composeService) bool
	}{
		{"its root is read-only", func(_ string, s composeService) bool { return s.ReadOnly }},
		{"it has no capabilities", func(name string, s composeService) bool {
			return slices.Equal(s.CapDrop, []string{"ALL"}) &&
				(len(s.CapAdd) == 0 || name == "volumes" && slices.Equal(s.CapAdd, []string{"CHOWN"}))
		}},
		{"it gains no privileges", func(_ string, s composeService) bool {
			return slices.Equal(s.SecurityOpt, []string{"no-new-privileges:true"}) && !s.Privileged && len(s.Devices) == 0
		}},
		{"it is not root", func(name string, s composeService) bool {
			// volumes is, with one capability, for as long as chown takes.
			return regexp.MustCompile(`^[1-9][0-9]*:[1-9][0-9]*$`).MatchString(s.User) || name == "volumes"
		}},
		{"it has limits", func(_ string, s composeService) bool {
			l := s.Deploy.Resources.Limits
			return l.CPUs != nil && l.Memory != nil && l.Pids > 0
		}},
		{"it shares no namespace of the host", func(_ string, s composeService) bool {
			return s.NetworkMode != "host" && s.Pid == "" && s.Ipc == "" && s.UserNS == ""
		}},
		{"its ports are on loopback", func(_ string, s composeService) bool {
			for _, p := range s.Ports {
				if p.HostIP != "127.0.0.1" {
					return false
				}
			}
			return true
		}},
		{"its image is pinned", func(_ string, s composeService) bool {
			_, tag, ok := strings.Cut(s.Image, ":")
			return ok && tag != "latest"
		}},
		{"somebody asks how it is", func(name string, s composeService) bool {
			asked := s.Healthcheck != nil && len(s.Healthcheck.Test) > 1 && s.Healthcheck.Test[0] == "CMD"
			return asked != oneShot[name] && (s.Healthcheck == nil || s.Healthcheck.StartInterval == "")
		}},
		{"what has to run is started again", func(name string, s composeService) bool {
			return (s.Restart == "unless-stopped") != oneShot[name]
		}},
		{"its networks have no way out", func(_ string, s composeService) bool {
			for n := range s.Networks {
				net := file.Networks[n]
				if !net.Internal && net.Options["com.docker.network.bridge.enable_ip_masquerade"] != "false" {
					return false
				}
			}
			return s.NetworkMode == "none" || len(s.Networks) > 0
		}},
		{"only what publishes ports leaves the inner network", func(_ string, s composeService) bool {
			_, outside := s.Networks["outside"]
			return outside == (len(s.Ports) > 0)
		}},
		{"only workers hold the engine's socket", func(name string, s composeService) bool {
			held := false
			for _, v := range s.Volumes {
				held = held || strings.Contains(v.Source+v.Target, "docker.sock")
				if v.Type == "bind" && !v.ReadOnly && v.Target != "/var/run/docker.sock" {
					return false
				}
			}
			return held == (name == "worker")
		}},
		{"its secrets are files", func(_ string, s composeService) bool {
			for name, value := range s.Environment {
				secret := regexp.MustCompile(`(?i)password|secret|token|^AIRLOCK_(NATS|POSTGRES)$`).MatchString(name)
				if secret && (value == nil || !strings.Contains(*value, "/run/secrets/")) {
					return false
				}
			}
			return !strings.Contains(strings.Join(s.Command, " "), "@")
		}},
	} {
		for _, name := range slices.Sorted(maps.Keys(file.Services)) {
			if !row.ok(name, file.Services[name]) {
				t.Errorf("%s: not so: %s\n%+v", name, row.name, file.Services[name])
			}
		}
	}
}

func TestComposeFileAsAWhole(t *testing.T) {
	t.Parallel()
	file := resolved(t)
	if file.Name != "airlock" || len(file.Configs) > 0 {
		t.Errorf("got project %q and %d configs, want airlock and none", file.Name, len(file.Configs))
	}
	if n := file.Services["worker"].Deploy.Replicas; n == nil || *n != 2 {
		t.Errorf("got %v workers, want 2", n)
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range file.Secrets {
		if s.Environment != "" || !strings.HasPrefix(s.File, filepath.Join(root, "secrets")+"/") {
			t.Errorf("secret %s is from %q and the environment's %q, want a file of secrets/", name, s.File, s.Environment)
		}
	}
	// The server of the deployment is the one that all other tests run.
	raw, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`nats-server/v2 v(\S+)`).FindSubmatch(raw)
	if version == nil || file.Services["nats"].Image != "nats:"+string(version[1])+"-alpine" {
		t.Errorf("got %s, want the version %s of go.mod", file.Services["nats"].Image, version)
	}
	for _, image := range []string{"NATS_IMAGE", "POSTGRES_IMAGE", "WORKER_IMAGE", "RUNNER_IMAGE"} {
		got := compose(t, []string{image + "=other:1"}, "--profile", "submit", "--profile", "gateway", "config")
		if got.code != 0 || !strings.Contains(got.stdout, "other:1") {
			t.Errorf("%s changes nothing: %d %s", image, got.code, got.stderr)
		}
	}
}

func TestSecretsAreKeptAndClosed(t *testing.T) {
	t.Parallel()
	require(t, "docker", "bash")
	dir := filepath.Join(t.TempDir(), "secrets")
	read := func() map[string]string {
		if got := script(t, nil, "dev/secrets.sh", dir); got.code != 0 || got.stdout != "" {
			t.Fatalf("secrets: %d %q %s", got.code, got.stdout, got.stderr)
		}
		all := map[string]string{}
		err := filepath.WalkDir(dir, func(path string, f fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := f.Info()
			if err != nil {
				return err
			}
			if want := map[bool]fs.FileMode{true: 0o700, false: 0o600}[f.IsDir()]; info.Mode().Perm() != want {
				t.Errorf("%s is %v, want %v", f.Name(), info.Mode(), want)
			}
			if f.IsDir() {
				return nil
			}
			raw, err := os.ReadFile(path)
			all[f.Name()] = string(raw)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	first := read()
	if !maps.Equal(first, read()) {
		t.Error("a second run changed the secrets")
	}
	passwords := map[string]string{}
	for name, content := range first {
		if !strings.HasSuffix(name, ".password") {
			continue
		}
		if other := passwords[content]; other != "" || len(content) != 64 {
			t.Errorf("%s has %d bytes and is that of %q, want 64 of its own", name, len(content), other)
		}
		passwords[content] = name
	}
	if len(passwords) != 4 {
		t.Errorf("got %d passwords of Postgres, want 4", len(passwords))
	}
	for _, user := range []string{"worker", "gateway", "provider-math", "submitter-default", "admin"} {
		if !strings.HasPrefix(first[user+".url"], "nats://"+user+":") || !strings.Contains(first["nats.conf"], `user: "`+user+`"`) {
			t.Errorf("the NATS user %s has no address of its own, or is not in nats.conf", user)
		}
	}
	for _, list := range []string{"../.gitignore", "../.dockerignore"} {
		raw, err := os.ReadFile(list)
		if err != nil || !regexp.MustCompile(`(?m)^/?secrets/?$`).Match(raw) || !regexp.MustCompile(`(?m)^/?\.env$`).Match(raw) {
			t.Errorf("%s lets secrets/ or .env through: %v\n%s", list, err, raw)
		}
	}
}
