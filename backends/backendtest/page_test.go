package backendtest_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"airlock/backends/backendtest"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
)

// TestEveryRowIsAccountedFor: a row that nothing acts out, no test proves and
// no reason excuses is a promise without a proof.
func TestEveryRowIsAccountedFor(t *testing.T) {
	t.Parallel()
	acted := map[string]bool{}
	for _, a := range backendtest.Acted() {
		acted[a.Row] = true
	}
	rows := backendtest.Rows()
	for id := range acted {
		if _, ok := rows[id]; !ok {
			t.Errorf("a story names row %s, which there is not", id)
		}
	}
	for id, row := range rows {
		switch {
		case row.Moot != "" && (acted[id] || len(row.Tests) > 0):
			t.Errorf("%s: moot, and yet proved", id)
		case row.Moot == "" && !acted[id] && len(row.Tests) == 0:
			t.Errorf("%s: no story acts it out, no test proves it", id)
		case !regexp.MustCompile(`^[A-Z]{2}[0-9]{1,2}$`).MatchString(id):
			t.Errorf("%q is no row's ID", id)
		}
	}
}

// TestTestsOfRowsExist finds each test that a row names.
func TestTestsOfRowsExist(t *testing.T) {
	t.Parallel()
	for id, row := range backendtest.Rows() {
		for _, test := range row.Tests {
			at := strings.LastIndex(test, ".")
			if !defines(t, test[:at], test[at+1:]) {
				t.Errorf("%s: there is no test %s", id, test)
			}
		}
	}
}

func defines(t *testing.T, pkg, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", filepath.FromSlash(pkg), "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(file string) bool {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(text), "\nfunc "+name+"(")
	})
}

// TestPage: the page is what the rows and the checked-in reports give, and the
// reports tell of every story there is.
func TestPage(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/reports/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no reports (%v): run make containment", err)
	}
	var reports []backendtest.Report
	for _, file := range files {
		doc, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var r backendtest.Report
		if err := json.Unmarshal(doc, &r); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		reports = append(reports, r)
		checkReport(t, file, r)
	}
	page, err := os.ReadFile("../CONTAINMENT.md")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(backendtest.Render(reports), string(page)); diff != "" {
		t.Errorf("CONTAINMENT.md is not what its rows and reports give: run make containment (-want +got):\n%s", diff)
	}
}

func checkReport(t *testing.T, file string, r backendtest.Report) {
	t.Helper()
	var told []backendtest.Told
	for _, x := range r.Told {
		told = append(told, backendtest.Told{Row: x.Row, By: x.By})
		open := backendtest.Rows()[x.Row].Open[r.Backend]
		if x.Verdict == backendtest.Failed && open == "" {
			t.Errorf("%s: %s failed in %q, and no row says that it is open", file, x.Row, x.By)
		}
	}
	if diff := cmp.Diff(backendtest.Acted(), told); diff != "" {
		t.Errorf("%s does not tell of the stories there are: run make containment (-code +report):\n%s", file, diff)
	}
}
