package doctor

import (
	"fmt"
	"strconv"
	"strings"
)

// flaw is a version range of a component with a known hole.
type flaw struct {
	id       string
	severity Severity
	what     string
	// from is the first version that has it; "" means all before the fix.
	from string
	// fixes are the first good versions: of each line of releases that got
	// one, and last of the newest.
	fixes []string
}

// The tables. The sources are beside each row; the versions of the CVE records
// are those of github.com/CVEProject/cvelistV5.
var (
	runcFlaws = []flaw{
		// openwall.com/lists/oss-security/2019/02/11/2.
		{"CVE-2019-5736", Critical, "a container can overwrite the runc of the host", "", []string{"1.0.0-rc.7"}},
		// GHSA-xr7r-f8xq-vfvv.
		{"CVE-2024-21626", Critical, "a descriptor of the host's file system leaks into containers", "", []string{"1.1.12"}},
		// GHSA-9493-h29p-rfm2, GHSA-qw9x-cqr3-wc7r, GHSA-cgrx-mc8f-2prm.
		{"CVE-2025-31133, CVE-2025-52565, CVE-2025-52881", Critical, "a container can redirect what runc mounts and writes", "",
			[]string{"1.2.8", "1.3.3", "1.4.0-rc.3"}},
		// GHSA-xjvp-4fhw-gc47; release notes of 1.3.6, 1.4.3 and 1.5.0-rc.3.
		{"CVE-2026-41579", Info, "an image with a linked /dev can write a little on the host", "", []string{"1.3.6", "1.4.3", "1.5.0-rc.3"}},
	}
	containerdFlaws = []flaw{
		// GHSA-265r-hfxg-fhmg.
		{"CVE-2024-40635", Warning, "a user id that is too large becomes root", "", []string{"1.6.38", "1.7.27", "2.0.4"}},
		// GHSA-pwhc-rpq9-4c8w.
		{"CVE-2024-25621", Warning, "users of the host can enter its directories", "", []string{"1.7.29", "2.0.7", "2.1.5", "2.2.0"}},
	}
	engineFlaws = []flaw{
		// GHSA-v23v-6jw2-98fq.
		{"CVE-2024-41110", Warning, "authorisation plugins can be passed by a request without a body", "", []string{"23.0.15", "25.0.6", "26.1.5", "27.1.1"}},
		// GHSA-x744-4wpc-v9h2.
		{"CVE-2026-34040", Warning, "authorisation plugins can be passed by a request that is too large", "", []string{"29.3.1"}},
	}
	bubblewrapFlaws = []flaw{
		// The release notes of bubblewrap 0.1.3.
		{"CVE-2016-8659", Critical, "a setuid bwrap lets its user become root", "", []string{"0.1.3"}},
		// GHSA-j2qp-rvxj-43vj.
		{"CVE-2020-5291", Critical, "a setuid bwrap lets its user become root", "0.4.0", []string{"0.4.1"}},
	}
	kernelFlaws = []flaw{
		// dirtypipe.cm4all.com; the CVE record.
		{"CVE-2022-0847", Critical, "any process can overwrite files that it may only read (Dirty Pipe)", "5.8", []string{"5.10.102", "5.15.25", "5.16.11", "5.17"}},
		// The CVE record. The guests' filter refuses AF_ALG, so that this is
		// a way for others on the host.
		{"CVE-2026-31431", Warning, "any process that may use AF_ALG can change cached files (Copy Fail)", "4.14",
			[]string{"5.10.254", "5.15.204", "6.1.170", "6.6.137", "6.12.85", "6.18.22", "6.19.12", "7.0"}},
	}
	natsFlaws = []flaw{
		// advisories.nats.io: the releases that close CVE-2026-58251 and
		// those before it.
		{"CVE-2026-58251", Warning, "permissions and accounts can be passed", "", []string{"2.12.12", "2.14.3"}},
	}
)

// patched are the marks of a version that a distribution made, which may have
// the fix of a later one.
var patched = []string{"ds", "dfsg", "deb", "ubuntu", ".el", ".fc", ".amzn", "-generic", "-cloud", "-azure", "-aws", "-gcp", "suse", "alpine"}

// flawsOf are the findings for a version; the remedy names the program.
func flawsOf(program, text string, table []flaw) []Finding {
	v, ok := parseVersion(text)
	if !ok {
		return unchecked(fmt.Sprintf("%s has the version %q, which is not understood", program, show(text)))
	}
	var all []Finding
	for _, f := range table {
		if !f.in(v) {
			continue
		}
		severity, note := f.severity, ""
		if severity == Critical && distributed(text) {
			severity, note = Warning, "; this version is a distribution's, which may have the fix all the same"
		}
		all = append(all, Finding{
			Severity: severity,
			Seen:     fmt.Sprintf("%s %s has %s: %s%s", program, show(text), f.id, f.what, note),
			Remedy:   fmt.Sprintf("update %s to %s or later, or look into your distribution's security tracker", program, strings.Join(f.fixes, ", ")),
		})
	}
	return all
}

func distributed(text string) bool {
	for _, mark := range patched {
		if strings.Contains(strings.ToLower(text), mark) {
			return true
		}
	}
	return false
}

// in reports whether the version has the flaw. A line of releases that got no
// fix has it as long as it is older than the newest fix.
func (f flaw) in(v version) bool {
	if from, ok := parseVersion(f.from); ok && v.before(from) {
		return false
	}
	var fixed version
	for _, text := range f.fixes {
		fix, ok := parseVersion(text)
		if !ok {
			return false // a test reads all rows
		}
		if fix.numbers[0] == v.numbers[0] && fix.numbers[1] == v.numbers[1] {
			return v.before(fix)
		}
		fixed = fix
	}
	return v.before(fixed)
}

// version is major, minor and patch, with the number of the candidate for
// release.
type version struct {
	numbers   [3]int
	candidate int // released is the largest
}

const released = 1 << 20

// parseVersion reads the numbers at the beginning of a text, which may have a
// v before them and anything behind.
func parseVersion(text string) (version, bool) {
	v := version{candidate: released}
	rest := strings.TrimPrefix(text, "v")
	for i := range v.numbers {
		digits := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
		n, err := strconv.Atoi(digits)
		if err != nil {
			return v, i > 1
		}
		v.numbers[i], rest = n, rest[len(digits):]
		after, dot := strings.CutPrefix(rest, ".")
		if !dot {
			if i == 0 {
				return v, false
			}
			break
		}
		rest = after
	}
	if _, rc, ok := strings.Cut(rest, "rc"); ok && strings.HasPrefix(strings.TrimLeft(rest, "-~+"), "rc") {
		rc = strings.TrimPrefix(rc, ".")
		v.candidate, _ = strconv.Atoi(rc[:len(rc)-len(strings.TrimLeft(rc, "0123456789"))])
	}
	return v, true
}

func (v version) before(other version) bool {
	for i, n := range v.numbers {
		if n != other.numbers[i] {
			return n < other.numbers[i]
		}
	}
	return v.candidate < other.candidate
}
