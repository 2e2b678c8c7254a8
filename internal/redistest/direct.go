package redistest

import "os"

// Eager says whether the library is to send all it can over connections of its own,
// LATCHKEY_DIRECT=eager, as it does else for who sends much: a test sends little. A
// TestMain passes it on to package direct. Whoever looks at go-redis's pool does not
// see those connections.
func Eager() bool { return os.Getenv("LATCHKEY_DIRECT") == "eager" }
