// Package wasm holds the recipe by which make wasm builds CPython for
// WebAssembly, and no Go but the tests of what it builds.
//
//	sources.txt  what is downloaded, with digests
//	fetch.sh     downloads and unpacks it
//	native.sh    builds Python for this machine, which compiles the library
//	cross.sh     builds Python for WASI, as a library
//	link.sh      links it with src/airlockmod.c to python.wasm
//	pack.py      packs the standard library and our modules, src/*.py
//
// dev/wasm.sh runs them. The module imports WASI and the three functions of
// "airlock"; see src/airlockmod.c. Whoever runs it calls _initialize and
// airlock_init once, and airlock_run in copies of the memory that leaves.
package wasm
