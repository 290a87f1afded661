#!/usr/bin/env bash
# Puts numpy and pandas where collect.sh takes them from: packages.sh PYTHON DIR.
# DIR/site is what Python imports, DIR/lib the libraries that needs. Debian's
# own interpreter gets Debian's packages, which apt-get downloads and nothing
# installs; any other one gets wheels by its pip.
set -euo pipefail

python=$(readlink -f "$1")
mkdir -p "$2"
dir=$(readlink -f "$2")
# OpenBLAS without threads: a guest is given one processor.
debs=(python3-numpy python3-pandas python3-pandas-lib python3-dateutil python3-tz python3-six libopenblas0-serial libgfortran5 libquadmath0)
wheels=(numpy==2.2.6 pandas==2.2.3)

from_debian() {
	local work
	work=$(mktemp -d)
	# apt's own user, which downloads, must be able to write there.
	chmod 0777 "$work"
	if ! (cd "$work" && apt-get -qq download "${debs[@]}") 2>"$work/errors"; then
		[ "$(id -u)" = 0 ] || { cat "$work/errors" >&2; echo "packages: let root run apt-get update, and try again" >&2; exit 1; }
		apt-get -q -y update >&2
		(cd "$work" && apt-get -qq download "${debs[@]}")
	fi
	local deb
	for deb in "$work"/*.deb; do dpkg-deb -x "$deb" "$work/root"; done
	cp -a "$work/root/usr/lib/python3/dist-packages/." "$dir/site/"
	find "$work/root/usr/lib" -path '*-linux-gnu*/lib*.so.*' -exec cp -L {} "$dir/lib/" \;
	rm -rf "$work"
}

from_pip() {
	"$python" -m pip install --quiet --disable-pip-version-check --no-cache-dir --no-compile --root-user-action=ignore \
		--only-binary :all: --target "$dir/site" "${wheels[@]}" >&2
	rm -rf "$dir/site/bin"
}

mkdir -p "$dir/site" "$dir/lib"
if [[ $python == /usr/bin/* ]] && command -v apt-get >/dev/null; then
	from_debian
else
	from_pip
fi
LD_LIBRARY_PATH=$dir/lib PYTHONPATH=$dir/site "$python" -S -B -c 'import numpy, pandas' || {
	echo "packages: $python cannot import what was fetched for it: its version is not the one they were made for" >&2
	exit 1
}
