#!/usr/bin/env bash
# Runs every fuzz target of the tree for a while: dev/fuzz.sh 5s
set -euo pipefail
cd "$(dirname "$0")/.."

time=${1:-30s}

# fuzz PACKAGE TARGET. Now and then go test takes the end of its own time for a
# failure, and says nothing but "context deadline exceeded": no input failed.
fuzz() {
	local said
	said=$(mktemp)
	if go test "$1" -run='^$' -fuzz="^$2\$" -fuzztime="$time" -fuzzminimizetime=5s 2>&1 | tee "$said"; then
		rm -f "$said"
		return
	fi
	if grep -q '^    context deadline exceeded$' "$said" && ! grep -q 'Failing input written\|_test.go:' "$said"; then
		echo "fuzz: $2 failed by the end of its time only" >&2
		rm -f "$said"
		return
	fi
	rm -f "$said"
	return 1
}

found=0
while IFS=: read -r file target; do
	found=1
	echo "fuzz: $(dirname "$file") $target for $time" >&2
	fuzz "./$(dirname "$file")" "$target"
done < <(grep -rho --include='*_test.go' -H 'func Fuzz[A-Za-z0-9_]*' . | sed 's/func //; s#^\./##')
if [ "$found" = 0 ]; then
	echo "fuzz: no target was found" >&2
	exit 1
fi
