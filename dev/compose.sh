#!/usr/bin/env bash
# Runs Docker Compose v2 or later with the arguments it is given. An installed
# one is used; where there is none, the version below is built once with Go,
# after saying so, and kept in ${XDG_CACHE_HOME:-~/.cache}/airlock.
set -euo pipefail

version=v5.6.0
cache=${XDG_CACHE_HOME:-$HOME/.cache}/airlock
built=$cache/docker-compose-$version

# Version 1 takes neither name: nor up --wait.
recent() { [[ $("$@" version --short 2>/dev/null) =~ ^v?([0-9]+)\. ]] && ((BASH_REMATCH[1] >= 2)); }

build() {
	command -v go >/dev/null || {
		echo "compose: there is no Compose v2 and no Go to build it with: see https://docs.docker.com/compose/install" >&2
		exit 2
	}
	echo "compose: building Compose $version into $cache with Go, once; this takes a minute or two" >&2
	local work
	work=$(mktemp -d "$cache/build.XXXXXX")
	# Not by `go install`: the module's own go.mod excludes versions, which
	# only a module that is built from may not have.
	if ! (cd "$work" && go mod init local/compose && go get "github.com/docker/compose/v5/cmd@$version" &&
		CGO_ENABLED=0 GOFLAGS=-buildvcs=false GOWORK=off go build -trimpath -o docker-compose \
			-ldflags "-s -w -X github.com/docker/compose/v5/internal.Version=$version" \
			github.com/docker/compose/v5/cmd) >"$work/log" 2>&1; then
		tail -n 20 "$work/log" >&2
		rm -rf "$work"
		echo "compose: it could not be built: install Compose v2 or later, or see to the Go module proxy" >&2
		exit 1
	fi
	mv "$work/docker-compose" "$built"
	rm -rf "$work"
}

if recent docker compose; then exec docker compose "$@"; fi
if recent docker-compose; then exec docker-compose "$@"; fi
mkdir -p "$cache"
if [ ! -x "$built" ]; then
	exec 9>"$cache/lock"
	# One of several at once builds it; the others find it.
	! command -v flock >/dev/null || flock 9
	[ -x "$built" ] || build
	exec 9>&-
fi
exec "$built" "$@"
