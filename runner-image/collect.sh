#!/usr/bin/env bash
# Collects into a directory what a guest's image holds, from the repository's
# root: collect.sh PYTHON DIR [PACKAGES]. It is the interpreter, its standard
# library, the shared libraries of both, the guest's code, and the packages
# that packages.sh put into PACKAGES; no shell and no package manager. The same
# input gives the same bytes: times, order and hashes are fixed.
set -euo pipefail

python=$(readlink -f "$1")
root=$2
packages=${3:-}
library=$("$python" -I -S -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')
name=$(basename "$python")
bin=$(dirname "$python")

lay_out() {
	mkdir -p "$root"/{etc,tmp,proc,sys,dev,workspace,airlock,usr/bin,usr/lib,usr/lib64} "$root$bin" "$root$(dirname "$library")"
	local link
	for link in bin lib lib64; do ln -s "usr/$link" "$root/$link"; done
	echo 'guest:x:65532:65532::/workspace:/none' >"$root/etc/passwd"
	echo 'guest:x:65532:' >"$root/etc/group"
}

interpreter() {
	cp -L "$python" "$root$bin/$name"
	[ "$name" = python3 ] || ln -s "$name" "$root$bin/python3"
	# The guest may run this copy but not read it, which keeps the processes it
	# starts from being looked into: see runner-image/guest/airlock_guest/first.py.
	cp -L "$python" "$root$bin/airlock-python"
	ln -s "$bin/airlock-python" "$root/airlock/python"
	cp -a "$library" "$root$(dirname "$library")/"
	(cd "$root$library" && rm -rf test ensurepip idlelib lib2to3 tkinter turtledemo pydoc_data config-* dist-packages site-packages sitecustomize.py EXTERNALLY-MANAGED)
	find "$root$library" -name __pycache__ -prune -exec rm -rf {} +
	cp -R runner-image/guest/main.py runner-image/guest/first.py runner-image/guest/airlock_guest "$root/airlock/"
	find "$root/airlock" -name __pycache__ -prune -exec rm -rf {} +
}

# Guests run with -S, which leaves out site-packages. The last folder that the
# interpreter looks into without it is lib-dynload: what is there hides nothing
# of the standard library.
add_packages() {
	[ -n "$packages" ] || return 0
	cp -a "$packages/site/." "$root$library/lib-dynload/"
	find "$root$library/lib-dynload" \( -name __pycache__ -o -name tests \) -prune -exec rm -rf {} +
}

# The libraries that what was collected is linked with, but for those that
# packages bring along and find by themselves. There is no cache of the
# loader's in the image, so all must lie where it looks.
libraries() {
	local file to
	find "$root" -type f \( -name '*.so' -o -name '*.so.*' -o -path "$root$bin/$name" \) -print0 |
		LD_LIBRARY_PATH=$packages/lib xargs -0 -n 1 ldd 2>/dev/null |
		awk '/=> \//{print $3} /^\t\//{print $1}' | sort -u |
		while read -r file; do
			case $file in
			"$root"/*) continue ;;
			"$packages"/lib/*) to=/usr/lib/$(basename "$file") ;;
			/usr/local/lib/*) to=/usr/lib/$(basename "$file") ;;
			/lib*) to=/usr$file ;;
			*) to=$file ;;
			esac
			mkdir -p "$root$(dirname "$to")"
			cp -L "$file" "$root$to"
		done
}

# What programs expect of a system: time zones, and whom TLS trusts.
data() {
	if [ -d /usr/share/zoneinfo ]; then
		mkdir -p "$root/usr/share"
		cp -a /usr/share/zoneinfo "$root/usr/share/"
	fi
	local trusted=/etc/ssl/certs/ca-certificates.crt
	if [ -f $trusted ]; then
		mkdir -p "$root/etc/ssl/certs" "$root/usr/lib/ssl"
		cp -L $trusted "$root$trusted"
		ln -s $trusted "$root/usr/lib/ssl/cert.pem"
	fi
}

# A fixed seed, since the order of a set's elements gets into the bytecode.
# For that -I is left out, which would ignore the seed; -E and -s are given by
# an empty environment.
compile() {
	(cd "$root" && env -i PATH="$PATH" HOME=/none PYTHONHASHSEED=0 PYTHONNOUSERSITE=1 ${LD_LIBRARY_PATH:+LD_LIBRARY_PATH="$LD_LIBRARY_PATH"} \
		"$python" -S -m compileall -q --invalidation-mode unchecked-hash -s "$root" "$root$library" "$root/airlock")
}

lay_out
interpreter
add_packages
libraries
data
compile
chmod -R a+rX,go-w "$root"
chmod 1777 "$root/tmp"
# Unreadable for the guest; its owner in the image is root.
chmod 0711 "$root$bin/airlock-python"
find "$root" -exec touch -h -d @0 {} +
