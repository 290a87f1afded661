package broker_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"airlock/broker"
	"airlock/job"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

func protocol(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("PROTOCOL.md")
	if err != nil {
		t.Fatalf("read the contract: %v", err)
	}
	return string(page)
}

// Every example of the contract is one or more documents; the guest's ones
// must decode, and the worker's must be strict JSON.
func TestExamplesOfTheContract(t *testing.T) {
	t.Parallel()
	decoded := map[broker.Method]int{}
	worker := 0
	for _, block := range regexp.MustCompile("(?s)```json\n(.*?)```").FindAllStringSubmatch(protocol(t), -1) {
		dec := jsontext.NewDecoder(strings.NewReader(block[1]))
		for dec.PeekKind() == '{' {
			doc, err := dec.ReadValue()
			if err != nil {
				t.Fatalf("example %s: %v", block[1], err)
			}
			if err := job.CheckJSON(doc); err != nil {
				t.Errorf("example %s: %v", doc, err)
			}
			if strings.Contains(string(doc), `"method": "job"`) || strings.Contains(string(doc), `"ok"`) {
				worker++
				continue
			}
			msg, err := broker.DecodeMessage(doc)
			if err != nil {
				t.Errorf("example %s: %v", doc, err)
				continue
			}
			decoded[msg.Method]++
		}
		if rest := strings.TrimSpace(block[1][dec.InputOffset():]); rest != "" {
			t.Errorf("example ends with %q, which is no document", rest)
		}
	}
	want := map[broker.Method]int{broker.MethodHello: 1, broker.MethodListTools: 1, broker.MethodCallTool: 1, broker.MethodArtifact: 3, broker.MethodResult: 3}
	if diff := cmp.Diff(want, decoded); diff != "" || worker != 4 {
		t.Errorf("examples by method (-want +got), and %d of the worker's, want 4:\n%s", worker, diff)
	}
}

func TestReasonsOfTheContract(t *testing.T) {
	t.Parallel()
	_, table, _ := strings.Cut(protocol(t), "| `refused` | when |")
	table, _, _ = strings.Cut(table, "\n\n")
	var documented []job.Reason
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|").FindAllStringSubmatch(table, -1) {
		documented = append(documented, job.Reason(row[1]))
	}
	if diff := cmp.Diff(job.Reasons(), documented); diff != "" {
		t.Errorf("reasons (-code +PROTOCOL.md):\n%s", diff)
	}
}

func TestCodesOfTheContract(t *testing.T) {
	t.Parallel()
	_, table, _ := strings.Cut(protocol(t), "## Error codes")
	table, _, _ = strings.Cut(table, "\n## ")
	var documented []broker.Code
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|").FindAllStringSubmatch(table, -1) {
		documented = append(documented, broker.Code(row[1]))
	}
	if diff := cmp.Diff(broker.Codes(), documented); diff != "" {
		t.Errorf("codes (-code +PROTOCOL.md):\n%s", diff)
	}
}
