//go:build race

package main

func init() { raceFlags = []string{"-race"} }
