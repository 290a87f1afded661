package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"

	"airlock/job"
)

// line is one line of a file of jobs that is not blank.
type line struct {
	number int
	text   []byte
	// size is the line's length; text is nil when that is more than a job
	// may have.
	size int
}

// lineReader reads lines of any length in bounded memory.
type lineReader struct {
	r      *bufio.Reader
	number int
}

func newLineReader(r io.Reader) *lineReader { return &lineReader{r: bufio.NewReaderSize(r, 256<<10)} }

// next returns the next line that is not blank, or io.EOF.
func (l *lineReader) next() (line, error) {
	for {
		text, size, err := l.read()
		if err != nil && (size == 0 || !errors.Is(err, io.EOF)) {
			return line{}, err
		}
		l.number++
		if l.number == 1 {
			text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
		}
		if text = bytes.TrimSpace(text); len(text) > 0 || size > maxLine {
			return line{l.number, text, size}, nil
		}
	}
}

// maxLine leaves room for white space around the largest job.
const maxLine = int(job.MaxSpec) + 1024

// read reads up to and with the next line feed. Of a line that is too long it
// keeps nothing.
func (l *lineReader) read() (text []byte, size int, err error) {
	for {
		part, err := l.r.ReadSlice('\n')
		size += len(part)
		if size <= maxLine {
			text = append(text, part...)
		} else {
			text = nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return text, size, err
		}
	}
}

// countJobs counts the lines of a file for the sake of progress, or gives 0
// where that would take long or use up the input.
func countJobs(path string) int {
	const large = 1 << 30
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() > large {
		return 0
	}
	f, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer f.Close()
	lines, n := newLineReader(f), 0
	for {
		if _, err := lines.next(); err != nil {
			return n
		}
		n++
	}
}
