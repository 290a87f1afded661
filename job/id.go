package job

import (
	"fmt"
	"time"

	"github.com/google/uuid"
)

// ID names a job: a UUIDv7, so that it carries the time it was made and rows
// keyed by it arrive in order.
type ID uuid.UUID

// NewID makes an ID for a job of now.
func NewID() ID {
	// uuid.NewV7 fails only when the system's random source does, which Go
	// since 1.24 treats as fatal.
	return ID(uuid.Must(uuid.NewV7()))
}

// ParseID reads the canonical 36-character form; it refuses every version
// but 7, whose time is what partitions the history.
func ParseID(s string) (ID, error) {
	if len(s) != 36 {
		return ID{}, fmt.Errorf("job id %q is not a UUID of 36 characters", Printable(s, 64))
	}
	u, err := uuid.Parse(s)
	if err != nil {
		return ID{}, fmt.Errorf("job id %q: %w", Printable(s, 64), err)
	}
	if u.Version() != 7 {
		return ID{}, fmt.Errorf("job id %q is a UUIDv%d, want a UUIDv7", s, u.Version())
	}
	return ID(u), nil
}

// String is the canonical form.
func (id ID) String() string { return uuid.UUID(id).String() }

// IsZero reports whether the ID was never set.
func (id ID) IsZero() bool { return id == ID{} }

// Time is the millisecond at which the ID was made, by its maker's clock.
func (id ID) Time() time.Time {
	ms := int64(id[0])<<40 | int64(id[1])<<32 | int64(id[2])<<24 | int64(id[3])<<16 | int64(id[4])<<8 | int64(id[5])
	return time.UnixMilli(ms).UTC()
}

// MarshalText implements encoding.TextMarshaler.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (id *ID) UnmarshalText(text []byte) error {
	parsed, err := ParseID(string(text))
	if err != nil {
		return err
	}
	*id = parsed
	return nil
}
