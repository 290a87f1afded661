package main

// wasmFlags say where the wasm backend's interpreter is.
type wasmFlags struct {
	WasmPython string `help:"Directory with Python for WebAssembly, as make wasm leaves it; by default wasm beside this program, or bin/wasm." placeholder:"DIR" type:"path"`
}
