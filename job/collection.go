package job

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// Piece is what a guest says of one of its files, in one frame: a part of its
// content, or why there is none.
type Piece struct {
	Path string
	// Data follows what earlier pieces of the file held; More says that there
	// is more of it.
	Data []byte
	More bool
	// Refused takes the place of Data, also when parts of the content came
	// before. Size is what the file has then.
	Refused Reason
	Size    Size
}

// Collection takes the pieces of one guest and holds them against its job. The
// guest is not trusted: it can lie about what is in its files, but not bring
// back a path that climbs, that no glob covers or that it has named before,
// nor more than the bounds. It is for one goroutine.
type Collection struct {
	globs []string
	room  Size
	list  []Artifact
	// files and dirs are the paths in the list and the folders above them.
	files, dirs map[string]bool
	// open: the last of the list has more to come.
	open bool
}

// NewCollection is for a prepared job's globs; room is how many bytes of
// content it may bring back.
func NewCollection(globs []string, room Size) *Collection {
	return &Collection{globs: globs, room: room, files: map[string]bool{}, dirs: map[string]bool{}}
}

// Add takes the next piece; it keeps a copy of Data. An error says which rule
// the guest broke, in printable words, and nothing of the collection counts
// any more.
func (c *Collection) Add(p Piece) error {
	if !c.open || p.Path != c.list[len(c.list)-1].Path {
		if err := c.begin(p); err != nil {
			return err
		}
	}
	a := &c.list[len(c.list)-1]
	switch {
	case p.Refused != "":
		return c.refuse(a, p)
	case p.More && len(p.Data) == 0:
		return c.broken(p, "an empty piece with more to come")
	case Size(len(p.Data)) > c.room:
		return c.broken(p, "more bytes than the job may bring back")
	}
	c.room -= Size(len(p.Data))
	a.Content = append(a.Content, p.Data...)
	a.Size = Size(len(a.Content))
	if c.open = p.More; !c.open {
		c.seal(a)
	}
	return nil
}

// End returns what was brought back, in the guest's order. It is an error to
// end within a file.
func (c *Collection) End() ([]Artifact, error) {
	if c.open {
		return nil, errors.New("the last artifact is not complete")
	}
	return c.list, nil
}

// begin opens an entry for a path that has none yet.
func (c *Collection) begin(p Piece) error {
	switch {
	case c.open:
		return c.broken(p, "before the one that was begun is complete")
	case len(c.list) == MaxArtifacts:
		return c.broken(p, "more than "+fmt.Sprint(MaxArtifacts))
	case p.Refused == ReasonName:
		c.list = append(c.list, Artifact{Path: Printable(p.Path, MaxPath)})
		return nil
	}
	if why := badPath(p.Path); why != "" {
		return c.broken(p, why)
	}
	if p.Refused == "" && !Collects(c.globs, p.Path) {
		return c.broken(p, "no glob of the job covers it")
	}
	if err := c.place(p); err != nil {
		return err
	}
	c.list = append(c.list, Artifact{Path: p.Path})
	return nil
}

// place sees that all paths can lie in one folder beside each other.
func (c *Collection) place(p Piece) error {
	if c.files[p.Path] {
		return c.broken(p, "named twice")
	}
	if c.dirs[p.Path] {
		return c.broken(p, "it is a folder of another")
	}
	c.files[p.Path] = true
	for dir := path.Dir(p.Path); dir != "."; dir = path.Dir(dir) {
		if c.files[dir] {
			return c.broken(p, "its folder is a file")
		}
		c.dirs[dir] = true
	}
	return nil
}

func (c *Collection) refuse(a *Artifact, p Piece) error {
	if p.More || len(p.Data) > 0 || p.Size < 0 || !slices.Contains(Reasons(), p.Refused) {
		return c.broken(p, "a refusal that is none")
	}
	c.drop(a, p.Refused)
	a.Size, c.open = p.Size, false
	return nil
}

// drop gives the room of the content back.
func (c *Collection) drop(a *Artifact, why Reason) {
	c.room += Size(len(a.Content))
	a.Content, a.SHA256, a.Reason = nil, "", why
}

// seal ends a file whose content is complete. A name that this side cannot
// print is no breach: the guest's Python may know characters that are newer.
func (c *Collection) seal(a *Artifact) {
	if Printable(a.Path, len(a.Path)+1) != a.Path {
		a.Path = Printable(a.Path, MaxPath)
		c.drop(a, ReasonName)
		return
	}
	sum := sha256.Sum256(a.Content)
	a.SHA256 = hex.EncodeToString(sum[:])
}

func (c *Collection) broken(p Piece, why string) error {
	return fmt.Errorf("artifact %q: %s", Printable(p.Path, 100), why)
}

// badPath says why a path is not a plain one below the workspace, or "".
func badPath(name string) string {
	switch {
	case name == "" || len(name) > MaxPath:
		return "want a path of 1 to 512 bytes"
	case !utf8.ValidString(name) || !plain(name):
		return "not a plain path below the workspace"
	case strings.ContainsAny(name, "\\\x00"):
		return "holds a NUL or a backslash"
	}
	for part := range strings.SplitSeq(name, "/") {
		if len(part) > maxPart {
			return "a part is longer than 255 bytes"
		}
	}
	return ""
}
