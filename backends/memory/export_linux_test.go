package memory

// HostTight is Tight of a host whose facts are in a file.
var HostTight = hostTight
