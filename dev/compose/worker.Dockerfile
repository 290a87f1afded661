# The worker, submit, the gateway, and nothing else. Build it with the repository's root as
# context, by a BuildKit of any age:
#
#   docker build -f dev/compose/worker.Dockerfile -t airlock-worker .
ARG GO_IMAGE=golang:1.26

FROM ${GO_IMAGE} AS build
# Of whom the Go modules are asked, where that is not the public proxy.
ARG GOPROXY
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w" -o /out/bin/ ./cmd/worker ./cmd/submit ./cmd/gateway \
 && mkdir -p /out/etc/ssl/certs /out/tmp && chmod 1777 /out/tmp \
 && cp /etc/ssl/certs/ca-certificates.crt /out/etc/ssl/certs/ \
 && echo 'airlock:x:65532:65532::/:/none' >/out/etc/passwd && echo 'airlock:x:65532:' >/out/etc/group

# No shell and no package manager: what is not there cannot be used.
FROM scratch
COPY --from=build /out /
ENV PATH=/bin
USER 65532:65532
ENTRYPOINT ["/bin/worker"]
