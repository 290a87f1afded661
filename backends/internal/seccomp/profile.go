package seccomp

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"
)

// profile is the JSON that container engines take in place of a program.
type profile struct {
	DefaultAction   string    `json:"defaultAction"`
	DefaultErrnoRet uint16    `json:"defaultErrnoRet"`
	Architectures   []string  `json:"architectures"`
	Syscalls        []syscall `json:"syscalls"`
}

type syscall struct {
	Names    []string    `json:"names"`
	Action   string      `json:"action"`
	ErrnoRet uint16      `json:"errnoRet,omitzero"`
	Args     []condition `json:"args,omitempty"`
}

type condition struct {
	Index    uint32 `json:"index"`
	Value    uint64 `json:"value"`
	ValueTwo uint64 `json:"valueTwo,omitzero"`
	Op       string `json:"op"`
}

// engineArchs are libseccomp's names. An architecture that is not named is
// refused as a whole, x32 among them.
var engineArchs = map[string]string{"amd64": "SCMP_ARCH_X86_64", "arm64": "SCMP_ARCH_AARCH64"}

// absent are unnamed calls for which libraries have a way round, and which they
// try first. Engines before 23 know no error number for what a profile does
// not name and answer EPERM, which those libraries take as final.
var absent = []string{"clone3", "openat2", "cachestat", "map_shadow_stack", "futex_waitv"}

// Profile is the guest's filter for one of Archs in the JSON of container
// engines. Two things cannot be said in it: a call whose argument is none of
// several values fails as if it were unnamed, and numbers without a name fail
// with what the engine has for them.
func Profile(arch string) ([]byte, error) { return newProfile(arch, nil) }

// NetworkProfile is Profile for a guest that has a network: sockets of the
// internet's two families may be made too, and no others.
func NetworkProfile(arch string) ([]byte, error) { return newProfile(arch, []uint32{afInet, afInet6}) }

func newProfile(arch string, families []uint32) ([]byte, error) {
	name, ok := engineArchs[arch]
	if !ok {
		return nil, fmt.Errorf("no system-call filter for %s, only for %v", arch, Archs())
	}
	p := profile{DefaultAction: "SCMP_ACT_ERRNO", DefaultErrnoRet: enosys, Architectures: []string{name}}
	p.add(Allow, names(allowed, arch))
	p.add(Errno(eperm), names(refused, arch))
	p.add(Kill, names(fatal, arch))
	p.add(Errno(enosys), absent)
	for _, c := range conditional {
		if c.number(arch) != none {
			if c.name == "socket" {
				c.rule.oneOf = slices.Concat(c.rule.oneOf, families)
			}
			p.addRule(c.name, c.rule)
		}
	}
	return json.Marshal(p)
}

func names(calls []call, arch string) []string {
	var all []string
	for _, c := range calls {
		if c.number(arch) != none {
			all = append(all, c.name)
		}
	}
	slices.SortFunc(all, cmp.Compare[string])
	return all
}

func (p *profile) add(act Action, names []string, args ...condition) {
	s := syscall{Names: names, Args: args}
	switch act {
	case Allow:
		s.Action = "SCMP_ACT_ALLOW"
	case Kill:
		s.Action = "SCMP_ACT_KILL_PROCESS"
	default:
		s.Action, s.ErrnoRet = "SCMP_ACT_ERRNO", uint16(act&0xffff)
	}
	p.Syscalls = append(p.Syscalls, s)
}

// addRule adds what a call may be made with, and the refusal of the rest where
// conditions on single values make it up.
func (p *profile) addRule(name string, r rule) {
	call := []string{name}
	if r.noneOf != 0 {
		p.add(Allow, call, condition{r.arg, uint64(r.noneOf), 0, "SCMP_CMP_MASKED_EQ"})
		for bit := uint64(1); bit <= uint64(r.noneOf); bit <<= 1 {
			if uint64(r.noneOf)&bit != 0 {
				p.add(r.otherwise, call, condition{r.arg, bit, bit, "SCMP_CMP_MASKED_EQ"})
			}
		}
		return
	}
	for _, value := range r.oneOf {
		p.add(Allow, call, condition{r.arg, uint64(value), 0, "SCMP_CMP_EQ"})
	}
	if len(r.oneOf) == 1 {
		p.add(r.otherwise, call, condition{r.arg, uint64(r.oneOf[0]), 0, "SCMP_CMP_NE"})
	}
}
