//go:build unix

package main

import (
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"
)

// cpuTime returns what this process has used of the processors.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// A page is memory that the processes of one turn share.
type page struct {
	inside int64 // who are in the critical section
	last   int64 // who was there last
	start  int64 // of the release of a latch, in Unix ns
}

// sharedPage maps the file, which has at least as many bytes as a page.
func sharedPage(path string) (*page, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := syscall.Mmap(int(f.Fd()), 0, pageSize, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", path, err)
	}
	return (*page)(unsafe.Pointer(unsafe.SliceData(b))), nil
}

const pageSize = 4096
