package integration_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// layers says which packages of Airlock each package may import, besides those
// below internal beside it. A pattern that ends in /... covers what is below.
// A package without a rule fails the test, so that each new one is placed on
// purpose. Tests may look at anything.
var layers = map[string][]string{
	"job":                {},
	"job/jobfile":        {"job"},
	"migrations":         {},
	"runner-image/guest": {},
	"runner-image/wasm":  {},

	"queue":               {"job"},
	"queue/natstest":      {"job", "queue"},
	"broker":              {"job", "broker/policy", "broker/provider", "broker/internal/..."},
	"broker/internal/...": {"job"},
	"broker/policy":       {"job", "broker/internal/..."},
	"broker/provider/...": {"job", "broker/provider", "broker/internal/..."},
	"broker/brokertest":   {"job", "broker", "broker/provider"},

	"backends":              {"job"},
	"backends/internal/...": {"job", "backends", "backends/internal/...", "runner-image/guest"},
	"backends/backendtest":  {"job", "backends", "backends/internal/..."},
	"backends/bubblewrap":   {"job", "backends", "backends/internal/...", "runner-image/guest"},
	"backends/forkserver":   {"job", "backends", "backends/internal/...", "runner-image/guest"},
	"backends/wasm":         {"job", "backends", "backends/internal/...", "runner-image/guest"},
	"backends/docker":       {"job", "backends", "backends/internal/..."},
	"backends/local":        {"job", "backends", "backends/internal/...", "runner-image/guest"},
	"backends/fake":         {"job", "backends", "backends/internal/..."},
	"backends/memory":       {"backends/internal/..."},
	"backends/all":          {"job", "backends", "backends/forkserver", "backends/bubblewrap", "backends/docker", "backends/wasm", "backends/local", "backends/fake"},

	"metrics":          {"job"},
	"store":            {"job", "migrations"},
	"store/storetest":  {"job", "migrations", "store", "standalone"},
	"standalone":       {"job"},
	"gateway":          {"job", "job/jobfile", "metrics", "queue", "store"},
	"worker":           {"job", "backends", "worker/failpoint", "worker/trace"},
	"worker/failpoint": {},
	"worker/trace":     {"job"},
	"worker/doctor":    {"job"},

	"cmd/internal/...":   {},
	"cmd/internal/spans": {"cmd/internal/..."},
	"cmd/submit":         {"job", "job/jobfile", "queue", "cmd/internal/..."},
	"cmd/worker": {
		"job", "queue", "broker", "broker/policy", "broker/provider/...", "backends", "backends/all", "backends/docker", "backends/forkserver", "backends/memory", "backends/wasm", "metrics", "store", "standalone", "gateway", "worker", "worker/doctor", "worker/failpoint", "worker/trace",
		"cmd/internal/...",
	},

	"cmd/toolbridge/...": {"job", "queue", "broker/provider", "cmd/internal/...", "cmd/toolbridge/internal/..."},

	"cmd/gateway":     {"job", "metrics", "queue", "store", "gateway", "cmd/internal/..."},
	"dev/...":         {"job", "queue", "store"},
	"dev/containment": {"backends/backendtest"},
	"integration/...": {"job", "queue", "store"},
	// A provider of many tools is a part of what is measured.
	"integration/bench": {"job", "queue", "store", "broker/provider"},
}

// confined says which packages may import a driver: whoever changes a driver
// has only those to change.
var confined = map[string][]string{
	"github.com/jackc/pgx":            {"store", "store/storetest", "standalone", "dev/..."},
	"github.com/pressly/goose":        {"store"},
	"github.com/nats-io/nats.go":      {"queue/...", "broker/...", "standalone", "cmd/..."},
	"github.com/nats-io/nats-server":  {"standalone", "queue/natstest", "broker/brokertest", "integration/bench"},
	"github.com/fergusstrange":        {"standalone"},
	"github.com/google/jsonschema-go": {"broker/..."},
	"github.com/google/uuid":          {"job", "cmd/..."},
	"github.com/alecthomas/kong":      {"cmd/..."},
	"github.com/modelcontextprotocol": {"cmd/toolbridge/...", "gateway"},
	"go.opentelemetry.io":             {"broker", "gateway", "queue", "cmd/internal/spans"},
	"github.com/prometheus":           {"metrics"},
	"github.com/containerd/errdefs":   {"backends/docker"},
	"github.com/docker/docker":        {"backends/docker"},
	"github.com/tetratelabs/wazero":   {"backends/internal/memfs", "backends/internal/wasmguest"},
	"golang.org/x/net/bpf":            {"backends/internal/..."},
	"testing":                         {"backends/backendtest", "broker/brokertest", "broker/provider/providertest", "store/storetest", "queue/natstest"},

	// Not strict enough for foreign bytes: the last of two keys wins, and
	// invalid UTF-8 is replaced.
	"encoding/json": {},
}

// maxLines is the wall of style.md for one file.
const maxLines = 500

// tall are the files that may be longer, and why.
var tall = map[string]int{
	"clients/python/airlock.py": 650, // people copy it, so that it is one file
}

// source is one parsed file of the tree.
type source struct {
	path string // slash-separated, from the root
	file *ast.File
	set  *token.FileSet
}

func (s source) pkg() string  { return path.Dir(s.path) }
func (s source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

// imports maps each import path to the name it is given, "" for its own.
func (s source) imports() map[string]string {
	all := map[string]string{}
	for _, spec := range s.file.Imports {
		target, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			target = spec.Path.Value
		}
		all[target] = ""
		if spec.Name != nil {
			all[target] = spec.Name.Name
		}
	}
	return all
}

// covered reports whether one of the patterns covers the package.
func covered(pkg string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		below, deep := strings.CutSuffix(pattern, "/...")
		return pkg == pattern || deep && (pkg == below || strings.HasPrefix(pkg, below+"/"))
	})
}

// ruleOf returns what pkg may import, by the longest pattern that covers it.
func ruleOf(pkg string) (allowed []string, known bool) {
	longest := ""
	for pattern := range layers {
		if covered(pkg, []string{pattern}) && len(pattern) > len(longest) {
			longest = pattern
		}
	}
	return layers[longest], longest != ""
}

func TestImportsGoDown(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	for _, s := range sources(t) {
		allowed, known := ruleOf(s.pkg())
		used[s.pkg()] = true
		if !known {
			t.Errorf("%s: package %s has no rule in layers", s.path, s.pkg())
		}
		if s.isTest() {
			continue
		}
		for target := range s.imports() {
			pkg, ours := strings.CutPrefix(target, "airlock/")
			if ours && pkg != s.pkg() && !covered(pkg, allowed) {
				t.Errorf("%s: %s may not import %s", s.path, s.pkg(), pkg)
			}
		}
	}
	for pattern, allowed := range layers {
		for _, p := range append(slices.Clone(allowed), pattern) {
			exists := func(pkg string) bool { return covered(pkg, []string{p}) }
			if !slices.ContainsFunc(slices.Collect(maps.Keys(used)), exists) {
				t.Errorf("the rule of %s names %s, which is no package", pattern, p)
			}
		}
	}
}

func TestDriversAreConfined(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if s.isTest() {
			continue
		}
		for target := range s.imports() {
			for prefix, allowed := range confined {
				if (target == prefix || strings.HasPrefix(target, prefix+"/")) && !covered(s.pkg(), allowed) {
					t.Errorf("%s: only %v may import %s", s.path, allowed, target)
				}
			}
		}
	}
}

// TestJobImportsLittle: what every package shares must not bring anything
// along.
func TestJobImportsLittle(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if s.pkg() != "job" || s.isTest() {
			continue
		}
		for target := range s.imports() {
			domain, _, _ := strings.Cut(target, "/")
			beyond := strings.Contains(domain, ".") && target != "github.com/google/uuid" &&
				!strings.HasPrefix(target, "github.com/go-json-experiment/json")
			if beyond || slices.Contains([]string{"net", "net/http", "os", "io/fs", "os/exec", "syscall", "log"}, target) {
				t.Errorf("%s: job may not import %s", s.path, target)
			}
		}
	}
}

// TestNothingRunsByImport: a package may not do anything by being imported.
func TestNothingRunsByImport(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if s.isTest() {
			continue
		}
		for target, name := range s.imports() {
			if name == "_" && target != "embed" || name == "." {
				t.Errorf("%s: import of %s as %q", s.path, target, name)
			}
		}
		for _, decl := range s.file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Name.Name == "init" && f.Recv == nil {
				t.Errorf("%s: has an init function", s.set.Position(f.Pos()))
			}
		}
	}
}

func TestPackagesAreDocumented(t *testing.T) {
	t.Parallel()
	documented := map[string]bool{}
	for _, s := range sources(t) {
		if !s.isTest() {
			documented[s.pkg()] = documented[s.pkg()] || s.file.Doc != nil
		}
	}
	for pkg, ok := range documented {
		if !ok {
			t.Errorf("package %s has no doc comment", pkg)
		}
	}
}

func TestFilesAreShort(t *testing.T) {
	t.Parallel()
	walk(t, func(name string) {
		if !strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, ".py") {
			return
		}
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		if lines, wall := bytes.Count(text, []byte("\n")), max(maxLines, tall[name]); lines > wall {
			t.Errorf("%s has %d lines, the wall is %d", name, lines, wall)
		}
	})
}

// root is the tree's root, seen from this package.
const root = ".."

// sources parses every Go file of the tree, whatever system it is for.
func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	walk(t, func(name string) {
		if !strings.HasSuffix(name, ".go") {
			return
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, filepath.Join(root, filepath.FromSlash(name)), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, source{name, file, set})
	})
	if len(all) < 50 {
		t.Fatalf("found %d files of Go, so that this is not the tree", len(all))
	}
	return all
}

// walk visits the files that are the project's own.
func walk(t *testing.T, visit func(name string)) {
	t.Helper()
	skipped := []string{".git", ".airlock", "bin", "testdata", "node_modules"}
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() && slices.Contains(skipped, e.Name()) {
			return fs.SkipDir
		}
		if !e.IsDir() {
			visit(name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
