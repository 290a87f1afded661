//go:build unix && !linux

package guestproc

import "os"

// start starts the process in a session of its own.
func (g *Guest) start(files []*os.File) (Process, error) {
	attr := g.Attr
	attr.Setsid = true
	path, args := g.Bounds.wrap(g.Path, g.Args)
	proc, err := os.StartProcess(path, args, &os.ProcAttr{Dir: g.Dir, Env: append([]string{}, g.Env...), Files: files, Sys: &attr})
	if err != nil {
		return nil, err
	}
	p := &process{os: proc, pid: proc.Pid, exited: make(chan struct{})}
	go p.wait()
	return p, nil
}
