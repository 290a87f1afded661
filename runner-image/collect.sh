#!/usr/bin/env bash
# Collects into a directory what a guest's image holds: collect.sh PYTHON DIR,
# from the repository's root. The interpreter, its standard library, the shared
# libraries of both, and the guest's code; no shell and no package manager.
set -euo pipefail

python=$(readlink -f "$1")
root=$2
library=$("$python" -I -S -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')
name=$(basename "$python")
bin=$(dirname "$python")

mkdir -p "$root"/{etc,tmp,proc,sys,dev,workspace,airlock,usr/bin,usr/lib,usr/lib64} "$root$bin" "$root$(dirname "$library")"
for link in bin lib lib64; do ln -s "usr/$link" "$root/$link"; done
cp -L "$python" "$root$bin/$name"
[ "$name" = python3 ] || ln -s "$name" "$root$bin/python3"
# The guest may run this copy but not read it, which keeps the processes it
# starts from being looked into: see runner-image/guest/airlock_guest/first.py.
cp -L "$python" "$root$bin/airlock-python"
ln -s "$bin/airlock-python" "$root/airlock/python"
cp -a "$library" "$root$(dirname "$library")/"
(cd "$root$library" && rm -rf test ensurepip idlelib lib2to3 tkinter turtledemo pydoc_data config-* dist-packages site-packages sitecustomize.py)
cp -R runner-image/guest/main.py runner-image/guest/first.py runner-image/guest/airlock_guest "$root/airlock/"
[ ! -d /usr/share/zoneinfo ] || { mkdir -p "$root/usr/share" && cp -a /usr/share/zoneinfo "$root/usr/share/"; }

# The libraries that the interpreter and its modules were linked with.
for file in "$python" "$library"/lib-dynload/*.so; do ldd "$file" 2>/dev/null || true; done |
	awk '/=> \//{print $3} /^\t\//{print $1}' | sort -u |
	while read -r file; do
		# There is no cache of the loader's, so all must lie where it looks.
		to=$root$(echo "$file" | sed -E 's#^/lib#/usr/lib#; s#^/usr/local/lib/#/usr/lib/#')
		mkdir -p "$(dirname "$to")"
		cp -L "$file" "$to"
	done

echo 'guest:x:65532:65532::/workspace:/none' >"$root/etc/passwd"
echo 'guest:x:65532:' >"$root/etc/group"
find "$root" -name __pycache__ -prune -exec rm -rf {} +
"$python" -I -S -m compileall -q --invalidation-mode unchecked-hash "$root$library" "$root/airlock" -s "$root"
chmod -R a+rX,go-w "$root"
chmod 1777 "$root/tmp"
chmod 0111 "$root$bin/airlock-python"

