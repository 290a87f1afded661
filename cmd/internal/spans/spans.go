// Package spans is how commands send spans to an OpenTelemetry collector.
package spans

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"

	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"airlock/cmd/internal/secret"
)

// Flags say where spans go. The variables that OpenTelemetry defines are
// read too, among them OTEL_EXPORTER_OTLP_HEADERS, OTEL_SERVICE_NAME and
// OTEL_TRACES_SAMPLER.
type Flags struct {
	Otel string `help:"URL of an OpenTelemetry collector that takes OTLP by HTTP, such as http://host:4318, or file: and the path of a file that holds it: gets a span for each HTTP request, attempt and tool call. Without it and OTEL_EXPORTER_OTLP_ENDPOINT there are none." placeholder:"URL"`
}

// Validate reads the file that the flag may name, and checks it.
func (f *Flags) Validate() (err error) {
	if f.Otel, err = secret.Read(f.Otel); err != nil {
		return fmt.Errorf("--otel: %w", err)
	}
	if f.Otel == "" {
		return nil
	}
	u, err := url.Parse(f.Otel)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return errors.New("--otel: want http:// or https:// and a host, such as http://host:4318")
	}
	return nil
}

// enabled reports whether spans are wanted, by the flag or by OpenTelemetry's
// own variables.
func (f *Flags) enabled() bool {
	if os.Getenv("OTEL_SDK_DISABLED") == "true" || os.Getenv("OTEL_TRACES_EXPORTER") == "none" {
		return false
	}
	return f.Otel != "" || os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
}

// Sender sends spans to a collector in the background. What the collector does
// not take in time is lost: no job waits for it.
type Sender struct{ provider *sdktrace.TracerProvider }

// Service says whose spans they are.
type Service struct{ Name, Version, Instance string }

// Open returns nil where none are wanted. All methods take a nil Sender.
func Open(ctx context.Context, f *Flags, s Service, log zerolog.Logger) (*Sender, error) {
	if !f.enabled() {
		return nil, nil
	}
	exporter, err := otlptracehttp.New(ctx, f.options()...)
	if err != nil {
		return nil, fmt.Errorf("send spans (is --otel right?): %w", err)
	}
	about, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", s.Name), attribute.String("service.version", s.Version)),
		resource.WithTelemetrySDK(), resource.WithFromEnv(),
		resource.WithAttributes(attribute.String("service.instance.id", s.Instance)))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("send spans (is OTEL_RESOURCE_ATTRIBUTES right?): %w", err), exporter.Shutdown(ctx))
	}
	return &Sender{sdktrace.NewTracerProvider(sdktrace.WithResource(about), sdktrace.WithBatcher(&toldSpans{exporter, log}))}, nil
}

// options are those of the flag, which wins over the variables.
func (f *Flags) options() []otlptracehttp.Option {
	if f.Otel == "" {
		return nil
	}
	u, err := url.Parse(f.Otel)
	if err == nil && (u.Path == "" || u.Path == "/") {
		u.Path = "/v1/traces"
	}
	return []otlptracehttp.Option{otlptracehttp.WithEndpointURL(u.String())}
}

// Tracer is nil where no spans are wanted.
func (s *Sender) Tracer() trace.Tracer {
	if s == nil {
		return nil
	}
	return s.provider.Tracer("airlock")
}

// Provider is nil where no spans are wanted.
func (s *Sender) Provider() trace.TracerProvider {
	if s == nil {
		return nil
	}
	return s.provider
}

// lastWords bounds what is still sent at the end.
const lastWords = 5 * time.Second

// Close sends what is left, and gives up after a moment.
func (s *Sender) Close() error {
	if s == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastWords)
	defer cancel()
	if err := s.provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("send the last spans: %w", err)
	}
	return nil
}

// toldSpans logs what the SDK would print.
type toldSpans struct {
	sdktrace.SpanExporter
	log zerolog.Logger
}

// ExportSpans implements sdktrace.SpanExporter.
func (t *toldSpans) ExportSpans(ctx context.Context, batch []sdktrace.ReadOnlySpan) error {
	began := time.Now()
	if err := t.SpanExporter.ExportSpans(ctx, batch); err != nil {
		t.log.Warn().Err(err).Int("spans", len(batch)).Dur("took", time.Since(began)).Msg("spans lost")
	}
	return nil
}
