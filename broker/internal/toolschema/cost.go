package toolschema

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"strconv"
	"strings"

	"airlock/job"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Checking arguments walks schema and arguments together. A schema that refers
// to itself in place never comes to an end, which overflows the stack and ends
// the worker; one that refers to itself in two alternatives doubles the work
// with each level of nesting, which the guest chooses. Both are refused when
// the tool is found.
const (
	// maxSchemaCost is how many subschemas one value may be held against,
	// counted along the most expensive path through nested arguments.
	maxSchemaCost = 512
	// maxSchemaSteps bounds the counting itself.
	maxSchemaSteps = 100_000
)

var (
	errSchemaLoops = errors.New("refers to itself without end")
	errSchemaCost  = errors.New("too ambiguous: nested arguments would take too long to check")
)

// checkCost refuses a schema that is too expensive to check against, and the
// keywords whose targets it cannot follow.
func checkCost(raw jsontext.Value) error {
	c := costing{closures: map[string][]place{}, costs: map[costKey]int{}}
	if err := json.Unmarshal(raw, &c.root); err != nil {
		return err
	}
	_, err := c.cost(place{"", c.root}, job.MaxDepth)
	return err
}

// place is a subschema and its JSON pointer.
type place struct {
	path   string
	schema any
}

func (p place) at(key string) (place, bool) {
	object, ok := p.schema.(map[string]any)
	if !ok {
		return place{}, false
	}
	schema, ok := object[key]
	return place{p.path + "/" + escapePointer(key), schema}, ok
}

// each are the subschemas of a list or map under key.
func (p place) each(key string) map[string]place {
	holder, ok := p.at(key)
	if !ok {
		return nil
	}
	found := map[string]place{}
	switch holder := holder.schema.(type) {
	case map[string]any:
		for name, schema := range holder {
			found[name] = place{p.path + "/" + escapePointer(key) + "/" + escapePointer(name), schema}
		}
	case []any:
		for i, schema := range holder {
			found[strconv.Itoa(i)] = place{p.path + "/" + escapePointer(key) + "/" + strconv.Itoa(i), schema}
		}
	}
	return found
}

type costKey struct {
	path  string
	depth int
}

type costing struct {
	root     any
	closures map[string][]place
	costs    map[costKey]int
	steps    int
}

// cost is the number of subschemas met on the worst path of depth levels.
func (c *costing) cost(p place, depth int) (int, error) {
	key := costKey{p.path, depth}
	if cost, ok := c.costs[key]; ok {
		return cost, nil
	}
	here, err := c.closure(p, nil)
	if err != nil {
		return 0, err
	}
	worst := 0
	if depth > 0 {
		for _, below := range descents(here) {
			sum := 0
			for _, child := range below {
				cost, err := c.cost(child, depth-1)
				if err != nil {
					return 0, err
				}
				sum += cost
			}
			worst = max(worst, sum)
		}
	}
	if worst += len(here); worst > maxSchemaCost {
		return 0, errSchemaCost
	}
	c.costs[key] = worst
	return worst, nil
}

// closure is p and everything that is held against the same value as p.
func (c *costing) closure(p place, within []string) ([]place, error) {
	if known, ok := c.closures[p.path]; ok {
		return known, nil
	}
	if c.steps++; c.steps > maxSchemaSteps {
		return nil, errSchemaCost
	}
	for _, outer := range within {
		if outer == p.path {
			return nil, errSchemaLoops
		}
	}
	within = append(within, p.path)
	next, err := c.inPlace(p)
	if err != nil {
		return nil, err
	}
	all := []place{p}
	for _, child := range next {
		more, err := c.closure(child, within)
		if err != nil {
			return nil, err
		}
		if all = append(all, more...); len(all) > maxSchemaCost {
			return nil, errSchemaCost
		}
	}
	c.closures[p.path] = all
	return all, nil
}

// inPlace are the direct subschemas that are held against the same value.
func (c *costing) inPlace(p place) ([]place, error) {
	for _, keyword := range []string{"$dynamicRef", "$recursiveRef", "$anchor", "$dynamicAnchor", "$recursiveAnchor"} {
		if _, ok := p.at(keyword); ok {
			return nil, fmt.Errorf("%s is not supported", keyword)
		}
	}
	if _, ok := p.at("$id"); ok && p.path != "" {
		return nil, errors.New("$id is supported at the top only")
	}
	var found []place
	for _, key := range []string{"not", "if", "then", "else", "propertyNames"} {
		if child, ok := p.at(key); ok {
			found = append(found, child)
		}
	}
	for _, key := range []string{"allOf", "anyOf", "oneOf", "dependentSchemas", "dependencies"} {
		for _, child := range p.each(key) {
			found = append(found, child)
		}
	}
	if ref, ok := p.at("$ref"); ok {
		target, err := c.follow(ref.schema)
		if err != nil {
			return nil, err
		}
		found = append(found, target)
	}
	return found, nil
}

// follow finds the target of a reference within the document.
func (c *costing) follow(ref any) (place, error) {
	text, _ := ref.(string)
	fragment, local := strings.CutPrefix(text, "#")
	pointer, err := url.PathUnescape(fragment)
	if !local || err != nil || (pointer != "" && pointer[0] != '/') {
		return place{}, fmt.Errorf("$ref %q does not point into the document", job.Printable(text, 100))
	}
	found := place{schema: c.root}
	for token := range jsontext.Pointer(pointer).Tokens() {
		found.path += "/" + escapePointer(token)
		var ok bool
		switch holder := found.schema.(type) {
		case map[string]any:
			found.schema, ok = holder[token]
		case []any:
			var i int
			if i, err = strconv.Atoi(token); err == nil && i >= 0 && i < len(holder) {
				found.schema, ok = holder[i], true
			}
		}
		if !ok {
			return place{}, fmt.Errorf("$ref %q leads nowhere", job.Printable(text, 100))
		}
	}
	return found, nil
}

// descents are the sets of subschemas that one part of the value may be held
// against together: an element of an array at each position, a member of an
// object by each name.
func descents(here []place) map[string][]place {
	sets := map[string][]place{"item": nil, "member": nil}
	for _, p := range here {
		for name := range p.each("properties") {
			sets["member "+name] = nil
		}
		for _, key := range []string{"prefixItems", "items"} {
			if list, ok := p.at(key); ok && isList(list.schema) {
				for i := range p.each(key) {
					sets["item "+i] = nil
				}
			}
		}
	}
	for set := range maps.Keys(sets) {
		for _, p := range here {
			sets[set] = append(sets[set], descend(p, set)...)
		}
	}
	return sets
}

func descend(p place, set string) []place {
	kind, name, _ := strings.Cut(set, " ")
	var found []place
	add := func(keys ...string) {
		for _, key := range keys {
			if child, ok := p.at(key); ok && !isList(child.schema) {
				found = append(found, child)
			}
		}
	}
	if kind == "item" {
		for _, key := range []string{"prefixItems", "items"} {
			if list, ok := p.at(key); ok && isList(list.schema) && name != "" {
				if child, ok := p.each(key)[name]; ok {
					found = append(found, child)
				}
			}
		}
		add("items", "additionalItems", "contains", "unevaluatedItems")
		return found
	}
	if child, ok := p.each("properties")[name]; ok && set != "member" {
		found = append(found, child)
	} else {
		add("additionalProperties")
	}
	for _, child := range p.each("patternProperties") {
		found = append(found, child)
	}
	add("unevaluatedProperties")
	return found
}

func isList(schema any) bool {
	_, ok := schema.([]any)
	return ok
}

func escapePointer(token string) string {
	return strings.ReplaceAll(strings.ReplaceAll(token, "~", "~0"), "/", "~1")
}
