package rlock_test
const stressAddr = "LATCHKEY_STRESS_ADDR"
func stressChild(string) int { return 0 }
