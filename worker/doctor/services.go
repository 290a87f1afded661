package doctor

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
)

// service is an address that workers connect to, as a URL says it.
type service struct {
	name string
	url  *url.URL
}

// parseService reads a URL without repeating it in an error, since it may hold
// a password.
func parseService(name, text string) (service, error) {
	u, err := url.Parse(text)
	if err != nil {
		return service{}, fmt.Errorf("the URL of %s cannot be read", name)
	}
	return service{name, u}, nil
}

// local reports whether only this machine can be at the other end.
func (s service) local() bool {
	host := s.url.Hostname()
	if host == "" || strings.HasPrefix(host, "/") || host == "localhost" {
		return true
	}
	return net.ParseIP(host).IsLoopback()
}

// guessable are passwords that are tried first.
var guessable = []string{"", "password", "passwd", "secret", "changeme", "admin", "root", "test", "postgres", "nats", "airlock", "123456", "s3cr3t", "T0pS3cr3t"}

// password is the finding of one that everybody knows.
func (s service) password() []Finding {
	if s.url.User == nil {
		return nil
	}
	password, given := s.url.User.Password()
	if !given || (!slices.Contains(guessable, password) && password != s.url.User.Username()) {
		return nil
	}
	return found(Critical, fmt.Sprintf("the password of user %q at %s is one that is guessed first", show(s.url.User.Username()), s.name),
		"give it a random password, by environment or file")
}

// wide reports whether a server's own list of addresses is more than this
// machine's.
func wide(listens string) bool {
	return slices.ContainsFunc(strings.FieldsFunc(listens, func(r rune) bool { return r == ',' || r == ' ' }), func(host string) bool {
		ip := net.ParseIP(host)
		return host == "*" || ip != nil && !ip.IsLoopback() || ip == nil && host != "localhost"
	})
}

// exposure judges what is common to servers: who reaches them, whether they
// ask who it is, and whether others can listen.
func (s service) exposure(listens string, open, tls bool) (all []Finding) {
	reachable := !s.local() || wide(listens)
	switch {
	case open && reachable:
		all = append(all, found(Critical, fmt.Sprintf("%s lets everybody in who reaches it, and not only this machine does", s.name),
			"make accounts with passwords, and have it listen on a private address")...)
	case open:
		all = append(all, found(Warning, fmt.Sprintf("%s lets in every user and process of this machine", s.name),
			"make accounts with passwords, unless you trust them all")...)
	case wide(listens):
		all = append(all, found(Info, fmt.Sprintf("%s listens on %s", s.name, show(listens)),
			"have it listen on a private address, or keep a firewall before it")...)
	}
	if !tls && !s.local() {
		all = append(all, found(Warning, fmt.Sprintf("%s is reached without TLS: who is on the way can read and change everything", s.name),
			"use TLS, or a network that nobody else is on")...)
	}
	return all
}
