// Package jobfile reads jobs that stand one a line, as in a JSON lines file: any
// number of them, in bounded memory.
package jobfile

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"airlock/job"
)

// Line is one line that is not blank.
type Line struct {
	// Number counts all lines from 1.
	Number int
	Text   []byte
	// Size is the line's length; Text is nil when that is more than MaxLine.
	Size int
}

// Reader reads lines of any length in bounded memory.
type Reader struct {
	r      *bufio.Reader
	number int
}

// NewReader makes a Reader of r.
func NewReader(r io.Reader) *Reader { return &Reader{r: bufio.NewReaderSize(r, 256<<10)} }

// Next returns the next line that is not blank, or io.EOF.
func (l *Reader) Next() (Line, error) {
	for {
		text, size, err := l.read()
		if err != nil && (size == 0 || !errors.Is(err, io.EOF)) {
			return Line{}, err
		}
		l.number++
		if l.number == 1 {
			text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
		}
		if text = bytes.TrimSpace(text); len(text) > 0 || size > MaxLine {
			return Line{l.number, text, size}, nil
		}
	}
}

// MaxLine leaves room for white space around the largest job.
const MaxLine = int(job.MaxSpec) + 1024

// read reads up to and with the next line feed. Of a line that is too long it
// keeps nothing.
func (l *Reader) read() (text []byte, size int, err error) {
	for {
		part, err := l.r.ReadSlice('\n')
		size += len(part)
		if size <= MaxLine {
			text = append(text, part...)
		} else {
			text = nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return text, size, err
		}
	}
}
