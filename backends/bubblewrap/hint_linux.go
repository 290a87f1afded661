package bubblewrap

import "strings"

// switches are the settings that forbid user namespaces.
var switches = []struct{ file, forbids, mend string }{
	{"/proc/sys/kernel/unprivileged_userns_clone", "0", "sysctl -w kernel.unprivileged_userns_clone=1"},
	{"/proc/sys/user/max_user_namespaces", "0", "sysctl -w user.max_user_namespaces=15000"},
	{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1",
		"sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or give bwrap an AppArmor profile that allows userns"},
}

// hint says what to do about what bwrap said, or nothing.
func hint(said string, read func(path string) ([]byte, error)) string {
	has := func(parts ...string) bool {
		for _, part := range parts {
			if strings.Contains(said, part) {
				return true
			}
		}
		return false
	}
	switch {
	case has("namespace", "uid map", "RTM_NEWADDR", "RTM_NEWLINK", "loopback"):
		for _, s := range switches {
			if data, err := read(s.file); err == nil && strings.TrimSpace(string(data)) == s.forbids {
				return "; user namespaces are forbidden here: " + s.mend
			}
		}
		return "; unprivileged user namespaces are needed: a container must be started with a seccomp and an AppArmor profile that allow them"
	case has("Can't find source path", "Can't bind mount", "Can't get type of source"):
		return "; the user that guests run as must be able to reach this path"
	}
	return ""
}
