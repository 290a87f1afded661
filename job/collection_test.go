package job_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"airlock/job"

	"github.com/google/go-cmp/cmp"
)

func whole(path, content string) job.Piece { return job.Piece{Path: path, Data: []byte(content)} }
func begun(path, content string) job.Piece {
	return job.Piece{Path: path, Data: []byte(content), More: true}
}
func refused(path string, why job.Reason, size job.Size) job.Piece {
	return job.Piece{Path: path, Refused: why, Size: size}
}

func kept(path, content string) job.Artifact {
	sum := sha256.Sum256([]byte(content))
	a := job.Artifact{Path: path, Size: job.Size(len(content)), SHA256: hex.EncodeToString(sum[:])}
	if content != "" {
		a.Content = []byte(content)
	}
	return a
}

func TestCollectionKeeps(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		pieces []job.Piece
		want   []job.Artifact
	}{
		{"nothing", nil, nil},
		{"a file", []job.Piece{whole("out/a", "x")}, []job.Artifact{kept("out/a", "x")}},
		{"an empty file", []job.Piece{whole("out/a", "")}, []job.Artifact{kept("out/a", "")}},
		{"in pieces", []job.Piece{begun("out/a", "x"), begun("out/a", "y"), whole("out/a", "")}, []job.Artifact{kept("out/a", "xy")}},
		{"odd names that print", []job.Piece{whole("out/-x ü☕'\"", "x"), whole("out/CON", "y")},
			[]job.Artifact{kept("out/-x ü☕'\"", "x"), kept("out/CON", "y")}},
		{"a refusal", []job.Piece{refused("out/l", job.ReasonLink, 3)}, []job.Artifact{{Path: "out/l", Size: 3, Reason: job.ReasonLink}}},
		{"a refusal of what no glob covers", []job.Piece{refused("out", job.ReasonLink, 0)}, []job.Artifact{{Path: "out", Reason: job.ReasonLink}}},
		{"a refusal halfway, which gives room back", []job.Piece{begun("out/a", "0123456789"), refused("out/a", job.ReasonChanged, 7), whole("out/b", "0123456789")},
			[]job.Artifact{{Path: "out/a", Size: 7, Reason: job.ReasonChanged}, kept("out/b", "0123456789")}},
		{"names that are none", []job.Piece{refused("out/a\nb\x1b[2J", job.ReasonName, 0), refused("../\u202e", job.ReasonName, 0), refused("../\u202e", job.ReasonName, 0)},
			[]job.Artifact{{Path: `out/a\x0ab\x1b[2J`, Reason: job.ReasonName}, {Path: `../\u202e`, Reason: job.ReasonName}, {Path: `../\u202e`, Reason: job.ReasonName}}},
		{"a name that the guest thinks printable", []job.Piece{whole("out/\u202e", "x")}, []job.Artifact{{Path: `out/\u202e`, Size: 1, Reason: job.ReasonName}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := job.NewCollection([]string{"out/*"}, 10)
			for _, p := range tt.pieces {
				if err := c.Add(p); err != nil {
					t.Fatalf("add %q: %v", p.Path, err)
				}
			}
			got, err := c.End()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("artifacts (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCollectionRefuses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		pieces []job.Piece
		want   string
	}{
		{"a path that climbs", []job.Piece{whole("out/../../x", "")}, "plain path"},
		{"an absolute path", []job.Piece{whole("/etc/passwd", "")}, "plain path"},
		{"an empty path", []job.Piece{whole("", "")}, "1 to 512"},
		{"the workspace", []job.Piece{whole(".", "")}, "plain path"},
		{"an empty part", []job.Piece{whole("out//x", "")}, "plain path"},
		{"a slash at the end", []job.Piece{whole("out/", "")}, "plain path"},
		{"a backslash", []job.Piece{whole(`out/..\x`, "")}, "backslash"},
		{"a NUL", []job.Piece{whole("out/a\x00", "")}, "NUL"},
		{"invalid UTF-8", []job.Piece{whole("out/\xff", "")}, "plain path"},
		{"a long part", []job.Piece{whole("out/"+strings.Repeat("a", 256), "")}, "longer than 255"},
		{"a long path", []job.Piece{whole("out/"+strings.Repeat("a/", 300)+"a", "")}, "1 to 512"},
		{"what no glob covers", []job.Piece{whole("in/a", "")}, "no glob"},
		{"the same twice", []job.Piece{whole("out/a", "x"), whole("out/a", "x")}, "twice"},
		{"the same, refused and kept", []job.Piece{refused("out/a", job.ReasonLink, 0), whole("out/a", "x")}, "twice"},
		{"a file and its folder", []job.Piece{refused("out", job.ReasonLink, 0), whole("out/a", "x")}, "folder is a file"},
		{"a folder and its file", []job.Piece{whole("out/a", "x"), refused("out", job.ReasonLink, 0)}, "folder of another"},
		{"two at a time", []job.Piece{begun("out/a", "x"), whole("out/b", "x")}, "complete"},
		{"an end halfway", []job.Piece{begun("out/a", "x")}, "not complete"},
		{"an empty piece in the middle", []job.Piece{begun("out/a", "")}, "empty piece"},
		{"too much", []job.Piece{whole("out/a", "0123456789"), whole("out/b", "x")}, "more bytes"},
		{"too much in pieces", []job.Piece{begun("out/a", "0123456789"), whole("out/a", "x")}, "more bytes"},
		{"a reason that is none", []job.Piece{refused("out/a", "mood", 0)}, "refusal"},
		{"a negative size", []job.Piece{refused("out/a", job.ReasonLink, -1)}, "refusal"},
		{"a refusal with more to come", []job.Piece{{Path: "out/a", Refused: job.ReasonLink, More: true}}, "refusal"},
		{"a refusal with content", []job.Piece{{Path: "out/a", Refused: job.ReasonLink, Data: []byte("x")}}, "refusal"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if err := addAll(tt.pieces); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
		})
	}
	many := make([]job.Piece, job.MaxArtifacts+1)
	for i := range many {
		many[i] = whole(fmt.Sprintf("out/%d", i), "")
	}
	if err := addAll(many[:job.MaxArtifacts]); err != nil {
		t.Errorf("got %v for as many as there may be, want none", err)
	}
	if err := addAll(many); err == nil {
		t.Error("got no error for one more than there may be")
	}
}

func addAll(pieces []job.Piece) error {
	c := job.NewCollection([]string{"out/*", "out/**/*"}, 10)
	for _, p := range pieces {
		if err := c.Add(p); err != nil {
			return err
		}
	}
	_, err := c.End()
	return err
}

// FuzzCollection gives a collection any pieces: what it keeps is within its
// bounds, was named by a glob, and can be written below a folder as it stands.
func FuzzCollection(f *testing.F) {
	f.Add("out/*", "out/a", "x", true, "", "out/a", "y", false, "")
	f.Add("**", "../a", "x", false, "", "/a", "y", false, "")
	f.Add("**", "a\nb", "", false, "name", "a\x1b", "y", false, "")
	f.Add("a/**", "a", "x", false, "", "a/b", "y", false, "")
	f.Add("[!a]", "\u202e", "x", false, "", "b", "yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy", false, "")
	f.Fuzz(func(t *testing.T, glob, p1, d1 string, m1 bool, r1, p2, d2 string, m2 bool, r2 string) {
		const room = 32
		c := job.NewCollection([]string{glob}, room)
		for _, p := range []job.Piece{
			{Path: p1, Data: []byte(d1), More: m1, Refused: job.Reason(r1)}, {Path: p2, Data: []byte(d2), More: m2, Refused: job.Reason(r2)},
		} {
			if err := c.Add(p); err != nil {
				wantPrintable(t, err.Error())
				return
			}
		}
		list, err := c.End()
		if err != nil {
			return
		}
		held := 0
		for _, a := range list {
			wantPrintable(t, a.Path)
			held += len(a.Content)
			if a.Reason != "" {
				if a.Content != nil || a.SHA256 != "" {
					t.Fatalf("got content of %q, which was refused", a.Path)
				}
				continue
			}
			if !fs.ValidPath(a.Path) || a.Path == "." || strings.Contains(a.Path, `\`) || len(a.Path) > job.MaxPath || !job.Collects([]string{glob}, a.Path) {
				t.Fatalf("kept %q by %q", a.Path, glob)
			}
			if int(a.Size) != len(a.Content) || len(a.SHA256) != 64 {
				t.Fatalf("got size %d and digest %q of %d bytes", a.Size, a.SHA256, len(a.Content))
			}
		}
		if held > room || len(list) == 2 && list[0].Path == list[1].Path && list[0].Reason != job.ReasonName {
			t.Fatalf("got %d bytes in %v", held, list)
		}
	})
}

func wantPrintable(t *testing.T, text string) {
	t.Helper()
	if shown := job.Printable(text, 1<<20); shown != text {
		t.Fatalf("got %q, want printable text", text)
	}
}
