//go:build !race

package wait

const raced = false
