package forkserver

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"airlock/backends/internal/guestproc"
	"airlock/backends/internal/hostids"
	"airlock/backends/internal/interpreter"
	"airlock/backends/internal/rootfs"
	"airlock/job"
	"airlock/runner-image/guest"

	"github.com/go-json-experiment/json"
	"golang.org/x/sys/unix"
)

// templateOrder is what a template is told.
type templateOrder struct {
	Filter  string   `json:"filter"` // in hexadecimal
	Modules []string `json:"modules"`
	Root    bool     `json:"root"`
}

// template is a warm interpreter, with the launcher around it.
type template struct {
	launcher guestproc.Process
	born     time.Time
	log      *lastWords
	// mu has one slot asked for at a time, and guards control.
	mu      sync.Mutex
	control *control
	// slots counts those that live, and the one who makes one; with the last,
	// a template that is retired ends. guests counts those that ran. The mutex
	// of slots guards the three.
	slots   int
	guests  int
	retired bool
}

// newTemplate starts a template with the modules loaded, unless it is to end
// before that is done.
func (r *ready) newTemplate(modules []string, closing <-chan struct{}) (*template, error) {
	control, far, err := newControl()
	if err != nil {
		return nil, err
	}
	t := &template{control: control, born: time.Now()}
	err = r.startLauncher(t, far, modules)
	_ = far.Close()
	if err != nil {
		return nil, errors.Join(err, control.close())
	}
	there, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-closing:
			t.launcher.Kill()
		case <-there:
		}
	}()
	_, pid, err := control.receive(r.config.startTime)
	close(there)
	<-watched
	if err == nil {
		err = checkAlone(pid)
	}
	if err != nil {
		t.end()
		return nil, fmt.Errorf("start template: %w: %s", err, job.Printable(t.log.String(), 500))
	}
	return t, nil
}

// checkAlone returns an error for a template with more than one thread: what
// the others hold would be held for ever in its forks. A template cannot see
// threads that are not Python's.
func checkAlone(pid int) error {
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return fmt.Errorf("look at the template from outside: %w", err)
	}
	if len(threads) != 1 {
		return fmt.Errorf("its modules have started %d threads, and cannot be preloaded", len(threads)-1)
	}
	return nil
}

func (r *ready) startLauncher(t *template, far *os.File, modules []string) (err error) {
	var files []*os.File
	defer func() {
		for _, f := range files {
			_ = f.Close()
		}
	}()
	told, err := inMemory(templateOrder{Filter: r.filter, Modules: append([]string{}, modules...), Root: r.ids != nil})
	if err != nil {
		return err
	}
	files = append(files, told)
	launch, err := inMemory(r.launch)
	if err != nil {
		return err
	}
	files = append(files, launch)
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	files = append(files, null)
	var said *os.File
	if t.log, said, err = newLastWords(); err != nil {
		return err
	}
	files = append(files, said)
	t.launcher, err = guestproc.StartChild(r.config.Launcher.path, []string{launcherName}, &os.ProcAttr{
		Dir: "/", Env: []string{"GOMAXPROCS=1", "GOTRACEBACK=none"},
		Files: []*os.File{null, null, said, far, told, launch}, Sys: r.namespaces(),
	})
	if err != nil {
		return fmt.Errorf("start launcher: %w%s", err, hint(err, os.ReadFile))
	}
	return nil
}

// hint says what to do about an error of a system call that makes namespaces,
// or acts in them.
func hint(err error, read func(path string) ([]byte, error)) string {
	for _, refused := range []error{unix.EPERM, unix.EACCES, unix.ENOSPC, unix.EUSERS} {
		if errors.Is(err, refused) {
			return guestproc.NamespaceHint(read)
		}
	}
	return ""
}

// namespaces are the launcher's, and who is who in its user namespace.
func (r *ready) namespaces() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWNET,
	}
	if r.ids != nil {
		attr.UidMappings = []syscall.SysProcIDMap{
			{ContainerID: 0, HostID: r.ids.First, Size: 1},
			{ContainerID: rootfs.InsideID, HostID: r.ids.First + 1, Size: hostids.Block - 1},
		}
		attr.GidMappings, attr.GidMappingsEnableSetgroups = attr.UidMappings, true
		attr.Credential = &syscall.Credential{Uid: 0, Gid: 0}
		return attr
	}
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: rootfs.InsideID, HostID: os.Geteuid(), Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: rootfs.InsideID, HostID: os.Getegid(), Size: 1}}
	// Who is not root inside keeps only ambient capabilities over an exec.
	attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SETPCAP, unix.CAP_SYS_RESOURCE}
	return attr
}

// program is the template's command line.
func program(python interpreter.Interpreter) []string {
	return append(append([]string{python.Path}, interpreter.Flags()...), rootfs.Inside+"/"+guest.Template)
}

// ended reports whether the template is gone.
func (t *template) ended() bool {
	select {
	case <-t.launcher.Exited():
		return true
	default:
		return false
	}
}

// end kills the template with all of its slots and guests, and waits.
func (t *template) end() {
	t.launcher.Kill()
	<-t.launcher.Exited()
	t.mu.Lock()
	_ = t.control.close()
	t.mu.Unlock()
	t.log.close()
}

// inMemory puts a document into a file that has no name.
func inMemory(v any) (*os.File, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("write order: %w", err)
	}
	fd, err := unix.MemfdCreate("order", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("write order: %w", err)
	}
	f := os.NewFile(uintptr(fd), "order")
	if _, err := f.Write(data); err != nil {
		return nil, errors.Join(fmt.Errorf("write order: %w", err), f.Close())
	}
	if _, err := f.Seek(0, 0); err != nil {
		return nil, errors.Join(fmt.Errorf("write order: %w", err), f.Close())
	}
	return f, nil
}

// lastWords keeps the end of what a launcher, template or slot complains of,
// which is ours and never a guest's.
type lastWords struct {
	from *os.File
	done chan struct{}
	mu   sync.Mutex
	said []byte // guarded by mu
}

func newLastWords() (*lastWords, *os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("make pipe: %w", err)
	}
	l := &lastWords{from: r, done: make(chan struct{})}
	go l.listen()
	return l, w, nil
}

func (l *lastWords) listen() {
	defer close(l.done)
	piece := make([]byte, 512)
	for {
		n, err := l.from.Read(piece)
		l.mu.Lock()
		l.said = append(l.said, piece[:n]...)
		l.said = l.said[max(0, len(l.said)-len(piece)):]
		l.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// String is the last line so far, which of a traceback says what it was.
func (l *lastWords) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	said := bytes.TrimSpace(l.said)
	return string(said[bytes.LastIndexByte(said, '\n')+1:])
}

// close is for when nobody can say anything any more.
func (l *lastWords) close() {
	<-l.done
	_ = l.from.Close()
}
