// Package faults has the tests of what the engine of the locks does when replies are late,
// lost or doubled, connections cut or silent, and servers ill: by the public surface of
// rlock, on a real server behind a proxy.
package faults
