//go:build !linux

package backendtest

// complete says that all stories there are can be told here.
const complete = false

// systemStories and walls need Linux's processes and the host's view of them;
// the backends of other systems bring their own.
func systemStories() []story { return nil }
func walls() []story         { return nil }
func lonely() []story        { return nil }

// checkLeftovers has no view of the host's processes here.
func (s *suite) checkLeftovers(interface{ Helper() }, *stage) {}
