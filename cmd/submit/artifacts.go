package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sync"
	"time"

	"airlock/job"
	"airlock/queue"
)

// artifactAgain is between two questions for a file that nobody answers.
const artifactAgain = time.Second

// artifactDir is the directory that files which came back are written below.
// What is in them and what they are called is the guests' doing: nothing is
// written elsewhere, through a link or over a file. A nil one takes nothing.
type artifactDir struct {
	root *os.Root
	// mu is held while a file is written: two lines may have the same job.
	mu sync.Mutex
}

// artifactFlag is for the commands that show one job's result.
type artifactFlag struct {
	Artifacts string `placeholder:"DIR" help:"Write the files that came back below this directory, over none that is there."`
}

// openArtifacts makes the directory where it is not there; "" gives nil.
func openArtifacts(dir string) (*artifactDir, error) {
	if dir == "" {
		return nil, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, usageError("--artifacts: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, usageError("--artifacts: %w", err)
	}
	return &artifactDir{root: root}, nil
}

func (d *artifactDir) close() {
	if d != nil {
		_ = d.root.Close() // nothing is written by it
	}
}

// put writes one file. What is there already with the same content stays.
func (d *artifactDir) put(name string, content []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	local, err := filepath.Localize(name)
	if err != nil {
		return errors.New("this system has no such names")
	}
	if err := d.folders(path.Dir(name)); err != nil {
		return err
	}
	f, err := d.root.OpenFile(local, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return d.same(local, content)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, d.root.Remove(local))
	}
	return nil
}

// folders makes the folder and those above it. A link on the way is refused,
// also one that stays below the directory.
func (d *artifactDir) folders(dir string) error {
	if dir == "." {
		return nil
	}
	if err := d.folders(path.Dir(dir)); err != nil {
		return err
	}
	local := filepath.FromSlash(dir)
	info, err := d.root.Lstat(local)
	if errors.Is(err, fs.ErrNotExist) {
		return d.root.Mkdir(local, 0o700)
	}
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is there and no directory", job.Printable(dir, job.MaxPath))
	}
	return err
}

var errOther = errors.New("a file of that name is there, with another content: give another directory")

func (d *artifactDir) same(local string, content []byte) error {
	info, err := d.root.Lstat(local)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Size() != int64(len(content)) {
		return errOther
	}
	there, err := d.root.ReadFile(local)
	if err == nil && !bytes.Equal(there, content) {
		err = errOther
	}
	return err
}

// bring writes the files of a result below the directory, under a folder of
// its own unless that is "". It says of each file that was not written why.
func (s *session) bring(ctx context.Context, d *artifactDir, r *job.Result, folder string) error {
	if d == nil {
		return nil
	}
	missed := 0
	for _, x := range r.Artifacts {
		if x.Reason != "" {
			continue
		}
		content, err := s.artifact(ctx, r.Job, x)
		if err == nil {
			err = d.put(path.Join(folder, x.Path), content)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			missed++
			s.talk.fault("%s of job %s was not written: %s", job.Printable(x.Path, job.MaxPath), r.Job, job.Printable(err.Error(), 500))
		}
	}
	if missed > 0 {
		return &unwrittenError{missed}
	}
	return nil
}

// unwrittenError says how many files came back and were not written.
type unwrittenError struct{ files int }

// Error implements error.
func (e *unwrittenError) Error() string {
	return fmt.Sprintf("%d files that came back were not written; `submit result JOB --artifacts DIR` tries again", e.files)
}

// addUnwritten counts the files of an unwrittenError and passes other errors on.
func addUnwritten(count int, err error) (int, error) {
	var missed *unwrittenError
	if errors.As(err, &missed) {
		return count + missed.files, nil
	}
	return count, err
}

// artifact asks for the content of a file. Workers that cannot answer now are
// waited for.
func (s *session) artifact(ctx context.Context, id job.ID, x job.Artifact) ([]byte, error) {
	var answer struct {
		Content []byte `json:"content"`
	}
	if !fs.ValidPath(x.Path) {
		return nil, errors.New("its path is none")
	}
	for {
		err := s.ask(ctx, "artifact", artifactRequest{id, x.Path}, &answer)
		if err == nil {
			break
		}
		var remote *queue.RemoteError
		if ctx.Err() != nil || errors.As(err, &remote) && remote.Code != queue.CodeUnavailable {
			return nil, err
		}
		s.talk.seldom("artifacts", "waiting for files: %v", err)
		pause(ctx, jitter(artifactAgain))
	}
	if sum := sha256.Sum256(answer.Content); hex.EncodeToString(sum[:]) != x.SHA256 {
		return nil, errors.New("what arrived has another digest than the result says")
	}
	return answer.Content, nil
}

type artifactRequest struct {
	ID   job.ID `json:"id"`
	Path string `json:"path"`
}
