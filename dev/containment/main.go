// Command containment makes backends/CONTAINMENT.md of the reports that runs
// of the backends' suites wrote, and says how many rows each backend held. See
// make containment.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json"

	"airlock/backends/backendtest"
)

func main() {
	from := flag.String("from", "", "directory of the reports of a run, as AIRLOCK_CONTAINMENT named it")
	write := flag.Bool("write", false, "put them beside those of other hosts, and make the page anew")
	kept := flag.String("kept", "backends/backendtest/testdata/reports", "directory of the reports that the page is made of")
	page := flag.String("page", "backends/CONTAINMENT.md", "the page")
	flag.Parse()
	if err := run(*from, *kept, *page, *write, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "containment:", err)
		os.Exit(1)
	}
}

func run(from, kept, page string, write bool, out io.Writer) error {
	reports, err := read(from)
	if err != nil {
		return err
	}
	if len(reports) == 0 {
		return fmt.Errorf("no reports in %q: run the suites with %s", from, backendtest.ReportVariable)
	}
	for _, r := range reports {
		held, tried := r.Tally()
		fmt.Fprintf(out, "%-50s %s\n", r.Column(), tally(r, held, tried))
	}
	if !write {
		return nil
	}
	for _, r := range reports {
		if err := copyReport(from, kept, r); err != nil {
			return err
		}
	}
	if reports, err = read(kept); err != nil {
		return err
	}
	return os.WriteFile(page, []byte(backendtest.Render(reports)), 0o644)
}

func tally(r backendtest.Report, held, tried int) string {
	if r.Control {
		return "no wall: the negative control"
	}
	return fmt.Sprintf("%d rows held of %d tried", held, tried)
}

func read(dir string) ([]backendtest.Report, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	var reports []backendtest.Report
	for _, file := range files {
		doc, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var r backendtest.Report
		if err := json.Unmarshal(doc, &r); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		reports = append(reports, r)
	}
	return reports, nil
}

// copyReport keeps one report for each backend and kernel.
func copyReport(from, kept string, r backendtest.Report) error {
	doc, err := os.ReadFile(filepath.Join(from, r.Backend+".json"))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(kept, 0o755); err != nil {
		return err
	}
	name := strings.NewReplacer(" ", "-", "+", "-", ",", "").Replace(r.Backend + "-" + r.Kernel + "-" + r.Cgroup)
	return os.WriteFile(filepath.Join(kept, name+".json"), doc, 0o644)
}
