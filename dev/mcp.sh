#!/usr/bin/env bash
# Sees to the reference MCP servers that cmd/toolbridge is tested against, by
# npm from dev/mcp/package-lock.json, which pins what is downloaded and its
# digests; nothing of it is run while it is installed. Prints the folder, which
# is bin/mcp or AIRLOCK_MCP.
set -euo pipefail
cd "$(dirname "$0")/.."

dir=${AIRLOCK_MCP:-$PWD/bin/mcp}
lock=$(cksum <dev/mcp/package-lock.json)

command -v npm >/dev/null || {
	echo "mcp: npm is missing: run dev/setup.sh test, or install Node.js 20 or later" >&2
	exit 2
}
if [ "$(cat "$dir/.lock" 2>/dev/null)" != "$lock" ]; then
	echo "mcp: installing the reference servers in $dir" >&2
	mkdir -p "$dir"
	cp dev/mcp/package.json dev/mcp/package-lock.json "$dir/"
	npm ci --prefix "$dir" --ignore-scripts --no-audit --no-fund --loglevel=error >&2
	echo "$lock" >"$dir/.lock"
fi
echo "$dir"
