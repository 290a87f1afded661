package interpreter

import "io/fs"

// ours is true since a user's temporary directory is his own.
func ours(fs.DirEntry) bool { return true }
