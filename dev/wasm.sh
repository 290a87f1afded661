#!/usr/bin/env bash
# Builds the Python for WebAssembly that the wasm backend runs, into bin/wasm:
#
#   dev/wasm.sh           when it is not there, or was built of something else
#   dev/wasm.sh present   exits 0 when it is there and whole, 1 otherwise
#
# It takes four and a half minutes of processor time, 100 MB of downloads from a
# Debian mirror and 0.7 GB in the cache, AIRLOCK_WASM_CACHE or
# ~/.cache/airlock/wasm. It installs nothing; what it unpacks stays in the cache,
# and a later build goes on from there. What was built stays there too, by the
# digest of its recipe: another checkout of the same recipe copies it. The files are the same on every machine that builds them
# and run on every system: they may be copied from another machine.
set -euo pipefail
cd "$(dirname "$0")/.."

version=3.13.5
recipe=runner-image/wasm
out=bin/wasm
cache=${AIRLOCK_WASM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/airlock/wasm}
say() {
	echo "wasm: $*" >&2
}

# Where the files were only copied to there may be no sha256sum.
sha256() {
	if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi
}

# The digest of what is in the files.
digest() {
	cat "$@" | sha256 | cut -d ' ' -f 1
}

# Whether a folder's files are what their manifest says.
present() {
	local name
	[ -f "$1/manifest.json" ] || return 1
	for name in python.wasm stdlib.zip; do
		[ -f "$1/$name" ] || return 1
		grep -qF "\"$name\": \"$(digest "$1/$name")\"" "$1/manifest.json" || return 1
	done
}

# What says whether what is there was built of what is here.
inputs() {
	digest "$recipe"/sources.txt "$recipe"/*.sh "$recipe"/pack.py "$recipe"/src/*
}

current() {
	present "$1" && [ "$(cat "$1/inputs" 2>/dev/null)" = "$(inputs)" ]
}

need() {
	local missing=() tool
	if [ "$(uname -sm)" != "Linux x86_64" ]; then
		say "it can be built on Linux on x86_64 only, with the tools of Debian. Copy the folder $out from such a machine:"
		say "its files run on every system."
		exit 2
	fi
	for tool in curl dpkg-deb gcc make tar xz sha256sum flock; do
		command -v "$tool" >/dev/null || missing+=("$tool")
	done
	[ ${#missing[@]} = 0 ] && return
	say "missing: ${missing[*]}. Install them, on Debian and its like with"
	say "  sudo apt-get update && sudo apt-get install -y --no-install-recommends curl dpkg gcc libc6-dev make tar xz-utils coreutils util-linux"
	say "or copy the folder $out from a machine where it was built: its files run on every system."
	exit 2
}

# Runs a step, unless it ended well before with the same recipe. Its name is
# its script's; its talk is shown when it fails.
step() {
	local name=$1 why=$2 key
	key=$(digest "$recipe/sources.txt" "$recipe/tools.sh" "$recipe/$name.sh")
	[ "$(cat "$cache/$name.done" 2>/dev/null)" = "$key" ] && return
	say "$why"
	rm -f "$cache/$name.done"
	if ! "$recipe/$name.sh" "$cache" >"$cache/$name.log" 2>&1; then
		tail -n 30 "$cache/$name.log" >&2
		say "$name.sh failed; all it said is in $cache/$name.log"
		exit 1
	fi
	echo "$key" >"$cache/$name.done"
}

# Makes a folder of another's name the output, all at once.
replace() {
	rm -rf "$out"
	mv "$1" "$out"
	trap - EXIT
}

# Makes the folder that replace puts in its place.
make_new() {
	rm -rf "${new:-}"
	mkdir -p bin
	new=$(mktemp -d bin/wasm.XXXXXX)
	trap 'rm -rf "$new"' EXIT
	chmod 755 "$new"
}

# Links and packs.
finish() {
	make_new
	"$recipe/link.sh" "$cache" "$PWD/$new/python.wasm"
	pack "$new/stdlib.zip"
	pack "$new/again.zip"
	cmp "$new/stdlib.zip" "$new/again.zip" >&2 || { say "pack.py made two files that differ of the same sources: that is a bug"; exit 1; }
	rm "$new/again.zip"
	manifest "$new" >"$new/manifest.json"
	inputs >"$new/inputs"
	keep
	replace "$new"
}

# What was built before, of this recipe or another, gives way.
keep() {
	rm -rf "$cache/built" "$cache/built.part"
	cp -R "$new" "$cache/built.part"
	mv "$cache/built.part" "$cache/built"
}

# Takes what another checkout built of the same recipe. That may be replaced
# meanwhile, so that it is the copy which must be whole.
reuse() {
	current "$cache/built" || return 1
	make_new
	cp "$cache/built"/{python.wasm,stdlib.zip,manifest.json,inputs} "$new/" && current "$new" || return 1
	replace "$new"
	say "$out is copied from $cache/built"
}

# Under another hash seed each time, since nothing may depend on it.
pack() {
	"$cache/native/python" -I -S -B "$recipe/pack.py" "$cache/source" "$cache/cross" "$recipe/src" "$1"
}

manifest() {
	printf '{"python": "%s", "files": {"python.wasm": "%s", "stdlib.zip": "%s"}}\n' "$version" \
		"$(digest "$1/python.wasm")" "$(digest "$1/stdlib.zip")"
}

case ${1:-} in
present) present "$out"; exit ;;
"") ;;
*) echo "usage: dev/wasm.sh [present]" >&2; exit 2 ;;
esac
if current "$out"; then
	say "$out is current"
	exit
fi
if reuse; then
	exit
fi
need
mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9
say "building Python $version for WebAssembly into $out, in $cache"
step fetch "downloading what is missing of 100 MB from ${AIRLOCK_DEBIAN_MIRROR:-http://deb.debian.org/debian} and unpacking: Python, zlib, wasi-libc, clang; nothing is installed"
step native "building Python for this machine, which compiles the standard library"
step cross "building Python for WebAssembly"
finish
say "$out is ready: $(du -h "$out/python.wasm" | cut -f 1) python.wasm, $(du -h "$out/stdlib.zip" | cut -f 1) stdlib.zip"
