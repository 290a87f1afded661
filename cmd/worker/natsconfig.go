package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/crypto/bcrypt"

	"airlock/job"
	"airlock/queue"
)

// natsConfigCommand makes the configuration of the NATS server: its users, what
// each may do, and the files with their passwords.
type natsConfigCommand struct {
	Out       string   `help:"Directory to write nats.conf and one <user>.url per user into, for AIRLOCK_NATS=file:…. Passwords that are there stay. Without it the configuration is printed, and takes the passwords from its environment." placeholder:"DIR"`
	Submitter []string `help:"Tenant that gets a submitter; may be repeated." default:"default" placeholder:"TENANT"`
	Provider  []string `help:"Namespace of tools that gets a provider; may be repeated." placeholder:"NAMESPACE"`
	Approver  []string `help:"Tenant that gets an approver, who decides about its tool calls that wait for a person; may be repeated." placeholder:"TENANT"`
	Analyst   []string `help:"Tenant whose announced results an analyst hears; may be repeated." placeholder:"TENANT"`
	Gateway   bool     `help:"Make a user for gateways, who submit jobs of every tenant."`
	Rotate    []string `help:"User that gets a new password, such as submitter-default; may be repeated." placeholder:"USER"`

	URL      string   `name:"url" help:"How clients reach the server, without a user; for the files." default:"nats://127.0.0.1:4222" placeholder:"URL"`
	Listen   string   `help:"Address that the server listens on." default:"0.0.0.0:4222" placeholder:"HOST:PORT"`
	StoreDir string   `help:"Directory of the server's streams." default:"/data" placeholder:"DIR"`
	MaxStore job.Size `help:"How much disk the streams may take; the server decides if not given." placeholder:"SIZE"`
	Monitor  string   `help:"Address of the server's monitoring and health check; none if not given." placeholder:"HOST:PORT"`
	TLSCert  string   `name:"tls-cert" help:"Certificate of the server." placeholder:"FILE"`
	TLSKey   string   `name:"tls-key" help:"Its key." placeholder:"FILE"`
	TLSCA    string   `name:"tls-ca" help:"Authority that vouches for the other servers of a cluster." placeholder:"FILE"`

	Cluster       string   `help:"Name of the cluster that the server belongs to." placeholder:"NAME"`
	Route         []string `help:"Another server of the cluster; may be repeated. A server may be given its own route, so that all get the same file." placeholder:"URL"`
	ClusterListen string   `help:"Address for the other servers of the cluster." default:"0.0.0.0:6222" placeholder:"HOST:PORT"`
	ServerName    string   `help:"Name of the server, which differs within a cluster; in a cluster it is taken from NATS_SERVER_NAME in the server's environment if not given." placeholder:"NAME"`

	JSON bool `name:"json" help:"Print the names of the users and their files as JSON."`
}

// natsUser is one line of what --out wrote.
type natsUser struct {
	User string `json:"user"`
	File string `json:"file"`
	// State is kept, new or rotated.
	State string `json:"state"`
}

func (c *natsConfigCommand) validate() error {
	if u, err := url.Parse(c.URL); err != nil || u.Host == "" || u.User != nil {
		return fmt.Errorf("--url: %q is not like nats://host:4222", job.Printable(c.URL, 100))
	}
	names := []string{}
	for _, u := range c.users() {
		if _, err := u.Permissions(); err != nil {
			return err
		}
		if slices.Contains(names, u.Name()) {
			return fmt.Errorf("%s is named twice", u.Name())
		}
		names = append(names, u.Name())
	}
	for _, name := range c.Rotate {
		if !slices.Contains(names, name) {
			return fmt.Errorf("--rotate: %q is none of %s", job.Printable(name, 80), strings.Join(names, ", "))
		}
	}
	if c.Out == "" && (len(c.Rotate) > 0 || c.JSON) {
		return errors.New("--rotate and --json want --out")
	}
	conf := c.conf()
	for i := range conf.Users {
		conf.Users[i].Password = "$CHECKED"
	}
	conf.Cluster.Password = "checked"
	_, err := conf.Render()
	return err
}

func (c *natsConfigCommand) users() []queue.User {
	users := []queue.User{{Role: queue.RoleAdmin}, {Role: queue.RoleWorker}}
	if c.Gateway {
		users = append(users, queue.User{Role: queue.RoleGateway})
	}
	for _, group := range []struct {
		role queue.Role
		of   []string
	}{{queue.RoleSubmitter, c.Submitter}, {queue.RoleApprover, c.Approver}, {queue.RoleProvider, c.Provider}, {queue.RoleAnalyst, c.Analyst}} {
		for _, of := range slices.Sorted(slices.Values(group.of)) {
			users = append(users, queue.User{Role: group.role, Of: of})
		}
	}
	return users
}

// conf is all but the passwords.
func (c *natsConfigCommand) conf() queue.ServerConf {
	conf := queue.ServerConf{
		Listen: c.Listen, StoreDir: c.StoreDir, MaxStore: c.MaxStore, Monitor: c.Monitor, Name: c.ServerName,
		TLS: queue.TLS{Cert: c.TLSCert, Key: c.TLSKey, CA: c.TLSCA},
		Cluster: queue.Cluster{
			Name: c.Cluster, Routes: c.Route,
		},
	}
	if c.Cluster != "" {
		conf.Cluster.Listen = c.ClusterListen
		if conf.Name == "" {
			conf.Name = "$NATS_SERVER_NAME"
		}
	}
	for _, u := range c.users() {
		conf.Users = append(conf.Users, queue.Login{User: u})
	}
	return conf
}

func (c *natsConfigCommand) run(_ context.Context, stdout, stderr io.Writer) int {
	var err error
	if c.Out == "" {
		err = c.print(stdout)
	} else {
		var users []natsUser
		if users, err = c.write(); err == nil && c.JSON {
			return printJSON(users, "worker nats-config", stdout, stderr)
		}
		for _, u := range users {
			fmt.Fprintf(stdout, "%-8s %-30s %s\n", u.State, u.User, u.File)
		}
	}
	if err != nil {
		fmt.Fprintln(stderr, "worker nats-config:", err)
		return exitInternal
	}
	return exitOK
}

// print shows the configuration, whose passwords the server then takes from its
// environment: worker's from NATS_PASSWORD_WORKER.
func (c *natsConfigCommand) print(stdout io.Writer) error {
	conf := c.conf()
	for i, u := range conf.Users {
		conf.Users[i].Password = passwordVariable(u.Name())
	}
	conf.Cluster.Password = passwordVariable("cluster")
	if len(c.Route) > 0 {
		return errors.New("a cluster's routes hold a password, which is not printed: write the files with --out")
	}
	text, err := conf.Render()
	if err != nil {
		return err
	}
	_, err = stdout.Write(text)
	return err
}

var noVariable = regexp.MustCompile(`[^A-Z0-9]`)

func passwordVariable(user string) string {
	return "$NATS_PASSWORD_" + noVariable.ReplaceAllString(strings.ToUpper(user), "_")
}

// write makes the files. The passwords of an earlier run stay, and so do the
// hashes, so that a second run changes nothing.
func (c *natsConfigCommand) write() ([]natsUser, error) {
	if err := os.MkdirAll(c.Out, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory: %w", err)
	}
	path := filepath.Join(c.Out, "nats.conf")
	before, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("read the earlier configuration: %w", err)
	}
	conf, hashes := c.conf(), hashesIn(before)
	var users []natsUser
	for i, u := range conf.Users {
		made, password, err := c.credential(u.Name())
		if err != nil {
			return nil, err
		}
		if conf.Users[i].Password, err = hashed(password, hashes[u.Name()]); err != nil {
			return nil, err
		}
		users = append(users, made)
	}
	mode := os.FileMode(0o644)
	if c.Cluster != "" {
		mode = 0o600 // the password of routes stands in it as it is
		if conf.Cluster.Password, err = keptPassword(filepath.Join(c.Out, "cluster.password")); err != nil {
			return nil, err
		}
	}
	text, err := conf.Render()
	if err != nil {
		return nil, err
	}
	return users, writeWhole(path, text, mode)
}

// credential writes the user's file: the URL with which it connects.
func (c *natsConfigCommand) credential(user string) (made natsUser, password string, err error) {
	made = natsUser{User: user, File: filepath.Join(c.Out, user+".url"), State: "kept"}
	if password, err = passwordIn(made.File); err != nil {
		return made, "", err
	}
	rotate := slices.Contains(c.Rotate, user)
	switch {
	case password == "":
		made.State = "new"
	case rotate:
		made.State = "rotated"
	}
	if made.State != "kept" {
		password = newPassword()
	}
	u, err := url.Parse(c.URL)
	if err != nil {
		return made, "", fmt.Errorf("read --url: %w", err)
	}
	u.User = url.UserPassword(user, password)
	return made, password, writeWhole(made.File, []byte(u.String()+"\n"), 0o600)
}

// passwordIn reads a credential of an earlier run; empty if there was none.
func passwordIn(path string) (string, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the earlier credential: %w", err)
	}
	// The text holds a password, so that no error shows any of it.
	u, err := url.Parse(strings.TrimSpace(string(text)))
	if err != nil || u.User == nil {
		return "", fmt.Errorf("%s holds no URL with a password: mend it, or remove it for a new one", path)
	}
	password, _ := u.User.Password()
	return password, nil
}

func keptPassword(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err == nil && len(strings.TrimSpace(string(text))) > 0 {
		return strings.TrimSpace(string(text)), nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("read the earlier password: %w", err)
	}
	password := newPassword()
	return password, writeWhole(path, []byte(password+"\n"), 0o600)
}

func newPassword() string {
	var secret [32]byte
	rand.Read(secret[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(secret[:])
}

// hashed returns the earlier hash while it is the password's. Hashing need not
// be slow, since nobody guesses 256 bits; the server does it for each login.
func hashed(password, earlier string) (string, error) {
	if earlier != "" && bcrypt.CompareHashAndPassword([]byte(earlier), []byte(password)) == nil {
		return earlier, nil
	}
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		return "", fmt.Errorf("hash a password: %w", err)
	}
	return string(hash), nil
}

var loginPattern = regexp.MustCompile(`(?m)^\s*user: "([^"]+)"\n\s*password: "(\$2a\$[^"]+)"$`)

func hashesIn(conf []byte) map[string]string {
	hashes := map[string]string{}
	for _, found := range loginPattern.FindAllSubmatch(conf, -1) {
		hashes[string(found[1])] = string(found[2])
	}
	return hashes
}

// writeWhole replaces the file at once, so that nobody reads half of it.
func writeWhole(path string, content []byte, mode os.FileMode) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Sync(), f.Chmod(mode), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}
