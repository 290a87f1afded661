package broker_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"airlock/broker"
	"airlock/broker/brokertest"
	"airlock/broker/policy"
	"airlock/broker/provider"
	"airlock/job"

	"github.com/rs/zerolog"
)

// BenchmarkCall is the round trip from a guest to a provider over NATS and
// back, with an audit that costs nothing.
func BenchmarkCall(b *testing.B) { benchmarkCall(b, broker.Config{}) }

// BenchmarkRuledCall is the same under a rule that looks at everything.
func BenchmarkRuledCall(b *testing.B) {
	p, err := policy.Parse([]byte(`{"rules": [{"tenant": "*", "namespace": "math", "name": "*", "arguments": {"required": ["a"]},
		"timeout": "1m", "rate": {"per_second": 1000000, "burst": 1000000}, "concurrency": 8, "calls": 1000000, "bytes": "1GiB",
		"retries": 2, "breaker": {"failures": 5}, "redact": ["pin"]}]}`))
	if err != nil {
		b.Fatalf("parse the policy: %v", err)
	}
	benchmarkCall(b, broker.Config{Policy: func() *policy.Policy { return p }})
}

func benchmarkCall(b *testing.B, cfg broker.Config) {
	server := brokertest.NATS(b, 0)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 2)
	catalogue := broker.NewCatalogue(brokertest.Connect(b, server), broker.CatalogueConfig{Log: zerolog.Nop(), OnDemand: time.Millisecond})
	providing := brokertest.Connect(b, server)
	go func() { done <- provider.Serve(ctx, providing, provider.Math()) }()
	go func() { done <- catalogue.Run(ctx) }()
	defer func() {
		cancel()
		<-done
		<-done
	}()
	for {
		if _, err := catalogue.Find(ctx, "math", "echo"); err == nil {
			break
		}
	}
	guest, host := brokertest.NewSocketGuest(b)
	a := brokertest.Attempt(b, "math.*", func(j *job.Job) {
		j.Limits.ToolCalls, j.Limits.ToolTime = 100_000, job.Duration(time.Hour)
	})
	cfg.Tools, cfg.Audit = catalogue, brokertest.Nothing{}
	running := brokertest.Serve(b, broker.New(cfg), a, host)
	guest.Hello()
	var took []time.Duration
	b.ResetTimer()
	for i := range min(b.N, 100_000) {
		from := time.Now()
		guest.Call(i, "math.add", `{"a":1,"b":2}`)
		guest.Recv()
		took = append(took, time.Since(from))
	}
	b.StopTimer()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "µs-p50")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "µs-p99")
	guest.Finish(1<<30, "1")
	running.Wait()
}

// BenchmarkFrame is a frame's way into bytes and back.
func BenchmarkFrame(b *testing.B) {
	for _, size := range []int{100, 64 << 10, 1 << 20} {
		body := bytes.Repeat([]byte{'x'}, size)
		framed, err := broker.AppendFrame(nil, body)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprint("append/", size), func(b *testing.B) {
			b.SetBytes(int64(size))
			b.ReportAllocs()
			var buf []byte
			for b.Loop() {
				if buf, err = broker.AppendFrame(buf[:0], body); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprint("read/", size), func(b *testing.B) {
			b.SetBytes(int64(size))
			b.ReportAllocs()
			from := bytes.NewReader(nil)
			for b.Loop() {
				from.Reset(framed)
				if _, err := broker.ReadFrame(from); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDecodeMessage(b *testing.B) {
	for _, size := range []int{10, 1 << 10, 1 << 20} {
		frame := fmt.Appendf(nil, `{"id":1,"method":"call_tool","params":{"namespace":"math","name":"echo","arguments":{"text":%q}}}`, strings.Repeat("x", size))
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			b.SetBytes(int64(len(frame)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := broker.DecodeMessage(frame); err != nil {
					b.Fatalf("decode: %v", err)
				}
			}
		})
	}
}
