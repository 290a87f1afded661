#!/bin/bash
# Copies what a Postgres server needs of this image: collect.sh MAJOR TO.
set -euo pipefail
major=$1 to=$2
server=/usr/lib/postgresql/$major

# Compiling queries would need all of LLVM, 115 MB.
rm -rf "$server"/lib/bitcode "$server"/lib/llvmjit*

tools=(bash sh cat chmod chown cp date dirname basename env find grep head id ls mkdir mktemp mv rm rmdir sed sleep sort stat tail touch tr true wc setpriv locale)
files=()
for tool in "${tools[@]}"; do files+=("$(type -P "$tool")"); done

mkdir -p "$to"/{etc,tmp,run/postgresql,usr/{bin,lib,lib64,local/bin},docker-entrypoint-initdb.d,var/lib/postgresql/data}
cp -a /bin /lib /lib64 "$to"/ # on a merged /usr these are links
cp -a --parents "$server" "/usr/share/postgresql/$major" /usr/share/zoneinfo /usr/lib/locale/C.utf8 \
	/etc/passwd /etc/group /etc/nsswitch.conf "$to"/

# file FROM puts it where it is once the links of /bin and /lib are followed.
file() { cp --parents -L "$(realpath "$(dirname "$1")")/$(basename "$1")" "$to"/; }
for f in "${files[@]}"; do file "$f"; done

# Names resolve through libraries that nothing links to, and one of them gives
# a user without a name one. ldd frowns on scripts.
libraries=$(find "$server" -type f \( -perm -u+x -o -name '*.so' \) -print0 |
	{ xargs -0 -r ldd "${files[@]}" 2>/dev/null || true; } | awk '/=> \// {print $3} /^\t\// {print $1}' | sort -u)
libraries+=$'\n'$(find /lib /usr/lib -name 'libnss_files.so*' -o -name 'libnss_dns.so*' -o -name 'libresolv.so.2' -o -name libnss_wrapper.so)
while read -r library; do
	[ -z "$library" ] || file "$library"
done <<<"$libraries"

install -m 0755 /docker-entrypoint.sh "$to"/usr/local/bin/docker-entrypoint.sh
ln -sfn /run "$to"/var/run
chmod 1777 "$to"/tmp "$to"/var/lib/postgresql/data
chown postgres:postgres "$to"/var/lib/postgresql "$to"/var/lib/postgresql/data "$to"/run/postgresql
# Any user may run it, as with the official image.
chmod 3777 "$to"/run/postgresql
