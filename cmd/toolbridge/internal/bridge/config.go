package bridge

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"regexp"
	"time"

	"airlock/job"
)

// Config is what the configuration file holds.
type Config struct {
	Servers []Server `json:"servers"`
}

// Server is one MCP server: Command or URL is set.
type Server struct {
	// Namespace is where its tools appear. Servers may share one.
	Namespace string `json:"namespace"`

	// Command starts the server, in Dir. Its environment is PATH and HOME,
	// the words of Env, and what EnvFrom takes from variables here.
	Command []string          `json:"command"`
	Dir     string            `json:"dir"`
	Env     map[string]string `json:"env"`
	EnvFrom map[string]string `json:"env_from"`

	// URL is where it answers. HeadersEnv maps headers to the variables here
	// that hold them.
	URL        string            `json:"url"`
	HeadersEnv map[string]string `json:"headers_env"`

	// Tools are the only ones to serve, in the server's words; absent means
	// all. Rename says what to call them here.
	Tools  []string          `json:"tools"`
	Rename map[string]string `json:"rename"`
	// TrustHints takes the server's word for what is read-only or idempotent.
	TrustHints bool `json:"trust_hints"`
	// Optional lets the others start without this one, which joins later.
	Optional bool `json:"optional"`

	// Timeout bounds a call, StartTimeout the server's start, Concurrency the
	// calls at once.
	Timeout      job.Duration `json:"timeout"`
	StartTimeout job.Duration `json:"start_timeout"`
	Concurrency  int          `json:"concurrency"`
}

const (
	maxConfig          = 1 << 20
	maxServers         = 100
	maxConcurrency     = 4096
	defaultTimeout     = 30 * time.Second
	defaultStart       = 30 * time.Second
	defaultConcurrency = 16
)

// Load reads a configuration file strictly.
func Load(path string) (*Config, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	if len(raw) > maxConfig {
		return nil, fmt.Errorf("%s: is larger than %d bytes", path, maxConfig)
	}
	cfg, err := Parse(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return cfg, nil
}

// Parse is Load for a file's content.
func Parse(raw []byte) (*Config, error) {
	if err := job.CheckJSON(raw); err != nil {
		return nil, err
	}
	cfg := &Config{}
	if err := job.DecodeStrict(raw, cfg); err != nil {
		return nil, err
	}
	if n := len(cfg.Servers); n == 0 || n > maxServers {
		return nil, fmt.Errorf("servers: there are %d, want 1 to %d", n, maxServers)
	}
	for i := range cfg.Servers {
		if err := cfg.Servers[i].complete(); err != nil {
			return nil, fmt.Errorf("servers[%d]: %w", i, err)
		}
	}
	return cfg, nil
}

// complete fills in the defaults and says what is wrong.
func (s *Server) complete() error {
	s.Timeout = cmp.Or(s.Timeout, job.Duration(defaultTimeout))
	s.StartTimeout = cmp.Or(s.StartTimeout, job.Duration(defaultStart))
	s.Concurrency = cmp.Or(s.Concurrency, defaultConcurrency)
	switch {
	case !job.ValidToolName(s.Namespace):
		return fmt.Errorf("namespace: %q is none: want a letter, then at most 63 letters, digits, _ and -", job.Printable(s.Namespace, 80))
	case (len(s.Command) > 0) == (s.URL != ""):
		return errors.New("want either command or url")
	case s.Timeout < 0 || s.StartTimeout < 0:
		return errors.New("timeout, start_timeout: is negative")
	case s.Concurrency < 1 || s.Concurrency > maxConcurrency:
		return fmt.Errorf("concurrency: is %d, want 1 to %d", s.Concurrency, maxConcurrency)
	case s.Tools != nil && len(s.Tools) == 0:
		return errors.New("tools: an empty list serves nothing; leave it away to serve all")
	}
	if err := s.checkNames(); err != nil {
		return err
	}
	if s.URL != "" {
		return s.checkRemote()
	}
	return s.checkLocal()
}

func (s *Server) checkNames() error {
	for theirs, ours := range s.Rename {
		if !job.ValidToolName(ours) {
			return fmt.Errorf("rename[%q]: %q is no name of a tool", job.Printable(theirs, 80), job.Printable(ours, 80))
		}
		if !s.wants(theirs) {
			return fmt.Errorf("rename[%q]: is not among tools", job.Printable(theirs, 80))
		}
	}
	return nil
}

func (s *Server) checkRemote() error {
	u, err := url.Parse(s.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return errors.New("url: want http:// or https:// and a host")
	case u.User != nil:
		return errors.New("url: holds a password; give it by headers_env")
	case s.Dir != "" || s.Env != nil || s.EnvFrom != nil:
		return errors.New("dir, env and env_from are for a server with a command")
	}
	for header := range s.HeadersEnv {
		if !headerPattern.MatchString(header) {
			return fmt.Errorf("headers_env: %q is no name of a header", job.Printable(header, 80))
		}
	}
	return nil
}

func (s *Server) checkLocal() error {
	if s.HeadersEnv != nil {
		return errors.New("headers_env is for a server with a url")
	}
	if s.Command[0] == "" {
		return errors.New("command: its first word is empty")
	}
	for _, names := range []map[string]string{s.Env, s.EnvFrom} {
		for name := range names {
			if !variablePattern.MatchString(name) {
				return fmt.Errorf("env: %q is no name of a variable", job.Printable(name, 80))
			}
		}
	}
	for name := range s.EnvFrom {
		if _, both := s.Env[name]; both {
			return fmt.Errorf("env: %s is in env_from too", name)
		}
	}
	return nil
}

var (
	headerPattern   = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$")
	variablePattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,199}$`)
)
