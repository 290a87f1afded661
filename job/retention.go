package job

// Retired is what retention took of the history, and what it had to leave.
type Retired struct {
	// Months are those that are older than what is kept, oldest first.
	Months []RetiredMonth
	// Strays counts the jobs that were removed one by one, because they lay
	// outside of all months.
	Strays int
}

// Gone counts the jobs that were removed.
func (r Retired) Gone() int {
	gone := r.Strays
	for _, m := range r.Months {
		if m.Kept == "" {
			gone += int(m.Jobs)
		}
	}
	return gone
}

// RetiredMonth is a month that was dropped, or the reason why it was not.
type RetiredMonth struct {
	// Name is such as 2026-11.
	Name string
	// Kept is empty when the month was dropped; else one of the reasons.
	Kept string
	// Jobs is how many jobs it held, and Dead how many of them were dead
	// letters.
	Jobs, Dead int64
	Bytes      Size
}

// Reasons of a RetiredMonth that was kept.
const (
	// KeptOpen: a job of it has not ended.
	KeptOpen = "open"
	// KeptRecent: a job of it ended within the time that is kept.
	KeptRecent = "recent"
	// KeptBusy: its tables could not be had without letting claims wait. It
	// is tried again.
	KeptBusy = "busy"
)
