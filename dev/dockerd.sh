#!/usr/bin/env bash
# Sees to a Docker Engine for tests: dev/dockerd.sh start|stop.
#
# start does nothing when an engine answers already. Otherwise, as root, it
# installs docker.io after saying so, starts dockerd on a socket and with data
# of its own, and prints the DOCKER_HOST to use; stop ends that one only.
# AIRLOCK_DOCKERD_DIR is where all of it lives.
set -euo pipefail

dir=${AIRLOCK_DOCKERD_DIR:-/var/lib/airlock-dockerd}
socket=unix://$dir/docker.sock
pidfile=$dir/docker.pid

answers() { docker -H "$1" version --format '{{.Server.Version}}' >/dev/null 2>&1; }

start() {
	local host=${DOCKER_HOST:-unix:///var/run/docker.sock}
	for host in "$host" "$socket"; do
		if command -v docker >/dev/null && answers "$host"; then
			echo "dockerd: an engine answers at $host" >&2
			echo "DOCKER_HOST=$host"
			return
		fi
	done
	if [ "$(id -u)" != 0 ]; then
		echo "dockerd: no engine answers, and only root can start one: see https://docs.docker.com/engine/install" >&2
		exit 2
	fi
	install
	# The package's own init script wants ulimits that containers refuse.
	mkdir -p "$dir"
	# Other runtimes are of use where they are installed; none is needed.
	local runtimes=() runtime
	for runtime in crun runsc kata-runtime; do
		if command -v "$runtime" >/dev/null; then
			runtimes+=(--add-runtime "${runtime%-runtime}=$(command -v "$runtime")")
		fi
	done
	setsid dockerd -H "$socket" --data-root "$dir/data" --exec-root "$dir/run" --pidfile "$pidfile" "${runtimes[@]}" \
		>"$dir/dockerd.log" 2>&1 </dev/null &
	for _ in $(seq 150); do
		if answers "$socket"; then
			echo "dockerd: started, its log is $dir/dockerd.log" >&2
			echo "DOCKER_HOST=$socket"
			return
		fi
		sleep 0.2
	done
	echo "dockerd: it does not answer; the end of its log:" >&2
	tail -n 5 "$dir/dockerd.log" >&2
	exit 1
}

install() {
	command -v dockerd >/dev/null && command -v docker >/dev/null && return
	command -v apt-get >/dev/null || {
		echo "dockerd: this system has no apt-get: install a Docker Engine with its own package manager" >&2
		exit 2
	}
	echo "dockerd: installing docker.io with apt-get" >&2
	# A package's service is not to be started: we start our own.
	local policy=/usr/sbin/policy-rc.d
	if [ ! -e $policy ]; then
		printf '#!/bin/sh\nexit 101\n' >$policy
		chmod +x $policy
		trap "rm -f $policy" EXIT
	fi
	apt-get -q -y update >&2
	DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Dpkg::Use-Pty=0 install --no-install-recommends docker.io >&2
}

stop() {
	[ -f "$pidfile" ] || { echo "dockerd: none of ours runs" >&2; return; }
	local pid
	pid=$(cat "$pidfile")
	# A pid file that outlived its dockerd may name somebody else.
	if ! tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -qF -- "$socket"; then
		echo "dockerd: $pidfile is stale" >&2
		rm -f "$pidfile"
		return
	fi
	kill "$pid"
	for _ in $(seq 150); do
		kill -0 "$pid" 2>/dev/null || { echo "dockerd: stopped" >&2; return; }
		sleep 0.2
	done
	echo "dockerd: $pid does not end" >&2
	exit 1
}

case "${1:-start}" in
start) start ;;
stop) stop ;;
*) echo "usage: dev/dockerd.sh start|stop" >&2; exit 2 ;;
esac
