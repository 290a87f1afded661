package wasm

import "golang.org/x/sys/windows"

// Wine reports whether this is Wine, which takes limits and holds none.
func Wine() bool {
	return windows.NewLazySystemDLL("ntdll.dll").NewProc("wine_get_version").Find() == nil
}

// Here is the config with which guests run here: under Wine, with their limits
// unheld.
func Here(c Config) Config {
	c.unheld = Wine()
	return c
}
