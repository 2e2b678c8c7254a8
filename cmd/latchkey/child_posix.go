//go:build darwin || freebsd || netbsd || openbsd || dragonfly

package main

import "syscall"

// groupAttr puts the child into a group of its own. Only Linux can end it with
// us.
func groupAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func adoptOrphans() {}
