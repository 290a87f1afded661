package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"airlock/job"
)

// filesOf makes files that came back of "PATH=CONTENT" and "PATH!REASON",
// apart by commas.
func filesOf(list string) []job.Artifact {
	var files []job.Artifact
	for entry := range strings.SplitSeq(list, ",") {
		if path, why, refused := strings.Cut(entry, "!"); refused {
			files = append(files, job.Artifact{Path: path, Size: 7, Reason: job.Reason(why)})
			continue
		}
		path, content, _ := strings.Cut(entry, "=")
		sum := sha256.Sum256([]byte(content))
		files = append(files, job.Artifact{
			Path: path, Size: job.Size(len(content)), SHA256: hex.EncodeToString(sum[:]), Content: []byte(content),
		})
	}
	return files
}

// artifact answers with a file's content; that of a path which starts with
// "forged" is another.
func (f *fleet) artifact(_ context.Context, _ string, request []byte) (any, error) {
	var req artifactRequest
	if err := job.DecodeStrict(request, &req); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if r := f.results[req.ID]; r != nil {
		for _, x := range r.Artifacts {
			if x.Path == req.Path && strings.HasPrefix(x.Path, "forged") {
				return map[string][]byte{"content": []byte("forged")}, nil
			}
			if x.Path == req.Path && x.Reason == "" && !strings.HasPrefix(x.Path, "lost") {
				return map[string][]byte{"content": x.Content}, nil
			}
		}
	}
	return nil, notFound("no such file")
}

// tree is what is below dir: the content of files, and what else there is.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		name = filepath.ToSlash(name)
		if entry.Type() != 0 {
			found[name] = entry.Type().String()
			return nil
		}
		content, err := os.ReadFile(path)
		found[name] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func wantTree(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	if diff := cmp.Diff(want, tree(t, dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestArtifacts(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetConfig{})
	code := "files out/a.txt=x,out/deep/-b ü=,c=\x00\u009b\x1b[2J,l!link"
	want := map[string]string{"out/a.txt": "x", "out/deep/-b ü": "", "c": "\x00\u009b\x1b[2J"}
	dir := filepath.Join(t.TempDir(), "not", "yet")
	got := f.submit("run", "--code", code, "--artifacts", dir).want(t, codeOK).wantIn(t, "stderr", "l was not brought back: link")
	if strings.Contains(got.stderr, "came back") {
		t.Errorf("got stderr %q, want no word of files that were written", got.stderr)
	}
	wantTree(t, dir, want)
	info, err := os.Stat(filepath.Join(dir, "c"))
	if err != nil || runtime.GOOS != "windows" && info.Mode() != 0o600 {
		t.Errorf("got mode %v and error %v, want a file for its owner only", info.Mode(), err)
	}
	f.submit("run", "--code", code, "--artifacts", dir).want(t, codeOK) // the same again is well
	wantTree(t, dir, want)

	got = f.submit("run", "--code", code, "--json").want(t, codeOK)
	r := results(t, got.stdout)[0]
	if len(r.Artifacts) != 4 || r.Artifacts[0].Path != "out/a.txt" || len(r.Artifacts[0].SHA256) != 64 || r.Artifacts[3].Reason != job.ReasonLink {
		t.Errorf("got artifacts %+v, want four with digests and a reason", r.Artifacts)
	}
	if strings.Contains(got.stdout, "content\":\"x") {
		t.Errorf("got content in %s, want none", got.stdout)
	}
	f.submit("run", "--code", code).want(t, codeOK).wantIn(t, "stderr", "3 files came back: `submit result "+strings.Split(r.Job.String(), "-")[0][:1])

	id := r.Job.String()
	other := t.TempDir()
	f.submit("result", id, "--artifacts", other).want(t, codeOK)
	wantTree(t, other, want)
	f.submit("status", id).want(t, codeOK).wantIn(t, "stdout", "out/deep/-b ü").wantIn(t, "stdout", "link")
	if record := documents[job.Record](t, f.submit("status", id, "--json").want(t, codeOK).stdout)[0]; len(record.Artifacts) != 4 {
		t.Errorf("got artifacts %+v in the record, want four", record.Artifacts)
	}
}

// TestArtifactsThatAreNotWritten end the command with a code of its own, after
// all that could be done was.
func TestArtifactsThatAreNotWritten(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetConfig{})
	for _, tt := range []struct{ name, files, why string }{
		{"another digest", "forged=x,z=1", "forged of job"},
		{"not there any more", "lost=x,z=1", "lost of job"},
		{"a path that climbs", "../up=x,z=1", "its path is none"},
		{"an absolute path", "/tmp/airlock-never=x,z=1", "its path is none"},
		{"a file in a folder's place", "a=x,a/b=y,z=1", "no directory"},
		{"a folder in a file's place", "a/b=y,a=x,z=1", "with another content"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			parent := t.TempDir()
			dir := filepath.Join(parent, "dir")
			f.submit("run", "--code", "files "+tt.files, "--artifacts", dir).want(t, codeAirlock).
				wantIn(t, "stderr", tt.why).wantIn(t, "stderr", "1 files that came back were not written")
			if got := tree(t, dir); got["z"] != "1" {
				t.Errorf("got files %v, want z in spite of the other", got)
			}
			if entries, err := os.ReadDir(parent); err != nil || len(entries) != 1 {
				t.Errorf("got %v and error %v beside the directory, want nothing", entries, err)
			}
		})
	}
}

// TestArtifactsAreWrittenNowhereElse: links and files that are in the
// directory already are neither followed nor changed.
func TestArtifactsAreWrittenNowhereElse(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	outside, dir := filepath.Join(parent, "outside"), filepath.Join(parent, "dir")
	for _, path := range []string{outside, filepath.Join(dir, "real")} {
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write := func(path, content string) {
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(outside, "precious"), "kept")
	write(filepath.Join(dir, "there"), "kept")
	for link, target := range map[string]string{
		"out": outside, "up": "..", "in": "real", "file": filepath.Join(outside, "precious"), "dangling": filepath.Join(outside, "new"),
	} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Skipf("no links here: %v", err)
		}
	}
	d, err := openArtifacts(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	before := tree(t, parent)
	for _, name := range []string{
		"out/x", "out/precious", "up/x", "in/x", "file", "dangling", "there", "there/x", "real",
		"../x", "/x", "", ".", "..", "real/../x", "a//b", "a/", "nul\x00",
	} {
		if err := d.put(name, []byte("guest's")); err == nil {
			t.Errorf("%q: got no error, want a refusal", name)
		}
	}
	if diff := cmp.Diff(before, tree(t, parent)); diff != "" {
		t.Errorf("files (-before +after):\n%s", diff)
	}
	for _, name := range []string{"-rf", "real/new", "deep/er/x", "real/a\nb"} {
		if err := d.put(name, []byte("guest's")); err != nil && runtime.GOOS != "windows" {
			t.Errorf("%q: got %v, want it written", name, err)
		}
	}
}

func TestArtifactsOfBatches(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetConfig{})
	file := write(t, "files.jsonl", `{"code": "files a=1", "collect": ["a"]}`+"\n"+`{"code": "files lost=x,b/c=2"}`+"\n"+`{"code": "value 1"}`+"\n")
	dir, out := t.TempDir(), file+".out"
	f.submit("batch", file, "-o", out, "--artifacts", dir, "--batch", "b").want(t, codeAirlock).
		wantIn(t, "stderr", "1 files that came back were not written")
	want := map[string]string{}
	for _, r := range results(t, read(t, out)) {
		switch r.Line {
		case 1:
			want[r.Job.String()+"/a"] = "1"
		case 2:
			want[r.Job.String()+"/b/c"] = "2"
		}
	}
	if len(want) != 2 {
		t.Errorf("got results %s, want all three although a file was not written", read(t, out))
	}
	wantTree(t, dir, want)
	other := t.TempDir()
	f.submit("wait", "b", "--artifacts", other).want(t, codeAirlock)
	wantTree(t, other, want)
	f.submit("wait", "b").want(t, codeOK)
}

func TestCollectFlag(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetConfig{})
	got := f.submit("run", "--code", "echo", "--collect", "out/**", "--collect", "*,.csv").want(t, codeOK)
	if want := `"collect":["out/**","*,.csv"]`; !strings.Contains(got.stdout, want) {
		t.Errorf("got %s, want %s", got.stdout, want)
	}
	f.submit("run", "--code", "echo", "--collect", "/etc/*").want(t, codeUsage).wantIn(t, "stderr", "collect[0]: is relative to /workspace")
	blocked := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f.submit("run", "--code", "echo", "--artifacts", blocked).want(t, codeUsage).wantIn(t, "stderr", fmt.Sprintf("--artifacts: mkdir %s", blocked))
}
