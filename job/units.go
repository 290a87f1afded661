package job

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Duration is a span of time that is a number of seconds in JSON and accepts
// "1.5s", "250ms" or "2m" as well.
type Duration time.Duration

// Std is the same span as the standard library's type.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// String prints as time.Duration does.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalJSON writes seconds.
func (d Duration) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, time.Duration(d).Seconds(), 'f', -1, 64), nil
}

// UnmarshalJSON reads seconds or a duration string.
func (d *Duration) UnmarshalJSON(raw []byte) error {
	text, quoted := unquote(raw)
	if quoted {
		return d.UnmarshalText([]byte(text))
	}
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || math.Abs(seconds) > math.MaxInt64/float64(time.Second)/2 {
		return fmt.Errorf("%s is not a number of seconds within range", Printable(text, 40))
	}
	return d.set(seconds)
}

// set rounds to nanoseconds, but never to zero, which would mean the default.
func (d *Duration) set(seconds float64) error {
	rounded := Duration(math.Round(seconds * float64(time.Second)))
	if rounded == 0 && seconds != 0 {
		return errors.New("is less than a nanosecond")
	}
	*d = rounded
	return nil
}

// UnmarshalText reads a duration string, or seconds without a unit.
func (d *Duration) UnmarshalText(text []byte) error {
	s := string(text)
	if seconds, err := strconv.ParseFloat(s, 64); err == nil && math.Abs(seconds) < 1e9 {
		return d.set(seconds)
	}
	parsed, err := time.ParseDuration(s)
	if err != nil {
		return fmt.Errorf("%q is not a duration such as 5s, 250ms or 2m", Printable(s, 40))
	}
	if parsed == 0 && strings.ContainsAny(s, "123456789") {
		return errors.New("is less than a nanosecond")
	}
	*d = Duration(parsed)
	return nil
}

// Size is a number of bytes; JSON accepts "64KiB", "256MiB" and "1GiB" too.
type Size int64

// The binary multiples a Size is written in.
const (
	KiB Size = 1 << 10
	MiB Size = 1 << 20
	GiB Size = 1 << 30
)

var sizeUnits = []struct {
	suffix string
	size   Size
}{
	{"GiB", GiB}, {"MiB", MiB}, {"KiB", KiB},
	{"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}, {"kB", 1e3},
	{"G", GiB}, {"M", MiB}, {"K", KiB}, {"B", 1},
}

// String uses the largest binary unit that divides the size.
func (s Size) String() string {
	for _, u := range sizeUnits[:3] {
		if s != 0 && s%u.size == 0 {
			return strconv.FormatInt(int64(s/u.size), 10) + u.suffix
		}
	}
	return strconv.FormatInt(int64(s), 10) + "B"
}

// UnmarshalJSON reads bytes or a size string.
func (s *Size) UnmarshalJSON(raw []byte) error {
	text, _ := unquote(raw)
	return s.UnmarshalText([]byte(text))
}

// UnmarshalText reads a size string, or bytes without a unit.
func (s *Size) UnmarshalText(text []byte) error {
	number, unit := strings.TrimSpace(string(text)), Size(1)
	for _, u := range sizeUnits {
		if rest, ok := strings.CutSuffix(number, u.suffix); ok {
			number, unit = strings.TrimSpace(rest), u.size
			break
		}
	}
	value, err := strconv.ParseFloat(number, 64)
	if err != nil || math.IsNaN(value) || math.Abs(value*float64(unit)) > math.MaxInt64/2 {
		return fmt.Errorf("%q is not a size such as 65536, 64KiB or 1GiB", Printable(string(text), 40))
	}
	if value != math.Trunc(value) && unit == 1 {
		return errors.New("a size is a whole number of bytes")
	}
	if value != 0 && math.Abs(value*float64(unit)) < 1 {
		return errors.New("is less than a byte")
	}
	*s = Size(value * float64(unit))
	return nil
}

// unquote strips the quotes of a JSON string without escapes, which is all
// that a unit can be.
func unquote(raw []byte) (text string, quoted bool) {
	if len(raw) >= 2 && raw[0] == '"' {
		return string(raw[1 : len(raw)-1]), true
	}
	return string(raw), false
}
