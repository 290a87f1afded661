#!/usr/bin/env bash
# Sees to the images that docker-compose.yml and the tests start from:
# dev/images.sh all|debian|golang|nats|postgres|runner|worker …
#
# One that the engine has is left alone. Else it is pulled; and where no
# registry answers, a stand-in under the same name is made from this host's
# packages and Go. The names are printed. DEBIAN_IMAGE, GO_IMAGE, NATS_IMAGE
# and POSTGRES_IMAGE change them; DOCKER_HOST says which engine.
# AIRLOCK_PULL=no makes stand-ins without asking a registry.
#
# runner and worker, which all leaves out, are this project's own: always built,
# as RUNNER_IMAGE and WORKER_IMAGE.
set -euo pipefail
cd "$(dirname "$0")/.."

# The queue's server is the one that this module embeds and is tested with.
nats_version=$(sed -n 's|^\tgithub.com/nats-io/nats-server/v2 v\([0-9.]*\).*|\1|p' go.mod)
DEBIAN_IMAGE=${DEBIAN_IMAGE:-debian:bookworm-slim}
GO_IMAGE=${GO_IMAGE:-golang:1.26}
NATS_IMAGE=${NATS_IMAGE:-nats:$nats_version-alpine}
POSTGRES_IMAGE=${POSTGRES_IMAGE:-postgres:15}
WORKER_IMAGE=${WORKER_IMAGE:-airlock-worker:local}
RUNNER_IMAGE=${RUNNER_IMAGE:-airlock-runner}
postgres_major=15
pull_seconds=60
# Raise it when stand-ins of before are to be made again.
recipes=1

say() { echo "images: $*" >&2; }
die() { say "$*"; exit 2; }

# recipe MAKER is what a stand-in of today's making is labelled with.
recipe() {
	local from=dev/images/${1#make_}
	echo "$recipes-$({ [ ! -d "$from" ] || cat "$from"/*; } | cksum | cut -d' ' -f1)"
}

# present NAME MAKER; a stand-in of another recipe counts as missing.
present() {
	local made
	made=$(docker image inspect -f '{{index .Config.Labels "airlock.standin"}}' "$1" 2>/dev/null) || return
	[ -z "$made" ] || [ "$made" = "$(recipe "$2")" ]
}

pulled() {
	[ "${AIRLOCK_PULL:-yes}" = yes ] || return 1
	say "pulling $1"
	if timeout "$pull_seconds" docker pull -q "$1" >/dev/null 2>"$work/pull"; then return 0; fi
	say "no registry gives it ($(tail -n 1 "$work/pull" | cut -c 1-100)): making a stand-in"
	return 1
}

# see NAME MAKER: have the image or make it.
see() {
	present "$1" "$2" || pulled "$1" || "$2" || die "$1 could not be made: pull it on a host that can, and docker load it here"
	echo "$1"
}

# A stand-in tells what it is. The builder without BuildKit is in each engine.
build() {
	DOCKER_BUILDKIT=0 docker build -q --label "airlock.standin=$(recipe "${FUNCNAME[1]}")" "$@" >/dev/null 2>"$work/build" ||
		{ tail -n 20 "$work/build" >&2; return 1; }
}

need() { # TOOL PACKAGE
	command -v "$1" >/dev/null && return
	command -v apt-get >/dev/null && [ "$(id -u)" = 0 ] || die "making a stand-in needs $1: install it"
	say "installing $2 with apt-get"
	{ apt-get -q -y update && DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Dpkg::Use-Pty=0 install --no-install-recommends "$2"; } >&2
}

make_debian() {
	need mmdebstrap mmdebstrap
	local exclude=() d
	for d in doc man locale info; do exclude+=(--dpkgopt="path-exclude=/usr/share/$d/*"); done
	mmdebstrap --quiet --variant=minbase "${exclude[@]}" bookworm - |
		docker import --change 'CMD ["bash"]' --change "LABEL airlock.standin=$(recipe make_debian)" - "$DEBIAN_IMAGE" >/dev/null
}

make_golang() {
	debian
	local certs=/etc/ssl/certs/ca-certificates.crt
	[ -f $certs ] || die "there is no $certs: install ca-certificates"
	cp $certs dev/images/golang/Dockerfile "$work"
	# Streamed, for a copy of Go would be 270 MB.
	tar -cf - -C "$work" Dockerfile ca-certificates.crt -C "$(dirname "$(go env GOROOT)")" \
		--transform "s,^$(basename "$(go env GOROOT)"),go," "$(basename "$(go env GOROOT)")" |
		build -t "$GO_IMAGE" --build-arg "DEBIAN_IMAGE=$DEBIAN_IMAGE" -
}

make_nats() {
	need busybox busybox-static
	local root=$work/nats/rootfs applet
	cp -r dev/images/nats "$work/"
	mkdir -p "$root"/{bin,usr/local/bin,etc/nats,etc/ssl/certs,tmp,data}
	chmod 1777 "$root/tmp"
	# In the module's own version, whose sums go.sum holds.
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$root/usr/local/bin/nats-server" github.com/nats-io/nats-server/v2
	cp "$(command -v busybox)" "$root/bin/busybox"
	for applet in sh cat ls wget sleep kill ps mkdir chmod chown rm stat; do ln -s busybox "$root/bin/$applet"; done
	install -m 0755 dev/images/nats/docker-entrypoint.sh "$root/usr/local/bin/"
	install -m 0644 dev/images/nats/nats-server.conf "$root/etc/nats/"
	build -t "$NATS_IMAGE" "$work/nats"
}

make_postgres() {
	debian
	build -t "$POSTGRES_IMAGE" --build-arg "DEBIAN_IMAGE=$DEBIAN_IMAGE" --build-arg "MAJOR=$postgres_major" dev/images/postgres
}

debian() { see "$DEBIAN_IMAGE" make_debian >/dev/null; }

# builder finds a docker command that can use BuildKit: one with the buildx
# plugin, or one from before that was split off.
builder() {
	local cli
	while read -r cli; do
		if "$cli" buildx version >/dev/null 2>&1 || [ "$("$cli" version -f '{{.Client.Version}}' | cut -d. -f1)" -lt 23 ]; then
			echo "$cli"
			return
		fi
	done < <(type -ap docker)
	die "the worker's image needs BuildKit: install docker's buildx plugin"
}

make_worker() {
	see "$GO_IMAGE" make_golang >/dev/null
	local cli
	cli=$(builder)
	say "building $WORKER_IMAGE"
	DOCKER_BUILDKIT=1 "$cli" build -q -f dev/compose/worker.Dockerfile -t "$WORKER_IMAGE" \
		--build-arg "GO_IMAGE=$GO_IMAGE" --build-arg "GOPROXY=$(go env GOPROXY 2>/dev/null || true)" . >/dev/null
	echo "$WORKER_IMAGE"
}

make_runner() {
	say "making $RUNNER_IMAGE"
	local how=auto
	[ "${AIRLOCK_PULL:-yes}" = yes ] || how=host
	docker tag "$(dev/runner-image.sh plain $how)" "$RUNNER_IMAGE"
	echo "$RUNNER_IMAGE"
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
docker version >/dev/null 2>&1 || die "no Docker Engine answers: see dev/dockerd.sh start, or set DOCKER_HOST"

[ $# -gt 0 ] || set -- help
for image in "$@"; do
	case "$image" in
	debian) see "$DEBIAN_IMAGE" make_debian ;;
	golang) see "$GO_IMAGE" make_golang ;;
	nats) see "$NATS_IMAGE" make_nats ;;
	postgres) see "$POSTGRES_IMAGE" make_postgres ;;
	all)
		see "$DEBIAN_IMAGE" make_debian
		see "$GO_IMAGE" make_golang
		see "$NATS_IMAGE" make_nats
		see "$POSTGRES_IMAGE" make_postgres
		;;
	runner) make_runner ;;
	worker) make_worker ;;
	*) die "usage: dev/images.sh all|debian|golang|nats|postgres|runner|worker …" ;;
	esac
done
