#!/usr/bin/env bash
# Starts the deployment of docker-compose.yml and sends a job through it:
# dev/compose-up.sh [ARGUMENTS OF compose up]. It may be run again at any time;
# what is up and as it should be stays. Progress is on stderr, what to do with
# it on stdout.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { echo "compose-up: $*" >&2; }

docker_host=$(dev/dockerd.sh start)
export "${docker_host?}"

# What a person put into the environment or .env stays.
dev/compose-env.sh | while IFS='=' read -r name value; do
	[ -n "${!name:-}" ] || grep -qs "^$name=" .env || printf '%s=%s\n' "$name" "$value" >>.env
done
# As Compose reads it: the environment comes first.
while IFS='=' read -r name value; do
	[[ ! $name =~ ^[A-Z_]+$ ]] || [ -n "${!name:-}" ] || export "$name=$value"
done < <(cat .env 2>/dev/null || true)

dev/images.sh nats postgres runner worker >/dev/null
dev/secrets.sh

# Guests are nobody's orphans while their jobs run.
export COMPOSE_IGNORE_ORPHANS=true
say "starting NATS, Postgres, the workers and the sample tools"
dev/compose.sh up --detach --wait --wait-timeout 180 --no-build "$@" >&2 || {
	say "not all of it came up; what the workers say:"
	dev/compose.sh logs --tail 5 >&2
	exit 1
}

# The gateway serves those only who bear a token.
secrets=${SECRETS_DIR:-./secrets}
# That of before may have gone with its database.
if [ ! -s "$secrets/http.env" ] || ! dev/compose.sh run --rm -T --no-deps gateway token list </dev/null | grep -q ' good '; then
	say "making a token for HTTP"
	token=$(dev/compose.sh run --rm -T --no-deps gateway token create --tenant default --note compose-up </dev/null)
	(umask 077; printf 'AIRLOCK_HTTP=http://127.0.0.1:%s\nAIRLOCK_TOKEN=%s\n' "${HTTP_PORT:-8080}" "$token" >"$secrets/http.env")
fi
dev/compose.sh --profile gateway up --detach --wait --wait-timeout 60 --no-build --no-recreate gateway >&2 || {
	say "the gateway did not come up; what it says:"
	dev/compose.sh --profile gateway logs --tail 5 gateway >&2
	exit 1
}

say "sending a job through it"
got=$(dev/compose.sh run --rm -T --no-deps submit -q run --tools math.add --code 'return (await add(a=40, b="2"))["sum"]' </dev/null)
[ "$got" = 42 ] || { say "the job gave '$got', want 42"; exit 1; }

cat <<EOT
http      http://127.0.0.1:${HTTP_PORT:-8080}/docs, with the token in $secrets/http.env
nats      127.0.0.1:${NATS_PORT:-4222}, as submitter by $secrets/submit.env
postgres  127.0.0.1:${POSTGRES_PORT:-5432}, as analyst by $secrets/analyst.env
logs      dev/compose.sh logs -f worker
submit    set -a; . $secrets/submit.env; set +a; bin/submit run --code 'return 6*7'
   or     dev/compose.sh run --rm submit run --code 'return 6*7'
ask       (set -a; . $secrets/analyst.env; psql -c 'SELECT job, status FROM job_results')
workers   dev/compose.sh up -d --no-recreate --scale worker=4
stop      make compose-down, or with its data: make compose-down V=-v
ready
EOT
