# The compiler of fetch.sh, for the scripts that source this; they set cache.
# shellcheck shell=bash disable=SC2034,SC2154
root=$cache/tools/usr
export LD_LIBRARY_PATH=$root/lib/x86_64-linux-gnu:$root/lib/llvm-19/lib
export PATH=$root/bin:$root/lib/llvm-19/bin:$PATH
# What the compiler would put into its output must not differ between hosts.
export LC_ALL=C SOURCE_DATE_EPOCH=0
CC=("$root/lib/llvm-19/bin/clang" --target=wasm32-wasi "--sysroot=$root")
AR=$root/lib/llvm-19/bin/llvm-ar
RANLIB=$root/lib/llvm-19/bin/llvm-ranlib
STRIP=$root/lib/llvm-19/bin/llvm-strip
# The last: CLOCK_* are pointers in this C library.
CFLAGS=(-O2 -D_WASI_EMULATED_SIGNAL -D_WASI_EMULATED_GETPID -D_WASI_EMULATED_PROCESS_CLOCKS
	-mbulk-memory -mnontrapping-fptoint -fno-strict-aliasing "-ffile-prefix-map=$cache=/build" -Wno-int-conversion)
