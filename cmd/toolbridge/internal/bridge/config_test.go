package bridge_test

import (
	"strings"
	"testing"
	"time"

	"airlock/cmd/toolbridge/internal/bridge"
)

func TestParse(t *testing.T) {
	t.Parallel()
	cfg, err := bridge.Parse([]byte(`{"servers":[
		{"namespace":"fs","command":["npx","x"],"env":{"A":"b"},"tools":["read"],"rename":{"read":"load"},"timeout":"5s"},
		{"namespace":"web","url":"https://example.org/mcp","headers_env":{"Authorization":"TOKEN"},"concurrency":2}
	]}`))
	if err != nil {
		t.Fatal(err)
	}
	fs, web := cfg.Servers[0], cfg.Servers[1]
	if fs.Timeout.Std() != 5*time.Second || fs.Concurrency != 16 || web.Timeout.Std() != 30*time.Second || web.Concurrency != 2 || web.StartTimeout.Std() != 30*time.Second {
		t.Errorf("got %+v and %+v, want what is given and the defaults", fs, web)
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ server, want string }{
		"an unknown field":     {`"namespace":"n","command":["x"],"colour":1`, "colour"},
		"a field twice":        {`"namespace":"n","namespace":"m","command":["x"]`, "namespace"},
		"no namespace":         {`"command":["x"]`, "namespace"},
		"a namespace of dots":  {`"namespace":"a.b","command":["x"]`, "namespace"},
		"neither":              {`"namespace":"n"`, "either command or url"},
		"both":                 {`"namespace":"n","command":["x"],"url":"http://h"`, "either command or url"},
		"an empty command":     {`"namespace":"n","command":[""]`, "command"},
		"a url that is none":   {`"namespace":"n","url":"ftp://h"`, "url"},
		"a password in a url":  {`"namespace":"n","url":"https://u:p@h"`, "headers_env"},
		"headers of a command": {`"namespace":"n","command":["x"],"headers_env":{"A":"B"}`, "headers_env"},
		"env of a url":         {`"namespace":"n","url":"http://h","env":{"A":"B"}`, "env"},
		"an odd variable":      {`"namespace":"n","command":["x"],"env":{"A=B":"C"}`, "env"},
		"a variable twice":     {`"namespace":"n","command":["x"],"env":{"A":"C"},"env_from":{"A":"B"}`, "env_from"},
		"an odd header":        {`"namespace":"n","url":"http://h","headers_env":{"A\nB":"C"}`, "headers_env"},
		"no tools":             {`"namespace":"n","command":["x"],"tools":[]`, "tools"},
		"an odd new name":      {`"namespace":"n","command":["x"],"rename":{"a":"b.c"}`, "rename"},
		"a name left out":      {`"namespace":"n","command":["x"],"tools":["b"],"rename":{"a":"c"}`, "rename"},
		"a negative time":      {`"namespace":"n","command":["x"],"timeout":-1`, "timeout"},
		"too many at once":     {`"namespace":"n","command":["x"],"concurrency":100000`, "concurrency"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := bridge.Parse([]byte(`{"servers":[{` + tc.server + `}]}`))
			if err == nil || !strings.Contains(err.Error(), "servers") || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got error %v, want one with servers and %q", err, tc.want)
			}
		})
	}
	for _, whole := range []string{``, `{}`, `{"servers":[]}`, `[]`, `{"servers":[{}],"x":1}`} {
		if _, err := bridge.Parse([]byte(whole)); err == nil {
			t.Errorf("%s: got no error, want one", whole)
		}
	}
}
