#!/usr/bin/env bash
# Makes an image of Debian with its python3, and prints its name. It stands in
# for python:*-slim as the base of runner-image/Dockerfile where no registry is
# reachable. It is made from debian:bookworm-slim where the engine has that, else
# by mmdebstrap, which is installed after saying so; that takes half a minute.
# When the image is there nothing is done. AIRLOCK_RUNNER_BASE is its name.
set -euo pipefail

image=${AIRLOCK_RUNNER_BASE:-airlock-runner-base:bookworm}
if docker image inspect "$image" >/dev/null 2>&1; then
	echo "$image"
	exit
fi
if docker image inspect debian:bookworm-slim >/dev/null 2>&1; then
	echo "runner-base: making $image from debian:bookworm-slim" >&2
	docker build -q -t "$image" - >/dev/null <<-'END'
		FROM debian:bookworm-slim
		RUN apt-get -q -y update && DEBIAN_FRONTEND=noninteractive apt-get -q -y install --no-install-recommends python3 tzdata
	END
	echo "$image"
	exit
fi
if ! command -v mmdebstrap >/dev/null; then
	if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
		echo "runner-base: mmdebstrap is missing: install it, or set BASE_IMAGE to an image that has python3" >&2
		exit 2
	fi
	echo "runner-base: installing mmdebstrap with apt-get" >&2
	apt-get -q -y update >&2
	DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Dpkg::Use-Pty=0 install --no-install-recommends mmdebstrap >&2
fi

# The mirror this host uses, since another may be out of reach.
mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | grep -m 1 -v security || true)
excluded=()
for path in doc man locale info; do
	excluded+=("--dpkgopt=path-exclude=/usr/share/$path/*")
done
echo "runner-base: making $image" >&2
mmdebstrap --quiet --variant=minbase --include=python3,tzdata "${excluded[@]}" bookworm - ${mirror:+"$mirror"} |
	docker import --change 'CMD ["python3"]' - "$image" >/dev/null
echo "$image"
