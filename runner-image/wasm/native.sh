#!/usr/bin/env bash
# Builds the Python that the build for WASI runs, of the same sources:
#
#   native.sh <cache>
#
# leaves <cache>/native/python and <cache>/source. It compiles and packs the
# standard library and nothing else, so it has few modules, and zlib of pinned
# sources, so that the host needs no headers and packs the same everywhere.
set -euo pipefail
cache=$1

unpack() {
	rm -rf "$2" && mkdir -p "$2"
	tar -xf "$1" -C "$2" --strip-components=1
}

rm -rf "$cache/native"
unpack "$cache"/downloads/python3.13_3.13.5.orig.tar.xz "$cache/source"
unpack "$cache"/downloads/zlib_*.orig.tar.gz "$cache/zlib"

mkdir -p "$cache/native/zlib"
cd "$cache/native/zlib"
gcc -c -O2 -fPIC -D_LARGEFILE64_SOURCE=1 -DHAVE_UNISTD_H "$cache"/zlib/{adler32,compress,crc32,deflate,infback,inffast,inflate,inftrees,trees,uncompr,zutil}.c
ar rcs libz.a ./*.o

cd "$cache/native"
absent=()
for module in _bz2 _codecs_cn _codecs_hk _codecs_iso2022 _codecs_jp _codecs_kr _codecs_tw _crypt _ctypes _curses \
	_curses_panel _dbm _decimal _elementtree _gdbm _hashlib _interpchannels _interpqueues _interpreters _lsprof _lzma \
	_multiprocessing _posixshmem _sqlite3 _ssl _tkinter _uuid _zoneinfo pyexpat readline syslog; do
	absent+=("py_cv_module_$module=n/a")
done
PKG_CONFIG=false "$cache/source/configure" -q --with-ensurepip=no --disable-test-modules OPT="-O1 -fwrapv" \
	ZLIB_CFLAGS="-I$cache/zlib" ZLIB_LIBS="-L$cache/native/zlib -lz" "${absent[@]}"
make -s -j"$(nproc)" all
./python -c 'import zlib, zipfile, compileall'
