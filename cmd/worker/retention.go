package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"airlock/store"
)

// maxRetainDays is what fits a duration.
const maxRetainDays = 36500

// retention is how long history is kept; zero is for ever.
type retention time.Duration

// UnmarshalText reads days, such as 90d, or what Go calls a duration.
func (r *retention) UnmarshalText(text []byte) error {
	keep, err := parseDays(string(text))
	if err != nil {
		return err
	}
	if keep < store.MinRetain {
		return fmt.Errorf("%s is too short to keep history, give 1d or more, or leave it away to keep all", text)
	}
	*r = retention(keep)
	return nil
}

func parseDays(text string) (time.Duration, error) {
	number, isDays := strings.CutSuffix(text, "d")
	if !isDays {
		keep, err := time.ParseDuration(text)
		if err != nil {
			return 0, fmt.Errorf("%q is neither days, such as 90d, nor a duration, such as 2160h", text)
		}
		return keep, nil
	}
	days, err := strconv.Atoi(number)
	if err != nil || days < 0 || days > maxRetainDays {
		return 0, fmt.Errorf("%q is no number of days from 1d to %dd", text, maxRetainDays)
	}
	return time.Duration(days) * 24 * time.Hour, nil
}
