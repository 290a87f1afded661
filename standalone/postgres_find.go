package standalone

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"
)

// pgPrograms are the three programs of one installation.
type pgPrograms struct {
	postgres, initdb, pgctl string
}

// pgInstallDirs is where distributions put installations beside PATH.
const pgInstallDirs = "/usr/lib/postgresql/*/bin"

// env is built, not inherited: PG… variables of ours must not steer a private
// server.
func (p pgPrograms) env() []string {
	env := []string{"PATH=" + filepath.Dir(p.postgres) + string(os.PathListSeparator) + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}
	for _, name := range []string{"SYSTEMROOT", "TEMP", "TMP", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"} {
		if value, set := os.LookupEnv(name); set {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// findPrograms chooses the first of the installed bin directories, or else a
// downloaded one; where there is a cluster, the first of the cluster's version.
func findPrograms(ctx context.Context, dataDir string, installed []string, cfg PostgresConfig) (pgPrograms, error) {
	want := clusterVersion(dataDir)
	downloaded := filepath.Join(cfg.Dir, "programs", "bin")
	for _, dir := range slices.Concat(installed, []string{downloaded}) {
		programs, err := programsIn(dir)
		if err == nil && (want == "" || want == programs.version(ctx)) {
			return programs, nil
		}
	}
	if want != "" {
		return pgPrograms{}, fmt.Errorf("%s was made by postgres %s, which is not installed: install it, or use another data directory", dataDir, want)
	}
	cfg.Log.Info().Msg("no postgres is installed, fetching one")
	if err := fetchPrograms(ctx, filepath.Dir(downloaded), cfg.Repository); err != nil {
		return pgPrograms{}, fmt.Errorf("no postgres on PATH or in %s (install postgresql), and none could be fetched: %w", pgInstallDirs, err)
	}
	return programsIn(downloaded)
}

// installations lists bin directories: that of PATH, then the newest.
func installations() []string {
	var dirs []string
	if path, err := exec.LookPath("initdb"); err == nil {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			dirs = append(dirs, filepath.Dir(real))
		}
	}
	installed, _ := filepath.Glob(pgInstallDirs) // the pattern is well formed
	slices.SortFunc(installed, func(a, b string) int { return cmp.Compare(versionOf(b), versionOf(a)) })
	return append(dirs, installed...)
}

// versionOf reads the number in /usr/lib/postgresql/<number>/bin.
func versionOf(dir string) float64 {
	number, _ := strconv.ParseFloat(filepath.Base(filepath.Dir(dir)), 64)
	return number
}

func programsIn(dir string) (pgPrograms, error) {
	var found [3]string
	for i, name := range []string{"postgres", "initdb", "pg_ctl"} {
		path, err := exec.LookPath(filepath.Join(dir, name))
		if err != nil {
			return pgPrograms{}, err
		}
		found[i] = path
	}
	return pgPrograms{postgres: found[0], initdb: found[1], pgctl: found[2]}, nil
}

// version is the major version, such as "15", or "" if it cannot be told.
func (p pgPrograms) version(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, p.postgres, "--version").Output()
	fields := strings.Fields(string(out))
	if err != nil || len(fields) < 3 {
		return ""
	}
	major, _, _ := strings.Cut(fields[2], ".")
	return major
}

// clusterVersion is the major version of an existing cluster, or "".
func clusterVersion(dataDir string) string {
	version, err := os.ReadFile(filepath.Join(dataDir, "PG_VERSION"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(version))
}

// fetchPrograms downloads an installation into dir. The library offers no
// download by itself, so it is made to start a throw-away server beside it;
// run by root that start fails, after the programs are there, which is all
// that is wanted.
func fetchPrograms(ctx context.Context, dir, repository string) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "airlock-postgres-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	config := embeddedpostgres.DefaultConfig().
		BinariesPath(dir).CachePath(filepath.Join(scratch, "cache")).
		RuntimePath(filepath.Join(scratch, "run")).DataPath(filepath.Join(scratch, "data")).
		Port(uint32(port)).Logger(nil)
	if repository != "" {
		config = config.BinaryRepositoryURL(repository)
	}
	server := embeddedpostgres.NewDatabase(config)
	started := make(chan error, 1)
	go func() { started <- server.Start() }()
	select {
	case err = <-started:
	case <-ctx.Done():
		err = errors.Join(context.Cause(ctx), <-started) // the library cannot be interrupted
	}
	if err == nil {
		err = server.Stop()
	}
	if _, missing := programsIn(filepath.Join(dir, "bin")); missing != nil {
		return errors.Join(missing, err)
	}
	return ctx.Err()
}
