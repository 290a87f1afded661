#!/usr/bin/env bash
# Builds and vets the whole tree for every system that Airlock is meant for.
set -euo pipefail
cd "$(dirname "$0")/.."

failed=0
for os in linux darwin windows; do
	for arch in amd64 arm64; do
		# vet compiles everything, tests included, so that build adds the
		# commands' linking only for the type-checker's blind spots.
		if GOOS=$os GOARCH=$arch CGO_ENABLED=0 go build ./... &&
			GOOS=$os GOARCH=$arch CGO_ENABLED=0 go vet ./...; then
			echo "crosscheck: $os/$arch ok" >&2
		else
			echo "crosscheck: $os/$arch FAILED" >&2
			failed=1
		fi
	done
done
exit $failed
