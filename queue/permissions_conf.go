package queue

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"airlock/job"
)

// Account is the server's account that all of Airlock is in. The system account
// beside it has no users.
const Account = "AIRLOCK"

// ServerConf is what a NATS server's configuration file says.
type ServerConf struct {
	// Listen is host:port.
	Listen   string
	StoreDir string
	// MaxStore bounds the streams on disk; the server's choice if zero.
	MaxStore job.Size
	// Name must differ between the servers of a cluster. It may be a variable
	// of the server's environment, such as $NATS_SERVER_NAME.
	Name string
	// Monitor is host:port of the server's monitoring; none if empty.
	Monitor string
	Users   []Login
	TLS     TLS
	Cluster Cluster
}

// Login is a user and the password by which the server knows it: plain, or a
// bcrypt hash, or a variable of its environment, such as $NATS_PASSWORD.
type Login struct {
	User
	Password string
}

// TLS are files; CA is for the routes of a cluster.
type TLS struct{ Cert, Key, CA string }

// Cluster is empty for a server alone.
type Cluster struct {
	Name string
	// Listen is where the other servers connect, Routes are theirs, this one's
	// own among them or not: nats://host:port.
	Listen string
	Routes []string
	// Password is for routes; it stands in the file as it is.
	Password string
}

// clusterUser is the login of the other servers.
const clusterUser = "route"

// maxPayload is what a message carries. It is the server's default, written
// down since blobs and answers count on it.
const maxPayload = 1 << 20

// Render returns the file. The same values give the same bytes.
func (c ServerConf) Render() ([]byte, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	f := &confFile{}
	f.line("# NATS server of Airlock: users and permissions by role. Made by: worker nats-config")
	f.value("listen", c.Listen)
	if c.Name != "" {
		f.value("server_name", c.Name)
	}
	if c.Monitor != "" {
		f.value("http", c.Monitor)
	}
	f.line("max_payload: %d", maxPayload)
	f.line("max_control_line: 4096")
	f.block("jetstream", func() {
		f.value("store_dir", c.StoreDir)
		if c.MaxStore > 0 {
			f.line("max_file_store: %d", int64(c.MaxStore))
		}
	})
	f.tls(c.TLS, false)
	if err := f.cluster(c.Cluster, c.TLS); err != nil {
		return nil, err
	}
	if err := f.accounts(c.Users); err != nil {
		return nil, err
	}
	return []byte(f.text.String()), nil
}

func (c ServerConf) check() error {
	for _, address := range []struct{ name, value string }{
		{"listen", c.Listen}, {"monitor", c.Monitor}, {"cluster listen", c.Cluster.Listen},
	} {
		if address.value == "" && address.name != "listen" {
			continue
		}
		if _, _, err := net.SplitHostPort(address.value); err != nil {
			return fmt.Errorf("%s: want host:port: %w", address.name, err)
		}
	}
	switch {
	case len(c.Users) == 0:
		return errors.New("there is no user")
	case (c.TLS.Cert == "") != (c.TLS.Key == ""):
		return errors.New("tls: want both the certificate and its key")
	case c.TLS.CA != "" && c.TLS.Cert == "":
		return errors.New("tls: an authority is of no use without a certificate")
	case c.Cluster.Name != "" && (c.Cluster.Listen == "" || c.Name == "" || c.Cluster.Password == ""):
		return errors.New("cluster: want a server name, an address to listen on and a password")
	case c.Cluster.Name == "" && len(c.Cluster.Routes) > 0:
		return errors.New("cluster: routes want a cluster's name")
	}
	return nil
}

// variablePattern is a variable of the server's environment. No bcrypt hash is
// one: a variable begins with a letter.
var variablePattern = regexp.MustCompile(`^\$[A-Z][A-Z0-9_]*$`)

// confFile writes the server's configuration language.
type confFile struct {
	text   strings.Builder
	indent string
}

func (f *confFile) line(format string, args ...any) {
	f.text.WriteString(f.indent)
	fmt.Fprintf(&f.text, format, args...)
	f.text.WriteByte('\n')
}

func (f *confFile) value(key, value string) { f.line("%s: %s", key, quoted(value)) }

func (f *confFile) block(name string, inside func()) {
	f.line("%s {", name)
	f.indent += "  "
	inside()
	f.indent = f.indent[2:]
	f.line("}")
}

// quoted leaves the server's variables alone: in quotes they are plain text.
func quoted(value string) string {
	if variablePattern.MatchString(value) {
		return value
	}
	return strconv.Quote(value)
}

func (f *confFile) tls(t TLS, mutual bool) {
	if t.Cert == "" {
		return
	}
	f.block("tls", func() {
		f.value("cert_file", t.Cert)
		f.value("key_file", t.Key)
		if t.CA != "" && mutual {
			f.value("ca_file", t.CA)
			f.line("verify: true")
		}
	})
}

func (f *confFile) cluster(c Cluster, t TLS) error {
	if c.Name == "" {
		return nil
	}
	var routes []string
	for _, route := range c.Routes {
		u, err := url.Parse(route)
		if err != nil || u.Host == "" || u.Port() == "" || u.User != nil {
			return fmt.Errorf("cluster: route %q is not nats://host:port", job.Printable(route, 200))
		}
		u.User = url.UserPassword(clusterUser, c.Password)
		routes = append(routes, strconv.Quote(u.String()))
	}
	f.block("cluster", func() {
		f.value("name", c.Name)
		f.value("listen", c.Listen)
		f.tls(t, true)
		f.block("authorization", func() {
			f.value("user", clusterUser)
			f.value("password", c.Password)
		})
		f.line("routes: [%s]", strings.Join(routes, ", "))
	})
	return nil
}

func (f *confFile) accounts(users []Login) (err error) {
	seen := map[string]bool{}
	f.block("accounts", func() {
		f.block(Account, func() {
			f.line("jetstream: enabled")
			f.line("users: [")
			f.indent += "  "
			for _, u := range users {
				if seen[u.Name()] {
					err = fmt.Errorf("user %s is named twice", u.Name())
				}
				seen[u.Name()] = true
				if userErr := f.login(u); userErr != nil {
					err = userErr
				}
			}
			f.indent = f.indent[2:]
			f.line("]")
		})
	})
	return err
}

func (f *confFile) login(u Login) error {
	p, err := u.Permissions()
	if err != nil {
		return err
	}
	if u.Password == "" {
		return fmt.Errorf("user %s has no password", u.Name())
	}
	f.line("{")
	f.indent += "  "
	f.value("user", u.Name())
	f.value("password", u.Password)
	f.block("permissions", func() {
		f.subjects("publish", p.Publish)
		f.subjects("subscribe", p.Subscribe)
	})
	f.indent = f.indent[2:]
	f.line("}")
	return nil
}

// subjects allows what is listed. An empty list would allow everything.
func (f *confFile) subjects(verb string, allowed []string) {
	if len(allowed) == 0 {
		f.line(`%s { deny: [">"] }`, verb)
		return
	}
	f.line("%s { allow: [", verb)
	for _, subject := range allowed {
		f.line("  %s", strconv.Quote(subject))
	}
	f.line("] }")
}
