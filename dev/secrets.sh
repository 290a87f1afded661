#!/usr/bin/env bash
# Makes the passwords of the deployment in docker-compose.yml, and the files
# that hold them: dev/secrets.sh [DIRECTORY]; the default is ./secrets.
#
# What is there is kept, so it may be run again. To change a password, remove
# its *.password file, run this again, and see DEPLOY.md. Only the user who ran
# it can read them: files are 0600 in a directory that is 0700.
set -euo pipefail
cd "$(dirname "$0")/.."
umask 077

dir=${1:-${SECRETS_DIR:-./secrets}}
nats_port=${NATS_PORT:-4222}
postgres_port=${POSTGRES_PORT:-5432}

# Containers run as the user whose files these are; root's run as nobody in
# particular, to whom the files are given.
if [ "$(id -u)" = 0 ]; then owner=65532:65532; else owner=$(id -u):$(id -g); fi

mkdir -p "$dir"
chmod 0700 "$dir"

password() { # NAME
	local file=$dir/$1.password
	if [ ! -s "$file" ]; then
		# 256 bits; the letters need no quoting in URLs and configurations.
		od -An -v -tx1 -N32 /dev/urandom | tr -d ' \n' >"$file.new"
		mv "$file.new" "$file"
		echo "secrets: made $file" >&2
	fi
	cat "$file"
}

# Whole or not at all, and in place where a running container has it mounted.
write() { # NAME
	local text
	text=$(cat)
	[ -f "$dir/$1" ] && [ "$(cat "$dir/$1")" = "$text" ] || printf '%s\n' "$text" >"$dir/$1"
}

password postgres-admin >/dev/null
owner_db=$(password postgres-owner)
worker_db=$(password postgres-worker)
analyst_db=$(password postgres-analyst)

# NATS: a user for each role, with the permissions that queue/PERMISSIONS.md
# lists. The program that is about to run knows them best.
worker=${AIRLOCK_WORKER:-bin/worker}
if [ -z "${AIRLOCK_WORKER:-}" ] && command -v go >/dev/null; then
	mkdir -p bin
	go build -o bin/worker ./cmd/worker
fi
[ -x "$worker" ] || { echo "secrets: there is no $worker: make build, or name one with AIRLOCK_WORKER" >&2; exit 2; }
"$worker" nats-config --out "$dir/nats" --submitter default --approver default --provider math --gateway \
	--listen 0.0.0.0:4222 --store-dir /data --max-store 8GiB --monitor 127.0.0.1:8222 --url nats://nats:4222 >&2

write worker-postgres <<<"postgres://airlock_worker:$worker_db@postgres:5432/airlock?sslmode=disable"
write owner-postgres <<<"postgres://airlock_owner:$owner_db@postgres:5432/airlock?sslmode=disable"
# For people on this host.
write submit.env < <(sed "s/@nats:4222/@127.0.0.1:$nats_port/; s/^/AIRLOCK_NATS=/" "$dir/nats/submitter-default.url")
write approve.env < <(sed "s/@nats:4222/@127.0.0.1:$nats_port/; s/^/AIRLOCK_NATS=/" "$dir/nats/approver-default.url")
write analyst.env <<<"PGPASSWORD=$analyst_db PGHOST=127.0.0.1 PGPORT=$postgres_port PGUSER=airlock_analyst PGDATABASE=airlock"

chmod 0700 "$dir/nats"
find "$dir" -type f -exec chmod 0600 {} +
chown -R "$owner" "$dir"
