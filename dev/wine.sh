#!/usr/bin/env bash
# Runs the wasm backend's tests for Windows under Wine, with the Python that
# make wasm builds: a minute, after half a minute that sets Wine up.
#
# As root on Debian it installs what is missing of Wine, 105 MB, after saying so;
# Windows as Wine plays it lies in AIRLOCK_WINE or ~/.cache/airlock/wine, 0.7 GB.
#
# Wine holds no limit of a job object and counts no processor time, so that the
# worker itself refuses it. The tests leave that refusal out, but for the one
# that is about it: they say nothing of how well Windows holds a guest.
set -euo pipefail
cd "$(dirname "$0")/.."

say() {
	echo "wine: $*" >&2
}

if ! command -v wine wineserver >/dev/null; then
	if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
		say "install wine, a 64-bit one (Debian: apt-get install --no-install-recommends wine wine64)"
		exit 1
	fi
	say "installing wine and wine64, 105 MB"
	apt-get update -q >&2
	DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends wine wine64 >&2
fi
dev/wasm.sh

export WINEPREFIX="${AIRLOCK_WINE:-${XDG_CACHE_HOME:-$HOME/.cache}/airlock/wine}"
export WINEDEBUG=-all WINEDLLOVERRIDES='mscoree=;mshtml='
system=$WINEPREFIX/drive_c/windows/system32
shim=$system/bcryptprimitives.dll

# What Wine starts once keeps the output it was started with open, so that a
# reader of ours would wait for it.
if [ ! -d "$system" ]; then
	say "making a Windows in $WINEPREFIX"
	mkdir -p "$WINEPREFIX"
	wineboot --init </dev/null >/dev/null 2>&1
	wine winecfg -v win10 </dev/null >/dev/null 2>&1
	wineserver -w
fi
[ -e "$shim" ] || go run ./dev/wineshim "$shim"
wineserver -p60 </dev/null >/dev/null 2>&1 || true # one runs already
wine cmd /c exit </dev/null >/dev/null 2>&1

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
GOOS=windows GOARCH=amd64 go test -c -o "$work/wasm.exe" ./backends/wasm
GOOS=windows GOARCH=amd64 go test -c -o "$work/guestproc.exe" ./backends/internal/guestproc
GOOS=windows GOARCH=amd64 go test -c -o "$work/wasmguest.exe" ./backends/internal/wasmguest
say "testing"
for tests in guestproc wasmguest; do
	(cd "backends/internal/$tests" && wine "$work/$tests.exe" -test.timeout 5m </dev/null)
done
cd backends/wasm
export AIRLOCK_WASM_PYTHON="Z:${PWD//\//\\}\\..\\..\\bin\\wasm" AIRLOCK_REQUIRE=wasm
# The first compiles the interpreter, for which the suites would not wait long.
wine "$work/wasm.exe" -test.timeout 10m -test.run TestClones </dev/null
wine "$work/wasm.exe" -test.timeout 20m -test.skip 'Clones|Crowd|SelfTest|TestCache' ${VERBOSE:+-test.v} </dev/null
