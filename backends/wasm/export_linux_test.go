package wasm

// Tight is the config with so much room for what a guest's process uses
// besides its guest's memory and files, or less than none.
func Tight(c Config, ownMemory int64, noGroups bool) Config {
	c.ownMemory, c.noGroups = ownMemory, noGroups
	return c
}

// CheckConfined looks at a process from outside.
var CheckConfined = checkConfined

// HelperAt is a helper that some other program plays.
func HelperAt(path string) Helper { return Helper{path: path} }

// Share puts bytes where processes of guests can map them.
var Share = share
