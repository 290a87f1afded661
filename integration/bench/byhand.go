package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// image is the docker backend's default.
const image = "airlock-runner"

// errAbsent is wrapped where this machine lacks what a part measures.
var errAbsent = errors.New("not here")

func isAbsent(err error) (why string, absent bool) {
	if !errors.Is(err, errAbsent) {
		return "", false
	}
	return strings.TrimPrefix(err.Error(), errAbsent.Error()+": "), true
}

// bareBubblewrap starts bwrap with python3 for each job, with nothing around
// it.
func bareBubblewrap(ctx context.Context, count int) (*figure, error) {
	return byHand(ctx, series{id: "bubblewrap_bare", name: "bwrap + python3 by hand, one after the other", count: count},
		"bwrap", "--unshare-all", "--die-with-parent", "--cap-drop", "ALL", "--clearenv", "--ro-bind", "/usr", "/usr",
		"--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--tmpfs", "/tmp", "--chdir", "/tmp",
		"--", "/usr/bin/python3", "-I", "-S", "-B", "-c", "print(1)")
}

// bareDocker runs a container with as much around it as the backend's.
func bareDocker(ctx context.Context, count int) (*figure, error) {
	return byHand(ctx, series{id: "docker_bare", name: "docker run by hand, one after the other", count: count},
		"docker", "run", "--rm", "--pull", "never", "--network", "none", "--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges",
		"--memory", "256m", "--memory-swap", "256m", "--pids-limit", "64", "--cpus", "1", "--ipc", "none", "--log-driver", "none",
		"--tmpfs", "/tmp", "--tmpfs", "/workspace", "--entrypoint", "/airlock/python", image, "-I", "-S", "-B", "-c", "print(1)")
}

func byHand(ctx context.Context, s series, command string, args ...string) (*figure, error) {
	f := newFigure(s)
	for range s.count {
		began := time.Now()
		out, err := exec.CommandContext(ctx, command, args...).CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("%s: %w: %s", s.name, err, out)
		}
		f.add(time.Since(began), 0)
	}
	return f.done(), nil
}

// dockerThere says what is missing for containers.
func dockerThere(ctx context.Context) error {
	if _, err := exec.LookPath("docker"); err != nil {
		return fmt.Errorf("%w: there is no docker command; dev/dockerd.sh start installs it", errAbsent)
	}
	if engineVersion(ctx) == "" {
		return fmt.Errorf("%w: no engine answers; export what dev/dockerd.sh start prints", errAbsent)
	}
	if err := exec.CommandContext(ctx, "docker", "image", "inspect", image).Run(); err != nil {
		return fmt.Errorf("%w: the engine has no image %s; make runner-image makes it", errAbsent, image)
	}
	return nil
}

// engineVersion is "" where no engine answers.
func engineVersion(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "docker", "version", "--format", "{{.Server.Version}}").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
