package doctor_test

import (
	"net"
	"strings"
	"sync"
	"testing"

	"airlock/job"
	"airlock/worker/doctor"
)

// natsSays listens on loopback, greets whoever comes, and returns the address.
func natsSays(t *testing.T, greeting string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	served.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte(greeting))
			_ = conn.Close()
		}
	})
	t.Cleanup(func() { _ = l.Close(); served.Wait() })
	return l.Addr().String()
}

func sickServices() []sick {
	nats := func(userinfo, greeting string) func(doctor.Host) doctor.Host {
		return func(h doctor.Host) doctor.Host {
			// The listener lives as long as the process; the fixture's own
			// ends with its test.
			h.NATS = "nats://" + userinfo + greets(greeting)
			return h
		}
	}
	postgres := func(url string, d *doctor.Database) func(doctor.Host) doctor.Host {
		return func(h doctor.Host) doctor.Host {
			if url != "" {
				h.Postgres = url
			}
			h.Database = d
			return h
		}
	}
	const good = `INFO {"version":"2.15.3","host":"127.0.0.1","auth_required":true}` + "\r\n"
	return []sick{
		{"nats", "not given", func(h doctor.Host) doctor.Host { h.NATS = ""; return h }, doctor.Info, "--nats"},
		{"nats", "open to this machine", nats("", `INFO {"version":"2.15.3","host":"127.0.0.1"}`+"\n"), doctor.Warning, "every user"},
		{"nats", "open to all", nats("", `INFO {"version":"2.15.3","host":"0.0.0.0"}`+"\n"), doctor.Critical, "everybody"},
		{"nats", "listening wide", nats("", `INFO {"version":"2.15.3","host":"0.0.0.0","auth_required":true}`+"\n"), doctor.Info, "0.0.0.0"},
		{"nats", "a guessed password", nats("worker:changeme@", good), doctor.Critical, "guessed"},
		{"nats", "the user's name", nats("worker:worker@", good), doctor.Critical, "guessed"},
		{"nats", "old", nats("", `INFO {"version":"2.12.3","host":"127.0.0.1","auth_required":true}`+"\n"), doctor.Warning, "2.12.12"},
		{"nats", "nobody there", func(h doctor.Host) doctor.Host { h.NATS = "nats://127.0.0.1:1"; return h }, doctor.Info, "does not answer"},
		{"nats", "something else", nats("", "220 mail.example.org\r\n"), doctor.Info, "no NATS server"},
		{"nats", "no JSON", nats("", "INFO {\r\n"), doctor.Info, "greets as no"},
		{"nats", "silence", nats("", ""), doctor.Info, "says nothing"},
		{"nats", "a URL that is none", func(h doctor.Host) doctor.Host { h.NATS = "nats://%zz:pass@x"; return h }, doctor.Info, "cannot be read"},
		{"postgres", "not given", func(h doctor.Host) doctor.Host { h.Postgres = ""; return h }, doctor.Info, "--postgres"},
		{"postgres", "away", postgres("", &doctor.Database{Error: "refused"}), doctor.Info, "refused"},
		{"postgres", "nobody asked", postgres("", nil), doctor.Info, "not checked"},
		{"postgres", "a default password", postgres("postgres://postgres:postgres@127.0.0.1/x", &doctor.Database{TLS: true}), doctor.Critical, "guessed"},
		{"postgres", "no password", postgres("", &doctor.Database{Listens: "localhost", Open: true}), doctor.Warning, "every user"},
		{"postgres", "no password for all", postgres("", &doctor.Database{Listens: "localhost,10.0.0.1", Open: true, TLS: true}), doctor.Critical, "everybody"},
		{"postgres", "no password elsewhere", postgres("postgres://w@db/x", &doctor.Database{Listens: "localhost", Open: true, TLS: true}), doctor.Critical, "everybody"},
		{"postgres", "no TLS", postgres("postgres://w:uo8Ahqu9@10.0.0.2/x", &doctor.Database{Listens: "localhost"}), doctor.Warning, "without TLS"},
		{"postgres", "listening wide", postgres("", &doctor.Database{Listens: "*"}), doctor.Info, "listens on *"},
		{"postgres", "as superuser", postgres("", &doctor.Database{Listens: "localhost", Superuser: true}), doctor.Warning, "superuser"},
		{"backends", "none isolates", func(h doctor.Host) doctor.Host {
			h.Backends = []doctor.Backend{{Name: "bubblewrap", Reason: "bwrap is not in PATH"}}
			return h
		}, doctor.Warning, "isolates"},
		{"backends", "none isolates strongly", func(h doctor.Host) doctor.Host {
			h.Backends = []doctor.Backend{{Name: "seatbelt", Isolation: job.IsolationPartial}}
			return h
		}, doctor.Warning, "isolates strongly"},
		{"backends", "one is missing", func(h doctor.Host) doctor.Host {
			h.Backends = append(h.Backends, doctor.Backend{Name: "docker", Reason: "no socket"})
			return h
		}, doctor.Info, "no socket"},
		{"backends", "nobody probed", func(h doctor.Host) doctor.Host { h.Backends = nil; return h }, doctor.Info, "not checked"},
	}
}

// greets is natsSays without a test to end it.
func greets(greeting string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go func() {
		defer l.Close()
		if conn, err := l.Accept(); err == nil {
			_, _ = conn.Write([]byte(greeting))
			_ = conn.Close()
		}
	}()
	return l.Addr().String()
}

// TestPasswordsAreNotShown: a report is copied into tickets.
func TestPasswordsAreNotShown(t *testing.T) {
	t.Parallel()
	h := sound(t)
	h.NATS, h.Postgres = "nats://u:kYeT4mmq@127.0.0.1:1,nats://%zz:kYeT4mmq@x", "postgres://u:kYeT4mmq@%zz/x"
	for _, f := range doctor.Examine(t.Context(), h).Findings {
		if strings.Contains(f.Seen+f.Remedy, "kYeT4mmq") {
			t.Errorf("%+v shows a password", f)
		}
	}
}
