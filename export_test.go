package latchkey

// Locals returns how many local locks have a state.
func Locals() int {
	locals.Lock()
	defer locals.Unlock()
	return len(locals.named)
}
