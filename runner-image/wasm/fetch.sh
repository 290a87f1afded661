#!/usr/bin/env bash
# Downloads what sources.txt names from a Debian mirror, and unpacks the
# compilers and the C library into a folder, so that nothing is installed:
#
#   fetch.sh <cache>
#
# leaves <cache>/downloads and <cache>/tools. A file whose digest is not the
# one of sources.txt is an error, whatever the mirror says of it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=$1
mirrors=${AIRLOCK_DEBIAN_MIRROR:-http://deb.debian.org/debian}

matches() {
	[ -f "$2" ] && echo "$1  $2" | sha256sum --check --status
}

download() {
	local digest=$1 path=$2 file=$cache/downloads/${2##*/} from
	matches "$digest" "$file" && return
	for from in $mirrors; do
		curl -fsSL --retry 3 --connect-timeout 20 -o "$file.part" "$from/$path" || continue
		if matches "$digest" "$file.part"; then
			mv "$file.part" "$file"
			return
		fi
		echo "wasm: $from/$path has another digest than sources.txt says" >&2
	done
	rm -f "$file.part"
	echo "wasm: no mirror has $path as pinned: set AIRLOCK_DEBIAN_MIRROR," >&2
	echo "wasm: which may be several, to one such as a day of https://snapshot.debian.org, or pin a newer one in sources.txt" >&2
	exit 2
}

mkdir -p "$cache/downloads"
while read -r digest path; do
	download "$digest" "$path"
done <"$here/sources.txt"

stamp=$cache/tools/complete
matches "$(cat "$stamp" 2>/dev/null)" "$here/sources.txt" && exit
rm -rf "$cache/tools"
mkdir -p "$cache/tools"
while read -r _ path; do
	case $path in
	*.deb) dpkg-deb -x "$cache/downloads/${path##*/}" "$cache/tools" ;;
	esac
done <"$here/sources.txt"
sha256sum "$here/sources.txt" | cut -d ' ' -f 1 >"$stamp"
