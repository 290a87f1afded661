package standalone

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/rs/zerolog"
)

// ErrDataInUse means that another process runs on the same data directory.
var ErrDataInUse = errors.New("data directory is in use by another process")

// PostgresConfig says where a private Postgres lives.
type PostgresConfig struct {
	// Dir holds everything: the cluster, its password, socket and log. It is
	// made if it is not there.
	Dir string
	// Port on 127.0.0.1; zero means a free one, chosen anew at each start.
	Port int
	// Database is made if it is not there; the default is airlock.
	Database string
	// Repository is the Maven repository from which programs are fetched
	// where none are installed; the default is Maven Central.
	Repository string
	// Connections is how many there may be at once; 100 by default.
	Connections int
	Log         zerolog.Logger
}

// defaultConnections are enough for ten workers.
const defaultConnections = 100

// Postgres is a server that only this process started, on loopback, behind a
// random password. Its methods are not for concurrent use, except URL.
type Postgres struct {
	cfg      PostgresConfig
	port     int
	password string
	programs pgPrograms
	account  *pgAccount // nil: ourselves
	lock     *dirLock
	server   *pgServer // nil while stopped
}

const (
	pgSuperuser = "airlock"
	// pgStartTimeout includes the recovery after a crash.
	pgStartTimeout = 60 * time.Second
	pgStopTimeout  = 30 * time.Second
	pgPoll         = 20 * time.Millisecond
	// pgConnectTimeout bounds one look whether the server answers.
	pgConnectTimeout = 2 * time.Second
	// maxSocketPath is what a unix socket's path may have, less the file's
	// own name.
	maxSocketPath = 107 - len("/.s.PGSQL.65535.lock")
)

// StartPostgres starts a server on cfg.Dir, which is made a cluster if it is
// none, and waits until it answers.
//
// Its programs are found on PATH or below /usr/lib/postgresql, else fetched by
// the embedded-postgres library. Run by root, it starts the server as user
// postgres, or nobody, and gives cfg.Dir to that user. A server that an earlier
// process left running on the same directory is stopped first; ErrDataInUse if
// that process still lives. The server does not outlive this process where the
// system can see to that.
func StartPostgres(ctx context.Context, cfg PostgresConfig) (*Postgres, error) {
	if cfg.Database == "" {
		cfg.Database = "airlock"
	}
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil || cfg.Dir == "" {
		return nil, errors.Join(errors.New("postgres needs a data directory"), err)
	}
	cfg.Dir = dir
	p := &Postgres{cfg: cfg}
	if err := p.prepare(ctx); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	if err := p.Start(ctx); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	if err := p.ensureDatabase(ctx); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// URL is the connection URL, password included.
func (p *Postgres) URL() string { return p.urlOf(p.cfg.Database) }

// LocalURL is the connection URL for this process, and others of its user:
// through the server's socket, which takes less time than loopback, where there
// is one.
func (p *Postgres) LocalURL() string {
	if !hasSocket || p.socket() == "" {
		return p.URL()
	}
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(pgSuperuser, p.password), Path: "/" + p.cfg.Database,
		RawQuery: url.Values{"host": {p.socket()}, "port": {strconv.Itoa(p.port)}, "sslmode": {"disable"}}.Encode(),
	}
	return u.String()
}

// LogFile is where the server writes its log.
func (p *Postgres) LogFile() string { return filepath.Join(p.cfg.Dir, "postgres.log") }

// Start starts the server after Stop, on the port it had.
func (p *Postgres) Start(ctx context.Context) error {
	if p.server != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, pgStartTimeout)
	defer cancel()
	server, err := p.launch()
	if err != nil {
		return err
	}
	p.server = server
	if err := p.waitReady(ctx); err != nil {
		return errors.Join(err, p.Stop())
	}
	p.cfg.Log.Info().Int("port", p.port).Int("pid", server.pid()).Msg("postgres started")
	return nil
}

// Stop ends the server as an orderly shutdown that does not wait for clients.
// It may be called twice.
func (p *Postgres) Stop() error {
	if p.server == nil {
		return nil
	}
	err := p.server.stop(pgStopTimeout)
	p.server = nil
	return err
}

// Restart stops the server and starts it again on the same port, as an
// operator would; clients lose their connections.
func (p *Postgres) Restart(ctx context.Context) error {
	if err := p.Stop(); err != nil {
		return err
	}
	return p.Start(ctx)
}

// Close stops the server and gives the directory free. The data stays.
func (p *Postgres) Close() error {
	err := p.Stop()
	if p.lock != nil {
		err = errors.Join(err, p.lock.release())
		p.lock = nil
	}
	return err
}

// dataDir is the cluster's own directory.
func (p *Postgres) dataDir() string   { return filepath.Join(p.cfg.Dir, "data") }
func (p *Postgres) socketDir() string { return filepath.Join(p.cfg.Dir, "socket") }

// socket is the directory of the server's socket, "" where the path would be
// too long for one.
func (p *Postgres) socket() string {
	if dir := p.socketDir(); len(dir) <= maxSocketPath {
		return dir
	}
	return ""
}

func (p *Postgres) urlOf(database string) string {
	u := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(pgSuperuser, p.password),
		Host:     net.JoinHostPort("127.0.0.1", strconv.Itoa(p.port)),
		Path:     database,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

// prepare leaves a cluster that a server can be started on.
func (p *Postgres) prepare(ctx context.Context) (err error) {
	// What is made above Dir can be passed by the server's user, not listed.
	if err := os.MkdirAll(filepath.Dir(p.cfg.Dir), 0o711); err != nil {
		return fmt.Errorf("make data directory: %w", err)
	}
	if err := os.MkdirAll(p.cfg.Dir, 0o700); err != nil {
		return fmt.Errorf("make data directory: %w", err)
	}
	if p.lock, err = lockDir(filepath.Join(p.cfg.Dir, "lock")); err != nil {
		return err
	}
	if p.account, err = findAccount(); err != nil {
		return err
	}
	if p.programs, err = findPrograms(ctx, p.dataDir(), installations(), p.cfg); err != nil {
		return err
	}
	if err := p.account.own(p.cfg.Dir, p.dataDir(), p.socketDir()); err != nil {
		return err
	}
	if err := p.account.canReach(p.cfg.Dir, p.programs.postgres); err != nil {
		return err
	}
	if err := p.stopLeftover(ctx); err != nil {
		return err
	}
	if p.port = p.cfg.Port; p.port == 0 {
		if p.port, err = freePort(); err != nil {
			return err
		}
	}
	return p.ensureCluster(ctx)
}

// launch starts the server's process.
func (p *Postgres) launch() (*pgServer, error) {
	args := []string{"-D", p.dataDir()}
	for _, setting := range p.settings() {
		args = append(args, "-c", setting)
	}
	cmd := exec.Command(p.programs.postgres, args...)
	cmd.Env = p.programs.env()
	cmd.Dir = p.dataDir()
	p.account.run(cmd)
	log, err := openLog(p.LogFile())
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	return startServer(cmd, p.programs.pgctl, p.dataDir())
}

// maxLogSize is how large a log may have grown before a start begins another.
const maxLogSize = 16 << 20

func openLog(path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && info.Size() > maxLogSize {
		if err := os.Rename(path, path+".1"); err != nil {
			return nil, fmt.Errorf("rotate postgres log: %w", err)
		}
	}
	log, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open postgres log: %w", err)
	}
	return log, nil
}

// waitReady connects until the server answers or its process has ended.
func (p *Postgres) waitReady(ctx context.Context) error {
	for {
		err := p.tryConnect(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.server.done:
			return fmt.Errorf("postgres ended at its start: %s", p.logTail())
		case <-ctx.Done():
			return fmt.Errorf("postgres does not answer: %w: %s", err, p.logTail())
		case <-time.After(pgPoll):
		}
	}
}

// tryConnect gives up soon, because who listens on the port may be another
// program that never answers.
func (p *Postgres) tryConnect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pgConnectTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, p.urlOf("postgres"))
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

func (p *Postgres) logTail() string {
	log, err := os.ReadFile(p.LogFile())
	if err != nil {
		return err.Error()
	}
	return lastLines(string(log), 5)
}

// freePort asks the system for one. Another process may take it before the
// server does; the start then says so.
func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

// lastLines is the end of a program's output in one line.
func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], " | ")
}
