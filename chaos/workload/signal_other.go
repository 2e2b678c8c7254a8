//go:build !unix

package workload

// Freeze does nothing here, and Frozen says so.
func (p *Process) Freeze() {}

// Thaw does nothing.
func (p *Process) Thaw() {}

// Frozen is false.
func (p *Process) Frozen() bool { return false }
