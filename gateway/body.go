package gateway

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"airlock/job"
)

// maxBody bounds a JSON body: as many jobs as fit.
const maxBody = 64 * job.MiB

// read returns the whole body, which must be of one of the media types.
func (g *Gateway) read(w http.ResponseWriter, r *request, limit job.Size, media ...string) ([]byte, error) {
	if err := checkMedia(r.Request, media...); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(g.body(w, r, int64(limit)))
	return data, bodyError(err)
}

// checkMedia insists on a media type that no form of a foreign page can send.
func checkMedia(r *http.Request, media ...string) error {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || !slices.Contains(media, kind) {
		return problemf(CodeMediaType, "the body's Content-Type is to be %s", media[0])
	}
	if enc := r.Header.Get("Content-Encoding"); enc != "" && enc != "identity" {
		return problemf(CodeMediaType, "the body is to be sent without Content-Encoding")
	}
	return nil
}

// body reads a request's body, each part of which may take BodyWait.
func (g *Gateway) body(w http.ResponseWriter, r *request, limit int64) io.Reader {
	return &patientBody{Reader: http.MaxBytesReader(w, r.Body, limit), control: http.NewResponseController(w), wait: g.cfg.BodyWait}
}

type patientBody struct {
	io.Reader
	control *http.ResponseController
	wait    time.Duration
}

func (b *patientBody) Read(p []byte) (int, error) {
	// A writer in a test may have no deadlines; a server's has.
	_ = b.control.SetReadDeadline(time.Now().Add(b.wait))
	n, err := b.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		// What is read of the connection next is the server's affair.
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

func bodyError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return problemf(CodeBadRequest, "the body came too slowly")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return problemf(CodeBadRequest, "the body ends too early")
	}
	return err
}

// decode reads a JSON body strictly into v.
func (g *Gateway) decode(w http.ResponseWriter, r *request, limit job.Size, v any, options ...json.Options) error {
	data, err := g.read(w, r, limit, mediaJSON)
	if err != nil {
		return err
	}
	if err := job.CheckJSON(data); err != nil {
		return badBody(err)
	}
	return badBody(job.DecodeStrict(data, v, options...))
}

// badBody is for bodies that are no jobs.
func badBody(err error) error {
	var field *job.FieldError
	if errors.As(err, &field) {
		return problemf(CodeBadRequest, "%s", field).with(FieldDetail{field.Field, field.Reason})
	}
	return err
}
