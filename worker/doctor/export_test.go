package doctor

// Flaws are all tables, by program.
func Flaws() map[string][]flaw {
	return map[string][]flaw{
		"runc": runcFlaws, "containerd": containerdFlaws, "engine": engineFlaws, "bubblewrap": bubblewrapFlaws,
		"kernel": kernelFlaws, "nats": natsFlaws,
	}
}

// Sound reports whether the row can be read: a severity, an id, and versions
// of which the last is the newest.
func (f flaw) Sound() bool {
	last := version{}
	for _, text := range f.fixes {
		v, ok := parseVersion(text)
		if !ok || !last.before(v) {
			return false
		}
		last = v
	}
	_, from := parseVersion(f.from)
	return f.id != "" && f.what != "" && f.severity != "" && len(f.fixes) > 0 && (from || f.from == "")
}

// Has reports whether a program of that version has any flaw in its table.
func Has(program, text string) (ids []string) {
	v, ok := parseVersion(text)
	if !ok {
		return []string{"not a version"}
	}
	for _, f := range Flaws()[program] {
		if f.in(v) {
			ids = append(ids, f.id)
		}
	}
	return ids
}
