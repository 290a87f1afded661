package backendtest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// The capabilities that attacks need where there is no wall.
const (
	capChown         = 0
	capDACOverride   = 1
	capDACReadSearch = 2
	capSetUID        = 7
	capNetAdmin      = 12
	capNetRaw        = 13
	capSysChroot     = 18
	capSysPtrace     = 19
	capSysPacct      = 20
	capSysAdmin      = 21
	capSysBoot       = 22
	capSysNice       = 23
	capSysResource   = 24
	capMknod         = 27
	capSetFCap       = 31
)

// capability says whether the test has one.
func capability(number int) need {
	return func() string {
		have, err := strconv.ParseUint(status("/proc/self", "CapEff"), 16, 64)
		if err != nil || have&(1<<number) == 0 {
			return fmt.Sprintf("the test itself lacks capability %d", number)
		}
		return ""
	}
}

func userNamespaces() string {
	text, err := os.ReadFile("/proc/sys/user/max_user_namespaces")
	if err != nil || strings.TrimSpace(string(text)) == "0" {
		return "the host allows no user namespaces"
	}
	return ""
}

func ipv6() string {
	l, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		return "the host has no IPv6"
	}
	_ = l.Close()
	return ""
}

// addresses says whether the host has others than its loopback's.
func addresses() string {
	if len(hostAddresses()) == 0 {
		return "the host has no address but its loopback's"
	}
	return ""
}

func hostAddresses() []string {
	all, _ := net.InterfaceAddrs()
	found := []string{}
	for _, a := range all {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.To4() != nil && !ip.IP.IsLoopback() {
			found = append(found, ip.IP.String())
		}
	}
	return found
}

func multipath() string {
	text, err := os.ReadFile("/proc/sys/net/mptcp/enabled")
	if err != nil || strings.TrimSpace(string(text)) != "1" {
		return "the kernel has no multipath TCP"
	}
	return ""
}

// home says whether a canary can be put there.
func home() string {
	if len(homeCanary("")) == 0 {
		return "the test has no home that it may write to"
	}
	return ""
}

// homeCanary is where the canary called name is put.
func homeCanary(name string) []string {
	dir, err := os.UserHomeDir()
	if err != nil {
		return nil
	}
	probe, err := os.CreateTemp(dir, ".airlock-canary-*")
	if err != nil {
		return nil
	}
	_ = probe.Close()
	_ = os.Remove(probe.Name())
	return []string{filepath.Join(dir, ".airlock-canary-"+name)}
}
