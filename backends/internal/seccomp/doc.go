// Package seccomp is the system-call filter of every guest on Linux: one
// table for all architectures, and an assembler for it.
//
// The architecture is checked first, so that no call of a foreign one reaches
// the numbers of another. What the table does not name does not exist for a
// guest: it fails with ENOSYS, which libraries take as "this kernel is too
// old" and work round. What Python code asks for in good faith but may not
// have fails with EPERM. What no guest needs and exploits do kills the whole
// process with SIGSYS, which a backend reports as backends.Violated.
//
// Guests may start processes and threads, since limits.processes gives them a
// right to; the pids cgroup counts those. They may make no namespace: clone3
// keeps its flags in memory, which no filter can read, and so is ENOSYS, and
// libraries fall back to clone. Sockets are of AF_UNIX only: multiprocessing's
// managers and fork server need them, and they reach nothing but the guest's
// own network namespace and files.
package seccomp
