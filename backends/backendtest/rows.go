package backendtest

import (
	"slices"
	"strings"
)

// Row is one kind of misbehaviour that has to be contained. What proves a row
// is either acted out by a guest, in the stories and attacks that name it, or
// a test of the host, or nothing: then Moot says why there is nothing to
// prove.
type Row struct {
	// ID is a group's two letters and a number. It is never used again for
	// something else.
	ID string
	// Guest says what the guest does, or what the situation is.
	Guest string
	// Tests prove the row on the host, whatever the backend; each is a
	// package below the module and the name of a test in it, such as
	// broker.TestBK28Ceiling.
	Tests []string
	// Moot says why no backend there is can be attacked so.
	Moot string
	// MootOn says the same of single backends.
	MootOn map[string]string
	// Open says what is not contained, of single backends; the rest of the
	// row holds, or the whole is not tried where nothing names it.
	Open map[string]string
}

// Group is a subject that rows share.
type Group struct {
	ID, Title string
	Rows      []Row
}

// Groups are all rows, by subject.
func Groups() []Group {
	return slices.Concat(fileRows(), processRows(), resourceRows(), systemRows(), brokerRows(), hostRows())
}

// Rows are all rows, by their ID.
func Rows() map[string]Row {
	rows := map[string]Row{}
	for _, g := range Groups() {
		for _, r := range g.Rows {
			rows[r.ID] = r
		}
	}
	return rows
}

// tested is a row that tests of the host prove.
func tested(id, guest string, tests ...string) Row {
	return Row{ID: id, Guest: guest, Tests: tests}
}

// acted is a row that guests act out.
func acted(id, guest string) Row { return Row{ID: id, Guest: guest} }

// moot is a row of which there is nothing to prove.
func moot(id, guest, why string) Row { return Row{ID: id, Guest: guest, Moot: why} }

// on adds why a row is moot on a backend.
func (r Row) on(backend, why string) Row {
	r.MootOn = with(r.MootOn, backend, why)
	return r
}

// open adds what is not contained by a backend.
func (r Row) open(backend, what string) Row {
	r.Open = with(r.Open, backend, what)
	return r
}

// also adds tests of the host to a row that guests act out.
func (r Row) also(tests ...string) Row {
	r.Tests = append(slices.Clone(r.Tests), tests...)
	return r
}

func with(m map[string]string, key, value string) map[string]string {
	out := map[string]string{key: value}
	for k, v := range m {
		out[k] = v
	}
	return out
}

// rowsOf splits what a story or an attack names.
func rowsOf(list string) []string { return strings.Fields(list) }
