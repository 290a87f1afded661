// Package wasmguest is the process that runs one guest as a WebAssembly
// module: this program, started again by backends/wasm. It holds the module's
// runtime, its file systems and its clocks, and is thrown away with the guest.
//
// Its descriptors are the guest's standard streams, the guest's channel, and
// those of this package's constants. What it is to do comes as an Order. It
// reads all that it needs, puts the image of an interpreter that has started
// already in place of the new module's memory, gives up what rights it can,
// and only then lets the module run. Until the order comes it does nothing: by
// then what bounds it is there.
//
// On Windows the descriptors from 3 on are handles, whose numbers a variable
// tells, and the image is copied rather than shared.
package wasmguest

// The descriptors. Channel is that of every guest.
const (
	ChannelFD = 3 + iota
	OrderFD
	// ProgramFD is the module, for a guest the hollow one that stands for it;
	// StdlibFD is the zip file with its library.
	ProgramFD
	StdlibFD
	// ImageFD is the memory of the started interpreter, read or written.
	ImageFD
	LedgerFD
	// CodeFD is the program's compiled code, read or written.
	CodeFD
)

// Name is the only argument by which the process knows what it is.
const Name = "airlock-wasm-guest"

// ExitBroken is how the process exits when it could not run the guest.
const ExitBroken = 71
