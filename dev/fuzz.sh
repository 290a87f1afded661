#!/usr/bin/env bash
# Runs every fuzz target of the tree for a while: dev/fuzz.sh 5s
set -euo pipefail
cd "$(dirname "$0")/.."

time=${1:-30s}
found=0
while IFS=: read -r file target; do
	found=1
	echo "fuzz: $(dirname "$file") $target for $time" >&2
	go test "./$(dirname "$file")" -run='^$' -fuzz="^$target\$" -fuzztime="$time" -fuzzminimizetime=5s
done < <(grep -rho --include='*_test.go' -H 'func Fuzz[A-Za-z0-9_]*' . | sed 's/func //; s#^\./##')
if [ "$found" = 0 ]; then
	echo "fuzz: no target was found" >&2
	exit 1
fi
