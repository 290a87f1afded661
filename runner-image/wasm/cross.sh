#!/usr/bin/env bash
# Builds CPython as a static library for WASI, with the Python of native.sh:
#
#   cross.sh <cache>
#
# leaves <cache>/cross. The sources are unpatched; what the host cannot give
# is taken out of pyconfig.h. No library of this system may be found: they are
# for another machine.
set -euo pipefail
cache=$1
# shellcheck source=runner-image/wasm/tools.sh
source "$(dirname "$0")/tools.sh"

build_zlib() {
	mkdir -p "$cache/cross/zlib"
	cd "$cache/cross/zlib"
	"${CC[@]}" "${CFLAGS[@]}" -c -DHAVE_UNISTD_H "$cache"/zlib/{adler32,compress,crc32,deflate,infback,inffast,inflate,inftrees,trees,uncompr,zutil}.c
	"$AR" rcs libz.a ./*.o
}

# The path of the sources is relative, since Python keeps it.
configure() {
	cd "$cache/cross"
	CONFIG_SITE="$cache/source/Tools/wasm/config.site-wasm32-wasi" \
		PKG_CONFIG=false CC="${CC[*]}" CPP="${CC[*]} -E" AR="$AR" RANLIB="$RANLIB" CFLAGS="${CFLAGS[*]}" \
		../source/configure -q --host=wasm32-unknown-wasi --build=x86_64-linux-gnu \
		--with-build-python="$cache/native/python" --with-ensurepip=no --disable-test-modules --prefix=/py \
		ZLIB_CFLAGS="-I$cache/zlib" ZLIB_LIBS="-L$cache/cross/zlib -lz"
	# With it time.sleep waits until an absolute time, which wazero refuses
	# with ENOTSUP. Its ac_cv_ variable has no effect here.
	sed -i 's|^#define HAVE_CLOCK_NANOSLEEP 1|/* #undef HAVE_CLOCK_NANOSLEEP */|' pyconfig.h
	grep -q 'undef HAVE_CLOCK_NANOSLEEP' pyconfig.h
}

rm -rf "$cache/cross"
build_zlib
configure
make -s -j"$(nproc)" libpython3.13.a pybuilddir.txt Modules/_decimal/libmpdec/libmpdec.a Modules/expat/libexpat.a Modules/_hacl/libHacl_Hash_SHA2.a
