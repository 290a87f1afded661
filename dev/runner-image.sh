#!/usr/bin/env bash
# Makes the image that guests run in and prints its ID:
#
#   dev/runner-image.sh [plain|data] [host|dockerfile|auto]
#
# data has numpy and pandas. host, the default, needs no registry: it takes
# this host's own Python, and Debian's packages for data. dockerfile builds
# runner-image/Dockerfile on BASE_IMAGE; auto does so where the engine has that
# or can get it, and says so when it takes the host's Python instead.
#
# The image is tagged airlock-runner or airlock-runner-data, or what
# AIRLOCK_RUNNER_IMAGE says, and with the digest of its content: the same
# content has the same tag. PYTHON names another interpreter.
set -euo pipefail
cd "$(dirname "$0")/.."

variant=${1:-plain}
how=${2:-host}
base=${BASE_IMAGE:-$(sed -n 's/^ARG BASE_IMAGE=//p' runner-image/Dockerfile)}
case $variant in
plain) default=airlock-runner ;;
data) default=airlock-runner-data ;;
*) echo "usage: dev/runner-image.sh [plain|data] [host|dockerfile|auto]" >&2; exit 2 ;;
esac
tag=${AIRLOCK_RUNNER_IMAGE:-$default}

# Only what the Dockerfile copies is sent to the engine.
build() {
	tar -c runner-image/{Dockerfile,collect.sh,packages.sh,guest} |
		docker build -q -f runner-image/Dockerfile -t "$tag" --build-arg BASE_IMAGE="$base" --build-arg VARIANT="$variant" "$@" - >/dev/null
}

# The content is known once it is built; the second build takes it from the
# cache and changes a label.
from_dockerfile() {
	build
	local version
	# BuildKit adds an empty layer for the working directory.
	version=$(docker image inspect -f '{{index .RootFS.Layers 0}}' "$tag")
	version=${version#sha256:}
	version=${version:0:12}
	build --build-arg VERSION="$version"
	docker tag "$tag" "$tag:$version"
}

architecture() {
	case $(uname -m) in
	x86_64) echo amd64 ;;
	aarch64) echo arm64 ;;
	*) echo "runner-image: no image for $(uname -m) can be made here: build runner-image/Dockerfile" >&2; exit 2 ;;
	esac
}

from_host() {
	local python
	python=$(readlink -f "${PYTHON:-/usr/bin/python3}")
	[ -x "$python" ] || { echo "runner-image: there is no $python: set PYTHON" >&2; exit 2; }
	[ "$(uname -s)" = Linux ] || { echo "runner-image: only a Linux host's Python can be used" >&2; exit 2; }
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	mkdir "$work/image"
	local packages=
	if [ "$variant" = data ]; then
		packages=$work/packages
		runner-image/packages.sh "$python" "$packages"
	fi
	runner-image/collect.sh "$python" "$work/tree" "$packages"
	pack
}

# Writes the image itself, since docker import and docker build put the time
# into it: so the same content is the same image.
pack() {
	local layer version config
	tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -C "$work/tree" -cf "$work/image/layer.tar" .
	layer=$(sha256sum "$work/image/layer.tar" | cut -d ' ' -f 1)
	version=${layer:0:12}
	cat >"$work/image/config.json" <<-END
		{"architecture": "$(architecture)", "os": "linux", "created": "1970-01-01T00:00:00Z",
		 "config": {"User": "65532:65532", "WorkingDir": "/workspace",
		  "Entrypoint": ["/airlock/python", "-I", "-S", "-B", "/airlock/first.py"],
		  "Labels": {"org.opencontainers.image.title": "airlock-runner ($variant)", "org.opencontainers.image.version": "$version"}},
		 "rootfs": {"type": "layers", "diff_ids": ["sha256:$layer"]},
		 "history": [{"created": "1970-01-01T00:00:00Z", "created_by": "dev/runner-image.sh $variant"}]}
	END
	config=$(sha256sum "$work/image/config.json" | cut -d ' ' -f 1).json
	mv "$work/image/config.json" "$work/image/$config"
	echo "[{\"Config\": \"$config\", \"RepoTags\": [\"$tag:latest\", \"$tag:$version\"], \"Layers\": [\"layer.tar\"]}]" >"$work/image/manifest.json"
	tar -C "$work/image" -c . | docker load -q >/dev/null
}

case $how in
host) from_host ;;
dockerfile) from_dockerfile ;;
auto)
	if docker image inspect "$base" >/dev/null 2>&1 || docker pull -q "$base" >/dev/null 2>&1; then
		from_dockerfile
	else
		echo "runner-image: the engine neither has nor gets $base: taking this host's Python" >&2
		from_host
	fi
	;;
*) echo "usage: dev/runner-image.sh [plain|data] [host|dockerfile|auto]" >&2; exit 2 ;;
esac
docker image inspect -f '{{.Id}}' "$tag"
