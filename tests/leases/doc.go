// Package leases has the tests of what is believed of a lease, of its renewal, and of its
// loss, by the public surface of rlock.
package leases
