package wasm

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"

	"airlock/backends/internal/interpreter"
	"airlock/backends/internal/wasmguest"

	"github.com/go-json-experiment/json"
)

// cache is where compiled code lies: a directory of this user's only, since
// what is in it runs as native code. It has one directory for each program,
// with the digests of all that is in it.
type cache struct {
	root string
	// dir is the program's, or where it is being filled.
	dir string
	// final is where dir belongs once it is filled; "" when it is.
	final string
	// temporary says that root goes with us.
	temporary bool
}

// digestsFile names what a program's directory holds.
const digestsFile = "digests.json"

// openCache opens the program's directory. One that is not as it was left is
// emptied, which why tells. A root that others can reach is refused.
func openCache(configured, program string) (c cache, why error, err error) {
	c.root = configured
	if own, err := os.UserCacheDir(); c.root == "" && err == nil {
		c.root = filepath.Join(own, "airlock", "wasm-code")
	}
	if c.root == "" || makePrivate(c.root) != nil && configured == "" {
		if c.root, err = interpreter.TempDir("wasm"); err != nil {
			return c, nil, err
		}
		c.temporary = true
	} else if err := makePrivate(c.root); err != nil {
		return c, nil, fmt.Errorf("make directory for compiled code: %w", err)
	}
	if err := checkPrivate(c.root); err != nil {
		return c, nil, err
	}
	sweep(c.root)
	c.dir = filepath.Join(c.root, cacheKey(program))
	why = c.verify()
	if why == nil {
		return c, nil, nil
	}
	if errors.Is(why, fs.ErrNotExist) {
		why = nil // nor is anything removed, which another may just have made
	} else if err := wasmguest.RemoveTree(c.dir); err != nil {
		return c, why, fmt.Errorf("empty directory for compiled code: %w", err)
	}
	c.final = c.dir
	c.dir, err = os.MkdirTemp(c.root, wasmguest.Filling)
	return c, why, err
}

// cacheLayout changes with what lies where in a program's directory.
const cacheLayout = "2"

// cacheKey tells programs, runtimes and machines apart.
func cacheKey(program string) string {
	return digest([]byte(cacheLayout + " " + program + " " + wasmguest.RuntimeVersion() + " " + runtime.GOOS + "/" + runtime.GOARCH))[:32]
}

// verify compares what is there with the digests.
func (c cache) verify() error {
	doc, err := os.ReadFile(filepath.Join(c.dir, digestsFile))
	if err != nil {
		if _, there := os.Lstat(c.dir); there == nil {
			return fmt.Errorf("compiled code without %s", digestsFile)
		}
		return err
	}
	var want map[string]string
	if err := json.Unmarshal(doc, &want); err != nil {
		return fmt.Errorf("read %s: %w", digestsFile, err)
	}
	got, err := c.digests()
	if err != nil {
		return err
	}
	if len(got) == 0 || !maps.Equal(got, want) {
		return errors.New("compiled code is not what was written")
	}
	return nil
}

// digests are those of all files but the one that holds them.
func (c cache) digests() (map[string]string, error) {
	sums := map[string]string{}
	err := filepath.WalkDir(c.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if !entry.Type().IsRegular() {
			return fmt.Errorf("%s is no file", path)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(c.dir, path)
		if name != digestsFile {
			sums[name] = digest(data)
		}
		return err
	})
	return sums, err
}

// filled keeps what was compiled, for us and for later workers. Another that
// was faster is as good; where it is not, ours stays ours alone.
func (c *cache) filled() error {
	if c.final == "" {
		return nil
	}
	sums, err := c.digests()
	if err != nil {
		return fmt.Errorf("look at compiled code: %w", err)
	}
	doc, err := json.Marshal(sums, json.Deterministic(true))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(c.dir, digestsFile), doc, 0o600); err != nil {
		return fmt.Errorf("keep compiled code: %w", err)
	}
	own := *c
	c.dir, c.final = c.final, ""
	if err := os.Rename(own.dir, c.dir); err != nil {
		if c.verify() != nil { // another makes it anew just now
			*c = own
			return nil
		}
		return wasmguest.RemoveTree(own.dir)
	}
	return nil
}

// close removes what is not to stay.
func (c cache) close() error {
	if c.temporary {
		return wasmguest.RemoveTree(c.root)
	}
	if c.final != "" {
		return wasmguest.RemoveTree(c.dir)
	}
	return nil
}
