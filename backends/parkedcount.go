package backends

// Standing is how many guests of a backend that Parked made stand ready for
// their jobs just now; of any other it is none.
func Standing(b Backend) int {
	p, ok := b.(*parked)
	if !ok {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	count := 0
	for _, g := range p.guests {
		if !g.leaving && g.standing() {
			count++
		}
	}
	return count
}
