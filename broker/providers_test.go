package broker_test

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"airlock/broker"
	"airlock/broker/provider"
	"airlock/job"

	"github.com/google/go-cmp/cmp"
)

// contract is a part of PROVIDERS.md, from its heading to the next.
func contract(t *testing.T, heading string) string {
	t.Helper()
	page, err := os.ReadFile("PROVIDERS.md")
	if err != nil {
		t.Fatalf("read the contract: %v", err)
	}
	_, part, found := strings.Cut(string(page), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("PROVIDERS.md has no part %q", heading)
	}
	part, _, _ = strings.Cut(part, "\n## ")
	return part
}

// firsts are the words in the first column of a part's tables.
func firsts(part string) []string {
	var found []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)`").FindAllStringSubmatch(part, -1) {
		found = append(found, row[1])
	}
	return found
}

// The tables of PROVIDERS.md hold what the code says.
func TestTablesOfTheProvidersContract(t *testing.T) {
	t.Parallel()
	for heading, want := range map[string][]string{
		"Subjects": {
			provider.Subject("<namespace>", "<tool>"), provider.CancelSubject("<namespace>"), "$SRV.INFO",
			job.ToolInbox("_INBOX.worker") + ".>",
		},
		"Metadata of an endpoint": {
			provider.MetadataDescription, provider.MetadataInputSchema, provider.MetadataOutputSchema,
			provider.MetadataIdempotent, provider.MetadataReadOnly, provider.MetadataMaxRate, provider.MetadataMaxParallel,
		},
		"A call": {
			provider.HeaderTenant, provider.HeaderJob, provider.HeaderCall, provider.HeaderDeadline,
			provider.HeaderIdempotencyKey, provider.HeaderTraceParent,
		},
		"An answer": {
			provider.HeaderErrorCode, provider.HeaderError, provider.HeaderMessage, provider.HeaderRetryable, provider.HeaderProvider,
			provider.CodeTooLarge, provider.CodeDeadline, provider.CodeBadArguments, provider.CodeInternal,
			provider.CodeCancelled, provider.CodeUnavailable,
		},
	} {
		if diff := cmp.Diff(want, firsts(contract(t, heading))); diff != "" {
			t.Errorf("%s (-code +PROVIDERS.md):\n%s", heading, diff)
		}
	}
	for heading, bounds := range map[string][]int{
		"Metadata of an endpoint": {provider.MaxDescription, provider.MaxSchema},
		"Sizes and times":         {provider.MaxAnswer, broker.HeaderRoom},
	} {
		for _, bound := range bounds {
			if text := thousands(bound); !strings.Contains(contract(t, heading), text+" bytes") {
				t.Errorf("%s: got no %s bytes, want the bound of the code", heading, text)
			}
		}
	}
	if provider.MaxAnswer != broker.MaxAnswer {
		t.Errorf("got %d as the largest answer of a provider, want what a worker takes, %d", provider.MaxAnswer, broker.MaxAnswer)
	}
}

func thousands(n int) string {
	text := strconv.Itoa(n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// A guest can tell its worker's word from a provider's: what a worker says, no
// provider may, but for the two that both mean alike.
func TestReservedCodes(t *testing.T) {
	t.Parallel()
	_, listed, _ := strings.Cut(contract(t, "An answer"), "Reserved to workers")
	for _, code := range broker.Codes() {
		shared := slices.Contains([]string{provider.CodeTooLarge, provider.CodeBadArguments}, string(code))
		if provider.Reserved(string(code)) == shared {
			t.Errorf("%s: got reserved %v, want %v", code, !shared, shared)
		}
		if strings.Contains(listed, "`"+string(code)+"`") == shared {
			t.Errorf("%s: PROVIDERS.md says otherwise", code)
		}
	}
}
