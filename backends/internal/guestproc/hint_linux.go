package guestproc

import "strings"

// switches are the settings that forbid user namespaces.
var switches = []struct{ file, forbids, mend string }{
	{"/proc/sys/kernel/unprivileged_userns_clone", "0", "sysctl -w kernel.unprivileged_userns_clone=1"},
	{"/proc/sys/user/max_user_namespaces", "0", "sysctl -w user.max_user_namespaces=15000"},
	{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1",
		"sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or give the program that makes them an AppArmor profile that allows userns"},
}

// NamespaceHint says what to do where user namespaces cannot be made or used.
// read reads a file.
func NamespaceHint(read func(path string) ([]byte, error)) string {
	for _, s := range switches {
		if data, err := read(s.file); err == nil && strings.TrimSpace(string(data)) == s.forbids {
			return "; user namespaces are forbidden here: " + s.mend
		}
	}
	return "; unprivileged user namespaces are needed: a container must be started with a seccomp and an AppArmor profile that allow them"
}
