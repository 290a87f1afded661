// Wineshim writes the one library that Go's programs need and Wine before 9
// lacks: bcryptprimitives.dll, whose ProcessPrng is another library's function
// of random bytes. It has no code, only the note that says so.
package main

import (
	"bytes"
	"debug/pe"
	"encoding/binary"
	"fmt"
	"os"
)

// Where its one section lies, in memory and in the file.
const (
	address   = 0x1000
	offset    = 0x200
	alignment = 0x200
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: wineshim FILE")
		os.Exit(2)
	}
	if err := os.WriteFile(os.Args[1], library(), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, "wineshim:", err)
		os.Exit(1)
	}
}

// directory is IMAGE_EXPORT_DIRECTORY, with the tables of one name behind it.
type directory struct {
	Flags, Time, Version, Name, Base, Functions, Names uint32
	FunctionsAt, NamesAt, OrdinalsAt                   uint32
	Function, NameOf                                   uint32
	Ordinal                                            uint16
}

// exports is the section: the directory and its texts. A function that lies
// inside of it is the name of another library's.
func exports() []byte {
	const library, name, forward = "bcryptprimitives.dll\x00", "ProcessPrng\x00", "advapi32.SystemFunction036\x00"
	const table = address + 40 // what is in front of Function
	texts := uint32(address + binary.Size(directory{}))
	d := directory{
		Base: 1, Functions: 1, Names: 1, FunctionsAt: table, NamesAt: table + 4, OrdinalsAt: table + 8,
		Name: texts, NameOf: texts + uint32(len(library)), Function: texts + uint32(len(library+name)),
	}
	return append(packed(d), library+name+forward...)
}

// library is the whole file.
func library() []byte {
	section := exports()
	dos := make([]byte, 0x40)
	copy(dos, "MZ")
	dos[0x3c] = byte(len(dos)) // where the next header is
	optional := pe.OptionalHeader64{
		Magic: 0x20b, ImageBase: 0x180000000, SectionAlignment: address, FileAlignment: alignment,
		MajorOperatingSystemVersion: 6, MajorSubsystemVersion: 6, SizeOfInitializedData: alignment,
		SizeOfImage: 2 * address, SizeOfHeaders: offset, Subsystem: pe.IMAGE_SUBSYSTEM_WINDOWS_CUI,
		DllCharacteristics: pe.IMAGE_DLLCHARACTERISTICS_NX_COMPAT | pe.IMAGE_DLLCHARACTERISTICS_DYNAMIC_BASE,
		SizeOfStackReserve: 1 << 20, SizeOfStackCommit: address, SizeOfHeapReserve: 1 << 20, SizeOfHeapCommit: address,
		NumberOfRvaAndSizes: 16,
	}
	optional.DataDirectory[pe.IMAGE_DIRECTORY_ENTRY_EXPORT] = pe.DataDirectory{VirtualAddress: address, Size: uint32(len(section))}
	head := packed(pe.FileHeader{
		Machine: pe.IMAGE_FILE_MACHINE_AMD64, NumberOfSections: 1, SizeOfOptionalHeader: uint16(binary.Size(optional)),
		Characteristics: pe.IMAGE_FILE_EXECUTABLE_IMAGE | pe.IMAGE_FILE_LARGE_ADDRESS_AWARE | pe.IMAGE_FILE_DLL,
	})
	only := pe.SectionHeader32{
		Name: [8]uint8{'.', 'r', 'd', 'a', 't', 'a'}, VirtualSize: uint32(len(section)), VirtualAddress: address,
		SizeOfRawData: alignment, PointerToRawData: offset, Characteristics: pe.IMAGE_SCN_CNT_INITIALIZED_DATA | pe.IMAGE_SCN_MEM_READ,
	}
	file := make([]byte, offset+alignment)
	copy(file, bytes.Join([][]byte{dos, []byte("PE\x00\x00"), head, packed(optional), packed(only)}, nil))
	copy(file[offset:], section)
	return file
}

func packed(header any) []byte {
	var b bytes.Buffer
	_ = binary.Write(&b, binary.LittleEndian, header) // a buffer takes all
	return b.Bytes()
}
