package clock

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Movable says whether the clocks of a Go process can be moved here.
const Movable = true

// Child makes the clocks of this process those that the file says, if it was started
// with [File.Env]. Its program calls it before it does anything else.
//
// The runtime reads the clocks by a function that the kernel puts into the memory of
// each process, the vDSO. Child has it jump to one of ours.
func Child() error {
	name := os.Getenv(env)
	if name == "" {
		return nil
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	skew, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("mapping %s: %w", name, err)
	}
	code, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return err
	}
	copy(code, asks(address(skew)))
	if err := unix.Mprotect(code, unix.PROT_READ|unix.PROT_EXEC); err != nil {
		return err
	}
	mem, err := os.OpenFile("/proc/self/mem", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer mem.Close()
	entry, err := clockGettime(mem)
	if err != nil {
		return err
	}
	jump := append([]byte{0x48, 0xb8}, word(address(code))...) // mov rax, code
	_, err = mem.WriteAt(append(jump, 0xff, 0xe0), entry)      // jmp rax
	return err
}

func address(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

func word(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }

// asks returns a function clock_gettime(edi clock, rsi timespec) that asks the kernel,
// and adds the number of milliseconds that is at skew for CLOCK_REALTIME, and behind
// it for CLOCK_MONOTONIC.
func asks(skew uint64) []byte {
	return bytes.Join([][]byte{
		{0xb8, unix.SYS_CLOCK_GETTIME, 0, 0, 0, 0x0f, 0x05}, //     mov eax, 228; syscall
		{0x83, 0xff, 0x01, 0x77, 0x3c},                      //     cmp edi, CLOCK_MONOTONIC; ja out
		{0x85, 0xc0, 0x75, 0x38},                            //     test eax, eax; jne out
		{0x89, 0xff, 0x49, 0xb8}, word(skew),                //     mov edi, edi; mov r8, skew
		{0x4d, 0x8b, 0x04, 0xf8},                   //              mov r8, [r8+rdi*8]
		{0x4d, 0x69, 0xc0, 0x40, 0x42, 0x0f, 0x00}, //              imul r8, r8, 1000000
		{0x48, 0x69, 0x06, 0x00, 0xca, 0x9a, 0x3b}, //              imul rax, [rsi], 1000000000
		{0x48, 0x03, 0x46, 0x08, 0x4c, 0x01, 0xc0}, //              add rax, [rsi+8]; add rax, r8
		{0x48, 0x99, 0xb9, 0x00, 0xca, 0x9a, 0x3b}, //              cqo; mov ecx, 1000000000
		{0x48, 0xf7, 0xf9, 0x48, 0x89, 0x06},       //              idiv rcx; mov [rsi], rax
		{0x48, 0x89, 0x56, 0x08, 0x31, 0xc0, 0xc3}, //              mov [rsi+8], rdx; xor eax, eax; out: ret
	}, nil)
}

// clockGettime returns where the vDSO's clock_gettime begins.
func clockGettime(mem io.ReaderAt) (int64, error) {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(maps)) {
		if !strings.Contains(line, "[vdso]") {
			continue
		}
		var from, to int64
		if _, err := fmt.Sscanf(line, "%x-%x", &from, &to); err != nil {
			return 0, err
		}
		image := make([]byte, to-from)
		if _, err := mem.ReadAt(image, from); err != nil {
			return 0, err
		}
		vdso, err := elf.NewFile(bytes.NewReader(image))
		if err != nil {
			return 0, err
		}
		symbols, err := vdso.DynamicSymbols()
		if err != nil {
			return 0, err
		}
		for _, s := range symbols {
			if s.Name == "__vdso_clock_gettime" && s.Size >= 12 {
				return from + int64(s.Value), nil
			}
		}
	}
	return 0, errors.New("this kernel has no vDSO with a clock_gettime")
}
