package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"strconv"
	"sync"

	"github.com/go-json-experiment/json"

	"airlock/job"
)

// resultLine is one line of results.
type resultLine struct {
	// Line is the number of the job's line in the input.
	Line int `json:"line"`
	// Content is the start of the job's content digest, by which a later run
	// sees that a key still means the same job.
	Content string `json:"content"`
	job.Result
}

// resultFile is where results go: a file that is appended to, or stdout.
type resultFile struct {
	mu   sync.Mutex // guards all fields
	w    io.Writer
	file *os.File
	done map[uint64]doneLine
}

// doneLine is a key whose result is in the file: how it ended, for which
// content, and how often it is there.
type doneLine struct {
	content uint64
	status  job.Status
	count   int
}

// openResults opens a file and learns what is in it. A last line that was cut
// off, by a crash or a full disk, is dropped: its result will come again.
func openResults(path string) (*resultFile, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	out := &resultFile{w: f, file: f, done: map[uint64]doneLine{}}
	if err := out.load(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return out, nil
}

func (f *resultFile) load() error {
	info, err := f.file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return err // a pipe or a device holds nothing that could be read back
	}
	r := bufio.NewReaderSize(f.file, 256<<10)
	for number, whole := 1, int64(0); ; number++ {
		text, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			if len(text) == 0 {
				return nil
			}
			return f.file.Truncate(whole)
		}
		if err != nil {
			return err
		}
		whole += int64(len(text))
		if err := f.learn(bytes.TrimSpace(text)); err != nil {
			return fmt.Errorf("line %d is no result of a batch (%w): give another file", number, err)
		}
	}
}

func (f *resultFile) learn(text []byte) error {
	if len(text) == 0 {
		return nil
	}
	var known struct {
		Key     string     `json:"key"`
		Content string     `json:"content"`
		Status  job.Status `json:"status"`
		Job     job.ID     `json:"job"`
	}
	if err := json.Unmarshal(text, &known); err != nil {
		return err
	}
	content, err := strconv.ParseUint(known.Content, 16, 64)
	if err != nil || known.Job.IsZero() || known.Status == "" {
		return errors.New("it lacks job, status or content")
	}
	key := hash(known.Key)
	f.done[key] = doneLine{content, known.Status, f.done[key].count + 1}
	return nil
}

// known is how many results the file held.
func (f *resultFile) known() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.done)
}

// has reports whether the line's result was in the file, and how it ended.
// Each result counts for one line.
func (f *resultFile) has(r ref) (job.Status, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d, ok := f.done[r.key]
	if !ok || d.count == 0 || d.content != r.content {
		return "", false
	}
	d.count--
	f.done[r.key] = d
	return d.status, true
}

// add writes one result in one piece, so that nobody sees half a line.
func (f *resultFile) add(r ref, result *job.Result) error {
	text, err := encodeLine(resultLine{r.line, fmt.Sprintf("%016x", r.content), *result})
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, err := f.w.Write(text); err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	return nil
}

// close makes a file's results durable. It leaves stdout open.
func (f *resultFile) close() error {
	if f.file == nil {
		return nil
	}
	info, err := f.file.Stat()
	if err == nil && info.Mode().IsRegular() {
		err = f.file.Sync()
	}
	return errors.Join(err, f.file.Close())
}

func hash(s string) uint64 {
	h := fnv.New64a()
	_, _ = io.WriteString(h, s) // a hash takes everything
	return h.Sum64()
}
