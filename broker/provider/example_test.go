package provider_test

import (
	"context"
	"log"
	"math"
	"os"
	"os/signal"

	"airlock/broker/provider"

	"github.com/nats-io/nats.go"
)

type legs struct {
	A float64 `json:"a"`
	B float64 `json:"b"`
}

// A whole provider: guests with a grant for geo.hypot call it as
// await hypot(a=3, b=4).
func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	nc, err := nats.Connect(nats.DefaultURL)
	if err != nil {
		log.Fatal(err)
	}
	hypot := func(_ context.Context, in legs) (float64, error) { return math.Hypot(in.A, in.B), nil }
	err = provider.Serve(ctx, nc, provider.Namespace{Name: "geo", Tools: []provider.Tool{
		provider.Func("hypot", "The length of the third side.", hypot),
	}})
	if err != nil {
		log.Fatal(err)
	}
}
