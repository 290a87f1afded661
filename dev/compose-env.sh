#!/usr/bin/env bash
# Prints what docker-compose.yml must know of this host, for ./.env: the user
# whose files the secrets are, and the engine's socket with its group.
set -euo pipefail

# As dev/secrets.sh has it.
if [ "$(id -u)" = 0 ]; then user=65532:65532; else user=$(id -u):$(id -g); fi

socket=/var/run/docker.sock
case "${DOCKER_HOST:-}" in unix://*) socket=${DOCKER_HOST#unix://} ;; esac
# Where the engine is elsewhere, so is its socket; there it is mostly root's.
gid=0
if [ -S "$socket" ]; then gid=$(stat -L -c %g "$socket" 2>/dev/null || stat -L -f %g "$socket"); fi

printf 'AIRLOCK_USER=%s\nDOCKER_SOCKET=%s\nDOCKER_GID=%s\n' "$user" "$socket" "$gid"
