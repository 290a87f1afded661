#!/bin/bash
# Makes the cluster on the first start and then runs the server, by the same
# variables as the official image: POSTGRES_USER, _PASSWORD, _DB, _INITDB_ARGS,
# each also as a file, POSTGRES_HOST_AUTH_METHOD, and *.sh and *.sql of
# /docker-entrypoint-initdb.d.
set -euo pipefail

# value VARIABLE DEFAULT takes it from the environment, or from the file that
# VARIABLE_FILE names.
value() {
	local name=$1 file=$1_FILE
	if [ -n "${!name:-}" ] && [ -n "${!file:-}" ]; then
		echo "$name and $file are both set" >&2
		exit 1
	fi
	if [ -n "${!file:-}" ]; then
		export "$name=$(<"${!file}")"
	else
		export "$name=${!name:-$2}"
	fi
	unset "$file"
}

# initdb wants its user to have a name, which one that was only given as a
# number has not.
name_user() {
	local library
	library=$(compgen -G '/usr/lib/*/libnss_wrapper.so' | head -n 1) || true
	[ -n "$library" ] && ! id -un >/dev/null 2>&1 || return 0
	NSS_WRAPPER_PASSWD=$(mktemp) NSS_WRAPPER_GROUP=$(mktemp)
	export LD_PRELOAD=$library NSS_WRAPPER_PASSWD NSS_WRAPPER_GROUP
	echo "postgres:x:$(id -u):$(id -g):PostgreSQL:$PGDATA:/bin/false" >"$NSS_WRAPPER_PASSWD"
	echo "postgres:x:$(id -g):" >"$NSS_WRAPPER_GROUP"
}

unname_user() {
	[ -n "${NSS_WRAPPER_PASSWD:-}" ] || return 0
	rm -f "$NSS_WRAPPER_PASSWD" "$NSS_WRAPPER_GROUP"
	unset LD_PRELOAD NSS_WRAPPER_PASSWD NSS_WRAPPER_GROUP
}

make_cluster() {
	value POSTGRES_PASSWORD ""
	value POSTGRES_USER postgres
	value POSTGRES_DB "$POSTGRES_USER"
	value POSTGRES_INITDB_ARGS ""
	local auth=${POSTGRES_HOST_AUTH_METHOD:-scram-sha-256}
	if [ -z "$POSTGRES_PASSWORD" ] && [ "$auth" != trust ]; then
		echo "POSTGRES_PASSWORD or POSTGRES_PASSWORD_FILE must be set for the first start" >&2
		exit 1
	fi
	# An empty password file is refused, and the arguments are words on purpose.
	# shellcheck disable=SC2086
	if [ -n "$POSTGRES_PASSWORD" ]; then
		initdb --username="$POSTGRES_USER" --pwfile=<(printf '%s\n' "$POSTGRES_PASSWORD") $POSTGRES_INITDB_ARGS
	else
		initdb --username="$POSTGRES_USER" $POSTGRES_INITDB_ARGS
	fi
	printf '\nhost all all all %s\n' "$auth" >>"$PGDATA/pg_hba.conf"
}

fill_cluster() {
	# Nobody from outside may meet a server that is half set up.
	pg_ctl -D "$PGDATA" -o "-c listen_addresses='' -p ${PGPORT:-5432}" -w start
	export PGPASSWORD=$POSTGRES_PASSWORD
	local psql=(psql -v ON_ERROR_STOP=1 --no-psqlrc --username "$POSTGRES_USER")
	if [ "$POSTGRES_DB" != postgres ]; then
		"${psql[@]}" --dbname postgres --set db="$POSTGRES_DB" <<<'CREATE DATABASE :"db";'
	fi
	local f
	for f in /docker-entrypoint-initdb.d/*; do
		case "$f" in
		*.sh) if [ -x "$f" ]; then "$f"; else . "$f"; fi ;;
		*.sql) "${psql[@]}" --dbname "$POSTGRES_DB" -f "$f" ;;
		esac
	done
	unset PGPASSWORD
	pg_ctl -D "$PGDATA" -m fast -w stop
	echo "PostgreSQL init process complete; ready for start up."
}

case "${1:-}" in -*) set -- postgres "$@" ;; esac
[ "${1:-}" = postgres ] || exec "$@"

if [ "$(id -u)" = 0 ]; then
	mkdir -p "$PGDATA" /var/run/postgresql
	chmod 0700 "$PGDATA"
	find "$PGDATA" \! -user postgres -exec chown postgres {} +
	chown postgres:postgres /var/run/postgresql
	exec setpriv --reuid=postgres --regid=postgres --init-groups "$0" "$@"
fi
mkdir -p "$PGDATA"
chmod 0700 "$PGDATA" || true
if [ ! -s "$PGDATA/PG_VERSION" ]; then
	name_user
	make_cluster
	unname_user
	fill_cluster
fi
exec "$@"
