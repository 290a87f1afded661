package backendtest

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
)

// The capabilities that attacks need where there is no wall.
const (
	capChown         = 0
	capDACOverride   = 1
	capDACReadSearch = 2
	capSetUID        = 7
	capNetRaw        = 13
	capSysChroot     = 18
	capSysPtrace     = 19
	capSysAdmin      = 21
	capSysBoot       = 22
	capSysNice       = 23
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
