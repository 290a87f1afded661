#!/usr/bin/env bash
# Installs what Airlock needs of the system and is not there yet: bubblewrap,
# the programs of a Postgres server, and python3. It says so first, and does
# nothing when all is there. Where it may not install, it prints the command
# and exits 2. With the argument "test" it also sees to a C compiler, without
# which Go has no race detector, to numpy, which a test has guests run, and to
# Node.js with npm, by which the MCP servers of a test come and run.
set -euo pipefail

packages=()

have_python() {
	python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null
}

have_postgres() {
	command -v initdb >/dev/null && command -v postgres >/dev/null && return
	compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null
}

command -v go >/dev/null || {
	echo "setup: Go is missing: install Go 1.26 or later, see https://go.dev/doc/install" >&2
	exit 2
}
if [ "$(uname -s)" != Linux ]; then
	echo "setup: only Linux has backends yet; building and the tests that need none work here" >&2
	exit 0
fi
command -v bwrap >/dev/null || packages+=(bubblewrap)
have_python || packages+=(python3)
have_postgres || packages+=(postgresql)
if [ "${1:-}" = test ]; then
	command -v "${CC:-gcc}" >/dev/null || packages+=(gcc libc6-dev)
	/usr/bin/python3 -c 'import numpy' 2>/dev/null || packages+=(python3-numpy)
	command -v node >/dev/null || packages+=(nodejs)
	command -v npm >/dev/null || packages+=(npm)
	command -v curl >/dev/null || packages+=(curl)
	command -v xz >/dev/null || packages+=(xz-utils)
	command -v make >/dev/null || packages+=(make)
fi
[ ${#packages[@]} -gt 0 ] || exit 0

# How to become root: not at all, or by a sudo that asks nothing.
as_root=(sudo -n)
if [ "$(id -u)" = 0 ]; then
	as_root=(env)
fi
if ! command -v apt-get >/dev/null; then
	echo "setup: missing: ${packages[*]}. This system has no apt-get: install them with its own package manager" >&2
	exit 2
fi
if ! "${as_root[@]}" true 2>/dev/null; then
	echo "setup: missing: ${packages[*]}. Install them with:" >&2
	echo "  sudo apt-get update && sudo apt-get install -y --no-install-recommends ${packages[*]}" >&2
	exit 2
fi

echo "setup: installing ${packages[*]} with apt-get" >&2

# apt wants no terminal, and its talk belongs to stderr.
apt() {
	"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Dpkg::Use-Pty=0 "$@" >&2
}

# Only Postgres' programs are wanted: the distribution would also make a
# cluster and start it as a service, now and at each boot. Its own switch for
# that is a file of postgresql-common, which must be there first.
without_cluster() {
	apt install --no-install-recommends postgresql-common
	"${as_root[@]}" mkdir -p /etc/postgresql-common/createcluster.d
	printf '# Airlock starts servers of its own.\ncreate_main_cluster = false\n' |
		"${as_root[@]}" tee /etc/postgresql-common/createcluster.d/airlock.conf >/dev/null
}

apt update
for package in "${packages[@]}"; do
	if [ "$package" = postgresql ]; then
		without_cluster
	fi
done
apt install --no-install-recommends "${packages[@]}"

have_python && have_postgres && command -v bwrap >/dev/null || {
	echo "setup: apt-get ended well, but something is still missing of: ${packages[*]}" >&2
	exit 2
}
