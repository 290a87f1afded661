package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/rs/zerolog"

	"airlock/backends/all"
	"airlock/broker/policy"
	"airlock/cmd/internal/secret"
	"airlock/cmd/internal/spans"
	"airlock/job"
)

// The exit codes of all commands.
const (
	exitOK       = 0
	exitUsage    = 2
	exitInternal = 4
)

// config is every knob of the command. Each flag has an env twin: AIRLOCK_ and
// its name in upper case.
type config struct {
	Standalone bool   `help:"Run a whole Airlock here: embedded NATS, a private Postgres, the sample tools, and this worker; loopback only."`
	Data       string `help:"Directory of --standalone; keeps its state between starts. The default is /var/lib/airlock for root, else ~/.local/state/airlock." placeholder:"DIR"`
	ListenNats string `help:"Address the embedded NATS of --standalone listens on; port 0 takes a free one." default:"127.0.0.1:4222" placeholder:"HOST:PORT"`

	httpFlags

	PostgresPort int `help:"Port of the private Postgres of --standalone on 127.0.0.1; 0 takes a free one." default:"0"`

	Nats     string `help:"URL of the NATS server to join, such as nats://host:4222, those of a cluster's servers with commas between, or file: and the path of a file that holds it." placeholder:"URL"`
	Postgres string `help:"URL of the Postgres database, such as postgres://user@host/db. When it holds a password, better given as AIRLOCK_POSTGRES or as file: and the path of a file." placeholder:"URL"`

	NatsReplicas   int           `help:"How many servers of a NATS cluster hold each stream: 1, 3 or 5, and the same for all workers; 0 means three of a cluster's, or the one there is." default:"0" placeholder:"N"`
	ConnectTimeout time.Duration `help:"How long NATS and Postgres are tried at start." default:"60s"`

	Backends         []string          `help:"Backends to offer, in order of preference; auto offers all that isolate and work here." default:"auto" placeholder:"NAME,…"`
	ListBackends     bool              `help:"Probe each backend, print what it can do or why it is not available, and exit."`
	JSON             bool              `help:"Print --list-backends as JSON."`
	AllowNoIsolation bool              `help:"Offer the local backend too, which isolates NOTHING: for development only."`
	Python           string            `help:"The interpreter guests run; found by itself if not given." placeholder:"PATH"`
	Slots            int               `help:"How many jobs run at once; 0 means the number of processors." default:"0"`
	Parked           int               `help:"How many guests stand ready before their jobs arrive, so that these start at once; -1 means one per slot, 0 none. They give way while less than a tenth of the memory is free." default:"-1"`
	Labels           map[string]string `help:"Labels of this host that jobs can require." placeholder:"NAME=VALUE;…"`
	MaxLimits        string            `help:"The operator's maxima, as JSON: {\"memory\":\"1GiB\",\"wall\":\"5m\"}." default:"{}" placeholder:"JSON"`
	MaxArtifacts     job.Size          `help:"How much content one job's collected files may have in all; at most 16MiB." default:"16MiB" placeholder:"SIZE"`
	TenantQuota      int64             `help:"How many jobs a tenant may have in one lane and priority, waiting and running; beyond that submitters are told that they are over quota. The same for all workers." default:"100000" placeholder:"N"`
	QueueJobs        int64             `help:"How many jobs the queue takes in all; beyond that submitters are told that it is full. The same for all workers." default:"5000000" placeholder:"N"`
	QueueSize        job.Size          `help:"How much disk waiting jobs may take, which the NATS server reserves; results, presence and large jobs have bounds beside it. 0 keeps what there is, or else takes about a fifth of the server's store, 16 GiB at most. The same for all workers." default:"0B" placeholder:"SIZE"`

	PlacementDeadline time.Duration `help:"How long a job waits while no worker of the fleet can run it, before it is dead and can be requeued; 0 means for ever. The same for all workers." default:"24h"`
	Retain            retention     `help:"How long history is kept, such as 90d or 2160h, at least 1d; by default all is. Months that are older are dropped whole, so that up to a month more is kept, and dead letters go too; a month with a job that has not ended, or ended within that time, stays. The same for all workers." placeholder:"TIME"`
	DrainGrace        time.Duration `help:"How long SIGTERM waits for running jobs before it hands them back." default:"60s"`

	Policy string `help:"File of the operator's rules for tools, as broker/POLICY.md says; read at start, on SIGHUP, and within 10 s of a change. Without it, the grants of jobs alone decide." placeholder:"FILE"`

	containerFlags
	templateFlags
	wasmFlags
	spans.Flags
	metricsFlags

	Trace string `help:"File to write where the time of each job goes, as a Chrome trace for chrome://tracing or ui.perfetto.dev; replaced at start, closed at 256 MiB." placeholder:"FILE"`

	LogLevel string `help:"trace, debug, info, warn or error." default:"info" enum:"trace,debug,info,warn,error"`

	max job.Limits
	// rules are nil without --policy.
	rules *policy.File
	// warm are the templates, by name.
	warm map[string][]string
	// self is the leave to start this program again.
	self all.Self
}

// parse reads flags and environment. done is set when the command has nothing
// left to do: help was printed, or the error was.
func parse(args []string, stdout, stderr io.Writer) (cfg *config, code int, done bool) {
	cfg = &config{}
	code, done = parseInto(cfg, "worker", description(), args, stdout, stderr)
	return cfg, code, done
}

func (c *config) validate() error {
	if err := c.readSecrets(); err != nil {
		return err
	}
	if err := c.Flags.Validate(); err != nil {
		return err
	}
	if err := job.CheckJSON([]byte(c.MaxLimits)); err != nil {
		return fmt.Errorf("--max-limits: %w", err)
	}
	if err := json.Unmarshal([]byte(c.MaxLimits), &c.max, json.RejectUnknownMembers(true)); err != nil {
		return fmt.Errorf("--max-limits: %w", err)
	}
	if err := c.checkNumbers(); err != nil {
		return err
	}
	if c.Slots == 0 {
		c.Slots = runtime.NumCPU()
	}
	if err := c.checkLabels(); err != nil {
		return err
	}
	if err := c.readPolicy(); err != nil {
		return err
	}
	warm, err := c.templates()
	if err != nil {
		return err
	}
	c.warm = warm
	if c.ListBackends {
		return nil
	}
	return c.checkServers()
}

// checkNumbers says which number is out of its bounds.
func (c *config) checkNumbers() error {
	if !slices.Contains([]int{0, 1, 3, 5}, c.NatsReplicas) {
		return fmt.Errorf("--nats-replicas is %d, want 1, 3 or 5, or 0 to leave it to the cluster", c.NatsReplicas)
	}
	if c.TenantQuota < 1 || c.QueueJobs < 1 || c.QueueSize < 0 {
		return fmt.Errorf("--tenant-quota, --queue-jobs and --queue-size are %d, %d and %s, want 1 or more, 1 or more, and 0B or more", c.TenantQuota, c.QueueJobs, c.QueueSize)
	}
	if c.PlacementDeadline < 0 {
		return fmt.Errorf("--placement-deadline is %s, want 0 or more", c.PlacementDeadline)
	}
	if c.Slots < 0 || c.Slots > 4096 {
		return fmt.Errorf("--slots is %d, want 0 to 4096", c.Slots)
	}
	if c.MaxArtifacts < 1 || c.MaxArtifacts > job.MaxArtifactBytes {
		return fmt.Errorf("--max-artifacts is %s, want 1B to %s", c.MaxArtifacts, job.MaxArtifactBytes)
	}
	if c.Parked < -1 || c.Parked > 4096 {
		return fmt.Errorf("--parked is %d, want -1 to 4096", c.Parked)
	}
	return nil
}

// checkLabels says which label is none that a host can have.
func (c *config) checkLabels() error {
	for _, name := range slices.Sorted(maps.Keys(c.Labels)) {
		if name == "" || len(name) > 63 || len(c.Labels[name]) > 128 {
			return fmt.Errorf("--labels: %q has a name of 1 to 63 bytes and a value of at most 128", job.Printable(name, 64))
		}
		if strings.HasPrefix(name, job.TemplateLabel) {
			return fmt.Errorf("--labels: %q claims a template, which only a backend that has it can; take another name", job.Printable(name, 64))
		}
	}
	return nil
}

// checkServers says what is wrong with where the worker joins a pool, or makes
// one.
func (c *config) checkServers() error {
	if c.Standalone && c.NatsReplicas > 1 {
		return fmt.Errorf("--standalone is one NATS server; leave --nats-replicas away")
	}
	if c.Standalone && (c.Nats != "" || c.Postgres != "") {
		return fmt.Errorf("--standalone brings its own NATS and Postgres; leave --nats and --postgres away")
	}
	if !c.Standalone && (c.Nats == "" || c.Postgres == "") {
		return fmt.Errorf("give --nats and --postgres to join a pool, or --standalone to start everything here")
	}
	return nil
}

// readSecrets reads the URLs that are in files.
func (c *config) readSecrets() (err error) {
	if c.Nats, err = secret.Read(c.Nats); err != nil {
		return fmt.Errorf("--nats: %w", err)
	}
	if c.Postgres, err = secret.Read(c.Postgres); err != nil {
		return fmt.Errorf("--postgres: %w", err)
	}
	return nil
}

// parked is how many guests stand ready.
func (c *config) parked() int {
	if c.Parked < 0 {
		return c.Slots
	}
	return c.Parked
}

// dataDir is where --standalone keeps its state.
func (c *config) dataDir() (string, error) {
	if c.Data != "" {
		return filepath.Abs(c.Data)
	}
	// The private Postgres of a root worker runs as another user, to whom
	// root's home is closed.
	if os.Geteuid() == 0 {
		return "/var/lib/airlock", nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("no home directory; give --data: %w", err)
	}
	return filepath.Join(home, ".local", "state", "airlock"), nil
}

func (c *config) level() zerolog.Level {
	level, err := zerolog.ParseLevel(strings.ToLower(c.LogLevel))
	if err != nil {
		return zerolog.InfoLevel // the enum of the flag allows no other word
	}
	return level
}
