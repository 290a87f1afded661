package wasm

import "strings"

// Wrong is the config with a self-test in which a computation is another, as
// if it were compiled wrongly; ok says that the self-test has it once.
func Wrong(c Config, right, wrong string) (_ Config, ok bool) {
	c.selfTest = strings.Replace(selfTest, right, wrong, 1)
	return c, strings.Count(selfTest, right) == 1
}
