package main

import (
	"strings"

	"github.com/alecthomas/kong"
)

// envPrefix and the flag's name make the name of its environment twin.
const envPrefix = "AIRLOCK_"

// envTwin is the variable that stands in for a flag: --max-attempts is
// AIRLOCK_MAX_ATTEMPTS.
func envTwin(flag string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// hasTwin is false for the two flags that only print and leave.
func hasTwin(flag string) bool { return flag != "help" && flag != "version" }

// envResolver gives flags that are not on the command line the value of their
// twin in env. An empty variable counts as absent.
func envResolver(env []string) kong.ResolverFunc {
	values := map[string]string{}
	for _, entry := range env {
		if name, value, ok := strings.Cut(entry, "="); ok && strings.HasPrefix(name, envPrefix) {
			values[name] = value
		}
	}
	return func(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
		value := values[envTwin(flag.Name)]
		if value == "" || !hasTwin(flag.Name) {
			return nil, nil
		}
		return value, nil
	}
}

// helpWithTwin adds the twin's name to a flag's help.
func helpWithTwin(value *kong.Value) string {
	if value.Flag == nil || !hasTwin(value.Name) {
		return value.Help
	}
	return value.Help + " ($" + envTwin(value.Name) + ")"
}
