package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"airlock/broker/internal/toolschema"
	"airlock/job"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The bounds of a file.
const (
	// MaxFile is how many bytes it may have.
	MaxFile = 1 << 20
	// MaxRules is how many rules: each call looks through them.
	MaxRules = 1000
)

// Parse reads a policy strictly. It refuses what no operator can have meant: a
// file without rules, a rule that an earlier one hides, a value out of range, a
// field that has no effect. The error names the field, such as rules[2].rate.
func Parse(data []byte) (*Policy, error) {
	if len(data) > MaxFile {
		return nil, fmt.Errorf("the policy is %d bytes, the maximum is %d", len(data), MaxFile)
	}
	if err := job.CheckJSON(data); err != nil {
		return nil, err
	}
	p := &Policy{}
	if err := job.DecodeStrict(data, p); err != nil {
		return nil, err
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	if err := said(data, p.Rules); err != nil {
		return nil, err
	}
	return p, p.seal()
}

func (p *Policy) check() error {
	switch {
	case len(p.Rules) == 0:
		return errors.New("rules: there are none; to have jobs' grants alone decide, run without a policy")
	case len(p.Rules) > MaxRules:
		return fmt.Errorf("rules: there are %d, the maximum is %d", len(p.Rules), MaxRules)
	}
	for i := range p.Rules {
		r := &p.Rules[i]
		if err := r.check(); err != nil {
			return fmt.Errorf("rules[%d].%w", i, err)
		}
		for k := range p.Rules[:i] {
			if p.Rules[k].covers(r.Tenant, r.Namespace, r.Name) {
				return fmt.Errorf("rules[%d]: can never match, since rules[%d] comes before it and covers the same; put it first", i, k)
			}
		}
		if len(r.Arguments) == 0 {
			continue
		}
		var err error
		if r.schema, err = toolschema.Parse(r.Arguments); err == nil {
			err = checkKeywords(r.Arguments)
		}
		if err != nil {
			return fmt.Errorf("rules[%d].arguments: not a schema that can be used: %w", i, err)
		}
	}
	return nil
}

// said refuses members whose value is the same as none: calls 0 is not "never".
func said(data []byte, rules []Rule) error {
	var raw struct {
		Rules []map[string]jsontext.Value `json:"rules"`
	}
	if err := json.Unmarshal(data, &raw); err != nil {
		return err
	}
	for i := range rules {
		kept, err := json.Marshal(&rules[i])
		if err != nil {
			return fmt.Errorf("rules[%d]: %w", i, err)
		}
		var has map[string]jsontext.Value
		if err := json.Unmarshal(kept, &has); err != nil {
			return fmt.Errorf("rules[%d]: %w", i, err)
		}
		for name, value := range raw.Rules[i] {
			if _, ok := has[name]; !ok && value.Kind() != 'f' {
				return fmt.Errorf("rules[%d].%s: %s sets nothing; leave it away, or write \"deny\": true", i, name, job.Printable(string(value), 40))
			}
		}
	}
	return nil
}

// seal fills in what is computed once.
func (p *Policy) seal() error {
	text, err := json.Marshal(p, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("write the policy: %w", err)
	}
	if p.text, err = Canonical(text); err != nil {
		return fmt.Errorf("write the policy: %w", err)
	}
	sum := sha256.Sum256(p.text)
	p.digest = hex.EncodeToString(sum[:])
	p.other = p.otherwise()
	return nil
}

// Digest is the hex SHA-256 of Text. It is empty for no policy, and for one
// that Parse did not make.
func (p *Policy) Digest() string {
	if p == nil {
		return ""
	}
	return p.digest
}

// Text is the policy as JSON without white space, its members sorted: two files
// that say the same have the same text.
func (p *Policy) Text() string { return string(p.text) }

// Canonical is a document without white space and with its members sorted.
// Numbers stay as they are written, for beyond 64 bits two of them may be the
// same float.
func Canonical(doc jsontext.Value) (jsontext.Value, error) {
	canonical := doc.Clone()
	err := canonical.Format(jsontext.ReorderRawObjects(true), jsontext.CanonicalizeRawInts(false),
		jsontext.CanonicalizeRawFloats(false), jsontext.PreserveRawStrings(false))
	return canonical, err
}
