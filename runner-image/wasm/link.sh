#!/usr/bin/env bash
# Links our module with the library of cross.sh: link.sh <cache> <python.wasm>
set -euo pipefail
cache=$1 out=$2
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=runner-image/wasm/tools.sh
source "$here/tools.sh"
source=$cache/source cross=$cache/cross

"${CC[@]}" "${CFLAGS[@]}" "-ffile-prefix-map=$here=/build" -I"$source/Include" -I"$cross" -c "$here/src/airlockmod.c" -o "$cross/airlockmod.o"
# The stack lies below the data, so that one that overflows traps.
"${CC[@]}" -mexec-model=reactor -z stack-size=1048576 -Wl,--stack-first -Wl,--initial-memory=12582912 -Wl,--export=__stack_pointer \
	-Wl,--wrap=_PyParkingLot_Park \
	-o "$out" "$cross/airlockmod.o" "$cross/libpython3.13.a" "$cross"/Modules/_decimal/libmpdec/libmpdec.a \
	"$cross/Modules/expat/libexpat.a" "$cross"/Modules/_hacl/*.a "$cross/zlib/libz.a" \
	-lwasi-emulated-signal -lwasi-emulated-getpid -lwasi-emulated-process-clocks -ldl -lm
"$STRIP" "$out"
