#!/usr/bin/env bash
# Makes a network of the Docker Engine for guests whose jobs may have one:
# dev/guest-network.sh up [NAME] | down [NAME]. It needs root, docker and
# iptables on the engine's host, installs nothing, and must run again after a
# boot or whatever else clears the firewall's rules: a worker tests them and
# offers no network without.
#
# Guests on it reach public addresses. Dropped are: what goes to the host by any
# of its addresses, to metadata services, to private, link-local and reserved
# networks, to other guests, and what anybody else begins with a guest. Names
# are resolved by the engine. Where its own resolvers have private addresses,
# AIRLOCK_DNS lists those that guests may ask on port 53.
set -euo pipefail

name=${2:-airlock-guests}
# Names of interfaces have 15 characters at most.
bridge=al-$(printf %s "$name" | cksum | cut -d' ' -f1)
bridge=${bridge:0:15}
chain=AIRLOCK-$bridge

# Metadata services are at 169.254.169.254, 100.100.100.200 and 192.0.0.192, all
# within these.
closed=(0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24
	192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4)

need() {
	command -v "$1" >/dev/null || { echo "guest-network: there is no $1: install it" >&2; exit 2; }
}

# once puts a rule at the head of a chain, if it is not there yet.
once() {
	local tables=$1 in=$2
	shift 2
	"$tables" -C "$in" "$@" 2>/dev/null || "$tables" -I "$in" "$@"
}

never() {
	local tables=$1 in=$2
	shift 2
	while "$tables" -D "$in" "$@" 2>/dev/null; do :; done
}

rules() {
	iptables -N "$chain" 2>/dev/null || iptables -F "$chain"
	iptables -A "$chain" -o "$bridge" -j DROP
	local address
	for address in ${AIRLOCK_DNS:-}; do
		iptables -A "$chain" -d "$address" -p udp --dport 53 -j RETURN
		iptables -A "$chain" -d "$address" -p tcp --dport 53 -j RETURN
	done
	for address in "${closed[@]}"; do
		iptables -A "$chain" -d "$address" -j DROP
	done
	# Public addresses that are the host's own are in INPUT's way.
	once iptables INPUT -i "$bridge" -j DROP
	once iptables DOCKER-USER -i "$bridge" -j "$chain"
	once iptables DOCKER-USER -o "$bridge" -m conntrack --ctstate NEW,INVALID -j DROP
	# The network has no IPv6; an interface may give itself an address.
	if command -v ip6tables >/dev/null && [ -e /proc/net/if_inet6 ]; then
		once ip6tables INPUT -i "$bridge" -j DROP
		once ip6tables FORWARD -i "$bridge" -j DROP
	fi
}

up() {
	if ! docker network inspect "$name" >/dev/null 2>&1; then
		docker network create --driver bridge --opt com.docker.network.bridge.name="$bridge" \
			--opt com.docker.network.bridge.enable_icc=false "$name" >/dev/null
	fi
	local made
	made=$(docker network inspect --format '{{index .Options "com.docker.network.bridge.name"}}' "$name")
	if [ "$made" != "$bridge" ]; then
		echo "guest-network: the network $name was not made by this script: choose another name, or remove it first" >&2
		exit 1
	fi
	rules
	echo "guest-network: $name is ready; name it to the worker as its network for guests" >&2
}

down() {
	docker network rm "$name" >/dev/null
	never iptables INPUT -i "$bridge" -j DROP
	never iptables DOCKER-USER -i "$bridge" -j "$chain"
	never iptables DOCKER-USER -o "$bridge" -m conntrack --ctstate NEW,INVALID -j DROP
	iptables -F "$chain" && iptables -X "$chain"
	if command -v ip6tables >/dev/null; then
		never ip6tables INPUT -i "$bridge" -j DROP
		never ip6tables FORWARD -i "$bridge" -j DROP
	fi
	echo "guest-network: $name is gone" >&2
}

need docker
need iptables
case "${1:-up}" in
up) up ;;
down) down ;;
*) echo "usage: dev/guest-network.sh up|down [NAME]" >&2; exit 2 ;;
esac
