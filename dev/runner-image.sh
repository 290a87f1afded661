#!/usr/bin/env bash
# Makes the runner image from this host's own Python, without a registry, and
# prints its ID. Where a registry is reachable use runner-image/Dockerfile.
set -euo pipefail
cd "$(dirname "$0")/.."

tag=${1:-airlock-runner}
python=$(readlink -f "${PYTHON:-/usr/bin/python3}")
[ -x "$python" ] || { echo "runner-image: there is no $python: set PYTHON" >&2; exit 2; }
[ "$(uname -s)" = Linux ] || { echo "runner-image: only a Linux host's Python can be used" >&2; exit 2; }

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
runner-image/collect.sh "$python" "$root"

# Times and order are fixed so that the same content makes the same layer.
tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -C "$root" -c . |
	docker import --change 'USER 65532:65532' --change 'WORKDIR /workspace' \
		--change 'ENTRYPOINT ["/airlock/python", "-I", "-S", "-B", "/airlock/first.py"]' - "$tag"
