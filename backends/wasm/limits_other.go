//go:build !linux

package wasm

import (
	"syscall"

	"airlock/backends/internal/cgroup"
	"airlock/backends/internal/guestproc"
)

func (g *instance) enclose() error { return nil }

func (g *instance) disclose() error { return nil }

func restart(*cgroup.Group) error { return nil }

// watch watches nothing here.
type watch struct{}

func (*watch) begin(*instance) {}
func (*watch) end()            {}
func (*watch) tripped() bool   { return false }

func namespaces() syscall.SysProcAttr { return syscall.SysProcAttr{} }

func checkConfined(int, bool) error { return nil }

// users are none here.
type users struct{}

func openUsers(Config) (*users, error) { return nil, nil }

func (*users) take() (*guestproc.User, func(), error) { return nil, func() {}, nil }

func uidOf(*guestproc.User) int { return 0 }
