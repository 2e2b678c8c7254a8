package interop

const stressWork = "LATCHKEY_INTEROP_STRESS"

func stressChild(string) int { return 0 }
