// Package topology has the tests of what is promised for each way to run Redis:
// Cluster, Sentinel, replicas, restricted users, TLS. They go through every
// primitive; docs/guarantees.md says what is promised.
package topology
