// Package upgrade has the tests of a rolling upgrade: clients of an earlier commit and of
// this one share what is in Redis. testdata has the earlier scripts, by commit.
package upgrade
