package doctor

import "io/fs"

// owner is not told by this system.
func owner(fs.FileInfo) (uid, gid int, ok bool) { return 0, 0, false }
