#!/bin/sh
set -e
case "${1:-}" in
-*) set -- nats-server "$@" ;;
esac
exec "$@"
