package providertest_test

import (
	"context"
	"testing"

	"airlock/broker/provider"
	"airlock/broker/provider/providertest"
)

type trip struct {
	From string `json:"from"`
	To   string `json:"to"`
}

func distance(_ context.Context, in trip) (float64, error) {
	if in.From == in.To {
		return 0, provider.Errorf("no_trip", "%s is where you are", in.To)
	}
	return 95.5, nil
}

// A tool of one's own, tested as guests will meet it.
func TestATool(t *testing.T) {
	t.Parallel()
	p := providertest.New(t, provider.Namespace{Name: "geo", Tools: []provider.Tool{
		provider.Func("distance", "Kilometres between two cities.", distance),
	}})
	if got := providertest.Call[float64](p, "distance", trip{"Bern", "Basel"}); got != 95.5 {
		t.Errorf("got %g km, want 95.5", got)
	}
	p.WantCode("no_trip", "distance", trip{"Bern", "Bern"})
	p.WantCode(provider.CodeBadArguments, "distance", `{"from":"Bern"}`)
}
