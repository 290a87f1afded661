package bridge

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"airlock/cmd/internal/secret"
)

// environment is the whole of the server's. lookup reads a variable here.
func (s *Server) environment(lookup func(string) (string, bool)) ([]string, error) {
	all := map[string]string{}
	for _, name := range inherited {
		if value, ok := lookup(name); ok {
			all[name] = value
		}
	}
	for name, value := range s.Env {
		value, err := secret.Read(value)
		if err != nil {
			return nil, fmt.Errorf("env[%s]: %w", name, err)
		}
		all[name] = value
	}
	taken, err := fromEnvironment("env_from", s.EnvFrom, lookup)
	if err != nil {
		return nil, err
	}
	maps.Copy(all, taken)
	var list []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list = append(list, name+"="+all[name])
	}
	return list, nil
}

// fromEnvironment reads the variables that names maps to, which may name files.
func fromEnvironment(field string, names map[string]string, lookup func(string) (string, bool)) (map[string]string, error) {
	values := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		value, ok := lookup(names[name])
		if !ok {
			return nil, fmt.Errorf("%s[%s]: the variable %s is not set", field, name, names[name])
		}
		value, err := secret.Read(value)
		if err != nil {
			return nil, fmt.Errorf("%s[%s]: %w", field, name, err)
		}
		if strings.ContainsAny(value, "\x00\r\n") {
			return nil, fmt.Errorf("%s[%s]: the value is of more than one line", field, name)
		}
		values[name] = value
	}
	return values, nil
}

func (s *Server) headers(lookup func(string) (string, bool)) (http.Header, error) {
	values, err := fromEnvironment("headers_env", s.HeadersEnv, lookup)
	if err != nil {
		return nil, err
	}
	header := http.Header{}
	for name, value := range values {
		header.Set(name, value)
	}
	return header, nil
}
