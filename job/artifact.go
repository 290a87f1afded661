package job

// Artifact is a file brought back, or one that was not, with the reason.
type Artifact struct {
	// Path is relative to /workspace, with forward slashes, printable, and
	// never climbs. With ReasonName it only shows a name that is none of
	// these.
	Path string `json:"path"`
	// Size is the file's. What was not kept has the guest's word for it.
	Size Size `json:"size"`
	// SHA256 is the content's digest in hex, absent for what was not kept.
	SHA256 string `json:"sha256,omitzero"`
	// Reason says why the content was not kept; absent when it was.
	Reason Reason `json:"reason,omitzero"`
	// Content is there from the guest to the store only: announced and
	// stored results have none, and it is asked for by path. It is the
	// guest's: nothing of Airlock's runs, loads or renders it.
	Content []byte `json:"-"`
}

// The bounds of what one job brings back. The bytes are what an operator who
// sets none accepts; see broker.Config.
const (
	MaxArtifacts     = 256
	MaxArtifactBytes = 16 * MiB
)

// Reason is why a file was not brought back: one of a closed set.
type Reason string

// The reasons.
const (
	// ReasonLink: it, or a folder on the way to it, is a symbolic link.
	ReasonLink Reason = "link"
	// ReasonHardLink: it has several names, so it may be another's.
	ReasonHardLink Reason = "hard_link"
	// ReasonNotRegular: a pipe, a socket or a device.
	ReasonNotRegular Reason = "not_regular"
	// ReasonTooLarge: it does not fit what is left of the bytes that a job
	// may bring back.
	ReasonTooLarge Reason = "too_large"
	// ReasonUnreadable: it cannot be opened or read.
	ReasonUnreadable Reason = "unreadable"
	// ReasonChanged: it changed while it was read.
	ReasonChanged Reason = "changed"
	// ReasonName: its name is too long, not UTF-8, or holds what cannot be
	// printed or a backslash.
	ReasonName Reason = "name"
)

// Reasons lists them in the order they are documented.
func Reasons() []Reason {
	return []Reason{
		ReasonLink, ReasonHardLink, ReasonNotRegular, ReasonTooLarge, ReasonUnreadable, ReasonChanged, ReasonName,
	}
}
