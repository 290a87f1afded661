package wasm

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"airlock/backends/internal/wasmguest"
	"airlock/job"

	"github.com/go-json-experiment/json"
)

// The files of an interpreter.
const (
	programFile  = "python.wasm"
	stdlibFile   = "stdlib.zip"
	manifestFile = "manifest.json"
)

// manifest says what the build made.
type manifest struct {
	Python string            `json:"python"`
	Files  map[string]string `json:"files"`
}

// artefacts are an interpreter's files, as they were read and found right.
type artefacts struct {
	python  string
	digest  string // of the program
	program []byte
	hollow  []byte // the program without its data and its code
	stdlib  []byte
}

// maxArtefact bounds what is read into memory.
const maxArtefact = 128 << 20

// find reads the interpreter from the first place that has one.
func find(configured string) (artefacts, error) {
	places := []string{configured}
	if configured == "" {
		places = []string{filepath.Join("bin", "wasm")}
		if program, err := os.Executable(); err == nil {
			places = append([]string{filepath.Join(filepath.Dir(program), "wasm")}, places...)
		}
	}
	for _, dir := range places {
		if _, err := os.Stat(filepath.Join(dir, manifestFile)); err == nil {
			return load(dir)
		}
	}
	return artefacts{}, fmt.Errorf("no Python for WebAssembly in %q: build it with make wasm, or say where it is with --wasm-python DIR", places)
}

func load(dir string) (artefacts, error) {
	var m manifest
	doc, err := os.ReadFile(filepath.Join(dir, manifestFile))
	if err == nil {
		err = json.Unmarshal(doc, &m)
	}
	if err != nil {
		return artefacts{}, fmt.Errorf("read %s of %s: %w; build it again with make wasm", manifestFile, dir, err)
	}
	a := artefacts{python: m.Python, digest: m.Files[programFile]}
	if a.program, err = m.read(dir, programFile); err != nil {
		return artefacts{}, err
	}
	if a.stdlib, err = m.read(dir, stdlibFile); err != nil {
		return artefacts{}, err
	}
	clone, err := wasmguest.Strip(a.program)
	if err == nil {
		a.hollow, err = wasmguest.Hollow(clone)
	}
	if err != nil {
		return artefacts{}, fmt.Errorf("read %s: %w; build it again with make wasm", programFile, err)
	}
	if a.python == "" {
		return artefacts{}, fmt.Errorf("read %s of %s: it names no version of Python; build it again with make wasm", manifestFile, dir)
	}
	return a, nil
}

// read reads a file that must be what the manifest says.
func (m manifest) read(dir, name string) ([]byte, error) {
	path := filepath.Join(dir, name)
	info, err := os.Stat(path)
	if err == nil && info.Size() > maxArtefact {
		err = errors.New("it is too large")
	}
	var data []byte
	if err == nil {
		data, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w; build it again with make wasm", path, err)
	}
	if got := digest(data); got != m.Files[name] {
		return nil, fmt.Errorf("%s is not the one that %s names: its sha256 is %s, want %s; build it again with make wasm",
			path, manifestFile, got, job.Printable(m.Files[name], 64))
	}
	return data, nil
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
